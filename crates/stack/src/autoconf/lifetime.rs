//! [`Until`]: the end of a lifetime in seconds, of which the largest means without end (RFC 4861
//! §4.6.2).

use std::time::Duration;

use tautline_base::Instant;

/// The end of a lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Until {
    At(Instant),
    Forever,
}

impl Until {
    /// The end of `seconds` from `now`.
    pub(crate) fn seconds_from(seconds: u32, now: Instant) -> Self {
        if seconds == u32::MAX {
            Self::Forever
        } else {
            Self::At(now + Duration::from_secs(seconds.into()))
        }
    }

    /// Whether it is over at `now`.
    pub(crate) fn is_over(self, now: Instant) -> bool {
        self.at().is_some_and(|at| at <= now)
    }

    /// The time at which it ends.
    pub(crate) fn at(self) -> Option<Instant> {
        match self {
            Self::At(at) => Some(at),
            Self::Forever => None,
        }
    }
}
