//! [`SpaceSaving`]: the heaviest keys of a stream in bounded memory.
//!
//! The algorithm is Space-Saving of Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent
//! and Top-k Elements in Data Streams" (ICDT 2005), §3: a key without a counter takes over the
//! lightest counter, and adds to its weight. Of `k` counters one belongs to each key that has more
//! than 1/`k` of the total weight.

use std::collections::HashMap;
use std::hash::Hash;

use tautline_base::HashKey;

/// Up to a fixed number of keys, each with a weight and a value. No call allocates.
pub(super) struct SpaceSaving<K, V> {
    counters: Vec<Counter<K, V>>,
    /// Indices of counters: a binary heap with the lightest first.
    heap: Vec<usize>,
    /// Index of each key's counter.
    places: HashMap<K, usize, HashKey>,
    /// Index of the counter used last: packets of a flow often follow each other.
    last: usize,
}

struct Counter<K, V> {
    key: K,
    weight: u64,
    value: V,
    /// Position in the heap.
    at: usize,
}

impl<K: Copy + Eq + Hash, V: Default> SpaceSaving<K, V> {
    /// Room for `counters` keys, at least one.
    pub(super) fn new(counters: usize, key: HashKey) -> Self {
        let counters = counters.max(1);
        Self {
            counters: Vec::with_capacity(counters),
            heap: Vec::with_capacity(counters),
            // Twice the room: a table that replaces keys then never grows.
            places: HashMap::with_capacity_and_hasher(2 * counters, key),
            last: 0,
        }
    }

    /// Adds `weight` to `key`. Returns its value, which is new if the key had no counter.
    pub(super) fn add(&mut self, key: K, weight: u64) -> &mut V {
        let index = self.index(key);
        self.last = index;
        let counter = &mut self.counters[index];
        counter.weight = counter.weight.saturating_add(weight);
        let at = counter.at;
        self.sift_down(at);
        &mut self.counters[index].value
    }

    /// Divides every weight by 2 to the power of `times`, so that those of the past count less.
    pub(super) fn halve(&mut self, times: u32) {
        for counter in &mut self.counters {
            counter.weight = counter.weight.checked_shr(times).unwrap_or(0);
        }
    }

    /// The `count` heaviest keys of positive weight with their values, the heaviest first.
    pub(super) fn heaviest(&self, count: usize) -> Vec<(&K, &V)> {
        let weighty = self.counters.iter().filter(|counter| counter.weight > 0);
        let mut all: Vec<_> = weighty.collect();
        all.sort_by_key(|counter| std::cmp::Reverse(counter.weight));
        all.truncate(count);
        let pairs = all.into_iter();
        pairs
            .map(|counter| (&counter.key, &counter.value))
            .collect()
    }

    /// The counter of `key`: its own, a new one, or the lightest, reset.
    fn index(&mut self, key: K) -> usize {
        if self
            .counters
            .get(self.last)
            .is_some_and(|last| last.key == key)
        {
            return self.last;
        }
        if let Some(&index) = self.places.get(&key) {
            return index;
        }
        let index = if self.counters.len() < self.counters.capacity() {
            self.counters.push(Counter {
                key,
                weight: 0,
                value: V::default(),
                at: self.heap.len(),
            });
            self.heap.push(self.counters.len() - 1);
            self.sift_up(self.heap.len() - 1);
            self.counters.len() - 1
        } else {
            let index = self.heap[0];
            let lightest = &mut self.counters[index];
            self.places.remove(&lightest.key);
            (lightest.key, lightest.value) = (key, V::default());
            index
        };
        self.places.insert(key, index);
        index
    }

    fn weight(&self, at: usize) -> u64 {
        self.counters[self.heap[at]].weight
    }

    fn sift_up(&mut self, mut at: usize) {
        while at > 0 && self.weight(at) < self.weight((at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let below = [2 * at + 1, 2 * at + 2].into_iter();
            let below = below.filter(|&below| below < self.heap.len());
            let Some(lighter) = below.min_by_key(|&below| self.weight(below)) else {
                return;
            };
            if self.weight(at) <= self.weight(lighter) {
                return;
            }
            self.swap(at, lighter);
            at = lighter;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for at in [one, other] {
            self.counters[self.heap[at]].at = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tautline_base::SplitMix64;

    use super::*;

    fn summary(counters: usize) -> SpaceSaving<u64, u64> {
        SpaceSaving::new(counters, HashKey::from_seed(1))
    }

    #[test]
    fn every_key_above_its_share_is_found_whatever_the_order() {
        for seed in 0..20 {
            let (mut found, mut exact) = (summary(16), HashMap::<u64, u64>::new());
            let mut rng = SplitMix64::new(seed);
            for step in 0..20_000 {
                // A few heavy keys among many that come once.
                let key = match rng.next_u64() % 4 {
                    0 => rng.next_u64() % 5,
                    _ => 1000 + step,
                };
                let weight = 60 + rng.next_u64() % 1440;
                *found.add(key, weight) += weight;
                *exact.entry(key).or_default() += weight;
            }
            let total: u64 = exact.values().sum();
            let listed = found.heaviest(16);
            for (key, _) in exact.iter().filter(|(_, weight)| **weight > total / 16) {
                assert!(listed.iter().any(|(found, _)| *found == key), "seed {seed}");
            }
            // A value counts since its key has had the counter: never too much.
            for (key, value) in listed {
                assert!(*value <= exact[key], "seed {seed}");
            }
        }
    }

    #[test]
    fn the_heap_stays_one_and_its_memory_constant() {
        let mut found = summary(50);
        let room = found.places.capacity();
        let mut rng = SplitMix64::new(7);
        for step in 0..10_000 {
            found.add(rng.next_u64() % 300, rng.next_u64() % 1500);
            if step % 1000 == 999 {
                found.halve(1);
            }
            assert!((1..found.heap.len()).all(|at| found.weight((at - 1) / 2) <= found.weight(at)));
        }
        assert_eq!((found.counters.len(), found.places.len()), (50, 50));
        // Removed keys leave marks, so that the present capacity may be less.
        assert!(found.places.capacity() <= room);
    }

    #[test]
    fn the_past_fades() {
        let mut found = summary(2);
        found.add(1, 1_000_000);
        found.halve(10);
        found.add(2, 1500);
        assert_eq!(found.heaviest(1), [(&2, &0)]);
        found.halve(64);
        assert_eq!(found.heaviest(2), []);
    }
}
