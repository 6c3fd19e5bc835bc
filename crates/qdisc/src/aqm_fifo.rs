//! [`AqmFifo`]: one FIFO under an active queue management algorithm: the shell that CoDel, COBALT,
//! PIE and BLUE share.

use tautline_base::{Backlog, Bytes, ConfigError, DropReason, Drops, Instant, Item, Qdisc};

use crate::codel::Source;
use crate::queue::Queue;

/// An AQM that governs one FIFO: the algorithm with the state of its queue.
pub trait FifoAqm: Sized {
    /// The parameters of the qdisc, its limit included.
    type Config;

    /// The algorithm at an empty queue.
    ///
    /// # Errors
    /// If a parameter is outside its range.
    fn new(config: &Self::Config) -> Result<Self, ConfigError>;

    /// Replaces the parameters `old` by `new` and keeps the state of the queue.
    ///
    /// # Errors
    /// As [`new`](Self::new), or if a parameter differs that is fixed at creation; then nothing
    /// changes.
    fn reconfigure(&mut self, old: &Self::Config, new: &Self::Config) -> Result<(), ConfigError>;

    /// Limit of the FIFO in packets.
    fn limit(config: &Self::Config) -> u32;

    /// Marks `packet`, which arrives at a queue that holds `held`, or names the reason to drop it.
    /// `full`: the queue is at its limit and the packet cannot stay.
    #[inline]
    fn admit<P: Item>(
        &mut self,
        _config: &Self::Config,
        _packet: &mut P,
        _held: Backlog,
        full: bool,
        _now: Instant,
    ) -> Option<DropReason> {
        full.then_some(DropReason::Overlimit)
    }

    /// Makes the periodic updates due up to `now`, during which the queue held `bytes`, when a
    /// parent takes a packet [dequeued](Peek::Dequeued) before.
    #[inline]
    fn advance(&mut self, _bytes: Bytes, _now: Instant) {}

    /// The next packet of `queue` to transmit, after the packets dropped ahead of it.
    fn dequeue<P: Item>(
        &mut self,
        queue: &mut Queue<P>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Option<P>;

    /// How a parent learns the length of the next packet.
    #[inline]
    fn peek(&self) -> Peek {
        Peek::Unknown
    }
}

/// How a parent learns the length of the next packet of an [`AqmFifo`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek {
    /// By dequeuing and keeping it: the head may still be dropped.
    Unknown,
    /// From the head of the queue, which is always the next packet.
    Head,
    /// By dequeuing it; it stays in backlog and limit until the parent takes it, as in Linux.
    Dequeued,
}

/// One FIFO under the AQM `A`.
#[derive(Debug)]
pub struct AqmFifo<P, A: FifoAqm> {
    pub(crate) config: A::Config,
    pub(crate) control: A,
    pub(crate) queue: Queue<P>,
    /// Only with [`Peek::Dequeued`].
    peeked: Option<P>,
    /// Packets that a parent has dequeued to learn their length: none or one.
    peeked_above: usize,
    pub(crate) drop_overlimit: u64,
}

impl<P, A: FifoAqm> AqmFifo<P, A> {
    /// An empty queue. Periodic updates start with the first call.
    ///
    /// # Errors
    /// If a parameter is outside its range.
    pub fn new(config: A::Config) -> Result<Self, ConfigError> {
        Ok(Self {
            control: A::new(&config)?,
            config,
            queue: Queue::new(),
            peeked: None,
            peeked_above: 0,
            drop_overlimit: 0,
        })
    }

    /// Its parameters.
    pub fn config(&self) -> &A::Config {
        &self.config
    }

    /// Packets dropped at the limit.
    pub fn drop_overlimit(&self) -> u64 {
        self.drop_overlimit
    }
}

impl<P: Item, A: FifoAqm> AqmFifo<P, A> {
    /// Replaces the parameters. Packets above a lowered limit are dropped at the head.
    ///
    /// # Errors
    /// As [`new`](Self::new), or if a parameter differs that is fixed at creation: the seed of
    /// BLUE, the law of PIE. Then nothing changes.
    pub fn reconfigure(
        &mut self,
        config: A::Config,
        drops: &mut Drops<P>,
    ) -> Result<(), ConfigError> {
        self.control.reconfigure(&self.config, &config)?;
        self.config = config;
        while self.backlog().packets + self.peeked_above > A::limit(&self.config) as usize
            && let Some(packet) = self.queue.pop()
        {
            self.drop_overlimit += 1;
            drops.push(packet, DropReason::Overlimit);
        }
        Ok(())
    }
}

impl<P: Item, A: FifoAqm> Qdisc<P> for AqmFifo<P, A> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        let held = self.backlog();
        let full = held.packets + self.peeked_above >= A::limit(&self.config) as usize;
        let refusal = self
            .control
            .admit(&self.config, &mut packet, held, full, now);
        if let Some(reason) = refusal {
            self.drop_overlimit += u64::from(reason == DropReason::Overlimit);
            return drops.push(packet, reason);
        }
        packet.set_enqueued(now);
        self.queue.push(packet);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        if self.control.peek() == Peek::Dequeued && self.peeked.is_some() {
            self.control.advance(self.backlog().bytes, now);
            return self.peeked.take();
        }
        self.control.dequeue(&mut self.queue, now, drops)
    }

    fn ready_at(&self) -> Option<Instant> {
        (!self.backlog().is_empty()).then_some(Instant::ZERO)
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        let mut held = self.queue.held();
        if self.control.peek() == Peek::Dequeued
            && let Some(packet) = &self.peeked
        {
            held.add(packet.len());
        }
        held
    }

    fn peek_len(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<Bytes> {
        match self.control.peek() {
            Peek::Unknown => None,
            Peek::Head => self.queue.front().map(Item::len),
            Peek::Dequeued => {
                if self.peeked.is_none() {
                    self.peeked = self.dequeue(now, drops);
                }
                self.peeked.as_ref().map(Item::len)
            }
        }
    }

    fn set_peeked(&mut self, peeked: bool) {
        self.peeked_above = usize::from(peeked);
    }
}
