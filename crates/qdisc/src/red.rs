//! [`Red`]: random early detection (Floyd and Jacobson 1993; `tc`'s `red`; `include/net/red.h`).
//!
//! A moving average of the backlog decides: below a threshold nothing happens, above it arriving
//! packets are marked or dropped with a probability that rises with the average, so that senders
//! slow down before the queue is full and not all at once.

mod aqm;
mod decay;
mod params;
#[cfg(test)]
mod tests;

use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Backlog, Bytes, ConfigError, DropReason, Drops, Instant, Item, Qdisc};

pub(crate) use aqm::{Aqm, Congestion, State};
pub use decay::IdleDecay;
pub use params::{Config, Params};

use crate::bfifo::{self, Bfifo};
use crate::class::ClassId;
use crate::classful::Classful;
use crate::flush::flush;
use crate::random::Random;

/// RED in front of a queue `Q`, a [`Bfifo`] of its limit unless another is given.
///
/// ```
/// use tautline_base::{Bytes, Instant, Packet};
/// use tautline_qdisc::{Drops, Qdisc, Red, red::Config};
///
/// let mut red = Red::new(Config { limit: Bytes::kib(400), ..Config::default() })?;
/// let mut drops = Drops::new();
/// red.enqueue(Packet::new((), 1514), Instant::ZERO, &mut drops);
/// assert_eq!((red.stats().overlimits, red.backlog().packets), (0, 1));
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Red<P, Q = Bfifo<P>> {
    handle: u16,
    config: Config,
    aqm: Aqm,
    state: State,
    random: Random,
    child: Child<P, Q>,
    stats: Stats,
}

/// Counters of [`Red`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets marked by chance.
    pub prob_mark: u64,
    /// Packets marked because the average was above all thresholds.
    pub forced_mark: u64,
    /// Packets dropped by chance.
    pub prob_drop: u64,
    /// Packets dropped because the average was above all thresholds.
    pub forced_drop: u64,
    /// Packets that passed RED and were dropped by the queue behind it as they came.
    pub pdrop: u64,
    /// Packets that met congestion: marked, dropped early, or let pass by `nodrop`.
    pub overlimits: u64,
}

/// The queue behind RED.
#[derive(Debug)]
struct Child<P, Q> {
    queue: Q,
    /// Function that sets a new limit; `None` if the queue is not RED's own.
    resize: Option<fn(&mut Q, Bytes)>,
    packets: core::marker::PhantomData<fn(P)>,
}

impl<P> Red<P> {
    /// RED in front of a byte-bounded FIFO of its limit.
    ///
    /// # Errors
    /// If a parameter is out of range, or two of them contradict each other.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let queue = Bfifo::new(bfifo::Config {
            limit: config.limit,
        });
        let mut red = Self::over(config, queue)?;
        red.child.resize = Some(|queue, limit| queue.reconfigure(bfifo::Config { limit }));
        Ok(red)
    }
}

