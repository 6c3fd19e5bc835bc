//! [`Exact`]: a timer of microseconds, by a timerfd that tokio watches.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tautline_base::Instant;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::Rest;

/// Shortest wait: the slack of a thread's timers in Linux (prctl(2), `PR_SET_TIMERSLACK`). It bounds the
/// wakes a second; a shaper makes up for it.
const SHORTEST: Duration = Duration::from_micros(50);

pub(super) struct Exact {
    timer: AsyncFd<OwnedFd>,
    set_for: Option<Instant>,
}

impl Exact {
    /// A timer that is not set, within tokio's runtime.
    #[expect(
        deprecated,
        reason = "`register` is unsafe for the sake of types other than `OwnedFd`"
    )]
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self {
            timer: AsyncFd::with_interest(timer, Interest::READABLE)?,
            set_for: None,
        })
    }

    /// Prepares the task to sleep until `at`, which is `wait` ahead.
    pub(super) fn rest(&mut self, at: Instant, wait: Duration, context: &mut Context<'_>) -> Rest {
        if self.set_for.is_none_or(|set_for| set_for > at) {
            if self.set(wait.max(SHORTEST)).is_err() {
                return Rest::Yield;
            }
            self.set_for = Some(at);
        }
        while let Poll::Ready(ready) = self.timer.poll_read_ready(context) {
            let Ok(mut ready) = ready else {
                return Rest::Yield;
            };
            let mut expirations = [0; 8];
            match rustix::io::read(self.timer.get_ref(), &mut expirations) {
                Ok(_) => {
                    self.set_for = None;
                    return Rest::Again;
                }
                // What was ready is the expiration before it was set.
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(_) => return Rest::Yield,
            }
        }
        Rest::Sleep
    }

    fn set(&self, wait: Duration) -> io::Result<()> {
        const ONCE: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let time = Itimerspec {
            it_interval: ONCE,
            it_value: Timespec {
                tv_sec: 0,
                tv_nsec: wait.subsec_nanos().into(),
            },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time)?;
        Ok(())
    }
}
