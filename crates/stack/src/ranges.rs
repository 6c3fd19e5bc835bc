//! [`RangeSet`]: disjoint, sorted ranges of stream offsets. The SACK scoreboard and the reassembly
//! map are both one of these.

use std::ops::Range;

/// A set of offsets, kept as sorted, disjoint, non-touching ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    ranges: Vec<Range<u64>>,
}

impl RangeSet {
    /// Adds `range`. The parts that were not in the set before are handed to `new`, in order.
    pub(crate) fn insert(&mut self, range: Range<u64>, mut new: impl FnMut(Range<u64>)) {
        if range.is_empty() {
            return;
        }
        // Ranges that end before the new one begins stay; a touching one is merged.
        let first = self.ranges.partition_point(|r| r.end < range.start);
        let mut merged = range.clone();
        let mut covered = range.start;
        let mut last = first;
        while let Some(present) = self.ranges.get(last).filter(|r| r.start <= range.end) {
            if covered < present.start {
                new(covered..present.start);
            }
            covered = covered.max(present.end);
            merged = merged.start.min(present.start)..merged.end.max(present.end);
            last += 1;
        }
        if covered < range.end {
            new(covered..range.end);
        }
        if first == last {
            self.ranges.insert(first, merged);
        } else {
            self.ranges[first] = merged;
            self.ranges.drain(first + 1..last);
        }
    }

    /// Removes everything below `offset`.
    pub(crate) fn remove_below(&mut self, offset: u64) {
        let gone = self.ranges.partition_point(|r| r.end <= offset);
        self.ranges.drain(..gone);
        if let Some(first) = self.ranges.first_mut() {
            first.start = first.start.max(offset);
        }
    }

    /// Empties the set.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// True when all of `range` is in the set.
    pub(crate) fn contains(&self, range: &Range<u64>) -> bool {
        self.containing(range.start)
            .is_some_and(|r| range.end <= r.end)
    }

    /// The range that holds `offset`.
    pub(crate) fn containing(&self, offset: u64) -> Option<Range<u64>> {
        self.first_above(offset).filter(|r| r.start <= offset)
    }

    /// The lowest range that ends above `offset`.
    pub(crate) fn first_above(&self, offset: u64) -> Option<Range<u64>> {
        let at = self.ranges.partition_point(|r| r.end <= offset);
        self.ranges.get(at).cloned()
    }

    /// The lowest range.
    pub(crate) fn first(&self) -> Option<&Range<u64>> {
        self.ranges.first()
    }

    /// Number of separate ranges.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Number of offsets in all ranges, which it counts one by one.
    pub(crate) fn bytes(&self) -> u64 {
        self.ranges
            .iter()
            .map(|range| range.end - range.start)
            .sum()
    }

    /// Memory held, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.ranges.capacity() * size_of::<Range<u64>>()
    }

    /// True when nothing is in the set.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn memory_is_that_of_the_ranges() {
        let mut ranges = RangeSet::default();
        assert_eq!(ranges.memory(), 0);
        (0..100).for_each(|at| ranges.insert(2 * at..2 * at + 1, |_| {}));
        assert!(ranges.memory() >= 100 * size_of::<Range<u64>>());
    }

    proptest! {
        #[test]
        fn behaves_as_a_set_of_offsets(ops in prop::collection::vec((0u64..60, 0u64..12, any::<bool>()), 1..60)) {
            let mut ours = RangeSet::default();
            let mut model = BTreeSet::new();
            for (start, len, insert) in ops {
                if insert {
                    let mut new = Vec::new();
                    ours.insert(start..start + len, |r| new.extend(r));
                    let expected: Vec<u64> = (start..start + len).filter(|o| model.insert(*o)).collect();
                    prop_assert_eq!(new, expected);
                } else {
                    ours.remove_below(start);
                    model.retain(|o| *o >= start);
                }
                let flat: Vec<u64> = ours.ranges.iter().cloned().flatten().collect();
                prop_assert_eq!(&flat, &model.iter().copied().collect::<Vec<_>>());
                prop_assert!(ours.ranges.windows(2).all(|w| w[0].end < w[1].start), "disjoint and not touching");
            }
        }
    }
}
