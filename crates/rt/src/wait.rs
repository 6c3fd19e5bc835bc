//! [`Waiter`]: sleeps until a device or an [`EventFd`](crate::EventFd) is readable, or a deadline.
//!
//! Pacing needs wake-ups that are microseconds late, not 50: the thread's timer slack is set to its
//! least, and `ppoll` takes nanoseconds.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Result of a wait. No field is set after a timeout or a Unix signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// A device is readable.
    pub device: bool,
    /// The eventfd was signaled.
    pub woken: bool,
    /// A device reports an error and will not become readable.
    pub failed: bool,
}

/// Waits on behalf of the thread it was made on.
#[derive(Debug)]
pub struct Waiter {
    _of_this_thread: std::marker::PhantomData<*const ()>,
}

impl Waiter {
    /// Makes timers of the calling thread exact.
    #[expect(clippy::new_without_default, reason = "it changes the calling thread")]
    pub fn new() -> Self {
        // Where the kernel refuses, wake-ups are 50 µs late and nothing else changes.
        let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
        Self {
            _of_this_thread: std::marker::PhantomData,
        }
    }

    /// Waits until one of `devices` (only the first two) or `event_fd` is readable, or `time` has
    /// passed; `None` waits without limit.
    ///
    /// # Errors
    /// That of `poll(2)`: the kernel is out of memory.
    pub fn wait(
        &self,
        devices: &[BorrowedFd<'_>],
        event_fd: BorrowedFd<'_>,
        time: Option<Duration>,
    ) -> io::Result<Readiness> {
        let timeout = time.map(|time| Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        let watched = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let device = |at: usize| watched(devices.get(at).copied().unwrap_or(event_fd));
        let mut fds = [watched(event_fd), device(0), device(1)];
        let watching = 1 + devices.len().min(2);
        match poll(&mut fds[..watching], timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Readiness::default()),
            Err(error) => return Err(error.into()),
        }
        let errors = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        let mut ready = Readiness {
            woken: fds[0].revents().contains(PollFlags::IN),
            ..Readiness::default()
        };
        for device in fds[1..watching].iter().map(PollFd::revents) {
            let readable = device.contains(PollFlags::IN);
            ready.device |= readable;
            ready.failed |= device.intersects(errors) && !readable;
        }
        Ok(ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    use crate::Clock;
    use crate::event_fd::EventFd;

    #[test]
    fn a_wait_ends_in_time_and_early_when_signaled() {
        let (device, event_fd) = (
            EventFd::new().expect("a descriptor"),
            EventFd::new().expect("a descriptor"),
        );
        let (waiter, clock) = (Waiter::new(), Clock::start());
        let wait = |time| {
            waiter
                .wait(&[device.as_fd()], event_fd.as_fd(), time)
                .expect("poll")
        };
        let before = clock.now();
        assert_eq!(wait(Some(Duration::from_millis(2))), Readiness::default());
        assert!(clock.now() - before >= Duration::from_millis(2));
        event_fd.signal();
        assert_eq!(
            wait(None),
            Readiness {
                woken: true,
                ..Readiness::default()
            }
        );
        event_fd.clear();
        device.signal();
        assert_eq!(
            wait(None),
            Readiness {
                device: true,
                ..Readiness::default()
            }
        );
        let other = EventFd::new().expect("a descriptor");
        let second = waiter
            .wait(&[other.as_fd(), device.as_fd()], event_fd.as_fd(), None)
            .expect("poll");
        assert!(second.device && !second.failed);
        let not_watched = waiter
            .wait(&[], event_fd.as_fd(), Some(Duration::from_millis(1)))
            .expect("poll");
        assert_eq!(not_watched, Readiness::default());
    }
}
