//! [`Fifo`]: first in, first out, within a [`Bound`];
//! [`Pfifo`](crate::Pfifo), [`Bfifo`](crate::Bfifo) and
//! [`PfifoHeadDrop`](crate::PfifoHeadDrop) are this with `tc`'s parameters
//! (`net/sched/sch_fifo.c`).
//!
//! With the [`Config`] of this module it is bounded in packets and in bytes at once, as the buffer
//! of a switch port or a modem is; `tc` has no such thing.

#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;

use tautline_base::{Backlog, Bytes, DropReason, Drops, Instant, Item, Qdisc};

/// The parameters of a FIFO: how much it holds, and who leaves when it is full.
pub trait Bound {
    /// Whether a packet of `len` fits beside what is `held`.
    fn admits(&self, held: Backlog, len: Bytes) -> bool;

    /// The packet dropped when one does not fit.
    fn victim(&self) -> Victim {
        Victim::Newcomer
    }
}

/// The packet that a full FIFO drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The packet that came last: the queue stays as it is.
    Newcomer,
    /// The packets that waited longest, as many as it takes: the queue holds what is newest. A
    /// packet that would not fit an empty queue is dropped itself.
    Oldest,
}

/// A bounded FIFO.
///
/// ```
/// use tautline_base::{Instant, Packet};
/// use tautline_qdisc::{Drops, Fifo, Qdisc, fifo::Config};
///
/// let mut fifo = Fifo::new(Config { packets: Some(1), ..Config::default() });
/// let mut drops = Drops::new();
/// for _ in 0..2 {
///     fifo.enqueue(Packet::new((), 1514), Instant::ZERO, &mut drops);
/// }
/// assert_eq!((fifo.backlog().packets, drops.len()), (1, 1));
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Fifo<P, B = Config> {
    config: B,
    queue: VecDeque<P>,
    backlog: Backlog,
    drop_overlimit: u64,
}

impl<P, B> Fifo<P, B> {
    /// An empty FIFO. Every configuration is valid; one that admits nothing drops everything.
    pub fn new(config: B) -> Self {
        Self {
            config,
            queue: VecDeque::new(),
            backlog: Backlog::default(),
            drop_overlimit: 0,
        }
    }

    /// Replaces the parameters. Packets above a lowered limit stay.
    pub fn reconfigure(&mut self, config: B) {
        self.config = config;
    }

    /// Its parameters.
    pub fn config(&self) -> &B {
        &self.config
    }

    /// Packets dropped at the bound.
    pub fn drop_overlimit(&self) -> u64 {
        self.drop_overlimit
    }
}

impl<P: Item, B: Bound> Fifo<P, B> {
    /// Drops the oldest until `len` more bytes fit; false if even an empty queue has no place for
    /// them.
    fn make_room(&mut self, len: Bytes, drops: &mut Drops<P>) -> bool {
        if self.config.victim() == Victim::Newcomer || !self.config.admits(Backlog::default(), len)
        {
            return false;
        }
        // DIVERGES: Linux drops a single packet and stays above a limit that was lowered; here the
        // limit holds after every call.
        while !self.config.admits(self.backlog, len)
            && let Some(oldest) = self.pop()
        {
            self.drop_overlimit += 1;
            drops.push(oldest, DropReason::Overlimit);
        }
        true
    }

    fn pop(&mut self) -> Option<P> {
        let packet = self.queue.pop_front()?;
        self.backlog.remove(packet.len());
        Some(packet)
    }
}

impl<P: Item, B: Bound> Qdisc<P> for Fifo<P, B> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        let len = packet.len();
        if !self.config.admits(self.backlog, len) && !self.make_room(len, drops) {
            self.drop_overlimit += 1;
            return drops.push(packet, DropReason::Overlimit);
        }
        packet.set_enqueued(now);
        self.backlog.add(len);
        self.queue.push_back(packet);
    }

    fn dequeue(&mut self, _now: Instant, _drops: &mut Drops<P>) -> Option<P> {
        self.pop()
    }

    fn ready_at(&self) -> Option<Instant> {
        (!self.queue.is_empty()).then_some(Instant::ZERO)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn peek_len(&mut self, _now: Instant, _drops: &mut Drops<P>) -> Option<Bytes> {
        self.queue.front().map(Item::len)
    }
}

/// Parameters of a [`Fifo`] bounded in packets and in bytes, whichever is reached first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Limit in packets. Default 1000, the transmit queue length of a Linux Ethernet
    /// device.
    pub packets: Option<u32>,
    /// Limit in bytes. Default unlimited.
    pub bytes: Option<Bytes>,
    /// The packet dropped when it is full. Default the newcomer.
    pub victim: Victim,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            packets: Some(1000),
            bytes: None,
            victim: Victim::Newcomer,
        }
    }
}

impl Bound for Config {
    fn admits(&self, held: Backlog, len: Bytes) -> bool {
        self.packets.is_none_or(|most| held.packets < most as usize)
            && self.bytes.is_none_or(|most| held.bytes + len <= most)
    }

    fn victim(&self) -> Victim {
        self.victim
    }
}
