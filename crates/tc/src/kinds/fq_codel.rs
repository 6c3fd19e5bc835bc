//! `fq_codel`, and what it shares with `fq_pie`.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Drops, Instant, Item};
use tautline_qdisc::FqCodel;
use tautline_qdisc::fq_codel::{BacklogScope, Config, Emptied, LimitDrops, QueueCounts};
use tautline_qdisc::units;

use super::codel;
use crate::discipline::{Change, Inspect, Target, reconfigure_leaf};
use crate::report::{Report, Value};
use crate::words::{NUMBER, Options, PACKETS, ParseError, Part, SIZE, Word, Words};

impl Options for Config {
    fn kind(&self) -> &'static str {
        "fq_codel"
    }

    fn help(&self) -> &'static str {
        "limit PACKETS, flows N, quantum SIZE, memory_limit SIZE, drop_batch N, backlog queue|qdisc, emptied waits|forgotten, perturbation N, target \
         TIME, interval TIME, mtu SIZE, ecn, noecn, ce_threshold TIME, ce_threshold_selector VALUE/MASK, law rfc8289|linux, \
         linux (all as Linux does)"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_packets, PACKETS)?,
            "flows" => self.flows = words.value(option, |text| text.parse().ok(), NUMBER)?,
            "quantum" => self.quantum = words.value(option, units::parse_size, SIZE)?,
            "memory_limit" => self.memory_limit = words.value(option, units::parse_size, SIZE)?,
            "drop_batch" => {
                self.drop_batch = words.value(option, |text| text.parse().ok(), NUMBER)?
            }
            "backlog" => self.backlog = words.value(option, parse_scope, "queue or qdisc")?,
            "perturbation" => {
                self.perturbation = words.value(option, units::parse_integer, NUMBER)?
            }
            "emptied" => self.emptied = words.value(option, parse_emptied, EMPTIED)?,
            "linux" => {
                let Self {
                    codel,
                    backlog,
                    emptied,
                    ..
                } = Self::linux();
                (self.codel.law, self.backlog, self.emptied) = (codel.law, backlog, emptied);
            }
            _ => return self.codel.set(option, words),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = vec![
            ("limit", Value::Packets(self.limit.into())),
            ("flows", Value::Count(self.flows.into())),
            ("quantum", Value::Size(self.quantum)),
            ("memory_limit", Value::Size(self.memory_limit)),
            ("drop_batch", Value::Count(self.drop_batch.into())),
            ("backlog", Value::Word(self.backlog.to_string())),
            ("emptied", Value::Word(self.emptied.to_string())),
        ];
        options.extend(self.codel.options());
        options
    }
}

impl<P> Inspect for FqCodel<P> {
    fn report(&self) -> Report {
        let LimitDrops {
            overlimit,
            overmemory,
        } = *self.limit_drops();
        let mut counters = codel::counters(self.stats()).to_vec();
        counters.extend([
            ("drop_overlimit", Value::Count(overlimit)),
            ("drop_overmemory", Value::Count(overmemory)),
        ]);
        counters.extend(queue_counters(&self.queues()));
        Report {
            kind: "fq_codel",
            options: self.config().options(),
            counters,
            ..Report::default()
        }
    }
}

/// The counters in `tc`'s names.
pub(super) fn queue_counters(queues: &QueueCounts) -> [(&'static str, Value); 4] {
    [
        ("memory_used", Value::Count(queues.memory_used.get())),
        ("new_flow_count", Value::Count(queues.new_flow_count)),
        ("new_flows_len", Value::Count(queues.new_flows_len as u64)),
        ("old_flows_len", Value::Count(queues.old_flows_len as u64)),
    ]
}

pub(super) fn parse_emptied(text: &str) -> Option<Emptied> {
    [Emptied::Waits, Emptied::Forgotten]
        .into_iter()
        .find(|emptied| emptied.to_string() == text)
}

fn parse_scope(text: &str) -> Option<BacklogScope> {
    [BacklogScope::Queue, BacklogScope::Qdisc]
        .into_iter()
        .find(|scope| scope.to_string() == text)
}

impl<P: Item> Change<P> for FqCodel<P> {
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        _now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        reconfigure_leaf(self.config().clone(), target, words, |config| {
            self.reconfigure(config, drops)
        })
    }
}

/// Expected where an [`Emptied`] stands.
pub(super) const EMPTIED: &str = "waits or forgotten";
