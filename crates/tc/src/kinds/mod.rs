//! Each kind of qdisc: its parameters in words, its report, its changes.

mod aqm_fifo;
mod blue;
mod cake;
mod cake_mq;
mod cobalt;
mod codel;
mod drr;
mod dualpi2;
mod ets;
mod fifo;
mod fq;
mod fq_codel;
mod fq_pie;
mod framing;
mod htb;
mod mq;
mod netem;
mod pfifo_fast;
mod pie;
mod prio;
mod red;
mod sfq;
mod tbf;
mod wrappers;

use alloc::vec::Vec;

use tautline_base::{Item, Qdisc};
use tautline_qdisc::{ClassId, Common};

use crate::discipline::Inspect;
use crate::report::Report;

/// The name of the qdisc `handle`; `None` without a tree.
fn named(handle: u16) -> Option<ClassId> {
    (handle > 0).then_some(ClassId::new(handle, 0))
}

/// The report of a class of `kind`: its name, its qdisc and what passed it.
fn class_report<Q: Inspect>(kind: &'static str, class: (ClassId, &Q, Common)) -> Report {
    let (id, queue, common) = class;
    Report {
        kind,
        id: Some(id),
        common: Some(common),
        children: alloc::vec![queue.report()],
        ..Report::default()
    }
}

/// The report of `root`, whose packets and bytes sent are those of all `classes`, as in Linux.
fn sum_of_classes<P: Item>(handle: u16, root: &impl Qdisc<P>, classes: Vec<Report>) -> Report {
    let mut common = Common {
        backlog: root.backlog(),
        ..Common::default()
    };
    for class in classes.iter().filter_map(|class| class.common) {
        common.sent_bytes += class.sent_bytes;
        common.sent_packets += class.sent_packets;
        common.drops += class.drops;
    }
    let children = || classes.iter().flat_map(|class| &class.children);
    Report {
        id: Some(ClassId::new(handle, 0)),
        common: Some(common),
        overlimits: children().map(|child| child.overlimits).sum(),
        requeues: children().map(|child| child.requeues).sum(),
        classes,
        ..Report::default()
    }
}
