//! [`Stats`]: counts the packets of a qdisc, as the common lines of `tc -s
//! qdisc` do, and their sojourn times; [`FlowStats`], the same per flow.

mod flows;

use core::time::Duration;

use tautline_base::{Backlog, Bytes, DropReason, Drops, Ecn, Instant, Item, Log2Histogram, Qdisc};

use crate::class::ClassId;

pub use flows::{Flow, FlowCounts, FlowStats};

/// Wraps any qdisc and counts.
///
/// ```
/// use std::time::Duration;
/// use tautline_base::{Instant, Packet};
/// use tautline_qdisc::{Drops, Pfifo, Qdisc, Stats, pfifo::Config};
///
/// let (mut fifo, mut drops) = (Stats::new(Pfifo::new(Config { limit: 1 })), Drops::new());
/// for _ in 0..2 {
///     fifo.enqueue(Packet::new((), 1514), Instant::ZERO, &mut drops);
/// }
/// fifo.dequeue(Instant::from_millis(5), &mut drops);
/// assert_eq!((fifo.stats().drops(), fifo.stats().sojourn.max), (1, Duration::from_millis(5)));
/// ```
#[derive(Debug)]
pub struct Stats<Q> {
    inner: Q,
    name: Option<ClassId>,
    stats: QueueStats,
    /// As of the last call: `common` does not know the packet type and cannot ask `inner`.
    backlog: Backlog,
}

/// The counters in the second and third line of `tc -s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// Bytes that left for the device.
    pub sent_bytes: Bytes,
    /// Segments that left; a packet of several counts as that many.
    pub sent_packets: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets and bytes queued.
    pub backlog: Backlog,
}

/// Counters of a qdisc since it was wrapped.
#[derive(Clone, Debug, Default)]
pub struct QueueStats {
    /// Packets enqueued, including those dropped at once.
    pub enqueued: Passed,
    /// Packets dequeued.
    pub dequeued: Passed,
    /// Packets dropped, by [`DropReason::index`].
    pub dropped: [Passed; DropReason::ALL.len()],
    /// Sojourn times of the packets dequeued. Of a [`Netem`](crate::Netem) with a qdisc at its end,
    /// the times in that qdisc.
    pub sojourn: Sojourn,
}

/// Packets that passed one point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packet objects.
    pub packets: u64,
    /// Segments they stand for; `tc` counts these as "sent packets".
    pub segments: u64,
    /// Accounted length.
    pub bytes: Bytes,
    /// Packets that carried CE here. Once a qdisc is empty, its own marks are the difference
    /// between dequeued and enqueued.
    pub ce: u64,
}

impl Passed {
    fn add(&mut self, packet: &impl Item) {
        self.packets += 1;
        self.segments += u64::from(packet.segments());
        self.bytes += packet.len();
        self.ce += u64::from(Ecn::of_tos(packet.tos()) == Ecn::Ce);
    }

    fn absorb(&mut self, other: &Self) {
        self.packets += other.packets;
        self.segments += other.segments;
        self.bytes += other.bytes;
        self.ce += other.ce;
    }
}

impl QueueStats {
    /// Packets dropped for `reason`.
    pub fn dropped_for(&self, reason: DropReason) -> Passed {
        self.dropped[reason.index()]
    }

    /// Packets dropped for any reason.
    pub fn drops(&self) -> u64 {
        self.dropped.iter().map(|passed| passed.packets).sum()
    }
}

/// Times spent in a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sojourn {
    /// Of the packet dequeued last.
    pub last: Duration,
    /// The longest.
    pub max: Duration,
    /// Packets by nanoseconds, zero counted as one.
    pub histogram: Log2Histogram<65>,
}

impl Sojourn {
    fn add(&mut self, sojourn: Duration) {
        self.last = sojourn;
        self.max = self.max.max(sojourn);
        let nanos = u64::try_from(sojourn.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.record(nanos.max(1));
    }

    fn absorb(&mut self, other: &Self) {
        self.max = self.max.max(other.max);
        self.histogram.merge(&other.histogram);
    }

    /// The times measured after `earlier`, a previous state of this one; `max` is of all.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let histogram = self.histogram.since(&earlier.histogram);
        Self {
            histogram,
            ..self.clone()
        }
    }

    /// Packets that were measured.
    pub fn count(&self) -> u64 {
        self.histogram.total()
    }

    /// An upper bound, at most twice too large, of the time that `percent` of the packets did not
    /// exceed. Zero if none passed.
    pub fn percentile(&self, percent: u8) -> Duration {
        let bound = self.histogram.percentile(percent).unwrap_or(0);
        Duration::from_nanos(bound).min(self.max)
    }
}

impl<Q> Stats<Q> {
    /// Counts the packets of `inner` from now on.
    pub fn new(inner: Q) -> Self {
        Self {
            inner,
            name: None,
            stats: QueueStats::default(),
            backlog: Backlog::default(),
        }
    }

