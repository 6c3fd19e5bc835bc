//! [`Codel`]: one FIFO under controlled delay (RFC 8289; `tc`'s `codel`).

mod aqm;
mod law;
mod params;
#[cfg(test)]
mod tests;

use tautline_base::{ConfigError, Drops, Instant, Item};

pub use aqm::{Aqm, Phase, Source, State, Stats};
pub use law::Law;
pub use params::{CeThreshold, Params};

use crate::aqm_fifo::{AqmFifo, FifoAqm};
use crate::queue::Queue;

/// Parameters of [`Codel`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Limit in packets; arrivals above it are dropped unseen by the algorithm.
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
    /// Behaves like Linux's `codel`, including its control law.
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

/// One FIFO under CoDel.
///
/// ```
/// use tautline_base::{Instant, Packet};
/// use tautline_qdisc::{Codel, Drops, Qdisc, codel::Config};
///
/// let mut codel = Codel::new(Config::default())?;
/// let mut drops = Drops::new();
/// for _ in 0..100 {
///     codel.enqueue(Packet::new((), 1514), Instant::ZERO, &mut drops);
/// }
/// for n in 1..=20 { // a slow link: every packet waits longer than the target of 5 ms
///     codel.dequeue(Instant::from_millis(10 * n), &mut drops);
/// }
/// assert!(codel.stats().dropped > 0);
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
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
