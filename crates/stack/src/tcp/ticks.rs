//! Timers that end with ticks of the clock, as Linux's do (`calc_index`, `kernel/time/timer.c`).

use std::time::Duration;

use tautline_base::Instant;

/// When a timer expires that is set at `now` to `at`, with ticks of length `tick`: the time that it
/// runs is rounded up to ticks, as a count of jiffies is (Linux `usecs_to_jiffies`), and it ends with
/// the first tick after that (`calc_index`). With ticks of zero, at `at`.
#[inline]
pub(in crate::tcp) fn on_tick(now: Instant, at: Instant, tick: Duration) -> Instant {
    let tick = tick.as_nanos() as u64;
    if tick == 0 {
        return at;
    }
    let runs = ((at - now).as_nanos() as u64).div_ceil(tick);
    let ticks = (now.as_nanos() / tick).saturating_add(runs);
    Instant::from_nanos(ticks.saturating_add(1).saturating_mul(tick))
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
}
