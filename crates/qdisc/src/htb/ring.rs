//! [`Ring`]: classes of one priority that may send at one level, in the order of their numbers, and
//! whose turn it is.

use super::bits::Bits;

/// Positions in order, with a rotating turn.
#[derive(Debug, Default)]
pub(super) struct Ring {
    members: Bits,
    turn: NextTurn,
}

/// The next in turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NextTurn {
    /// This member's.
    At(usize),
    /// The first at or after this, which left in its turn.
    From(usize),
    /// The round is over.
    #[default]
    Over,
}

impl Ring {
    /// Adds a member.
    pub(super) fn insert(&mut self, at: usize) {
        self.members.insert(at);
    }

    /// Removes a member; if it is its turn, the next has it at once.
    pub(super) fn remove_passing_on(&mut self, at: usize) {
        if self.turn == NextTurn::At(at) {
            self.advance();
        }
        self.members.remove(at);
    }

    /// Removes a member; if it is its turn, it has it again should it be back before the next
    /// lookup.
    pub(super) fn remove_keeping_turn(&mut self, at: usize) {
        if self.turn == NextTurn::At(at) {
            self.turn = NextTurn::From(at);
        }
        self.members.remove(at);
    }

    /// The next in turn; `None` if the round is over.
    pub(super) fn current(&mut self) -> Option<usize> {
        match self.turn {
            NextTurn::At(at) => Some(at),
            NextTurn::From(at) => {
                self.turn = self.members.next(at).map_or(NextTurn::Over, NextTurn::At);
                self.current()
            }
            NextTurn::Over => None,
        }
    }

    /// Gives the turn to the next, if a member has it.
    pub(super) fn advance(&mut self) {
        if let NextTurn::At(at) = self.turn {
            self.turn = self
                .members
                .next(at + 1)
                .map_or(NextTurn::Over, NextTurn::At);
        }
    }

    /// Begins a round; false without members.
    pub(super) fn rewind(&mut self) -> bool {
        self.turn = self.members.next(0).map_or(NextTurn::Over, NextTurn::At);
        self.turn != NextTurn::Over
    }

    /// Whether `at` is a member.
    #[cfg(test)]
    pub(super) fn contains(&self, at: usize) -> bool {
        self.members.next(at) == Some(at)
    }

    /// True without members.
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Inserts a position at `at`.
    pub(super) fn open(&mut self, at: usize) {
        self.members.open(at);
        self.move_turn(|turn| turn + usize::from(turn >= at));
    }

    /// Removes the position at `at`, which is not a member.
    pub(super) fn close(&mut self, at: usize) {
        self.members.close(at);
        self.move_turn(|turn| turn - usize::from(turn > at));
    }

    fn move_turn(&mut self, moved: impl Fn(usize) -> usize) {
        self.turn = match self.turn {
            NextTurn::At(at) => NextTurn::At(moved(at)),
            NextTurn::From(at) => NextTurn::From(moved(at)),
            NextTurn::Over => NextTurn::Over,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_goes_round_and_survives_removals() {
        let mut ring = Ring::default();
        (0..5).for_each(|at| ring.open(at));
        [0, 1, 3, 4].into_iter().for_each(|at| ring.insert(at));
        assert_eq!(ring.current(), None);
        assert!(ring.rewind());
        ring.advance();
        assert_eq!(ring.current(), Some(1));
        ring.remove_passing_on(1);
        assert_eq!(ring.current(), Some(3));
        ring.remove_keeping_turn(3);
        ring.insert(3);
        assert_eq!(ring.current(), Some(3), "back in time");
        ring.remove_keeping_turn(3);
        assert_eq!(ring.current(), Some(4));
        ring.open(2);
        assert_eq!(ring.current(), Some(5));
        ring.close(3);
        assert_eq!(ring.current(), Some(4));
        ring.remove_passing_on(4);
        assert_eq!(ring.current(), None);
        ring.remove_keeping_turn(0);
        assert!(ring.is_empty() && !ring.rewind());
    }
}
