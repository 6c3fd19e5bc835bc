//! [`Wake`]: the answer of a poll. When to call again at the latest, and why.

use crate::time::Instant;

/// When a component must be polled again at the latest, and what for. Polling earlier is always
/// allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wake {
    /// The latest useful moment; in the past means "at once".
    pub at: Instant,
    /// Which mechanism asked.
    pub why: Reason,
}

impl Wake {
    /// A wake at `at` because of `why`.
    pub const fn new(at: Instant, why: Reason) -> Self {
        Self { at, why }
    }
}

/// The mechanism behind a [`Wake`]. Counting wakes by reason makes spinning and stalls visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The poll stopped at its budget and has more to do now.
    Budget,
    /// Packets are in the device; look for completions.
    Reap,
    /// A paced connection's next departure.
    Pacing,
    /// The queueing discipline has a packet, or will have one then.
    Qdisc,
    /// A timer of a connection: retransmission, tail probe, reordering, delayed acknowledgement,
    /// zero window, keepalive, closing.
    Timer,
    /// A connection leaves TIME-WAIT.
    Close,
    /// A connection on which nothing arrives any more gives memory back.
    Idle,
    /// An unanswered address resolution is asked again.
    Neighbour,
    /// A link or another part of a simulated network has an event.
    Link,
    /// The application asked to be called.
    Application,
}
