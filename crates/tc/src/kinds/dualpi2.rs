//! `dualpi2`.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use tautline_base::{Drops, Instant, Item};
use tautline_qdisc::DualPi2;
use tautline_qdisc::dualpi2::{Config, DropAt, Identifier, Native, Overload, Stats};
use tautline_qdisc::units;

use crate::discipline::{Change, Inspect, Target, reconfigure_leaf};
use crate::report::{Report, Value};
use crate::words::{NUMBER, Options, PACKETS, ParseError, SIZE, TIME, Word, Words};

impl<P> Inspect for DualPi2<P> {
    fn report(&self) -> Report {
        let Stats {
            packets_in,
            max_queue,
            max_memory,
            ecn_mark,
            step_mark,
            overlimits,
            delays,
        } = *self.stats();
        let counters = vec![
            ("prob", Value::Share(self.probability())),
            ("delay_c", Value::Time(delays[0])),
            ("delay_l", Value::Time(delays[1])),
            ("pkts_in_c", Value::Count(packets_in[0])),
            ("pkts_in_l", Value::Count(packets_in[1])),
            ("maxq", Value::Count(max_queue as u64)),
            ("ecn_mark", Value::Count(ecn_mark)),
            ("step_mark", Value::Count(step_mark)),
            ("credit", Value::Signed(self.credit())),
            ("memory_used", Value::Count(self.memory().get())),
            ("max_memory_used", Value::Count(max_memory.get())),
        ];
        Report {
            kind: "dualpi2",
            options: self.config().options(),
            overlimits,
            counters,
            ..Report::default()
        }
    }
}

