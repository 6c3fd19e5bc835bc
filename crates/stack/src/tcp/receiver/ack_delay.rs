//! Delay of acknowledgments: about as long as the next segment takes to come (Linux's `ato`,
//! `tcp_event_data_recv`).
//!
//! On a path shorter than the least delay nothing changes. On a longer one, an acknowledgment
//! delayed in vain doubles the next delay, up to a round trip; arrivals in quick succession shorten
//! it again.

use std::time::Duration;

use tautline_base::Instant;

use crate::config::TcpConfig;
use crate::tcp::send::RttEstimator;
use crate::tcp::ticks::{elapsed, on_tick, rounded_down, rounded_up};

/// Bounds of the delay.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Bounds {
    /// Initial and least delay.
    pub(in crate::tcp) least: Duration,
    /// Largest delay, unless the least is larger.
    pub(in crate::tcp) most: Duration,
    /// Smoothed round trip; the delay is not longer, unless the least is.
    pub(in crate::tcp) srtt: Duration,
    /// Retransmission timeout: bounds the estimate, which is then cut to the other bounds.
    pub(in crate::tcp) rto: Duration,
    /// Length of a tick, with which timers end and in which times are counted; zero: none.
    pub(in crate::tcp) tick: Duration,
    /// Data after more than that, and the first, is acknowledged at once again; `None`: never.
    pub(in crate::tcp) silence: Option<Duration>,
}

impl Bounds {
    /// The bounds that `config` sets on a path with these round trips.
    pub(in crate::tcp) fn new(config: &TcpConfig, rtt: &RttEstimator) -> Self {
        let (least, most) = (config.delayed_ack, config.delayed_ack_max);
        let tick = config.timer_tick;
        let in_ticks = |time| rounded_up(time, tick);
        let silence = config.quick_acks_from_data.then(|| in_ticks(rtt.rto()));
        // Round trips do not matter to a fixed delay, and are not worth their computation.
        let rtt = Some(rtt).filter(|_| most > least);
        Self {
            least,
            most,
            srtt: rtt.map_or(Duration::ZERO, |rtt| in_ticks(rtt.srtt())),
            rto: rtt.map_or(Duration::ZERO, |rtt| in_ticks(rtt.rto())),
            tick,
            silence,
        }
    }

    /// When an acknowledgment leaves that may be delayed by `delay` from `now` on: then, or with the
    /// first tick after it. Both are cut to whole ticks before, as a count of jiffies is.
    #[inline]
    pub(in crate::tcp) fn deadline(&self, now: Instant, delay: Duration) -> Instant {
        on_tick(now, now + rounded_down(delay, self.tick), self.tick)
    }

    /// How long the acknowledgment of a segment that arrives at `now` may wait, if that is `delay`.
    #[inline]
    pub(in crate::tcp) fn wait(&self, now: Instant, delay: Duration) -> Wait {
        Wait {
            deadline: self.deadline(now, delay),
            soon: self.deadline(now, delay / 4),
        }
    }

    fn are_fixed(&self) -> bool {
        self.most <= self.least
    }
}

/// How long the acknowledgment of a segment may wait.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Wait {
    /// When it leaves at the latest.
    pub(in crate::tcp) deadline: Instant,
    /// An acknowledgment of earlier segments whose time comes by then leaves at once (Linux `tcp_send_delayed_ack`).
    pub(in crate::tcp) soon: Instant,
}

/// The delay of one receiver's acknowledgments.
#[derive(Debug, Default)]
pub(super) struct AckDelay {
    /// The last arrival and the delay after it; `None` before the first, or if the delay is fixed.
    /// Boxed, because few connections need it.
    arrival: Option<Box<(Instant, Duration)>>,
}

impl AckDelay {
    /// Adapts the delay to data that arrives at `now`.
    #[inline]
    pub(super) fn arrived(&mut self, now: Instant, bounds: Bounds) {
        if bounds.are_fixed() {
            return;
        }
        let half_of = |delay| rounded_down(delay / 2, bounds.tick);
        let half = half_of(bounds.least);
        match self.arrival.as_deref_mut() {
            None => self.arrival = Some(Box::new((now, bounds.least))),
            Some((last, delay)) => {
                *delay = match elapsed(*last, now, bounds.tick) {
                    gap if gap <= half => half_of(*delay) + half,
                    gap if gap < *delay => (half_of(*delay) + gap).min(bounds.rto),
                    _ => *delay,
                };
                *last = now;
            }
        }
    }

    /// Data has arrived within the delay.
    pub(super) fn is_recent(&self, bounds: Bounds, now: Instant) -> bool {
        self.arrival
            .as_deref()
            .is_some_and(|(last, delay)| elapsed(*last, now, bounds.tick) < *delay)
    }

    /// The least delay again: no answer came before the timer expired.
    pub(super) fn restart(&mut self, bounds: Bounds) {
        if let Some((_, delay)) = self.arrival.as_deref_mut() {
            *delay = bounds.least;
        }
    }

