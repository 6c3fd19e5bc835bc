//! [`Bounds`]: finds the largest of many numbers that keep changing, without a scan.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// A tree of upper bounds over an array of numbers that its owner keeps.
///
/// A number that grows raises the bounds above it, and mostly finds the lowest of them high enough
/// already. A number that shrinks changes nothing: its bounds become stale, and are tightened only
/// when the search meets them. Each raise makes at most one stale bound per level, so that searches
/// pay for no more than what was raised.
#[derive(Debug)]
pub(crate) struct Bounds {
    /// Numbers in the array.
    count: usize,
    /// `levels[0]` bounds groups of the numbers, each further level groups of the one before; the
    /// last has one bound. A bound is the largest of those it groups.
    levels: Box<[Box<[u64]>]>,
}

/// Numbers or bounds grouped under one bound: two cache lines of bounds.
const GROUP: usize = 16;

impl Bounds {
    /// Bounds of `count` numbers that are all zero.
    pub(crate) fn new(count: usize) -> Self {
        let mut levels = Vec::new();
        let mut len = count;
        while levels.is_empty() || len > 1 {
            len = len.div_ceil(GROUP);
            levels.push(vec![0; len].into_boxed_slice());
        }
        Self {
            count,
            levels: levels.into_boxed_slice(),
        }
    }

    /// Notes that the number at `position` has become `value`, if it grew.
    #[inline]
    pub(crate) fn raise(&mut self, mut position: usize, value: u64) {
        for level in &mut self.levels {
            position /= GROUP;
            if level[position] >= value {
                return;
            }
            level[position] = value;
        }
    }

    /// Position of the largest number, the first of them if several are equal; `None` if all are
    /// zero.
    pub(crate) fn largest(&mut self, number: impl Fn(usize) -> u64) -> Option<usize> {
        loop {
            let top = self.levels.last().expect("there is at least one level")[0];
            if top == 0 {
                return None;
            }
            let group = self.levels.iter().rev().skip(1).fold(0, |at, level| {
                first_largest(members(at, level.len()), |i| level[i]).0
            });
            let (position, value) = first_largest(members(group, self.count), &number);
            if value == top {
                return Some(position);
            }
            self.tighten(group, value);
        }
    }

    /// Lowers the bound of a group of numbers to `value`, and those above to the largest below
    /// them.
    fn tighten(&mut self, mut at: usize, value: u64) {
        self.levels[0][at] = value;
        for upper in 1..self.levels.len() {
            at /= GROUP;
            let (lower, upper) = self.levels.split_at_mut(upper);
            let lower = &lower[lower.len() - 1];
            upper[0][at] = lower[members(at, lower.len())]
                .iter()
                .copied()
                .max()
                .unwrap_or(0);
        }
    }
}

/// Positions that belong to `group`, of `len` altogether.
fn members(group: usize, len: usize) -> Range<usize> {
    group * GROUP..len.min((group + 1) * GROUP)
}

/// The first of the positions whose value is largest, and that value.
fn first_largest(positions: Range<usize>, value: impl Fn(usize) -> u64) -> (usize, u64) {
    let start = (positions.start, value(positions.start));
    positions.skip(1).fold(start, |best, at| {
        if value(at) > best.1 {
            (at, value(at))
        } else {
            best
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The search finds what a scan of all numbers finds, ties included.
        #[test]
        fn the_largest_is_the_one_a_scan_finds(
            count in prop_oneof![Just(1usize), Just(16), Just(17), 1..600usize],
            steps in proptest::collection::vec((0usize..600, 0u64..6), 1..300),
        ) {
            let mut numbers = vec![0; count];
            let mut bounds = Bounds::new(count);
            for (position, value) in steps {
                numbers[position % count] = value;
                bounds.raise(position % count, value);
                let scan = (0..count).filter(|&at| numbers[at] > 0).rev().max_by_key(|&at| numbers[at]);
                prop_assert_eq!(bounds.largest(|at| numbers[at]), scan);
            }
        }
    }
}
