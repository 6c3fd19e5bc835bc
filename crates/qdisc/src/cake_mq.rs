//! [`CakeMq`]: a CAKE for each transmit queue of a device, all at one common rate (`tc`'s `cake_mq`
//! of Linux 7.0; `net/sched/sch_cake.c` `cake_mq_init`, `cake_dequeue`).
//!
//! A shaper in one qdisc needs its lock for every packet, and that stops a fast link at what one
//! processor serves. Here each device queue has a shaper of its own. At most once in
//! [`sync_time`](Config::sync_time) a queue that is served counts the queues that have packets or
//! have sent one since it last counted, and takes its equal part of the rate.
//!
//! Flows are fair within a queue, and queues with each other: a queue of one flow gets as much as one
//! of a hundred.
//!
//! DIVERGES: Linux gives the tin that was served last the part of the whole link, and leaves the
//! thresholds of the other tins as they were; here all thresholds are of the part.

#[cfg(test)]
mod tests;

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use tautline_base::{
    Backlog, CallerClock, ConfigError, Drops, Instant, Item, MultiQueue, Qdisc, Rate,
};

use crate::cake::{self, Bandwidth, Cake};
use crate::class::ClassId;
use crate::mq::{self, ByFlow, Mq};
use crate::stats::Common;

/// Parameters of [`CakeMq`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of device queues, 1 to 4096. In `tc` it is that of the device. Default 1.
    pub queues: u16,
    /// A queue counts the active ones no more often than this. Default 200 µs.
    pub sync_time: Duration,
    /// Parameters of every queue, the rate that of all together. Not
    /// [`Bandwidth::AutorateIngress`].
    pub cake: cake::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            queues: 1,
            sync_time: Duration::from_micros(200),
            cake: cake::Config::default(),
        }
    }
}

impl Config {
    fn check(&self) -> Result<(), ConfigError> {
        ConfigError::check(
            !matches!(self.cake.bandwidth, Bandwidth::AutorateIngress { .. }),
            "bandwidth",
            "autorate-ingress",
            "a rate or `unlimited`: queues that share a rate cannot each estimate it",
        )
    }

    /// The rate of one queue while `active` have packets.
    fn part(&self, active: usize) -> Rate {
        let whole = self.cake.bandwidth.at_first().as_bytes_per_sec();
        // Zero would be no limit.
        Rate::bytes_per_sec((whole / active as u64).max(1))
    }
}

/// A queue's knowledge of the others.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// When the active queues were counted.
    counted: Instant,
    /// How many there were, this one among them.
    active: usize,
    /// Its last departure.
    sent: Option<Instant>,
}

impl Share {
    const ALONE: Self = Self {
        counted: Instant::ZERO,
        active: 1,
        sent: None,
    };
}

/// A CAKE for each device queue, with one common rate. `F` chooses a queue, as in [`Mq`].
///
/// ```
/// use tautline_base::{Instant, MultiQueue, Packet, Rate};
/// use tautline_qdisc::{CakeMq, Drops, cake, cake_mq};
///
/// let bandwidth = cake::Bandwidth::Shaped(Rate::mbit(100));
/// let config = cake_mq::Config {
///     queues: 4,
///     cake: cake::Config { bandwidth, ..cake::Config::default() },
///     ..cake_mq::Config::default()
/// };
/// let root = CakeMq::<Packet<()>>::new(1, config)?;
/// assert_eq!((root.queues(), root.active(0)), (4, Some(1)));
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct CakeMq<P, F = ByFlow<P>> {
    queues: Mq<P, Cake<P>, F>,
    config: Config,
    shares: Vec<Share>,
    /// The next queue when the root is woken.
    turn: usize,
    clock: CallerClock,
}

impl<P: Item> CakeMq<P> {
    /// A qdisc called `handle` that spreads flows over its queues.
    ///
    /// # Errors
    /// If `queues` is outside its range, or `cake` is refused.
    pub fn new(handle: u16, config: Config) -> Result<Self, ConfigError> {
        Self::choosing(handle, config, mq::by_flow)
    }
}

impl<P: Item, F: Fn(&P, usize) -> usize> CakeMq<P, F> {
    /// Like [`new`](CakeMq::new), but `choose` returns the queue of a packet, as in
    /// [`Mq::choosing`].
    ///
    /// # Errors
    /// As [`new`](CakeMq::new).
    pub fn choosing(handle: u16, config: Config, choose: F) -> Result<Self, ConfigError> {
        config.check()?;
        let cakes: Result<_, _> = (0..config.queues)
            .map(|_| Cake::new(config.cake.clone()))
            .collect();
        Ok(Self {
            queues: Mq::choosing(handle, cakes?, choose)?,
            shares: vec![Share::ALONE; config.queues.into()],
            config,
            turn: 0,
            clock: CallerClock::default(),
        })
    }