impl<P, Q> Red<P, Q> {
    /// RED in front of `queue`, which is empty and has its own limit; RED's is only what thresholds
    /// are derived from.
    ///
    /// # Errors
    /// As [`new`](Red::new).
    pub fn over(config: Config, queue: Q) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            handle: 0,
            aqm: Aqm::new(&config.red, config.limit)?,
            state: State::default(),
            random: Random::new(config.seed),
            child: Child {
                queue,
                resize: None,
                packets: core::marker::PhantomData,
            },
            stats: Stats::default(),
            config,
        })
    }

    /// Gives it a name in a tree: its one class is then `handle:1`.
    pub fn with_handle(self, handle: u16) -> Self {
        Self { handle, ..self }
    }

    /// Replaces the parameters; the average is kept, an adapted probability restarts. The child
    /// keeps what it holds.
    ///
    /// # Errors
    /// As [`new`](Red::new), or if `seed` differs: the random sequence has begun. Then nothing
    /// changes.
    pub fn reconfigure(&mut self, config: Config) -> Result<(), ConfigError> {
        config.check()?;
        ConfigError::check(
            config.seed == self.config.seed,
            "seed",
            config.seed,
            "what it was at creation",
        )?;
        let aqm = Aqm::new(&config.red, config.limit)?;
        self.aqm.hand_over(&mut self.state, &aqm);
        if let Some(resize) = self.child.resize {
            resize(&mut self.child.queue, config.limit);
        }
        (self.aqm, self.config) = (aqm, config);
        Ok(())
    }

    /// The average backlog, as of the last arrival.
    pub fn average(&self) -> Bytes {
        self.aqm.average(&self.state)
    }

    /// The probability of a signal at the upper threshold: as configured, or where it was moved to.
    pub fn max_probability(&self) -> f64 {
        self.aqm.max_probability()
    }

    /// Its parameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Counters so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The queue behind it.
    pub fn child(&self) -> &Q {
        &self.child.queue
    }

    /// Tells the sender of a packet that met congestion; false if that takes dropping it.
    fn signal(&mut self, congestion: Congestion, packet: &mut impl Item) -> bool {
        self.stats.overlimits += 1;
        let Config {
            ecn,
            harddrop,
            nodrop,
            ..
        } = self.config;
        let forced = congestion == Congestion::Forced;
        let may_mark = ecn && !(forced && harddrop);
        let Stats {
            prob_mark,
            forced_mark,
            prob_drop,
            forced_drop,
            ..
        } = &mut self.stats;
        let (marks, drops) = if forced {
            (forced_mark, forced_drop)
        } else {
            (prob_mark, prob_drop)
        };
        if may_mark && packet.set_ce() {
            *marks += 1;
            return true;
        }
        if may_mark && nodrop {
            return true;
        }
        *drops += 1;
        false
    }
}

impl<P: Item, Q: Qdisc<P>> Red<P, Q> {
    /// Linux notes it at the next dequeue, which finds nothing; a caller that follows `ready_at`
    /// never makes that one.
    fn note_idle(&mut self, now: Instant) {
        if self.child.queue.backlog().is_empty() {
            self.state.begin_idle(now);
        }
    }
}

impl<P: Item, Q: Qdisc<P>> Qdisc<P> for Red<P, Q> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        if self.config.adaptive {
            self.aqm.adapt(&self.state, now);
        }
        let backlog = self.child.queue.backlog().bytes;
        let congestion = self
            .aqm
            .arrive(&mut self.state, backlog, now, &mut self.random);
        if congestion != Congestion::None && !self.signal(congestion, &mut packet) {
            drops.push(packet, DropReason::Early);
        } else {
            let before = drops.len();
            self.child.queue.enqueue(packet, now, drops);
            self.stats.pdrop += (drops.len() - before) as u64;
        }
        // Who was dropped at an empty queue leaves it idle.
        self.note_idle(now);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        let packet = self.child.queue.dequeue(now, drops);
        self.note_idle(now);
        packet
    }

    fn ready_at(&self) -> Option<Instant> {
        self.child.queue.ready_at()
    }

    fn backlog(&self) -> Backlog {
        self.child.queue.backlog()
    }

    fn peek_len(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<Bytes> {
        self.child.queue.peek_len(now, drops)
    }

    /// Linux's parents peek through RED at its child (`red_peek`).
    fn set_peeked(&mut self, peeked: bool) {
        self.child.queue.set_peeked(peeked);
    }
}

impl<P: Item, Q: Qdisc<P>> Classful<P> for Red<P, Q> {
    type Child = Q;

    fn handle(&self) -> u16 {
        self.handle
    }

    fn leaves(&self) -> Vec<ClassId> {
        vec![ClassId::new(self.handle, 1)]
    }

    fn graft(&mut self, class: ClassId, child: Q, drops: &mut Drops<P>) -> Result<(), ConfigError> {
        ConfigError::check(
            class == ClassId::new(self.handle, 1),
            "parent",
            class,
            "the one class of red, handle:1",
        )?;
        flush(&mut self.child.queue, drops);
        // A grafted queue has a limit of its own.
        (self.child.queue, self.child.resize) = (child, None);
        Ok(())
    }

    fn with_child<R>(
        &mut self,
        class: ClassId,
        drops: &mut Drops<P>,
        call: impl FnOnce(&mut Q, &mut Drops<P>) -> R,
    ) -> Option<R> {
        if class != ClassId::new(self.handle, 1) {
            return None;
        }
        Some(call(&mut self.child.queue, drops))
    }
}
