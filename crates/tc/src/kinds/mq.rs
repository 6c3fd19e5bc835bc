//! `mq`.

use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Drops, Instant, Item, Qdisc};
use tautline_qdisc::mq::Config;
use tautline_qdisc::{ClassId, Classful, Common, Mq};

use super::class_report;
use crate::discipline::{Change, Inspect, Target, change_below, reconfigure};
use crate::report::{Report, Value};
use crate::words::{NUMBER, Options, ParseError, Word, Words};

impl Options for Config {
    fn kind(&self) -> &'static str {
        "mq"
    }

    fn help(&self) -> &'static str {
        "queues N"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "queues" => self.queues = words.value(option, |text| text.parse().ok(), NUMBER)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        vec![("queues", Value::Count(self.queues.into()))]
    }
}

impl<P: Item, Q: Qdisc<P> + Inspect, F: Fn(&P, usize) -> usize> Inspect for Mq<P, Q, F> {
    /// Packets and bytes sent are sums over all queues, as in Linux.
    fn report(&self) -> Report {
        let classes: Vec<Report> = self
            .classes()
            .map(|class| class_report("mq", class))
            .collect();
        let sum = |sum: Common, class: &Report| {
            let Common {
                sent_bytes,
                sent_packets,
                drops,
                ..
            } = class.common.unwrap_or_default();
            Common {
                sent_bytes: sum.sent_bytes + sent_bytes,
                sent_packets: sum.sent_packets + sent_packets,
                drops: sum.drops + drops,
                backlog: sum.backlog,
            }
        };
        let common = Common {
            backlog: self.backlog(),
            ..Common::default()
        };
        Report {
            kind: "mq",
            id: Some(ClassId::new(self.handle(), 0)),
            options: self.config().options(),
            common: Some(classes.iter().fold(common, sum)),
            overlimits: classes
                .iter()
                .flat_map(|class| &class.children)
                .map(|child| child.overlimits)
                .sum(),
            requeues: classes
                .iter()
                .flat_map(|class| &class.children)
                .map(|child| child.requeues)
                .sum(),
            classes,
            ..Report::default()
        }
    }
}

impl<P: Item, Q: Qdisc<P> + Change<P>, F: Fn(&P, usize) -> usize> Change<P> for Mq<P, Q, F> {
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        if target != Target::Root {
            return change_below(self, "mq", target, words, now, drops);
        }
        reconfigure(self.config(), words, |config| self.reconfigure(&config))
    }
}
