//! Retries while the kernel cleans up after a dead process: it releases sockets and XDP links some
//! time after their owner has exited, so the next owner may get EBUSY.

use std::time::Duration;

use rustix::io::Errno;

/// Duration of the retries on a busy interface. The kernel frees a queue under the lock of all interfaces,
/// which a loaded machine holds for long while it removes others.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);

/// Calls `attempt` until it returns neither EBUSY nor EEXIST (a program of the other mode is attached),
/// for [`PATIENCE`] at most.
pub(crate) fn while_busy<T>(mut attempt: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
        match attempt() {
            Err(Errno::BUSY | Errno::EXIST) => pause(PAUSE),
            answer => return answer,
        }
    }
    attempt()
}

/// Sleeps for `time`.
#[expect(
    clippy::disallowed_methods,
    reason = "opening and resetting a device wait for the kernel, in real time"
)]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_tried_again_and_other_errors_are_not() {
        let mut calls = 0;
        let answer = while_busy(|| {
            calls += 1;
            if calls < 3 {
                Err(Errno::BUSY)
            } else {
                Ok(calls)
            }
        });
        assert_eq!(answer, Ok(3));

        let mut calls = 0;
        let answer: Result<(), _> = while_busy(|| {
            calls += 1;
            Err(Errno::PERM)
        });
        assert_eq!((answer, calls), (Err(Errno::PERM), 1));
    }
}