    /// Gives the qdisc a name in its report: the handle it has in a tree.
    pub fn named(self, handle: ClassId) -> Self {
        Self {
            name: Some(handle),
            ..self
        }
    }

    /// The counters.
    pub fn stats(&self) -> &QueueStats {
        &self.stats
    }

    /// The name given with [`named`](Self::named).
    pub fn name(&self) -> Option<ClassId> {
        self.name
    }

    /// The counters that `tc -s` shows for any qdisc; the backlog is that after the last call.
    pub fn common(&self) -> Common {
        Common {
            sent_bytes: self.stats.dequeued.bytes,
            sent_packets: self.stats.dequeued.segments,
            drops: self.stats.drops(),
            backlog: self.backlog,
        }
    }

    /// The wrapped qdisc.
    pub fn inner(&self) -> &Q {
        &self.inner
    }

    /// Does `call` to the wrapped qdisc, and notes what it dropped and its backlog afterwards.
    #[inline]
    pub fn with_inner<P: Item, R>(
        &mut self,
        drops: &mut Drops<P>,
        call: impl FnOnce(&mut Q, &mut Drops<P>) -> R,
    ) -> R
    where
        Q: Qdisc<P>,
    {
        let before = drops.len();
        let result = call(&mut self.inner, drops);
        for (packet, reason) in drops.iter().skip(before) {
            self.stats.dropped[reason.index()].add(packet);
        }
        self.backlog = self.inner.backlog();
        result
    }
}

impl<P: Item, Q: Qdisc<P>> Qdisc<P> for Stats<Q> {
    #[track_caller]
    fn enqueue(&mut self, packet: P, now: Instant, drops: &mut Drops<P>) {
        self.stats.enqueued.add(&packet);
        self.with_inner(drops, |inner, drops| inner.enqueue(packet, now, drops));
    }

    #[track_caller]
    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        let packet = self.with_inner(drops, |inner, drops| inner.dequeue(now, drops));
        if let Some(packet) = &packet {
            self.stats.dequeued.add(packet);
            self.stats.sojourn.add(now - packet.enqueued());
        }
        packet
    }

    fn ready_at(&self) -> Option<Instant> {
        self.inner.ready_at()
    }

    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }

    #[track_caller]
    fn peek_len(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<Bytes> {
        self.with_inner(drops, |inner, drops| inner.peek_len(now, drops))
    }

    fn set_peeked(&mut self, peeked: bool) {
        self.inner.set_peeked(peeked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codel::{self, CeThreshold, Codel, Params};
    use tautline_testkit::Probe;

    const ECT0: u8 = 2;

    /// One packet overlimit, one CE before, one marked inside, one untouched.
    #[test]
    fn packets_drops_marks_and_times_are_counted() {
        let codel = Params {
            ce_threshold: Some(CeThreshold::all(Duration::from_millis(1))),
            ..Params::default()
        };
        let queue = Codel::new(codel::Config { limit: 3, codel }).expect("valid");
        let (mut stats, mut drops) = (Stats::new(queue), Drops::new());
        for (id, tos) in [(0, 3), (1, ECT0), (2, 0), (3, 0)] {
            stats.enqueue(
                Probe::new(id).sized(100).tos(tos),
                Instant::from_millis(1),
                &mut drops,
            );
        }
        for millis in [1, 3, 5] {
            stats
                .dequeue(Instant::from_millis(millis), &mut drops)
                .expect("queued");
        }
        let QueueStats {
            enqueued,
            dequeued,
            sojourn,
            ..
        } = stats.stats();
        assert_eq!(
            *enqueued,
            Passed {
                packets: 4,
                segments: 4,
                bytes: Bytes::new(400),
                ce: 1
            }
        );
        assert_eq!(
            *dequeued,
            Passed {
                packets: 3,
                segments: 3,
                bytes: Bytes::new(300),
                ce: 2
            }
        );
        assert_eq!(stats.stats().dropped_for(DropReason::Overlimit).packets, 1);
        assert_eq!(stats.stats().drops(), 1);
        assert_eq!(
            (sojourn.last, sojourn.max),
            (Duration::from_millis(4), Duration::from_millis(4))
        );
        assert_eq!(
            sojourn.histogram.buckets().collect::<std::vec::Vec<_>>(),
            [(1, 1), (1 << 20, 1), (1 << 21, 1)]
        );
        assert_eq!(stats.common().drops, 1);
    }

    #[test]
    fn percentiles_bound_what_was_seen() {
        let mut sojourn = Sojourn::default();
        assert_eq!(sojourn.percentile(99), Duration::ZERO);
        for micros in 1..=100 {
            sojourn.add(Duration::from_micros(micros));
        }
        for percent in [1, 50, 90, 99, 100] {
            let bound = sojourn.percentile(percent);
            let exact = Duration::from_micros(percent.into());
            assert!(exact <= bound && bound <= exact * 2, "{percent}: {bound:?}");
        }
        sojourn.add(Duration::from_nanos(u64::MAX));
        assert_eq!(sojourn.percentile(100), Duration::from_nanos(u64::MAX));
    }
}
