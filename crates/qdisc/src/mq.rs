//! [`Mq`]: one qdisc for each transmit queue of a device (`net/sched/sch_mq.c`; `tc`'s `mq`).
//!
//! It queues nothing itself. The flow of a packet chooses its queue, so flows keep their order; a
//! caller may supply another function. Class *n* + 1 is queue *n* and holds any qdisc.
//!
//! A device queue with free space again can wake one of two things (paper 002, §3.3: the wake mode
//! of a root queue disc):
//!
//! - **The child** (wake-child), for which this qdisc is made: each device queue is fed from its
//!   own child and from no other. [`queue_of`](MultiQueue::queue_of) says which one a packet goes
//!   to, [`dequeue_from`](MultiQueue::dequeue_from) and [`ready_at_of`](MultiQueue::ready_at_of)
//!   serve one device queue. A queue that is full does not hold up the others.
//! - **The root** (wake-root): driven as a [`Qdisc`], it serves its children in turn, a packet
//!   each, for a device with one queue, or one that spreads packets by itself. A device queue that
//!   is full then stops the packets for all.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use tautline_base::{Backlog, ConfigError, Drops, Instant, Item, MultiQueue, Qdisc};

use crate::children::Children;
use crate::class::ClassId;
use crate::classful::Parent;
use crate::stats::Common;

/// Parameters of [`Mq`], for `tc`'s words: in `tc` it has none, it asks the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of device queues, 1 to 4096. Default 1.
    pub queues: u16,
}

impl Default for Config {
    fn default() -> Self {
        Self { queues: 1 }
    }
}

/// Scales the flow hash to the number of queues.
pub(crate) fn by_flow<P: Item>(packet: &P, queues: usize) -> usize {
    // Mix first: the flow hash may vary in its low bits only.
    let spread = packet.flow_hash().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((spread * queues as u64) >> 32) as usize
}

/// Chooses by flow.
pub type ByFlow<P> = fn(&P, usize) -> usize;

/// One qdisc for each device queue. `F` chooses a queue, given the packet and the number of queues;
/// its result is taken modulo that number.
///
/// ```
/// use tautline_base::{Instant, MultiQueue, Packet};
/// use tautline_qdisc::{Drops, Mq, Pfifo, Qdisc, pfifo};
///
/// let queues = (0..4).map(|_| Pfifo::new(pfifo::Config::default())).collect();
/// let (mut mq, mut drops) = (Mq::new(1, queues)?, Drops::new());
/// let packet = Packet::new((), 1514).with_hashes(7, 0, 0);
/// let queue = mq.queue_of(&packet);
/// mq.enqueue(packet, Instant::ZERO, &mut drops);
/// // Each device queue is fed from its own child only.
/// assert!(mq.dequeue_from((queue + 1) % 4, Instant::ZERO, &mut drops).is_none());
/// assert!(mq.dequeue_from(queue, Instant::ZERO, &mut drops).is_some());
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Mq<P, Q, F = ByFlow<P>> {
    queues: Children<P, Q>,
    choose: F,
    /// The next queue when the root is woken.
    turn: usize,
}

impl<P: Item, Q: Qdisc<P>> Mq<P, Q> {
    /// A qdisc called `handle` that spreads flows over `children`, one for each device queue.
    ///
    /// # Errors
    /// Without children, or with more than 4096.
    pub fn new(handle: u16, children: Vec<Q>) -> Result<Self, ConfigError> {
        Self::choosing(handle, children, by_flow)
    }
}

impl<P: Item, Q: Qdisc<P>> Mq<P, Q> {
    /// `config.queues` queues that hold what `child` makes, in a qdisc called `handle`.
    ///
    /// # Errors
    /// If `queues` is outside its range.
    pub fn with(
        handle: u16,
        config: &Config,
        child: impl FnMut() -> Q,
    ) -> Result<Self, ConfigError> {
        check(config.queues.into())?;
        Self::new(
            handle,
            core::iter::repeat_with(child)
                .take(config.queues.into())
                .collect(),
        )
    }
}

fn check(queues: usize) -> Result<(), ConfigError> {
    ConfigError::check(
        (1..=4096).contains(&queues),
        "queues",
        queues,
        "from 1 to 4096",
    )
}

