//! [`Flow`] and [`Flows`]: what FQ keeps of each flow, and how a flow is found by its key.

use core::ops::{Index as At, IndexMut as AtMut};
use core::time::Duration;

use alloc::vec;
use alloc::vec::Vec;

use tautline_base::Instant;

use crate::index::{Index, Links};
use crate::timed::Timeline;

/// One flow: its packets, its share, its pace.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    key: u64,
    pub(super) queue: Timeline,
    /// Packets in `queue`.
    pub(super) packets: u32,
    /// Bytes it may send before others have their turn; negative when it sent more.
    pub(super) credit: i32,
    /// Its next packet leaves no earlier.
    pub(super) time_next: Instant,
    pub(super) place: FlowStatus,
    /// Its band while it is not idle.
    pub(super) band: u8,
    /// Successor on its list, or the empty place to be used after this one.
    next: Option<Index>,
    /// Successor in its bucket.
    chained: Option<Index>,
}

const _: () = assert!(size_of::<Flow>() <= 64, "one flow a cache line");

/// State of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowStatus {
    /// Nowhere: this place of the array belongs to no flow.
    Unused,
    /// On no list: it has no packets.
    Idle {
        /// Time at which it left its last list.
        since: Instant,
    },
    /// Among those that became active lately, served first.
    New,
    /// Among the others.
    Old,
    /// On no list, until its first packet may leave.
    Throttled {
        /// The departure time.
        until: Instant,
    },
}

/// A flow idle for longer may be forgotten (Linux).
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3);

/// Places searched for flows to remove, whenever one is added: more than one, so that idle flows
/// vanish faster than new ones come.
const LOOKED_AT: usize = 8;

/// All flows, in one array, and a hash table of their keys.
#[derive(Debug)]
pub(super) struct Flows {
    flows: Vec<Flow>,
    unused: Option<Index>,
    buckets: Vec<Option<Index>>,
    known: usize,
    /// Position at which the search for removable flows continues.
    hand: usize,
    /// Idle flows forgotten.
    pub(super) forgotten: u64,
}

impl Flows {
    /// No flows, and a table with room for `buckets`.
    pub(super) fn new(buckets: usize) -> Self {
        Self {
            flows: Vec::new(),
            unused: None,
            buckets: vec![None; buckets],
            known: 0,
            hand: 0,
            forgotten: 0,
        }
    }

    /// Number of known flows, with or without packets.
    pub(super) fn len(&self) -> usize {
        self.known
    }

    /// The flows that hold packets.
    pub(super) fn holding(&self) -> impl Iterator<Item = Index> {
        let holding = |(at, flow): (usize, &Flow)| (flow.packets > 0).then(|| Index::new(at));
        self.flows.iter().enumerate().filter_map(holding)
    }

    /// The flow of `key`, if it is known.
    pub(super) fn find(&self, key: u64) -> Option<Index> {
        let mut chain = self.buckets[self.bucket_of(key)];
        while let Some(at) = chain {
            if self[at].key == key {
                break;
            }
            chain = self[at].chained;
        }
        chain
    }

    /// Adds the flow of `key`, which is not known: idle, with `credit`.
    #[inline]
    pub(super) fn add(&mut self, key: u64, credit: i32, now: Instant) -> Index {
        if self.known >= 2 * self.buckets.len() {
            self.resize(2 * self.buckets.len());
        }
        self.known += 1;
        let bucket = self.bucket_of(key);
        let flow = Flow {
            key,
            queue: Timeline::default(),
            packets: 0,
            credit,
            time_next: Instant::ZERO,
            place: FlowStatus::Idle { since: now },
            band: 0,
            next: None,
            chained: self.buckets[bucket],
        };
        let at = match self.unused {
            Some(at) => {
                self.unused = core::mem::replace(&mut self[at], flow).next;
                at
            }
            None => {
                self.flows.push(flow);
                Index::new(self.flows.len() - 1)
            }
        };
        self.buckets[bucket] = Some(at);
        at
    }

    /// Forgets some of the flows that have been idle for long. Looks at a few places only, and at
    /// others each time.
    pub(super) fn forget_some(&mut self, now: Instant) {
        for _ in 0..LOOKED_AT.min(self.flows.len()) {
            self.hand = (self.hand + 1) % self.flows.len();
            let at = Index::new(self.hand);
            if let FlowStatus::Idle { since } = self[at].place
                && now - since > FORGOTTEN_AFTER
            {
                self.remove(at);
                self.forgotten += 1;
            }
        }
    }