    /// Doubles the delay: no more data came before the timer expired.
    pub(super) fn expired(&mut self, bounds: Bounds) {
        if let Some((_, delay)) = self.arrival.as_deref_mut() {
            *delay = delay.saturating_mul(2).min(bounds.rto);
        }
    }

    /// Delay of the next acknowledgment.
    #[inline]
    pub(super) fn delay(&self, bounds: Bounds) -> Duration {
        if bounds.are_fixed() {
            return bounds.least;
        }
        let delay = self
            .arrival
            .as_deref()
            .map_or(bounds.least, |(_, delay)| *delay);
        delay.min(bounds.most.min(bounds.srtt)).max(bounds.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn bounds(srtt: Duration) -> Bounds {
        Bounds {
            least: ms(40),
            most: ms(200),
            srtt,
            rto: ms(400),
            tick: Duration::ZERO,
            silence: None,
        }
    }

    /// Linux with 100 jiffies a second: a delay of 40 ms lasts 40 to 50.
    #[test]
    fn a_timer_expires_with_the_first_tick_after_the_delay() {
        let on = Bounds {
            tick: ms(10),
            ..bounds(ms(300))
        };
        for (now, delay, deadline) in [
            (0, 40, 50),
            (1, 40, 50),
            (9, 40, 50),
            (10, 40, 60),
            (19, 49, 60),
        ] {
            let at = on.deadline(Instant::from_millis(now), ms(delay));
            assert_eq!(at, Instant::from_millis(deadline), "{delay} ms from {now}");
        }
        let exact = bounds(ms(300)).deadline(Instant::from_millis(19), ms(40));
        assert_eq!(exact, Instant::from_millis(59));
        on.deadline(Instant::from_nanos(u64::MAX), ms(40));
        let finest = Bounds {
            tick: Duration::from_nanos(1),
            ..on
        };
        let never = finest.deadline(Instant::from_secs(1), Duration::MAX);
        assert_eq!(never, Instant::from_nanos(u64::MAX));
    }

    /// Linux `tcp_event_data_recv`: starts at 40 ms; gaps up to 20 ms give delay/2 + 20 ms, gaps
    /// shorter than the delay delay/2 + gap.
    #[test]
    fn delays_of_the_spec() {
        let (mut delay, on, mut now) =
            (AckDelay::default(), bounds(ms(300)), Instant::from_secs(1));
        delay.arrived(now, on);
        assert_eq!(delay.delay(on), ms(40));
        for (gap, micros) in [
            (10, 40_000),
            (30, 50_000),
            (30, 55_000),
            (30, 57_500),
            (500, 57_500),
            (20, 48_750),
            (1, 44_375),
        ] {
            now += ms(gap);
            delay.arrived(now, on);
            assert_eq!(
                delay.delay(on),
                Duration::from_micros(micros),
                "after a gap of {gap} ms"
            );
        }
    }

    /// With 100 jiffies a second `ato` is 4, and then (4 >> 1) + 3, (5 >> 1) + 2 and, after a gap that is
    /// not shorter, the same.
    #[test]
    fn gaps_are_counted_in_ticks() {
        for (tick, delays) in [
            (0, [50_900, 45_450, 62_725]),
            (10, [50_000, 40_000, 40_000]),
        ] {
            let on = Bounds {
                tick: ms(tick),
                ..bounds(ms(300))
            };
            let (mut delay, mut now) = (AckDelay::default(), Instant::ZERO);
            delay.arrived(now, on);
            for (gap, micros) in [30_900, 20_000, 40_000].into_iter().zip(delays) {
                now += Duration::from_micros(gap);
                delay.arrived(now, on);
                let expected = Duration::from_micros(micros);
                assert_eq!(delay.delay(on), expected, "ticks of {tick} ms, {gap} us");
            }
        }
    }

    #[test]
    fn waits_in_vain_double_it_up_to_a_round_trip() {
        for (srtt, delays) in [
            (10, [40, 40, 40, 40]),
            (100, [80, 100, 100, 100]),
            (1000, [80, 160, 200, 200]),
        ] {
            let (mut delay, on) = (AckDelay::default(), bounds(ms(srtt)));
            delay.arrived(Instant::ZERO, on);
            let doubled = delays.map(|_| {
                delay.expired(on);
                delay.delay(on).as_millis() as u64
            });
            assert_eq!(doubled, delays, "srtt {srtt} ms");
        }
    }

    #[test]
    fn a_fixed_delay_stays_and_time_may_stand_still_or_step_back() {
        for least in [Duration::ZERO, ms(500)] {
            let on = Bounds {
                least,
                ..bounds(ms(1000))
            };
            let mut delay = AckDelay::default();
            for at in [1000, 1000, 3, u64::MAX / 1_000_000] {
                delay.arrived(Instant::from_millis(at), on);
                delay.expired(on);
                assert_eq!(delay.delay(on), least);
            }
        }
    }
}
