//! [`Waiting`]: classes that wait until their buckets allow more, those of each level in order of
//! time.

use alloc::vec::Vec;

use tautline_base::Instant;

/// A binary heap for each level, in which each class knows its place; nothing is allocated once
/// they are as large as they get.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    levels: [Vec<Entry>; super::DEPTH],
    /// Place of each class in the heap of its level.
    places: Vec<Option<usize>>,
    arrivals: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    until: Instant,
    /// Equal times go in order of arrival.
    arrival: u64,
    class: usize,
}

impl Waiting {
    /// The class of `level` that waits least, and until when.
    pub(super) fn first(&self, level: usize) -> Option<(Instant, usize)> {
        self.levels[level]
            .first()
            .map(|entry| (entry.until, entry.class))
    }

    /// The earliest moment of all.
    pub(super) fn next_event(&self) -> Option<Instant> {
        (0..super::DEPTH)
            .filter_map(|level| self.first(level))
            .map(|(until, _)| until)
            .min()
    }

    /// Lets `class`, which does not wait yet, wait until `until`.
    pub(super) fn insert(&mut self, level: usize, class: usize, until: Instant) {
        self.arrivals += 1;
        let heap = &mut self.levels[level];
        heap.push(Entry {
            until,
            arrival: self.arrivals,
            class,
        });
        self.rise(level, self.levels[level].len() - 1);
    }

    /// Lets `class` wait no longer.
    pub(super) fn remove(&mut self, level: usize, class: usize) {
        let Some(place) = self.places[class].take() else {
            return;
        };
        let heap = &mut self.levels[level];
        heap.swap_remove(place);
        if place < heap.len() {
            self.sink(level, place);
            self.rise(level, place);
        }
    }

    /// Whether `class` waits.
    #[cfg(test)]
    pub(super) fn waits(&self, class: usize) -> bool {
        self.places[class].is_some()
    }

    /// Moves an entry towards the root as far as it belongs.
    fn rise(&mut self, level: usize, mut place: usize) {
        let heap = &mut self.levels[level];
        while place > 0 && heap[place].before(&heap[(place - 1) / 2]) {
            heap.swap(place, (place - 1) / 2);
            self.places[heap[place].class] = Some(place);
            place = (place - 1) / 2;
        }
        self.places[heap[place].class] = Some(place);
    }

    /// Moves an entry away from the root as far as it belongs.
    fn sink(&mut self, level: usize, mut place: usize) {
        let heap = &mut self.levels[level];
        loop {
            let children = 2 * place + 1..heap.len().min(2 * place + 3);
            let Some(least) = children.min_by_key(|&child| heap[child].key()) else {
                break;
            };
            if !heap[least].before(&heap[place]) {
                break;
            }
            heap.swap(place, least);
            self.places[heap[place].class] = Some(place);
            place = least;
        }
        self.places[heap[place].class] = Some(place);
    }

    /// Inserts a class at `at`: later ones move up.
    pub(super) fn open(&mut self, at: usize) {
        self.places.insert(at, None);
        self.entries()
            .filter(|entry| entry.class >= at)
            .for_each(|entry| entry.class += 1);
    }

    /// Removes the class at `at`, which does not wait.
    pub(super) fn close(&mut self, at: usize) {
        self.places.remove(at);
        self.entries()
            .filter(|entry| entry.class > at)
            .for_each(|entry| entry.class -= 1);
    }

    /// Moves all times back by what the clock stepped back: their order stays.
    pub(super) fn step_back(&mut self, step: core::time::Duration) {
        self.entries()
            .for_each(|entry| entry.until = entry.until - step);
    }

    fn entries(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.levels.iter_mut().flatten()
    }
}

impl Entry {
    fn key(&self) -> (Instant, u64) {
        (self.until, self.arrival)
    }

    fn before(&self, other: &Self) -> bool {
        self.key() < other.key()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        /// Beside a sorted set: the first is the first, with removals in between.
        #[test]
        fn the_first_is_the_earliest(steps in vec((0..20usize, 0..9u64), 0..300)) {
            let (mut waiting, mut model, mut times) = (Waiting::default(), BTreeSet::new(), [None; 20]);
            (0..20).for_each(|class| waiting.open(class));
            for (arrival, (class, nanos)) in steps.into_iter().enumerate() {
                if let Some(key) = times[class].take() {
                    waiting.remove(3, class);
                    model.remove(&key);
                } else {
                    let key = (Instant::from_nanos(nanos), arrival, class);
                    waiting.insert(3, class, key.0);
                    model.insert(key);
                    times[class] = Some(key);
                }
                let first = model.first().map(|&(until, _, class)| (until, class));
                prop_assert_eq!(waiting.first(3), first);
                prop_assert_eq!(waiting.next_event(), first.map(|(until, _)| until));
            }
        }
    }
}
