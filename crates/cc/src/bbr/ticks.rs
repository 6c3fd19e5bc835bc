//! Times counted in ticks of a clock, as Linux counts them in jiffies.

use core::time::Duration;

use tautline_base::Instant;

/// First time at which more than `time` has passed since `from`, both counted in ticks of `tick` (Linux `after(tcp_jiffies32,
/// from + time)`); zero counts as a nanosecond.
pub(super) fn past(from: Instant, time: Duration, tick: Duration) -> Instant {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let tick = nanos(tick).max(1);
    let ticks = (from.as_nanos() / tick).saturating_add(nanos(time).div_ceil(tick));
    Instant::from_nanos(ticks.saturating_add(1).saturating_mul(tick))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_passed_with_the_tick_after_it() {
        let at = Instant::from_micros;
        let ms = Duration::from_millis;
        for (from, time, tick, expected) in [
            (5_000, 200, 10, 210_000),
            (9_999, 200, 10, 210_000),
            (10_000, 200, 10, 220_000),
            (10_000, 201, 10, 230_000),
            (10_500, 200, 1, 211_000),
        ] {
            assert_eq!(past(at(from), ms(time), ms(tick)), at(expected));
        }
        let exact = past(at(5), ms(1), Duration::ZERO);
        assert_eq!(exact, at(1005) + Duration::from_nanos(1));
        past(Instant::from_nanos(u64::MAX), Duration::MAX, ms(10));
    }
}
