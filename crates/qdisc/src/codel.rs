//! [`Codel`]: one FIFO under controlled delay (RFC 8289; `tc`'s `codel`).

mod aqm;
mod law;
mod params;
#[cfg(test)]
mod tests;

use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{ConfigError, Drops, Instant, Item};

pub use aqm::{Aqm, Phase, Source, State, Stats};
pub use law::Law;
pub use params::{CeThreshold, Params};

use crate::aqm_fifo::{AqmFifo, FifoAqm};
use crate::discipline::{Change, Inspect};
use crate::queue::Queue;
use crate::report::{Report, Value};
use crate::words::{Options, PACKETS, ParseError, Word, Words, units};

/// Parameters of [`Codel`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Packets it holds at most; what is above is dropped at the tail, unseen by the algorithm.
    /// Default 1000 (Linux).
    pub limit: u32,
    /// Parameters of the algorithm.
    pub codel: Params,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: 1000,
            codel: Params::default(),
        }
    }
}

impl Config {
    /// As Linux's `codel` behaves, its control law included.
    pub fn linux() -> Self {
        Self {
            codel: Params {
                law: Law::Linux,
                ..Params::default()
            },
            ..Self::default()
        }
    }
}

impl Options for Config {
    fn kind(&self) -> &'static str {
        "codel"
    }

    fn help(&self) -> &'static str {
        "limit PACKETS, target TIME, interval TIME, mtu SIZE, ecn, noecn, ce_threshold TIME, ce_threshold_selector \
         VALUE/MASK, law rfc8289|linux, linux (all as Linux does)"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_packets, PACKETS)?,
            "linux" => {
                *self = Self {
                    limit: self.limit,
                    ..Self::linux()
                }
            }
            _ => return self.codel.set(option, words),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = vec![("limit", Value::Packets(self.limit.into()))];
        options.extend(self.codel.options());
        options
    }
}

/// One FIFO under CoDel.
pub type Codel<P> = AqmFifo<P, Control>;

/// CoDel and the state of its one queue.
#[derive(Debug)]
pub struct Control {
    aqm: Aqm,
    state: State,
}

impl FifoAqm for Control {
    type Config = Config;

    fn new(config: &Config) -> Result<Self, ConfigError> {
        let (aqm, state) = (Aqm::new(config.codel.clone())?, State::default());
        Ok(Self { aqm, state })
    }

    fn reconfigure(&mut self, _old: &Config, new: &Config) -> Result<(), ConfigError> {
        self.aqm.set_params(new.codel.clone())
    }

    #[inline]
    fn limit(config: &Config) -> u32 {
        config.limit
    }

    #[inline]
    fn dequeue<P: Item>(
        &mut self,
        queue: &mut Queue<P>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Option<P> {
        self.aqm.dequeue(&mut self.state, queue, now, drops)
    }
}

impl<P> Codel<P> {
    /// The state of the queue.
    pub fn state(&self) -> &State {
        &self.control.state
    }

    /// Signals and delays.
    pub fn stats(&self) -> &Stats {
        self.control.aqm.stats()
    }
}

impl<P: Item> Change<P> for Codel<P> {
    fn change(
        &mut self,
        words: &mut Words<'_>,
        _now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        let mut config = self.config.clone();
        words.apply(&mut config)?;
        self.reconfigure(config, drops)
            .map_err(|error| words.refused("codel", error))
    }
}

impl<P> Inspect for Codel<P> {
    fn report(&self) -> Report {
        let dropping = matches!(self.state().phase(), Phase::Dropping { .. });
        let mut counters = vec![
            ("count", Value::Count(self.state().count().into())),
            ("dropping", Value::Flag(dropping)),
        ];
        counters.extend(self.stats().counters());
        counters.push(("drop_overlimit", Value::Count(self.drop_overlimit)));
        Report {
            kind: "codel",
            options: self.config.options(),
            counters,
            ..Report::default()
        }
    }
}

impl Stats {
    /// The counters in `tc`'s names.
    pub(crate) fn counters(&self) -> [(&'static str, Value); 5] {
        [
            ("ldelay", Value::Time(self.delay())),
            ("maxpacket", Value::Count(self.max_packet.get())),
            ("drop_target", Value::Count(self.dropped)),
            ("ecn_mark", Value::Count(self.ecn_mark)),
            ("ce_mark", Value::Count(self.ce_mark)),
        ]
    }
}
