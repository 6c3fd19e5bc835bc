//! [`Codel`]: one FIFO under controlled delay (RFC 8289; `tc`'s `codel`).
//!
//! | module | holds |
//! |---|---|
//! | `params` | [`Params`]: target, interval, ECN, immediate marking |
//! | `law` | [`Law`]: the time between signals, exact or as Linux computes it |
//! | `aqm` | [`Aqm`]: the algorithm over any queue ([`Source`]), [`State`] per queue, shared [`Stats`] |

mod aqm;
mod law;
mod params;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Bytes, Instant, Item};

pub use aqm::{Aqm, Phase, Source, State, Stats};
pub use law::Law;
pub use params::{CeThreshold, Params};

use crate::config::ConfigError;
use crate::discipline::{Backlog, Inspect, Qdisc, Report};
use crate::drops::{DropReason, Drops};
use crate::words::units;

/// Parameters of [`Codel`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Packets it holds at most; what is above is dropped at the tail, unseen by the algorithm. Default 1000 (Linux).
    pub limit: u32,
    /// Parameters of the algorithm.
    pub codel: Params,
}

impl Default for Config {
    fn default() -> Self {
        Self { limit: 1000, codel: Params::default() }
    }
}

impl Config {
    /// As Linux' `codel` behaves, its control law included.
    pub fn linux() -> Self {
        Self { codel: Params { law: Law::Linux, ..Params::default() }, ..Self::default() }
    }

    pub(crate) fn options(&self) -> Vec<(&'static str, String)> {
        let mut options = vec![("limit", units::packets(self.limit))];
        options.extend(self.codel.options());
        options
    }
}

/// One FIFO under CoDel.
#[derive(Debug)]
pub struct Codel<P> {
    config: Config,
    aqm: Aqm,
    state: State,
    queue: Fifo<P>,
    drop_overlimit: u64,
}

#[derive(Debug)]
struct Fifo<P> {
    packets: VecDeque<P>,
    backlog: Backlog,
}

impl<P: Item> Source<P> for Fifo<P> {
    fn pop(&mut self) -> Option<P> {
        let packet = self.packets.pop_front()?;
        self.backlog.remove(packet.len());
        Some(packet)
    }

    fn backlog(&self) -> Bytes {
        self.backlog.bytes
    }
}

impl<P> Codel<P> {
    /// An empty queue.
    ///
    /// # Errors
    /// If the interval is shorter than the clock tick of the control law.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Ok(Self {
            aqm: Aqm::new(config.codel.clone())?,
            config,
            state: State::default(),
            queue: Fifo { packets: VecDeque::new(), backlog: Backlog::default() },
            drop_overlimit: 0,
        })
    }

    /// Where the queue stands.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Signals and delays.
    pub fn stats(&self) -> &Stats {
        self.aqm.stats()
    }
}

impl<P: Item> Qdisc<P> for Codel<P> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        if self.queue.packets.len() >= self.config.limit as usize {
            self.drop_overlimit += 1;
            return drops.push(packet, DropReason::Overlimit);
        }
        packet.set_enqueued(now);
        self.queue.backlog.add(packet.len());
        self.queue.packets.push_back(packet);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        self.aqm.dequeue(&mut self.state, &mut self.queue, now, drops)
    }

    fn ready_at(&self) -> Option<Instant> {
        (!self.queue.packets.is_empty()).then_some(Instant::ZERO)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog
    }
}

impl<P> Inspect for Codel<P> {
    fn report(&self) -> Report {
        let dropping = matches!(self.state.phase(), Phase::Dropping { .. });
        let mut counters = vec![("count", u64::from(self.state.count())), ("dropping", u64::from(dropping))];
        counters.extend(self.aqm.stats().counters());
        counters.push(("drop_overlimit", self.drop_overlimit));
        Report { kind: "codel", options: self.config.options(), counters, children: Vec::new() }
    }
}

impl Stats {
    /// The counters in `tc`'s names; `ldelay` in microseconds.
    pub(crate) fn counters(&self) -> [(&'static str, u64); 5] {
        [
            ("ldelay", u64::try_from(self.delay().as_micros()).unwrap_or(u64::MAX)),
            ("maxpacket", self.max_packet.get()),
            ("drop_target", self.dropped),
            ("ecn_mark", self.ecn_mark),
            ("ce_mark", self.ce_mark),
        ]
    }
}
