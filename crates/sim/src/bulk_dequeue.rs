//! [`BulkDequeue`]: dequeues everything at once, as Linux does above a device without byte queue
//! limits.
//!
//! `try_bulk_dequeue_skb` (`net/sched/sch_generic.c`, Linux 3.18 to today) takes as many packets off
//! a qdisc as `dql_avail` says the device accepts. Where `limit_min` is set so high that the limit
//! never binds, that is the whole qdisc. What the ring has no room for returns to `gso_skb`, a list
//! in front of the qdisc: a packet that arrives later waits behind all of it, whatever its band or
//! flow. This is how a probe of high priority waits longer than the ring explains (paper 002,
//! §2.4.4).
//!
//! The list does not count in the qdisc's limit. In Linux up to 4.15 (the paper has 4.11) it is one
//! chain, which `dev_requeue_skb` counts as a single packet of `q.qlen`, the number that
//! `pfifo_fast` compares with its limit; since 4.16 it counts packet by packet, but a band of
//! `pfifo_fast` compares with its own ring, in which the list is not. A FIFO that acknowledgments
//! clock hardly notices: while the list drains, the qdisc receives as many packets as leave.

use std::collections::VecDeque;

use tautline_base::{Backlog, Drops, Instant, Item, Qdisc};
use tautline_tc::{Change, Inspect, ParseError, Report, Target, Words};

/// A qdisc, and the packets dequeued from it that the ring has not taken yet.
pub(crate) struct BulkDequeue<P, Q> {
    inner: Q,
    list: VecDeque<P>,
    /// Packets and bytes in the list.
    held: Backlog,
}

impl<P: Item, Q: Qdisc<P>> BulkDequeue<P, Q> {
    /// Wraps `inner`, which is empty.
    pub(crate) fn new(inner: Q) -> Self {
        Self {
            inner,
            list: VecDeque::new(),
            held: Backlog::default(),
        }
    }
}

impl<P: Item, Q: Qdisc<P>> Qdisc<P> for BulkDequeue<P, Q> {
    fn enqueue(&mut self, packet: P, now: Instant, drops: &mut Drops<P>) {
        self.inner.enqueue(packet, now, drops);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        if self.list.is_empty() {
            while let Some(packet) = self.inner.dequeue(now, drops) {
                self.held.add(packet.len());
                self.list.push_back(packet);
            }
        }
        let packet = self.list.pop_front()?;
        self.held.remove(packet.len());
        Some(packet)
    }

    fn ready_at(&self) -> Option<Instant> {
        if self.list.is_empty() {
            self.inner.ready_at()
        } else {
            Some(Instant::ZERO)
        }
    }

    fn backlog(&self) -> Backlog {
        let mut backlog = self.inner.backlog();
        backlog.packets += self.held.packets;
        backlog.bytes += self.held.bytes;
        backlog
    }
}

impl<P, Q: Inspect> Inspect for BulkDequeue<P, Q> {
    fn report(&self) -> Report {
        self.inner.report()
    }
}

impl<P: Item, Q: Change<P>> Change<P> for BulkDequeue<P, Q> {
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        self.inner.change(target, words, now, drops)
    }
}

#[cfg(test)]
mod tests {
    use tautline_base::Packet;
    use tautline_tc::{DynQdisc, Tree};

    use super::*;

    /// Priority of an interactive packet: band 0.
    const PROBE: u8 = 6;

    fn packet(priority: u8) -> Packet<()> {
        Packet::new((), 1514).with_tos(0, priority)
    }

    fn probe_behind(bulk: bool) -> usize {
        let tree: Tree = "prio".parse().expect("a qdisc");
        let inner: Box<dyn DynQdisc<Packet<()>>> = tree.build().expect("built");
        let mut qdisc: Box<dyn DynQdisc<Packet<()>>> = if bulk {
            Box::new(BulkDequeue::new(inner))
        } else {
            inner
        };
        let (now, mut drops) = (Instant::ZERO, Drops::new());
        for _ in 0..10 {
            qdisc.enqueue(packet(0), now, &mut drops);
        }
        assert!(qdisc.dequeue(now, &mut drops).is_some());
        qdisc.enqueue(packet(PROBE), now, &mut drops);
        qdisc.enqueue(packet(0), now, &mut drops);
        assert_eq!(qdisc.backlog().packets, 11);
        std::iter::from_fn(|| qdisc.dequeue(now, &mut drops))
            .position(|packet| packet.priority() == PROBE)
            .expect("the probe leaves")
    }

    #[test]
    fn a_packet_of_the_first_band_waits_behind_what_was_dequeued_before_it() {
        assert_eq!((probe_behind(false), probe_behind(true)), (0, 9));
    }

    #[test]
    fn the_qdisc_holds_its_limit_beside_the_list() {
        let tree: Tree = "pfifo_fast limit 10".parse().expect("a qdisc");
        let inner: Box<dyn DynQdisc<Packet<()>>> = tree.build().expect("built");
        let mut qdisc = BulkDequeue::new(inner);
        let (now, mut drops) = (Instant::ZERO, Drops::new());
        let fill = |qdisc: &mut BulkDequeue<_, _>, drops: &mut Drops<_>| {
            (0..12).for_each(|_| qdisc.enqueue(packet(0), now, drops));
            drops.drain().count()
        };
        assert_eq!(fill(&mut qdisc, &mut drops), 2);
        assert!(qdisc.dequeue(now, &mut drops).is_some());
        assert_eq!(fill(&mut qdisc, &mut drops), 2);
        assert_eq!(qdisc.backlog().packets, 9 + 10);
    }
}
