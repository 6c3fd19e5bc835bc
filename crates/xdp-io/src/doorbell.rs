//! When to wake the kernel's sender, and for how long.
//!
//! A copying socket sends only while the process is inside `sendto`, a limited number of packets a
//! call; EAGAIN then means either "more are pending" or "no room below". The first asks for another
//! call at once, the second for one later. A burst that could not be finished is remembered and
//! continued at the next reap or doorbell.

/// What one wake achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The kernel has taken all.
    Done,
    /// The kernel has taken some and would take more.
    Progress,
    /// The kernel has no room or memory for now.
    Blocked,
}

/// The state of the doorbell between bursts.
#[derive(Debug, Default)]
pub(crate) struct Doorbell {
    unfinished: bool,
}

impl Doorbell {
    /// Wakes per burst: enough for a full ring of 2048 at 32 packets a wake, and a limit to the
    /// time spent here.
    const LIMIT: usize = 64;

    /// A burst is waiting to be continued.
    pub(crate) fn unfinished(&self) -> bool {
        self.unfinished
    }

    /// Wakes the kernel until it has taken all, has no room, or the limit is reached.
    ///
    /// # Errors
    /// Those of `wake`; the burst is then unfinished.
    pub(crate) fn ring<E>(&mut self, mut wake: impl FnMut() -> Result<Wake, E>) -> Result<(), E> {
        self.unfinished = true;
        for _ in 0..Self::LIMIT {
            match wake()? {
                Wake::Done => {
                    self.unfinished = false;
                    break;
                }
                Wake::Progress => {}
                Wake::Blocked => break,
            }
        }
        Ok(())
    }

    /// Forgets an unfinished burst.
    pub(crate) fn silence(&mut self) {
        self.unfinished = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(doorbell: &mut Doorbell, answers: &[Result<Wake, ()>]) -> (Result<(), ()>, usize) {
        let mut calls = 0;
        let result = doorbell.ring(|| {
            calls += 1;
            answers
                .get(calls - 1)
                .copied()
                .unwrap_or(Ok(Wake::Progress))
        });
        (result, calls)
    }

    #[test]
    fn progress_is_followed_up_until_done() {
        let mut doorbell = Doorbell::default();
        let answers = [Ok(Wake::Progress), Ok(Wake::Progress), Ok(Wake::Done)];
        assert_eq!(ring(&mut doorbell, &answers), (Ok(()), 3));
        assert!(!doorbell.unfinished());
    }

    #[test]
    fn a_blocked_burst_is_remembered_and_continued() {
        let mut doorbell = Doorbell::default();
        assert_eq!(
            ring(&mut doorbell, &[Ok(Wake::Progress), Ok(Wake::Blocked)]),
            (Ok(()), 2)
        );
        assert!(doorbell.unfinished());
        assert_eq!(ring(&mut doorbell, &[Ok(Wake::Done)]), (Ok(()), 1));
        assert!(!doorbell.unfinished());
    }

    #[test]
    fn endless_progress_ends_at_the_limit() {
        let mut doorbell = Doorbell::default();
        assert_eq!(ring(&mut doorbell, &[]), (Ok(()), Doorbell::LIMIT));
        assert!(doorbell.unfinished());
    }

    #[test]
    fn errors_leave_the_burst_unfinished() {
        let mut doorbell = Doorbell::default();
        assert_eq!(ring(&mut doorbell, &[Err(())]), (Err(()), 1));
        assert!(doorbell.unfinished());
        doorbell.silence();
        assert!(!doorbell.unfinished());
    }
}
