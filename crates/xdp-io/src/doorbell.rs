//! [`Doorbell`]: how often to wake the kernel's sender.
//!
//! A copying socket sends only inside `sendto`, a limited number of packets a call; EAGAIN then
//! means either "more packets are pending", which needs another call at once, or "no space below",
//! which needs one later. An unfinished burst continues at the next reap or doorbell.

/// The result of one wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The kernel took all packets.
    Done,
    /// The kernel took some packets and would take more.
    Progress,
    /// The kernel has no space now.
    Blocked,
}

/// The state of the doorbell between bursts.
#[derive(Debug, Default)]
pub(crate) struct Doorbell {
    unfinished: bool,
}

impl Doorbell {
    /// Most wakes per burst: a full ring of 2048 at 32 packets a wake.
    const LIMIT: usize = 64;

    /// True if a burst is unfinished.
    pub(crate) fn unfinished(&self) -> bool {
        self.unfinished
    }

    /// Wakes the kernel until it took all packets, has no space, or the limit is reached.
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

    /// Clears an unfinished burst.
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
