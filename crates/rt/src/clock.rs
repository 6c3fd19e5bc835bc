//! [`Clock`]: the monotonic clock as [`Instant`]s, for hosts that live in real time.

use std::time::Duration;

use tautline_base::Instant;

/// The system's monotonic clock. Copies agree on the time, so devices and hosts of one process can
/// share one.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: std::time::Instant,
}

/// Initial time: [`Instant::ZERO`] means "any time" and must stay in the past.
const FIRST: Duration = Duration::from_secs(1);

impl Clock {
    /// A clock that starts now.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where real time enters"
    )]
    pub fn start() -> Self {
        Self {
            origin: std::time::Instant::now(),
        }
    }

    /// The time.
    pub fn now(&self) -> Instant {
        Instant::ZERO + FIRST + self.origin.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_agree_and_time_does_not_run_backwards() {
        let clock = Clock::start();
        let copy = clock;
        let first = clock.now();
        let second = copy.now();
        assert!(second >= first && second - first < Duration::from_secs(1));
        assert!(first >= Instant::ZERO + FIRST);
    }
}
