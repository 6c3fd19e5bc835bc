//! [`Alarm`]: wakes the task of a stack at its deadline.
//!
//! tokio's timers measure milliseconds, but a shaper of 20 Mbit/s sends a packet every 0.6: a task that
//! yielded until then would use a processor whole, and be the last to run on a busy one. In Linux a
//! timerfd (timerfd_create(2)) measures shorter waits.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod exact;

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tautline_base::{Instant, Wake as Wakeup};
use tautline_rt::{Clock, Next};
use tokio::time::{Sleep, sleep};

#[cfg(any(target_os = "linux", target_os = "android"))]
use exact::Exact;

/// The shortest wait that tokio's timers measure.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// Result of [`Alarm::rest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// The deadline has passed: another turn.
    Again,
    /// No timer measures so short a wait: a turn after other tasks have run.
    Yield,
    /// The timer or an input wakes the task.
    Sleep,
}

/// The earlier deadline of a host and its sockets.
pub(crate) fn deadline((wake, next): (Option<Wakeup>, Next)) -> Option<Instant> {
    let next = match next {
        Next::At(at) => Some(at),
        Next::Event | Next::Done => None,
    };
    wake.map(|wake| wake.at).into_iter().chain(next).min()
}

/// A task's timer. A deadline that moves later, as the retransmission timeout does with each
/// acknowledgment, leaves it alone: it then wakes the task once too early.
pub(crate) struct Alarm {
    clock: Clock,
    timer: Pin<Box<Sleep>>,
    set_for: Option<Instant>,
    /// Made for the first short wait.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    exact: Option<Exact>,
}

impl Alarm {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            timer: Box::pin(sleep(Duration::ZERO)),
            set_for: None,
            #[cfg(any(target_os = "linux", target_os = "android"))]
            exact: None,
        }
    }

    /// Prepares the task to sleep until `at`.
    pub(crate) fn rest(&mut self, at: Option<Instant>, context: &mut Context<'_>) -> Rest {
        let Some(at) = at else {
            return Rest::Sleep;
        };
        let wait = at - self.clock.now();
        if wait.is_zero() {
            return Rest::Again;
        }
        if wait < SHORTEST_SLEEP {
            return self.rest_briefly(at, wait, context);
        }
        if self.set_for.is_none_or(|set_for| set_for > at) {
            self.timer.set(sleep(wait));
            self.set_for = Some(at);
        }
        if self.timer.as_mut().poll(context).is_pending() {
            return Rest::Sleep;
        }
        self.set_for = None;
        Rest::Again
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn rest_briefly(&mut self, at: Instant, wait: Duration, context: &mut Context<'_>) -> Rest {
        if self.exact.is_none() {
            self.exact = Exact::new().ok();
        }
        // A process without descriptors left yields.
        let exact = self.exact.as_mut();
        exact.map_or(Rest::Yield, |exact| exact.rest(at, wait, context))
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn rest_briefly(&mut self, _at: Instant, _wait: Duration, _: &mut Context<'_>) -> Rest {
        Rest::Yield
    }
}