    /// The clock stepped back by `step`: all that happened did that much earlier.
    pub(super) fn step_back(&mut self, step: Duration) {
        for flow in &mut self.flows {
            flow.time_next = flow.time_next - step;
            if let FlowStatus::Idle { since } = &mut flow.place {
                *since = *since - step;
            }
        }
    }

    /// Gives the table `buckets` places.
    pub(super) fn resize(&mut self, buckets: usize) {
        self.buckets.clear();
        self.buckets.resize(buckets, None);
        for at in 0..self.flows.len() {
            if self.flows[at].place != FlowStatus::Unused {
                let bucket = self.bucket_of(self.flows[at].key);
                self.flows[at].chained = self.buckets[bucket].replace(Index::new(at));
            }
        }
    }

    fn remove(&mut self, at: Index) {
        let (bucket, chained) = (self.bucket_of(self[at].key), self[at].chained);
        if self.buckets[bucket] == Some(at) {
            self.buckets[bucket] = chained;
        } else {
            let mut before = self.buckets[bucket].expect("a known flow is in its bucket");
            while let Some(next) = self[before].chained
                && next != at
            {
                before = next;
            }
            self[before].chained = chained;
        }
        self[at].place = FlowStatus::Unused;
        self[at].next = self.unused.replace(at);
        self.known -= 1;
    }

    /// Multiplicative hashing: keys that differ little are spread too. The flow hash is keyed, so
    /// nobody can aim at one bucket.
    fn bucket_of(&self, key: u64) -> usize {
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((mixed * self.buckets.len() as u64) >> 32) as usize
    }
}

impl At<Index> for Flows {
    type Output = Flow;

    #[inline]
    fn index(&self, at: Index) -> &Flow {
        &self.flows[at.get()]
    }
}

impl AtMut<Index> for Flows {
    #[inline]
    fn index_mut(&mut self, at: Index) -> &mut Flow {
        &mut self.flows[at.get()]
    }
}

impl Links for Flows {
    #[inline]
    fn next(&self, at: Index) -> Option<Index> {
        self[at].next
    }

    #[inline]
    fn set_next(&mut self, at: Index, next: Option<Index>) {
        self[at].next = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Beside a map: what is added is found, what is forgotten is not, and only the long idle
        /// are forgotten.
        #[test]
        fn the_table_finds_what_it_knows(buckets in 1..5usize, steps in vec((0..60u64, any::<bool>(), 0..2u64), 0..300)) {
            let (mut flows, mut model) = (Flows::new(buckets), BTreeMap::new());
            for (step, (key, busy, seconds)) in steps.into_iter().enumerate() {
                let now = Instant::from_secs(step as u64 * seconds);
                let before = flows.forgotten;
                flows.forget_some(now);
                let known = model.len();
                model.retain(|&key, &mut (at, since)| {
                    let kept = flows.find(key) == Some(at);
                    assert!(kept || now - since > FORGOTTEN_AFTER);
                    kept
                });
                prop_assert_eq!(known - model.len(), (flows.forgotten - before) as usize);
                match flows.find(key) {
                    Some(at) => prop_assert_eq!(at, model[&key].0),
                    None => {
                        let at = flows.add(key, 7, now);
                        prop_assert!(!model.contains_key(&key) && flows[at].key == key && flows[at].credit == 7);
                        flows[at].place = if busy { FlowStatus::Old } else { FlowStatus::Idle { since: now } };
                        model.insert(key, (at, if busy { Instant::from_nanos(u64::MAX) } else { now }));
                    }
                }
                prop_assert_eq!(flows.len(), model.len());
                prop_assert!(flows.buckets.len() >= flows.len().div_ceil(2).min(buckets));
                prop_assert!(model.iter().all(|(&key, &(at, _))| flows.find(key) == Some(at)));
            }
        }
    }

    /// The round search removes every long idle flow while as many are added.
    #[test]
    fn idle_flows_do_not_pile_up() {
        let mut flows = Flows::new(16);
        for key in 0..10_000 {
            let now = Instant::from_secs(key);
            flows.forget_some(now);
            flows.add(key, 0, now);
        }
        assert!(flows.flows.len() < 16, "{}", flows.flows.len());
    }
}
