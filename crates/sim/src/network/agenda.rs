//! [`Agenda`]: when each part of a network has something to do.
//!
//! A tree over the parts' times, eight to a node, each node known by its earliest: the earliest of
//! all is at hand, a part's time changes in the logarithm of their number, and those that are due
//! can be visited in the parts' own order, which a heap over (time, part) cannot do when one part
//! makes another due.

use tautline_base::Instant;

/// What is planned here never comes.
const END_OF_TIME: Instant = Instant::from_nanos(u64::MAX);
/// Times in a node: a line of cache.
const WIDTH: usize = 8;

/// The next time of each of a fixed number of parts.
#[derive(Debug)]
pub(super) struct Agenda {
    /// The times of the parts by eights, then the earliest of each eight, again by eights, and so
    /// on to a single node.
    levels: Vec<Vec<[Instant; WIDTH]>>,
    earliest: Instant,
}

impl Agenda {
    /// Nothing is planned for any of `parts`.
    pub(super) fn new(parts: usize) -> Self {
        let mut levels = Vec::new();
        let mut count = parts.max(1);
        while count > 1 || levels.is_empty() {
            count = count.div_ceil(WIDTH);
            levels.push(vec![[END_OF_TIME; WIDTH]; count]);
        }
        Self {
            levels,
            earliest: END_OF_TIME,
        }
    }

    /// The earliest time of all.
    pub(super) fn next(&self) -> Option<Instant> {
        Some(self.earliest).filter(|at| *at < END_OF_TIME)
    }

    /// From now on `part` is due at `at`, or never.
    pub(super) fn set(&mut self, part: usize, at: Option<Instant>) {
        let (mut place, mut at) = (part, at.unwrap_or(END_OF_TIME));
        for level in &mut self.levels {
            let node = &mut level[place / WIDTH];
            if node[place % WIDTH] == at {
                return;
            }
            node[place % WIDTH] = at;
            at = node.iter().copied().fold(END_OF_TIME, Instant::min);
            place /= WIDTH;
        }
        self.earliest = at;
    }

    /// The first part that is due at `now`, beginning with `from`.
    pub(super) fn due(&self, from: usize, now: Instant) -> Option<usize> {
        if self.earliest > now {
            return None;
        }
        let due_in = |node: &[Instant]| node.iter().position(|at| *at <= now);
        // Up until something to the right is due, then down to the leftmost of it.
        let (mut place, mut height) = (from, 0);
        loop {
            let node = self.levels.get(height)?.get(place / WIDTH)?;
            if let Some(further) = due_in(&node[place % WIDTH..]) {
                place += further;
                break;
            }
            (place, height) = (place / WIDTH + 1, height + 1);
        }
        for level in self.levels[..height].iter().rev() {
            place = place * WIDTH + due_in(&level[place])?;
        }
        Some(place)
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
        fn agrees_with_a_list(parts in 1..700_usize, changes in prop::collection::vec((0..700_usize, 0..60_u64, 0..701_usize), 1..200)) {
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
