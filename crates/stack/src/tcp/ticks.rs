//! Timers that end with ticks of the clock, and times counted in ticks, as Linux's do (`calc_index`, `kernel/time/timer.c`).

use std::time::Duration;

use tautline_base::Instant;

/// When a timer expires that is set at `now` to `at`, with ticks of length `tick`: the time that it
/// runs is rounded up to ticks, as a count of jiffies is (Linux `usecs_to_jiffies`), and it ends with
/// the first tick after that (`calc_index`). With ticks of zero, at `at`.
#[inline]
pub(in crate::tcp) fn on_tick(now: Instant, at: Instant, tick: Duration) -> Instant {
    let tick = nanos(tick);
    if tick == 0 {
        return at;
    }
    let runs = jiffies(at - now, tick);
    let ticks = (now.as_nanos() / tick).saturating_add(runs);
    Instant::from_nanos(ticks.saturating_add(1).saturating_mul(tick))
}

/// Time from `since` to `now` as a count of ticks, as the difference of two readings of jiffies is. With ticks of zero, all
/// of it.
#[inline]
pub(in crate::tcp) fn elapsed(since: Instant, now: Instant, tick: Duration) -> Duration {
    let tick = nanos(tick);
    if tick == 0 {
        return now - since;
    }
    let ticks = (now.as_nanos() / tick).saturating_sub(since.as_nanos() / tick);
    Duration::from_nanos(ticks * tick)
}

/// `time` rounded up to ticks (Linux `usecs_to_jiffies`).
#[inline]
pub(in crate::tcp) fn rounded_up(time: Duration, tick: Duration) -> Duration {
    let tick = nanos(tick);
    if tick == 0 {
        return time;
    }
    Duration::from_nanos(jiffies(time, tick).saturating_mul(tick))
}

/// Ticks of `tick` ns in `time`, rounded up: Linux counts times in whole microseconds, so that 30 ticks and a few ns are 30.
fn jiffies(time: Duration, tick: u64) -> u64 {
    let unit = tick.min(1000);
    (nanos(time) / unit * unit).div_ceil(tick)
}

/// `time` cut to whole ticks, as a shift of a count of jiffies cuts it.
#[inline]
pub(in crate::tcp) fn rounded_down(time: Duration, tick: Duration) -> Duration {
    let tick = nanos(tick);
    if tick == 0 {
        return time;
    }
    Duration::from_nanos(nanos(time) / tick * tick)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With 100 ticks a second Linux sets a timer of 2.3 ms to one jiffy, and `calc_index` adds the
    /// one that has begun: it runs for 10 to 20 ms.
    #[test]
    fn a_timer_ends_with_the_tick_after_the_jiffies_that_it_runs() {
        let us = |us: u64| Instant::from_nanos(us * 1000);
        let tick = Duration::from_millis(10);
        for (now, at, expires) in [
            (30_000, 32_300, 50_000),
            (39_999, 42_299, 50_000),
            (40_000, 50_000, 60_000),
            (40_000, 50_001, 70_000),
            (41_000, 41_000, 50_000),
        ] {
            assert_eq!(on_tick(us(now), us(at), tick), us(expires), "{now} {at}");
        }
        assert_eq!(on_tick(us(5), us(7), Duration::ZERO), us(7));
        let last = Instant::from_nanos(u64::MAX);
        assert_eq!(on_tick(last, last, Duration::from_nanos(1)), last);
    }

    /// A gap of 300.3 ms that begins 0.5 ms after a tick is 30 jiffies; a timeout of 300.1 ms is 31.
    #[test]
    fn gaps_are_counted_in_ticks_and_timeouts_are_rounded_up() {
        let us = Duration::from_micros;
        let at = |us: u64| Instant::from_nanos(us * 1000);
        for (tick, gap, timeout) in [(10_000, 300_000, 310_000), (0, 300_300, 300_100)] {
            assert_eq!(elapsed(at(500), at(300_800), us(tick)), us(gap));
            assert_eq!(rounded_up(us(300_100), us(tick)), us(timeout));
        }
        assert_eq!(elapsed(at(9_999), at(10_000), us(10_000)), us(10_000));
        assert_eq!(elapsed(at(20_000), at(10_000), us(10_000)), us(0));
        for (time, whole) in [(44_999, 40_000), (40_000, 40_000), (9_999, 0)] {
            assert_eq!(rounded_down(us(time), us(10_000)), us(whole));
        }
        assert_eq!(rounded_down(us(7), Duration::ZERO), us(7));
        let beyond = Duration::new(18_446_744_073, 709_551_616);
        for tick in [beyond, Duration::MAX] {
            assert_eq!(elapsed(at(1), at(9), tick), Duration::ZERO);
            assert_eq!(rounded_down(us(9), tick), Duration::ZERO);
        }
        let ns = Duration::from_nanos;
        assert_eq!(rounded_up(ns(300_000_999), us(10_000)), us(300_000));
        assert_eq!(rounded_up(ns(u64::MAX), us(10_000)), ns(u64::MAX));
    }
}
