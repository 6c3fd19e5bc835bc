//! [`Agenda`]: when each part of a network has something to do.
//!
//! A tournament over the parts' times: the earliest is at the root, a part's time changes in the logarithm of their number, and those
//! that are due can be visited in the parts' own order, which a heap over (time, part) cannot do when one part makes another due.

use tautline_base::Instant;

/// What is planned here never comes.
const END_OF_TIME: Instant = Instant::from_nanos(u64::MAX);

/// The next time of each of a fixed number of parts.
#[derive(Debug)]
pub(super) struct Agenda {
    /// A binary tree in an array: the children of `n` are `2n` and `2n + 1`, the root is 1, the parts are the leaves. Each place
    /// holds the earliest time below it.
    times: Vec<Instant>,
    /// Leaves: a power of two.
    leaves: usize,
}

impl Agenda {
    /// Nothing is planned for any of `parts`.
    pub(super) fn new(parts: usize) -> Self {
        let leaves = parts.max(1).next_power_of_two();
        Self { times: vec![END_OF_TIME; 2 * leaves], leaves }
    }

    /// The earliest time of all.
    pub(super) fn next(&self) -> Option<Instant> {
        Some(self.times[1]).filter(|at| *at < END_OF_TIME)
    }

    /// From now on `part` is due at `at`, or never.
    pub(super) fn set(&mut self, part: usize, at: Option<Instant>) {
        let mut place = self.leaves + part;
        let mut earliest = at.unwrap_or(END_OF_TIME);
        while self.times[place] != earliest {
            self.times[place] = earliest;
            if place == 1 {
                return;
            }
            earliest = earliest.min(self.times[place ^ 1]);
            place /= 2;
        }
    }

    /// The first part that is due at `now`, beginning with `from`.
    pub(super) fn due(&self, from: usize, now: Instant) -> Option<usize> {
        let mut place = self.leaves + from;
        if from >= self.leaves || self.times[1] > now {
            return None;
        }
        // Up until something to the right is due, then down to the leftmost of it.
        while self.times[place] > now {
            while place % 2 == 1 {
                place /= 2;
            }
            if place == 0 {
                return None;
            }
            place += 1;
        }
        while place < self.leaves {
            place = 2 * place + usize::from(self.times[2 * place] > now);
        }
        Some(place - self.leaves)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn parts_that_are_due_come_in_their_own_order() {
        let mut agenda = Agenda::new(5);
        assert_eq!((agenda.next(), agenda.due(0, at(100))), (None, None));
        for (part, time) in [(4, 3), (2, 9), (0, 7)] {
            agenda.set(part, Some(at(time)));
        }
        assert_eq!(agenda.next(), Some(at(3)));
        assert_eq!(agenda.due(0, at(2)), None);
        assert_eq!(agenda.due(0, at(8)), Some(0));
        assert_eq!(agenda.due(1, at(8)), Some(4), "2 is not due yet");
        assert_eq!(agenda.due(5, at(8)), None);
        agenda.set(4, None);
        assert_eq!((agenda.next(), agenda.due(1, at(8))), (Some(at(7)), None));
    }

    proptest! {
        /// It always answers what a look at every part would.
        #[test]
        fn agrees_with_a_list(parts in 1..40_usize, changes in prop::collection::vec((0..40_usize, 0..60_u64, 0..41_usize), 1..200)) {
            let (mut agenda, mut list) = (Agenda::new(parts), vec![None; parts]);
            for (part, time, from) in changes {
                let part = part % parts;
                list[part] = Some(at(time)).filter(|_| time < 50);
                agenda.set(part, list[part]);
                prop_assert_eq!(agenda.next(), list.iter().flatten().min().copied());
                let due = (from..parts).find(|part| list[*part].is_some_and(|due| due <= at(25)));
                prop_assert_eq!(agenda.due(from, at(25)), due);
            }
        }
    }
}
