//! [`Armed`]: the entries of one connection in a queue of deadlines.

use tautline_base::Instant;

/// Sums of times saturate here: it is no deadline, for it would be due on every poll.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// The entry that counts, and one behind it. Without that one, every timer before a deadline that is
/// hours away would leave an entry for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Armed {
    first: Instant,
    behind: Instant,
}

impl Default for Armed {
    fn default() -> Self {
        Self {
            first: NEVER,
            behind: NEVER,
        }
    }
}

impl Armed {
    /// The deadline is `at`. True if that needs an entry: none comes up before.
    pub(crate) fn set(&mut self, at: Instant) -> bool {
        if at >= self.first {
            return false;
        }
        if self.first == NEVER && self.behind <= at {
            (self.first, self.behind) = (self.behind, NEVER);
            return false;
        }
        // Of several behind the first, the farthest is worth the most.
        if self.behind == NEVER {
            self.behind = self.first;
        }
        self.first = at;
        true
    }

    /// The entry at `at` has come up. True if it counts.
    pub(crate) fn take(&mut self, at: Instant) -> bool {
        if self.first == at {
            self.first = NEVER;
            return true;
        }
        if self.behind == at {
            self.behind = NEVER;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Instant {
        Instant::from_secs(seconds)
    }

    #[test]
    fn the_entry_that_an_earlier_deadline_displaced_is_used_again() {
        let mut armed = Armed::default();
        assert!(!armed.set(NEVER));
        assert!(armed.set(at(100)));
        for second in 1..50 {
            assert!(armed.set(at(second)), "an earlier deadline");
            assert!(!armed.set(at(second)) && !armed.set(at(second + 1)));
            assert!(armed.take(at(second)));
            assert!(!armed.set(at(100 + second)), "it comes up before");
        }
        assert!(armed.take(at(100)) && armed.set(at(150)));
    }

    #[test]
    fn an_entry_that_has_come_up_is_not_used_again() {
        let mut armed = Armed::default();
        assert!(armed.set(at(9)) && armed.set(at(5)));
        assert!(!armed.take(at(9)) && armed.take(at(5)));
        assert!(armed.set(at(10)));
    }
}
