//! [`Depths`]: flows by the number of packets they hold, so that the longest is found without
//! scanning all.

use alloc::boxed::Box;
use alloc::vec;

use crate::index::Index;

/// For each number of packets the flows that hold as many, in a list; who came to it last is first.
///
/// A flow gains or loses one packet at a time and so moves by one list: every operation takes the
/// same time however many flows there are.
#[derive(Debug)]
pub(super) struct Depths {
    /// `first[n]` begins the list of flows with `n` packets.
    first: Box<[Option<Index>]>,
    places: Box<[DepthLinks]>,
    longest: usize,
}

#[derive(Clone, Debug, Default)]
struct DepthLinks {
    depth: usize,
    before: Option<Index>,
    next: Option<Index>,
}

impl Depths {
    /// `flows` flows without packets, which may come to hold `most` each.
    pub(super) fn new(flows: usize, most: usize) -> Self {
        let (first, places) = (
            vec![None; most + 1].into_boxed_slice(),
            vec![DepthLinks::default(); flows].into_boxed_slice(),
        );
        let mut depths = Self {
            first,
            places,
            longest: 0,
        };
        (0..flows)
            .rev()
            .for_each(|at| depths.link(Index::new(at), 0));
        depths
    }

    /// Packets of the flow.
    pub(super) fn of(&self, at: Index) -> usize {
        self.places[at.get()].depth
    }

    /// Packets of the longest flow.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// The flow that came to hold `depth` packets last, if any holds so many.
    pub(super) fn first(&self, depth: usize) -> Option<Index> {
        self.first[depth]
    }

    /// The flow has a packet more.
    #[inline]
    pub(super) fn grow(&mut self, at: Index) {
        let depth = self.of(at) + 1;
        self.unlink(at);
        self.link(at, depth);
        self.longest = self.longest.max(depth);
    }

    /// The flow has a packet less.
    pub(super) fn shrink(&mut self, at: Index) {
        let depth = self.of(at);
        self.unlink(at);
        self.link(at, depth - 1);
        if depth == self.longest && self.first[depth].is_none() {
            self.longest -= 1;
        }
    }

    fn link(&mut self, at: Index, depth: usize) {
        let next = self.first[depth].replace(at);
        if let Some(next) = next {
            self.places[next.get()].before = Some(at);
        }
        self.places[at.get()] = DepthLinks {
            depth,
            before: None,
            next,
        };
    }

    fn unlink(&mut self, at: Index) {
        let DepthLinks {
            depth,
            before,
            next,
        } = self.places[at.get()].clone();
        match before {
            Some(before) => self.places[before.get()].next = next,
            None => self.first[depth] = next,
        }
        if let Some(next) = next {
            self.places[next.get()].before = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        /// The longest is what a scan finds, and of equals the one that came to its depth last.
        #[test]
        fn the_longest_is_the_one_a_scan_finds(steps in proptest::collection::vec((0..7usize, any::<bool>()), 0..300)) {
            let mut depths = Depths::new(7, 5);
            // Depth and time of the last change of each.
            let mut plain: Vec<(usize, usize)> = (0..7).map(|_| (0, 0)).collect();
            for (time, (at, grow)) in (1..).zip(steps) {
                let (depth, _) = plain[at];
                if grow && depth < 5 {
                    depths.grow(Index::new(at));
                    plain[at] = (depth + 1, time);
                } else if !grow && depth > 0 {
                    depths.shrink(Index::new(at));
                    plain[at] = (depth - 1, time);
                }
                let longest = plain.iter().map(|&(depth, _)| depth).max().expect("seven");
                prop_assert_eq!((depths.longest(), depths.of(Index::new(at))), (longest, plain[at].0));
                let last = (0..7).filter(|&at| plain[at].0 == longest).max_by_key(|&at| plain[at].1).expect("one");
                let first = depths.first(longest).expect("one").get();
                prop_assert!(first == last || plain[first].1 == 0);
            }
        }
    }
}
