//! [`FlowStats`]: counters of a qdisc by flow, for as many flows as fit.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Backlog, Bytes, Drops, Instant, Item, Qdisc};

use super::{Passed, Sojourn};

/// Counters of one flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Taken in, dropped at once or not.
    pub enqueued: Passed,
    /// Handed out.
    pub dequeued: Passed,
    /// Given up, for whatever reason.
    pub dropped: Passed,
    /// How long packets that were handed out had stayed.
    pub sojourn: Sojourn,
}

impl FlowCounts {
    fn absorb(&mut self, other: &Self) {
        self.enqueued.absorb(&other.enqueued);
        self.dequeued.absorb(&other.dequeued);
        self.dropped.absorb(&other.dropped);
        self.sojourn.absorb(&other.sojourn);
    }
}

/// A flow and what passed of it, in a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The flow's hash; `None` for the sum of all flows without a row of their own.
    pub hash: Option<u64>,
    /// The counters.
    pub counts: FlowCounts,
}

impl Flow {
    /// The hash in hexadecimal, or `others`.
    pub fn name(&self) -> String {
        self.hash
            .map_or_else(|| "others".into(), |hash| format!("{hash:#x}"))
    }
}

/// Wraps any qdisc and counts by flow hash.
///
/// The table does not grow: a flow has eight possible places, and when all are taken the one that
/// was silent longest gives way. Its counts are added to the [`others`](Self::others), so that the
/// sum over the table and the others is always exact. Nothing is allocated after construction, and
/// a packet costs a search of eight places however many flows there are.
#[derive(Debug)]
pub struct FlowStats<Q> {
    inner: Q,
    places: Vec<Entry>,
    others: FlowCounts,
    /// Packets noted so far: the clock by which the age of a row is measured.
    noted: u64,
}

/// A place for a flow.
#[derive(Clone, Debug, Default)]
struct Entry {
    hash: u64,
    /// When it was last noted; 0 for a place that was never used.
    noted: u64,
    counts: FlowCounts,
}

/// Places where a flow may stand.
const WAYS: usize = 8;

impl<Q> FlowStats<Q> {
    /// Counts the packets of `inner`, separately for up to `flows` flows (rounded up to a multiple
    /// of eight). A flow takes about 700 bytes. With 0, all are summed.
    pub fn new(inner: Q, flows: usize) -> Self {
        let places = vec![Entry::default(); flows.div_ceil(WAYS) * WAYS];
        Self {
            inner,
            places,
            others: FlowCounts::default(),
            noted: 0,
        }
    }

    /// Counters of the flow of `hash`, if it has a place.
    pub fn flow(&self, hash: u64) -> Option<&FlowCounts> {
        let place = self.places[self.set(hash)]
            .iter()
            .find(|place| place.noted > 0 && place.hash == hash)?;
        Some(&place.counts)
    }

    /// The flows that have a place, in no order, by hash.
    pub fn flows(&self) -> impl Iterator<Item = (u64, &FlowCounts)> {
        self.places
            .iter()
            .filter(|place| place.noted > 0)
            .map(|place| (place.hash, &place.counts))
    }

    /// Counters of all other flows together.
    pub fn others(&self) -> &FlowCounts {
        &self.others
    }

    /// The flows that have a place, those that sent most first, then all others as one.
    pub fn by_bytes_sent(&self) -> Vec<Flow> {
        let mut flows: Vec<Flow> = self
            .flows()
            .map(|(hash, counts)| Flow {
                hash: Some(hash),
                counts: counts.clone(),
            })
            .collect();
        flows.sort_by_key(|flow| (core::cmp::Reverse(flow.counts.dequeued.bytes), flow.hash));
        if self.others != FlowCounts::default() {
            flows.push(Flow {
                hash: None,
                counts: self.others.clone(),
            });
        }
        flows
    }

    /// The wrapped qdisc.
    pub fn inner(&self) -> &Q {
        &self.inner
    }

    /// Where the flow of `hash` may stand.
    fn set(&self, hash: u64) -> core::ops::Range<usize> {
        // The upper half of the product depends on every bit of the hash, whatever the number of
        // sets.
        let mixed = u128::from(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let set = ((mixed * (self.places.len() / WAYS) as u128) >> 64) as usize;
        let end = self.places.len().min((set + 1) * WAYS);
        end.saturating_sub(WAYS)..end
    }

    /// The account of the flow of `hash`; another may give way.
    fn account(&mut self, hash: u64) -> &mut FlowCounts {
        let set = self.set(hash);
        self.noted += 1;
        let places = &mut self.places[set];
        let own = places
            .iter()
            .position(|place| place.noted > 0 && place.hash == hash);
        let Some(at) = own.or_else(|| (0..places.len()).min_by_key(|&at| places[at].noted)) else {
            return &mut self.others;
        };
        let place = &mut places[at];
        if own.is_none() {
            self.others.absorb(&place.counts);
            *place = Entry {
                hash,
                ..Entry::default()
            };
        }
        place.noted = self.noted;
        &mut place.counts
    }

    /// Does `call` to the wrapped qdisc, and notes what it dropped.
    #[inline]
    pub fn with_inner<P: Item, R>(
        &mut self,
        drops: &mut Drops<P>,
        call: impl FnOnce(&mut Q, &mut Drops<P>) -> R,
    ) -> R {
        let before = drops.len();
        let result = call(&mut self.inner, drops);
        for (packet, _) in drops.iter().skip(before) {
            self.account(packet.flow_hash()).dropped.add(packet);
        }
        result
    }
}

impl<P: Item, Q: Qdisc<P>> Qdisc<P> for FlowStats<Q> {
    #[track_caller]
    fn enqueue(&mut self, packet: P, now: Instant, drops: &mut Drops<P>) {
        self.account(packet.flow_hash()).enqueued.add(&packet);
        self.with_inner(drops, |inner, drops| inner.enqueue(packet, now, drops));
    }

