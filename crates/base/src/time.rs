//! [`Instant`]: nanoseconds since an epoch that the caller chooses; [`CallerClock`]: what a caller has
//! shown of its clock.
//!
//! Only `rt` and `xdp-io` read a clock; all other crates get `now` as an argument, so the same code
//! runs in virtual time.

use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// A point in time: nanoseconds since an arbitrary epoch (584 years fit, but for the last nanosecond).
///
/// Arithmetic saturates: a clock that steps back yields zero durations, never a panic or a wrap.
///
/// With `std`, a clock is the time since a start, from any time after [`ZERO`](Self::ZERO) on, which
/// also means "at once"; `tautline-rt` has one (`Clock`):
///
/// ```
/// use std::time::Duration;
/// use tautline_base::Instant;
///
/// let start = std::time::Instant::now();
/// let now = || Instant::from_secs(1) + start.elapsed();
/// let deadline = now() + Duration::from_millis(5);
/// let wait: Duration = deadline - now(); // zero if it has passed
/// # assert!(wait <= Duration::from_millis(5));
/// ```
///
/// `Option<Instant>` takes eight bytes, too: a connection has a dozen of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    /// Nanoseconds since the epoch, and one.
    after: NonZeroU64,
}

impl Instant {
    /// The epoch; as a departure time, immediately.
    pub const ZERO: Self = Self {
        after: NonZeroU64::MIN,
    };

    /// The point `nanos` nanoseconds after the epoch.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self::ZERO.after_nanos(nanos)
    }

    /// The point `micros` microseconds after the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self::from_nanos(micros * 1_000)
    }

    /// The point `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self::from_nanos(millis * 1_000_000)
    }

    /// The point `secs` seconds after the epoch.
    pub const fn from_secs(secs: u64) -> Self {
        Self::from_nanos(secs * 1_000_000_000)
    }

    /// Nanoseconds since the epoch.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.after.get() - 1
    }

    /// Whole microseconds since the epoch.
    pub const fn as_micros(self) -> u64 {
        self.as_nanos() / 1_000
    }

    /// Whole milliseconds since the epoch.
    pub const fn as_millis(self) -> u64 {
        self.as_nanos() / 1_000_000
    }

    /// The point `nanos` nanoseconds later, saturating; cheaper than adding a [`Duration`].
    #[inline]
    #[must_use]
    pub const fn after_nanos(self, nanos: u64) -> Self {
        Self {
            after: self.after.saturating_add(nanos),
        }
    }

    /// Nanoseconds since `earlier`; zero if `earlier` is later.
    #[inline]
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.after.get().saturating_sub(earlier.after.get())
    }

    /// Seconds since the epoch, for printing and plotting.
    pub fn as_secs_f64(self) -> f64 {
        self.as_nanos() as f64 / 1e9
    }
}

/// The clock of a caller, as seen by what it calls with `now`.
///
/// A shaper must not stay closed for as long as the clock has stepped back, so it moves its own times back.
/// But each time it does so, what flows into its bucket until the clock is where it was is a present. Callers
/// on several threads read the clock before they take their turns, and give times that lie microseconds
/// apart in either order: with each a present, the rate would be exceeded. So steps of less than a second
/// do not count.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallerClock {
    latest: Instant,
}

impl CallerClock {
    /// Steps back that do not count: up to this one, it is as if the clock stood.
    pub const JITTER: Duration = Duration::from_secs(1);

    /// Notes the time, and returns how far the clock has stepped back if that counts.
    #[inline]
    pub fn step_back(&mut self, now: Instant) -> Option<Duration> {
        let step = self.latest - now;
        if step > Self::JITTER {
            self.latest = now;
            return Some(step);
        }
        self.latest = self.latest.max(now);
        None
    }

    /// The latest time since the last step that counts.
    #[inline]
    pub fn latest(&self) -> Instant {
        self.latest
    }
}

/// A [`Duration`] in nanoseconds, saturating at `u64::MAX` (584 years).
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        self.after_nanos(nanos(duration))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        let after = self.after.get().saturating_sub(nanos(duration));
        NonZeroU64::new(after).map_or(Self::ZERO, |after| Self { after })
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// The time since `earlier`; zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.as_nanos();
        write!(f, "{}.{:09}s", nanos / 1_000_000_000, nanos % 1_000_000_000)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Instant").field(&self.as_nanos()).finish()
    }
}

impl Default for Instant {
    fn default() -> Self {
        Self::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_steps_back_gives_zero() {
        assert_eq!(
            Instant::from_millis(1) - Instant::from_millis(2),
            Duration::ZERO
        );
        assert_eq!(
            Instant::from_millis(1) - Duration::from_secs(1),
            Instant::ZERO
        );
    }

    #[test]
    fn a_clock_steps_back_by_more_than_a_second_or_not_at_all() {
        let mut clock = CallerClock::default();
        let second = Instant::from_secs;
        assert_eq!(clock.step_back(second(100)), None);
        // Two small steps are one large one.
        assert_eq!(clock.step_back(Instant::from_millis(99_400)), None);
        assert_eq!(clock.latest(), second(100));
        let step = clock.step_back(Instant::from_millis(98_800));
        assert_eq!(step, Some(Duration::from_millis(1200)));
        assert_eq!(clock.latest(), Instant::from_millis(98_800));
        assert_eq!(clock.step_back(second(200)), None);
    }

    #[test]
    fn the_far_future_saturates() {
        assert_eq!(
            Instant::from_secs(1) + Duration::MAX,
            Instant::from_nanos(u64::MAX)
        );
    }
}
