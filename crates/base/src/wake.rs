//! [`Wake`]: the result of a poll, the time and the reason of the next one.

use crate::time::Instant;

/// The time at which a component must be polled again at the latest, and why. Polling earlier is
/// always allowed.
///
/// ```
/// use tautline_base::{Instant, Reason, Wake};
///
/// let timer = Wake::new(Instant::from_millis(200), Reason::Timer);
/// let pacer = Wake::new(Instant::from_millis(3), Reason::Pacing);
/// assert_eq!(timer.min(pacer).why, Reason::Pacing); // sleep until the earliest
/// ```
#[must_use = "poll again at the wake"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wake {
    /// The latest time of the next poll; in the past: at once.
    pub at: Instant,
    /// The mechanism that needs it.
    pub why: Reason,
}

impl Wake {
    /// A wake at `at` because of `why`.
    pub const fn new(at: Instant, why: Reason) -> Self {
        Self { at, why }
    }
}

/// The mechanism behind a [`Wake`]. Wakes counted by reason reveal spinning and stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The poll stopped at its budget and has more to do now.
    Budget,
    /// Packets are in the device; poll for completions.
    Reap,
    /// The next departure of a paced connection.
    Pacing,
    /// The queueing discipline has a packet at that time.
    Qdisc,
    /// A timer of a connection: retransmission, tail probe, reordering, delayed acknowledgment, zero
    /// window, keepalive, closing.
    Timer,
    /// A connection leaves TIME-WAIT.
    Close,
    /// An idle connection frees buffers.
    Idle,
    /// An unanswered address resolution is retried.
    Neighbor,
    /// A link or another part of a simulated network has an event.
    Link,
    /// A timer of the application.
    Application,
}
