//! [`Timers`]: the next event of each component of a network.
//!
//! [`DeadlineTree`] has eight deadlines to a node, each node represented by its earliest. The
//! earliest of all is in the root, an update costs the logarithm of the number of components, and those
//! that are due can be visited in their own order, which a heap over (time, component) cannot do
//! when one component makes another due.

use tautline_base::Instant;

/// A component of a network that has events. Timers due at the same time are served in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Component {
    Medium(usize),
    Nic(usize),
    Link(usize),
    Host(usize),
}

/// The next event of each component.
#[derive(Debug)]
pub(super) struct Timers {
    tree: DeadlineTree,
    first_nic: usize,
    first_link: usize,
    first_host: usize,
}

impl Timers {
    /// No events for any component.
    pub(super) fn new(media: usize, hosts: usize, links: usize) -> Self {
        Self {
            tree: DeadlineTree::new(media + 2 * hosts + links),
            first_nic: media,
            first_link: media + hosts,
            first_host: media + hosts + links,
        }
    }

    /// The earliest event of all.
    pub(super) fn next(&self) -> Option<Instant> {
        self.tree.next()
    }

    /// Sets the next event of `component`.
    #[inline]
    pub(super) fn set(&mut self, component: Component, at: Option<Instant>) {
        let index = match component {
            Component::Medium(number) => number,
            Component::Nic(number) => self.first_nic + number,
            Component::Link(number) => self.first_link + number,
            Component::Host(number) => self.first_host + number,
        };
        self.tree.set(index, at);
    }

    /// The first component that is due at `now`, from position `from` on, and the position after
    /// it.
    pub(super) fn due(&self, from: usize, now: Instant) -> Option<(Component, usize)> {
        let index = self.tree.due(from, now)?;
        let component = if index >= self.first_host {
            Component::Host(index - self.first_host)
        } else if index >= self.first_link {
            Component::Link(index - self.first_link)
        } else if index >= self.first_nic {
            Component::Nic(index - self.first_nic)
        } else {
            Component::Medium(index)
        };
        Some((component, index + 1))
    }
}

/// Deadline of what has none.
const NEVER: Instant = Instant::from_nanos(u64::MAX);
/// Deadlines in a node: a cache line.
const WIDTH: usize = 8;

/// The deadlines of a fixed number of items.
#[derive(Debug)]
struct DeadlineTree {
    /// The deadlines by eights, then the earliest of each eight, again by eights, and so on to a
    /// single node.
    levels: Vec<Vec<[Instant; WIDTH]>>,
}

impl DeadlineTree {
    fn new(items: usize) -> Self {
        let mut levels = Vec::new();
        let mut count = items.max(1);
        while count > 1 || levels.is_empty() {
            count = count.div_ceil(WIDTH);
            levels.push(vec![[NEVER; WIDTH]; count]);
        }
        Self { levels }
    }

    /// Deadlines change several times for each time that this is asked for, so it is looked for here.
    fn next(&self) -> Option<Instant> {
        let root = self.levels.last()?.first()?;
        Some(earliest_of(root)).filter(|at| *at < NEVER)
    }

    #[inline]
    fn set(&mut self, item: usize, at: Option<Instant>) {
        let at = at.unwrap_or(NEVER);
        let before = std::mem::replace(&mut self.levels[0][item / WIDTH][item % WIDTH], at);
        // A dumbbell has eight components: a single node.
        if at != before && self.levels.len() > 1 {
            self.update(item / WIDTH, before, at);
        }
    }

    /// A deadline of `node`, on the lowest level, has changed from `before` to `at`.
    fn update(&mut self, mut node: usize, mut before: Instant, mut at: Instant) {
        for height in 1..self.levels.len() {
            let earliest = self.levels[height][node / WIDTH][node % WIDTH];
            // Only if the earliest of a node gets later, another may take its place.
            if at > earliest {
                if before > earliest {
                    return;
                }
                at = earliest_of(&self.levels[height - 1][node]);
            }
            if at == earliest {
                return;
            }
            self.levels[height][node / WIDTH][node % WIDTH] = at;
            (before, node) = (earliest, node / WIDTH);
        }
    }

    /// The first item that is due at `now`, from `from` on.
    fn due(&self, from: usize, now: Instant) -> Option<usize> {
        let due_in = |node: &[Instant]| node.iter().position(|at| *at <= now);
        if let [only] = &self.levels[..] {
            return due_in(only.first()?.get(from..)?).map(|further| from + further);
        }
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

fn earliest_of(node: &[Instant; WIDTH]) -> Instant {
    node.iter().copied().fold(NEVER, Instant::min)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn items_that_are_due_come_in_their_own_order() {
        let mut tree = DeadlineTree::new(5);
        assert_eq!((tree.next(), tree.due(0, at(100))), (None, None));
        for (item, time) in [(4, 3), (2, 9), (0, 7)] {
            tree.set(item, Some(at(time)));
        }
        assert_eq!(tree.next(), Some(at(3)));
        assert_eq!(tree.due(0, at(2)), None);
        assert_eq!(tree.due(0, at(8)), Some(0));
        assert_eq!(tree.due(1, at(8)), Some(4), "2 is not due yet");
        assert_eq!(tree.due(5, at(8)), None);
        tree.set(4, None);
        assert_eq!((tree.next(), tree.due(1, at(8))), (Some(at(7)), None));
    }

    proptest! {
        /// Gives the same answers as a linear search.
        #[test]
        fn agrees_with_a_list(items in 1..700_usize, changes in prop::collection::vec((0..700_usize, 0..60_u64, 0..701_usize), 1..200)) {
            let (mut tree, mut list) = (DeadlineTree::new(items), vec![None; items]);
            for (item, time, from) in changes {
                let item = item % items;
                list[item] = Some(at(time)).filter(|_| time < 50);
                tree.set(item, list[item]);
                prop_assert_eq!(tree.next(), list.iter().flatten().min().copied());
                let due = (from..items).find(|item| list[*item].is_some_and(|due| due <= at(25)));
                prop_assert_eq!(tree.due(from, at(25)), due);
            }
        }
    }
}