impl<P: Item, Q: Qdisc<P>, F: Fn(&P, usize) -> usize> Mq<P, Q, F> {
    /// Like [`new`](Mq::new), but `choose` returns the queue of a packet, given the packet and the
    /// number of queues. To keep flows in order it must return the same for all packets of a flow.
    ///
    /// # Errors
    /// As [`new`](Mq::new).
    pub fn choosing(handle: u16, children: Vec<Q>, choose: F) -> Result<Self, ConfigError> {
        check(children.len())?;
        let mut queues = Children::new(handle);
        for (minor, child) in (1..).zip(children) {
            queues.insert(ClassId::new(handle, minor), child)?;
        }
        Ok(Self {
            queues,
            choose,
            turn: 0,
        })
    }

    /// Every class, its qdisc and what passed it.
    pub fn classes(&self) -> impl Iterator<Item = (ClassId, &Q, Common)> {
        self.queues.iter()
    }

    /// The qdisc of device queue `queue`, if there is such a queue.
    pub fn child(&self, queue: usize) -> Option<&Q> {
        (queue < self.queues.len()).then(|| self.queues.child(queue))
    }

    /// Calls `call` with the qdisc of device queue `queue`, which exists.
    pub(crate) fn with_queue<R>(
        &mut self,
        queue: usize,
        drops: &mut Drops<P>,
        call: impl FnOnce(&mut Q, &mut Drops<P>) -> R,
    ) -> R {
        self.queues.with_child(queue, drops, call)
    }

    /// Its name.
    pub(crate) fn id(&self) -> ClassId {
        self.queues.handle()
    }

    /// Its parameters.
    pub fn config(&self) -> Config {
        Config {
            queues: u16::try_from(self.queues.len()).expect("checked to be at most 4096"),
        }
    }

    /// Replaces the parameters; a running device can change none.
    ///
    /// # Errors
    /// If `queues` differs.
    pub fn reconfigure(&mut self, config: &Config) -> Result<(), ConfigError> {
        ConfigError::check(
            *config == self.config(),
            "queues",
            config.queues,
            "what it was at creation",
        )
    }
}

impl<P: Item, Q: Qdisc<P>, F: Fn(&P, usize) -> usize> Qdisc<P> for Mq<P, Q, F> {
    fn enqueue(&mut self, packet: P, now: Instant, drops: &mut Drops<P>) {
        let queue = self.queue_of(&packet);
        self.queues.enqueue(queue, packet, now, drops);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        let count = self.queues.len();
        for _ in 0..count {
            let queue = self.turn;
            self.turn = (queue + 1) % count;
            if let Some(packet) = self.queues.dequeue(queue, now, drops) {
                return Some(packet);
            }
        }
        None
    }

    fn ready_at(&self) -> Option<Instant> {
        (0..self.queues.len())
            .filter_map(|queue| self.queues.ready_at(queue))
            .min()
    }

    fn backlog(&self) -> Backlog {
        self.queues.backlog()
    }
}

impl<P: Item, Q: Qdisc<P>, F: Fn(&P, usize) -> usize> MultiQueue<P> for Mq<P, Q, F> {
    fn queues(&self) -> usize {
        self.queues.len()
    }

    fn queue_of(&self, packet: &P) -> usize {
        (self.choose)(packet, self.queues.len()) % self.queues.len()
    }

    fn dequeue_from(&mut self, queue: usize, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        if queue >= self.queues.len() {
            return None;
        }
        self.queues.dequeue(queue, now, drops)
    }

    fn ready_at_of(&self, queue: usize) -> Option<Instant> {
        (queue < self.queues.len()).then(|| self.queues.ready_at(queue))?
    }

    fn backlog_of(&self, queue: usize) -> Backlog {
        self.child(queue).map(Q::backlog).unwrap_or_default()
    }
}

impl<P: Item, Q: Qdisc<P>, F: Fn(&P, usize) -> usize> Parent for Mq<P, Q, F> {
    type Packet = P;
    type Child = Q;

    fn children(&self) -> &Children<P, Q> {
        &self.queues
    }

    fn children_mut(&mut self) -> &mut Children<P, Q> {
        &mut self.queues
    }
}
