//! Each kind of qdisc: its parameters in words, its report, its changes.

mod aqm_fifo;
mod blue;
mod cake;
mod cobalt;
mod codel;
mod drr;
mod dualpi2;
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
