//! `fq_pie`.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Drops, Instant, Item};
use tautline_qdisc::FqPie;
use tautline_qdisc::fq_pie::{Config, Counters, Emptied};
use tautline_qdisc::pie::{Params, Stats};
use tautline_qdisc::units;

use super::fq_codel::{EMPTIED, parse_emptied, queue_counters};
use crate::discipline::{Change, Inspect, Target, reconfigure_leaf};
use crate::report::{Report, Value};
use crate::words::{NUMBER, Options, PACKETS, ParseError, Part, SIZE, Word, Words};

impl Options for Config {
    fn kind(&self) -> &'static str {
        "fq_pie"
    }

    fn help(&self) -> &'static str {
        "limit PACKETS, flows N, quantum SIZE, memory_limit SIZE, emptied waits|forgotten, perturbation N, target TIME, tupdate TIME, alpha SIXTEENTHS, \
         beta SIXTEENTHS, ecn, noecn, bytemode, nobytemode, dq_rate_estimator, no_dq_rate_estimator, dq_threshold SIZE, ecn_prob PERCENT, \
         max_burst TIME, mtu SIZE, law rfc8033|rfc8034|linux, active_above SIZE, hz N, first_update TIME, seed N, linux (all as \
         Linux does)"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_packets, PACKETS)?,
            "flows" => self.flows = words.value(option, |text| text.parse().ok(), NUMBER)?,
            "quantum" => self.quantum = words.value(option, units::parse_size, SIZE)?,
            "memory_limit" => self.memory_limit = words.value(option, units::parse_size, SIZE)?,
            "perturbation" => {
                self.perturbation = words.value(option, units::parse_integer, NUMBER)?
            }
            "emptied" => self.emptied = words.value(option, parse_emptied, EMPTIED)?,
            "linux" => {
                self.pie = Params {
                    seed: self.pie.seed,
                    ..Params::linux()
                };
                self.emptied = Emptied::Forgotten;
            }
            _ => return self.pie.set(option, words),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = vec![
            ("limit", Value::Packets(self.limit.into())),
            ("flows", Value::Count(self.flows.into())),
            ("quantum", Value::Size(self.quantum)),
            ("memory_limit", Value::Size(self.memory_limit)),
            ("emptied", Value::Word(self.emptied.to_string())),
        ];
        options.extend(self.pie.options());
        options
    }
}

impl<P> Inspect for FqPie<P> {
    fn report(&self) -> Report {
        let Stats { dropped, ecn_mark } = *self.stats();
        let Counters {
            packets_in,
            overlimit,
            overmemory,
        } = *self.counters();
        let mut counters = vec![
            ("pkts_in", Value::Count(packets_in)),
            ("dropped", Value::Count(dropped + overlimit + overmemory)),
            ("overlimit", Value::Count(overlimit)),
            ("overmemory", Value::Count(overmemory)),
            ("ecn_mark", Value::Count(ecn_mark)),
        ];
        counters.extend(queue_counters(&self.queues()));
        Report {
            kind: "fq_pie",
            options: self.config().options(),
            counters,
            ..Report::default()
        }
    }
}

impl<P: Item> Change<P> for FqPie<P> {
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