    #[track_caller]
    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        let packet = self.with_inner(drops, |inner, drops| inner.dequeue(now, drops));
        if let Some(packet) = &packet {
            let account = self.account(packet.flow_hash());
            account.dequeued.add(packet);
            account.sojourn.add(now - packet.enqueued());
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
    use crate::{DropReason, Pfifo, Stats, pfifo};
    use core::time::Duration;
    use proptest::prelude::*;
    use tautline_testkit::Probe;

    #[test]
    fn each_flow_has_its_account() {
        let mut queue = FlowStats::new(Pfifo::new(pfifo::Config { limit: 3 }), 16);
        let mut drops = Drops::new();
        for flow in [7, 7, 9, 7] {
            queue.enqueue(
                Probe::new(0).flow(flow).sized(100),
                Instant::ZERO,
                &mut drops,
            );
        }
        queue.dequeue(Instant::from_millis(5), &mut drops);
        let seven = queue.flow(7).expect("noted");
        assert_eq!(
            (
                seven.enqueued.packets,
                seven.dequeued.packets,
                seven.dropped.packets
            ),
            (3, 1, 1)
        );
        assert_eq!(seven.sojourn.max, Duration::from_millis(5));
        let nine = queue.flow(9).expect("noted");
        assert_eq!(
            (nine.enqueued.bytes, nine.dropped.packets),
            (Bytes::new(100), 0)
        );
        assert_eq!(
            (queue.flow(8), queue.others()),
            (None, &FlowCounts::default())
        );
        let hashes: Vec<_> = queue.by_bytes_sent().iter().map(|flow| flow.hash).collect();
        assert_eq!(hashes, [Some(7), Some(9)]);
    }

    /// Nine flows, eight places: the first is silent longest.
    #[test]
    fn the_flow_that_was_silent_longest_gives_way() {
        let mut queue = FlowStats::new(Pfifo::new(pfifo::Config::default()), 1);
        let mut drops = Drops::new();
        for flow in [1, 2, 3, 4, 5, 6, 7, 8, 1, 9] {
            queue.enqueue(Probe::new(0).flow(flow), Instant::ZERO, &mut drops);
        }
        assert_eq!(queue.flow(2), None);
        assert_eq!(queue.flow(1).map(|counts| counts.enqueued.packets), Some(2));
        assert_eq!(
            (queue.flows().count(), queue.others().enqueued.packets),
            (8, 1)
        );
        assert_eq!(
            queue.by_bytes_sent().last().map(|flow| flow.hash),
            Some(None)
        );
    }

    /// Hands over its packets on request.
    struct Shredder(Pfifo<Probe>);

    impl Qdisc<Probe> for Shredder {
        fn enqueue(&mut self, packet: Probe, now: Instant, drops: &mut Drops<Probe>) {
            self.0.enqueue(packet, now, drops);
        }

        fn dequeue(&mut self, now: Instant, drops: &mut Drops<Probe>) -> Option<Probe> {
            let packet = self.0.dequeue(now, drops)?;
            drops.push(packet, DropReason::Target);
            None
        }

        fn ready_at(&self) -> Option<Instant> {
            self.0.ready_at()
        }

        fn backlog(&self) -> Backlog {
            self.0.backlog()
        }
    }

    #[test]
    fn what_is_dropped_when_nothing_comes_out_is_counted_too() {
        let mut queue = FlowStats::new(Shredder(Pfifo::new(pfifo::Config::default())), 8);
        let mut drops = Drops::new();
        queue.enqueue(Probe::new(0).flow(5), Instant::ZERO, &mut drops);
        assert!(queue.dequeue(Instant::ZERO, &mut drops).is_none());
        assert_eq!(
            queue
                .flow(5)
                .map(|counts| (counts.dropped.packets, counts.dequeued.packets)),
            Some((1, 0))
        );
    }

    #[test]
    fn without_places_all_are_summed() {
        let mut queue = FlowStats::new(Pfifo::new(pfifo::Config { limit: 0 }), 0);
        let mut drops = Drops::new();
        queue.enqueue(Probe::new(0).flow(1), Instant::ZERO, &mut drops);
        assert_eq!((queue.flow(1), queue.others().dropped.packets), (None, 1));
        assert_eq!(
            drops.drain().map(|(_, reason)| reason).next(),
            Some(DropReason::Overlimit)
        );
    }

    proptest! {
        /// The sum over all flows equals a counter without flows, no matter which flow is evicted.
        #[test]
        fn nothing_is_lost_by_giving_way(flows in proptest::collection::vec(any::<u64>(), 0..400), room in 0..40usize) {
            let mut queue = FlowStats::new(Stats::new(Pfifo::new(pfifo::Config { limit: 20 })), room);
            let mut drops = Drops::new();
            for (step, &flow) in flows.iter().enumerate() {
                let now = Instant::from_micros(step as u64);
                queue.enqueue(Probe::new(0).flow(flow % 100).sized((flow % 1500) as u32), now, &mut drops);
                if flow % 3 == 0 {
                    queue.dequeue(now, &mut drops);
                }
            }
            let mut sum = queue.others().clone();
            queue.flows().for_each(|(_, counts)| sum.absorb(counts));
            let all = queue.inner().stats();
            prop_assert_eq!((sum.enqueued, sum.dequeued, sum.dropped.packets), (all.enqueued, all.dequeued, all.drops()));
            prop_assert_eq!((&sum.sojourn.histogram, sum.sojourn.max), (&all.sojourn.histogram, all.sojourn.max));
        }
    }
}
