//! [`Parked`]: a qdisc whose next packet has a known length before it is dequeued, for parents that
//! need its length.
//!
//! FIFOs and strict priorities can be peeked ([`Qdisc::peek_len`]), and a packet of a higher band
//! that arrives in the meantime still leaves first. A qdisc that drops at dequeue must decide
//! first: its packet is dequeued for the peek and kept here, counted in this backlog and in the
//! qdisc's limit in packets. Its sojourn time is judged at the peek, as in Linux.

use tautline_base::{Backlog, Bytes, Drops, Instant, Item, Qdisc};

/// A qdisc and at most one packet dequeued from it.
#[derive(Debug)]
pub struct Parked<P, Q> {
    inner: Q,
    parked: Option<P>,
}

impl<P: Item, Q: Qdisc<P>> Parked<P, Q> {
    /// Wraps `inner`.
    pub fn new(inner: Q) -> Self {
        Self {
            inner,
            parked: None,
        }
    }

    /// The packet dequeued to learn its length.
    pub fn parked(&self) -> Option<&P> {
        self.parked.as_ref()
    }

    /// The wrapped qdisc, without the packet parked here.
    pub fn inner(&self) -> &Q {
        &self.inner
    }

    /// The wrapped qdisc, to be changed.
    pub fn inner_mut(&mut self) -> &mut Q {
        &mut self.inner
    }
}

impl<P: Item, Q: Qdisc<P>> Qdisc<P> for Parked<P, Q> {
    fn enqueue(&mut self, packet: P, now: Instant, drops: &mut Drops<P>) {
        self.inner.enqueue(packet, now, drops);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        match self.parked.take() {
            Some(packet) => {
                self.inner.set_peeked(false);
                Some(packet)
            }
            None => self.inner.dequeue(now, drops),
        }
    }

    fn ready_at(&self) -> Option<Instant> {
        if self.parked.is_some() {
            Some(Instant::ZERO)
        } else {
            self.inner.ready_at()
        }
    }

    fn backlog(&self) -> Backlog {
        let mut backlog = self.inner.backlog();
        if let Some(packet) = &self.parked {
            backlog.add(packet.len());
        }
        backlog
    }

    /// `None` means that no packet can leave: a shaper may be closed, an AQM may just have dropped
    /// everything.
    fn peek_len(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<Bytes> {
        if self.parked.is_none() {
            // Asked once: each parent that asked twice would double the calls to whatever is below.
            if let Some(len) = self.inner.peek_len(now, drops) {
                return Some(len);
            }
            self.parked = self.inner.dequeue(now, drops);
            self.inner.set_peeked(self.parked.is_some());
        }
        self.parked.as_ref().map(Item::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codel::{self, Codel};
    use crate::ledger::Ledger;
    use crate::pfifo::{Config, Pfifo};
    use crate::pfifo_fast::{self, PfifoFast};
    use tautline_testkit::Probe;

    #[test]
    fn a_packet_looked_at_stays_counted_and_comes_next() {
        let (mut queue, mut drops) = (
            Ledger::new(Parked::new(Pfifo::new(Config { limit: 2 }))),
            Drops::new(),
        );
        for id in 0..2 {
            queue.enqueue(Probe::new(id).sized(100 + id), Instant::ZERO, &mut drops);
        }
        let before = queue.backlog();
        for _ in 0..2 {
            assert_eq!(
                queue.peek_len(Instant::ZERO, &mut drops),
                Some(Bytes::new(100))
            );
            assert_eq!(queue.backlog(), before);
        }
        for id in 0..2 {
            assert_eq!(queue.ready_at(), Some(Instant::ZERO));
            assert_eq!(
                queue
                    .dequeue(Instant::ZERO, &mut drops)
                    .map(|packet| packet.id),
                Some(id)
            );
        }
        assert_eq!(queue.ready_at(), None);
        assert!(queue.peek_len(Instant::ZERO, &mut drops).is_none() && queue.backlog().is_empty());
    }

    /// As in Linux, where the packet is put back into the qdisc's own count.
    #[test]
    fn a_packet_looked_at_counts_in_the_limit() {
        let config = codel::Config {
            limit: 2,
            ..codel::Config::default()
        };
        let codel = Codel::new(config).expect("the default is valid");
        let (mut queue, mut drops) = (Ledger::new(Parked::new(codel)), Drops::new());
        let fill = |queue: &mut Ledger<Parked<Probe, Codel<Probe>>>, drops: &mut Drops<Probe>| {
            for id in 0..3 {
                queue.enqueue(Probe::new(id).sized(100), Instant::ZERO, drops);
            }
            core::mem::take(drops).len()
        };
        assert_eq!(fill(&mut queue, &mut drops), 1);
        assert!(queue.peek_len(Instant::ZERO, &mut drops).is_some());
        assert_eq!(fill(&mut queue, &mut drops), 3, "two are still there");
        assert!(queue.dequeue(Instant::ZERO, &mut drops).is_some());
        assert_eq!(fill(&mut queue, &mut drops), 2, "one has left");
    }

    /// As Linux's shapers over its default qdisc: a later packet of a higher band still leaves
    /// first.
    #[test]
    fn strict_priorities_are_looked_into() {
        let mut queue = Ledger::new(Parked::new(PfifoFast::new(pfifo_fast::Config::default())));
        let mut drops = Drops::new();
        queue.enqueue(Probe::new(0).sized(100), Instant::ZERO, &mut drops);
        assert_eq!(
            queue.peek_len(Instant::ZERO, &mut drops),
            Some(Bytes::new(100))
        );
        queue.enqueue(
            Probe::new(1).sized(101).with_priority(6),
            Instant::ZERO,
            &mut drops,
        );
        assert_eq!(
            queue.peek_len(Instant::ZERO, &mut drops),
            Some(Bytes::new(101))
        );
        assert!(queue.inner().parked().is_none());
        assert_eq!(
            [0; 2].map(|_| queue
                .dequeue(Instant::ZERO, &mut drops)
                .map(|packet| packet.id)),
            [Some(1), Some(0)]
        );
    }

    /// A child without peek is dequeued: its packet leaves next, even if a more urgent one arrives.
    #[test]
    fn an_aqm_gives_up_the_packet_that_is_looked_at() {
        let mut queue = Ledger::new(Parked::new(
            Codel::new(codel::Config::default()).expect("valid"),
        ));
        let mut drops = Drops::new();
        for id in 0..2 {
            queue.enqueue(Probe::new(id), Instant::ZERO, &mut drops);
        }
        assert!(queue.peek_len(Instant::ZERO, &mut drops).is_some());
        assert_eq!(queue.inner().parked().map(|packet| packet.id), Some(0));
        assert_eq!(
            (
                queue.backlog().packets,
                queue.inner().inner().backlog().packets
            ),
            (2, 1)
        );
    }
}
