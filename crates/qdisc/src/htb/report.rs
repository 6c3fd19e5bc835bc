//! What HTB and its classes tell about themselves, as `tc -s` shows it.

use alloc::vec;

use tautline_base::{Item, Qdisc};

use super::Htb;
use super::class::{Class, Counters};
use crate::discipline::Inspect;
use crate::report::{Common, Report, Value};
use crate::words::Options;

impl<P: Item, Q: Qdisc<P> + Inspect> Htb<P, Q> {
    fn report_class(&self, at: usize) -> Report {
        let class: &Class = &self.tree.classes[at];
        let Counters {
            lends,
            borrows,
            giants,
            overlimits,
            sent_bytes,
            sent_packets,
        } = class.counters;
        let ticks =
            |nanos: i64| Value::Signed((nanos >> 6).clamp(i32::MIN.into(), i32::MAX.into()));
        let (tokens, ceil_tokens) = class.tokens();
        let mut report = Report {
            options: class.resolved.options(),
            overlimits,
            counters: vec![
                ("lended", Value::Count(lends)),
                ("borrowed", Value::Count(borrows)),
                ("giants", Value::Count(giants)),
                ("tokens", ticks(tokens)),
                ("ctokens", ticks(ceil_tokens)),
            ],
            ..self.children.report("htb", at)
        };
        report
            .options
            .push(("level", Value::Count(class.level as u64)));
        report.parent = class.parent.map(|above| self.children.id(above));
        if !class.is_leaf() {
            // What is about a leaf alone.
            report
                .options
                .retain(|(name, _)| !matches!(*name, "prio" | "quantum"));
            report.children.clear();
            report.common = Some(Common {
                sent_bytes,
                sent_packets,
                ..Common::default()
            });
        }
        report
    }
}

impl<P: Item, Q: Qdisc<P> + Inspect> Inspect for Htb<P, Q> {
    fn report(&self) -> Report {
        Report {
            kind: "htb",
            id: Some(self.children.handle()),
            options: self.config.options(),
            overlimits: self.tree.overlimits,
            counters: vec![("direct_packets_stat", Value::Count(self.direct_packets))],
            classes: (0..self.children.len())
                .map(|at| self.report_class(at))
                .collect(),
            ..Report::default()
        }
    }
}