impl Options for Config {
    fn kind(&self) -> &'static str {
        "dualpi2"
    }

    fn help(&self) -> &'static str {
        "limit PACKETS, memlimit SIZE, target TIME, tupdate TIME, alpha PER_SECOND, beta PER_SECOND, max_rtt TIME, \
         typical_rtt TIME, step_thresh TIME|PACKETSp, ramp_min TIME, ramp_range TIME, min_qlen_step PACKETS, coupling_factor N, \
         drop_on_overload, overflow, drop_enqueue, drop_dequeue, l4s_ect, any_ect, classic_protection PERCENT, split_gso, \
         no_split_gso, mtu SIZE, seed N, rfc9332 (all as its appendix A does)"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_packets, PACKETS)?,
            "memlimit" => self.memory_limit = Some(words.value(option, units::parse_size, SIZE)?),
            "target" => self.target = words.value(option, units::parse_time, TIME)?,
            "tupdate" => self.tupdate = words.value(option, units::parse_time, TIME)?,
            "alpha" => self.alpha = words.value(option, |text| text.parse().ok(), WEIGHT)?,
            "beta" => self.beta = words.value(option, |text| text.parse().ok(), WEIGHT)?,
            "max_rtt" => {
                let max = words.value(option, parse_round_trip, ROUND_TRIP)?;
                let typical = read_other_rtt("typical_rtt", TYPICAL_RTT, words)?;
                *self = self.clone().for_round_trips(typical, max);
            }
            "typical_rtt" => {
                let typical = words.value(option, parse_round_trip, ROUND_TRIP)?;
                let max = read_other_rtt("max_rtt", MAX_RTT, words)?;
                *self = self.clone().for_round_trips(typical, max);
            }
            "step_thresh" => {
                self.native = words.value(option, parse_step, "a time or packets, e.g. 1ms, 5p")?
            }
            "ramp_min" => {
                let (min, range) = (words.value(option, units::parse_time, TIME)?, self.ramp().1);
                self.native = Native::Ramp { min, range };
            }
            "ramp_range" => {
                let (min, range) = (self.ramp().0, words.value(option, units::parse_time, TIME)?);
                self.native = Native::Ramp { min, range };
            }
            "min_qlen_step" => {
                self.min_qlen_step = words.value(option, units::parse_packets, PACKETS)?
            }
            "coupling_factor" => {
                self.coupling = words.value(option, |text| text.parse().ok(), NUMBER)?
            }
            "drop_on_overload" => self.overload = Overload::Drop,
            "overflow" => self.overload = Overload::Overflow,
            "drop_enqueue" => self.drop_at = DropAt::Enqueue,
            "drop_dequeue" => self.drop_at = DropAt::Dequeue,
            "l4s_ect" => self.identifier = Identifier::L4sEct,
            "any_ect" => self.identifier = Identifier::AnyEct,
            "classic_protection" => {
                self.classic_protection = words.value(option, parse_percent, PERCENT)?
            }
            "split_gso" => self.split_gso = true,
            "no_split_gso" => self.split_gso = false,
            "mtu" => self.mtu = words.value(option, units::parse_size, SIZE)?,
            "seed" => self.seed = words.value(option, units::parse_integer, NUMBER)?,
            "rfc9332" => {
                *self = Self {
                    limit: self.limit,
                    memory_limit: self.memory_limit,
                    seed: self.seed,
                    ..Self::rfc9332()
                };
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let flag = |name| (name, Value::Flag(true));
        let mut options = vec![("limit", Value::Packets(self.limit.into()))];
        let memory_limit = self.memory_limit.map(Value::Size);
        options.extend(memory_limit.map(|limit| ("memlimit", limit)));
        options.extend([
            ("coupling_factor", Value::Count(self.coupling.into())),
            flag(match self.overload {
                Overload::Drop => "drop_on_overload",
                Overload::Overflow => "overflow",
            }),
        ]);
        match self.native {
            Native::Delay(delay) => options.push(("step_thresh", Value::Time(delay))),
            Native::Packets(packets) => {
                options.push(("step_thresh", Value::Packets(packets.into())))
            }
            Native::Ramp { min, range } => options.extend([
                ("ramp_min", Value::Time(min)),
                ("ramp_range", Value::Time(range)),
            ]),
        }
        let protection = alloc::format!("{}%", self.classic_protection);
        options.extend([
            ("min_qlen_step", Value::Packets(self.min_qlen_step.into())),
            flag(match self.drop_at {
                DropAt::Enqueue => "drop_enqueue",
                DropAt::Dequeue => "drop_dequeue",
            }),
            flag(match self.identifier {
                Identifier::AnyEct => "any_ect",
                Identifier::L4sEct => "l4s_ect",
            }),
            ("classic_protection", Value::Word(protection)),
            ("target", Value::Time(self.target)),
            ("tupdate", Value::Time(self.tupdate)),
            ("alpha", Value::Share(self.alpha)),
            ("beta", Value::Share(self.beta)),
            flag(["no_split_gso", "split_gso"][usize::from(self.split_gso)]),
            ("mtu", Value::Size(self.mtu)),
            ("seed", Value::Count(self.seed)),
        ]);
        options
    }
}

/// Reads `name TIME` if it follows, else returns `default`.
fn read_other_rtt(
    name: &str,
    default: Duration,
    words: &mut Words<'_>,
) -> Result<Duration, ParseError> {
    let Some(option) = words.peek().filter(|word| word.text == name) else {
        return Ok(default);
    };
    words.word();
    words.value(option, parse_round_trip, ROUND_TRIP)
}

fn parse_percent(text: &str) -> Option<u8> {
    text.strip_suffix('%').unwrap_or(text).parse().ok()
}

fn parse_round_trip(text: &str) -> Option<Duration> {
    units::parse_time(text).filter(|time| !time.is_zero())
}

fn parse_step(text: &str) -> Option<Native> {
    match text.strip_suffix('p') {
        Some(packets) => packets.parse().ok().map(Native::Packets),
        None => units::parse_time(text).map(Native::Delay),
    }
}

impl<P: Item> Change<P> for DualPi2<P> {
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

/// Set by `max_rtt` if no `typical_rtt` follows, as in `tc`.
const TYPICAL_RTT: Duration = Duration::from_millis(15);
/// Set by `typical_rtt` if no `max_rtt` precedes, as in `tc`.
const MAX_RTT: Duration = Duration::from_millis(100);
const PERCENT: &str = "a percentage, e.g. 10";
const WEIGHT: &str = "a number per second, e.g. 0.16";
const ROUND_TRIP: &str = "a time above 0, e.g. 100ms";
