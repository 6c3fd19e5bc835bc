//! [`Pie`]: proportional integral controller enhanced (RFC 8033; RFC 8034 for DOCSIS; `tc`'s
//! `pie`).

mod aqm;
mod controller;
mod meter;
mod params;
#[cfg(test)]
mod tests;

use core::time::Duration;

use tautline_base::{Backlog, Bytes, ConfigError, DropReason, Drops, Instant, Item};

pub use aqm::{Aqm, State, Stats, Verdict};
pub use params::{DelaySource, Law, Params};

use crate::aqm_fifo::{AqmFifo, FifoAqm, Peek};
use crate::queue::Queue;

/// Parameters of [`Pie`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Limit in packets; arrivals above it are dropped. Default 1000 (Linux).
    pub limit: u32,
    /// Parameters of the algorithm.
    pub pie: Params,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: 1000,
            pie: Params::default(),
        }
    }
}

impl Config {
    /// Behaves like Linux's `pie`, with a timer of 250 ticks per second.
    pub fn linux() -> Self {
        Self {
            pie: Params::linux(),
            ..Self::default()
        }
    }

    /// As RFC 8034 asks of a DOCSIS modem that buffers `limit` full packets.
    pub fn docsis(limit: u32) -> Self {
        Self {
            limit,
            pie: Params::docsis(Bytes::new(1514) * u64::from(limit)),
        }
    }
}

/// One FIFO under PIE.
///
/// ```
/// use tautline_base::{Instant, Packet};
/// use tautline_qdisc::{Drops, Pie, Qdisc, pie::Config};
///
/// let mut pie = Pie::new(Config::default())?;
/// let mut drops = Drops::new();
/// for n in 0..400 { // twice the capacity of the link
///     let now = Instant::from_millis(5 * n);
///     pie.enqueue(Packet::new((), 1514), now, &mut drops);
///     pie.enqueue(Packet::new((), 1514), now, &mut drops);
///     pie.dequeue(now, &mut drops);
/// }
/// assert!(pie.state().probability() > 0.0 && pie.stats().dropped > 0);
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
pub type Pie<P> = AqmFifo<P, Control>;

/// PIE and the state of its one queue.
#[derive(Debug)]
pub struct Control {
    aqm: Aqm,
    state: State,
    counters: Counters,
}

/// Arrivals at [`Pie`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets queued.
    pub packets_in: u64,
    /// Packets in the longest queue so far.
    pub max_queue: usize,
}

impl FifoAqm for Control {
    type Config = Config;

    fn new(config: &Config) -> Result<Self, ConfigError> {
        Ok(Self {
            aqm: Aqm::new(config.pie.clone())?,
            state: State::default(),
            counters: Counters::default(),
        })
    }

    fn reconfigure(&mut self, _old: &Config, new: &Config) -> Result<(), ConfigError> {
        self.aqm.set_params(new.pie.clone())
    }

    #[inline]
    fn limit(config: &Config) -> u32 {
        config.limit
    }

    #[inline]
    fn admit<P: Item>(
        &mut self,
        _config: &Config,
        packet: &mut P,
        held: Backlog,
        full: bool,
        now: Instant,
    ) -> Option<DropReason> {
        if full {
            self.aqm.overflowed(&mut self.state);
            return Some(DropReason::Overlimit);
        }
        let verdict = self.aqm.admit(&mut self.state, packet, held.bytes, now);
        if verdict == Verdict::Dropped {
            return Some(DropReason::Early);
        }
        self.counters.packets_in += 1;
        self.counters.max_queue = self.counters.max_queue.max(held.packets + 1);
        None
    }

    #[inline]
    fn advance(&mut self, bytes: Bytes, now: Instant) {
        self.aqm.catch_up(&mut self.state, bytes, now);
    }

    #[inline]
    fn dequeue<P: Item>(
        &mut self,
        queue: &mut Queue<P>,
        now: Instant,
        _drops: &mut Drops<P>,
    ) -> Option<P> {
        self.aqm.dequeue(&mut self.state, queue, now)
    }

    /// Linux's rate and delay count a packet that a parent has peeked at as gone.
    #[inline]
    fn peek(&self) -> Peek {
        match self.aqm.params().law {
            Law::Linux => Peek::Dequeued,
            Law::Rfc8033 | Law::Rfc8034 => Peek::Head,
        }
    }
}

impl<P> Pie<P> {
    /// The state of the queue.
    pub fn state(&self) -> &State {
        &self.control.state
    }

    /// Drops and marks.
    pub fn stats(&self) -> &Stats {
        self.control.aqm.stats()
    }

    /// Arrivals.
    pub fn counters(&self) -> &Counters {
        &self.control.counters
    }

    /// The queue's delay that PIE saw last.
    pub fn delay(&self) -> Duration {
        self.control.aqm.delay(self.state())
    }

    /// The measured departure rate in bytes per second; 0 without an estimate.
    pub fn departure_rate(&self) -> u64 {
        self.control.aqm.departure_rate(self.state())
    }
}