    /// Its parameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Its name in `tc`, without the minor number.
    pub fn handle(&self) -> u16 {
        self.queues.id().major
    }

    /// Every class, its qdisc and what passed it.
    pub fn classes(&self) -> impl Iterator<Item = (ClassId, &Cake<P>, Common)> {
        self.queues.classes()
    }

    /// The active queues that device queue `queue` counted last, itself among them: its part of the
    /// rate is one by this number. `None` if there is no such queue.
    pub fn active(&self, queue: usize) -> Option<usize> {
        self.shares.get(queue).map(|share| share.active)
    }

    /// Replaces the parameters of all queues. Each takes the whole rate until it counts again, before
    /// its next packet.
    ///
    /// # Errors
    /// As [`Cake::reconfigure`], if `queues` differs, or for a rate that cannot be shared. Then
    /// nothing changes.
    pub fn reconfigure(
        &mut self,
        config: Config,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ConfigError> {
        config.check()?;
        self.queues.reconfigure(&mq::Config {
            queues: config.queues,
        })?;
        // The queues are alike, so the first refuses what any of them would.
        for queue in 0..self.shares.len() {
            let cake = config.cake.clone();
            self.queues.with_queue(queue, drops, |child, drops| {
                child.reconfigure(cake, now, drops)
            })?;
            self.shares[queue] = Share {
                sent: self.shares[queue].sent,
                ..Share::ALONE
            };
        }
        self.config = config;
        Ok(())
    }

    /// Notes the time. If the clock stepped back, what was noted is that much older: else no queue would
    /// be counted again for the whole step. Each CAKE does the same for its shaper.
    fn advance_to(&mut self, now: Instant) {
        if let Some(step) = self.clock.step_back(now) {
            for share in &mut self.shares {
                share.counted = share.counted - step;
                share.sent = share.sent.map(|sent| sent - step);
            }
        }
    }

    /// Counts the active queues for `queue`, if it is time to, and gives it its part of the rate.
    fn share(&mut self, queue: usize, now: Instant, drops: &mut Drops<P>) {
        let Share {
            counted, active, ..
        } = self.shares[queue];
        let shaped = matches!(self.config.cake.bandwidth, Bandwidth::Shaped(_));
        let due = counted == Instant::ZERO || now >= counted + self.config.sync_time;
        if !shaped || !due {
            return;
        }
        let others = (0..self.shares.len()).filter(|&other| other != queue);
        let is_active = |&other: &usize| {
            !self.queues.backlog_of(other).is_empty()
                || self.shares[other].sent.is_some_and(|sent| sent > counted)
        };
        let found = 1 + others.filter(is_active).count();
        let share = &mut self.shares[queue];
        (share.counted, share.active) = (now, found);
        if found != active {
            let part = self.config.part(found);
            self.queues
                .with_queue(queue, drops, |child, _| child.set_part(part));
        }
    }
}

impl<P: Item, F: Fn(&P, usize) -> usize> Qdisc<P> for CakeMq<P, F> {
    fn enqueue(&mut self, packet: P, now: Instant, drops: &mut Drops<P>) {
        self.queues.enqueue(packet, now, drops);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        let count = self.shares.len();
        for _ in 0..count {
            let queue = self.turn;
            self.turn = (queue + 1) % count;
            if let Some(packet) = self.dequeue_from(queue, now, drops) {
                return Some(packet);
            }
        }
        None
    }

    fn ready_at(&self) -> Option<Instant> {
        self.queues.ready_at()
    }

    fn backlog(&self) -> Backlog {
        self.queues.backlog()
    }
}

impl<P: Item, F: Fn(&P, usize) -> usize> MultiQueue<P> for CakeMq<P, F> {
    fn queues(&self) -> usize {
        self.shares.len()
    }

    fn queue_of(&self, packet: &P) -> usize {
        self.queues.queue_of(packet)
    }

    fn dequeue_from(&mut self, queue: usize, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        if self.queues.backlog_of(queue).is_empty() {
            return None;
        }
        self.advance_to(now);
        self.share(queue, now, drops);
        let packet = self.queues.dequeue_from(queue, now, drops)?;
        self.shares[queue].sent = Some(now);
        Some(packet)
    }

    fn ready_at_of(&self, queue: usize) -> Option<Instant> {
        self.queues.ready_at_of(queue)
    }

    fn backlog_of(&self, queue: usize) -> Backlog {
        self.queues.backlog_of(queue)
    }
}
