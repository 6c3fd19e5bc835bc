//! [`ProbeRtt`]: a pause that drains the queue, to measure the round trip without it.

use core::time::Duration;

use tautline_base::Instant;

use super::ticks::past;

/// Progress of the pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeRtt {
    /// More than the smallest window is still in flight.
    Draining,
    /// The smallest window is held for a while and a round trip.
    Holding { until: Instant, round_ended: bool },
}

impl ProbeRtt {
    /// The flight has shrunk to the smallest window, which is held for more than `duration`, in ticks of `tick`.
    pub(super) fn drained(now: Instant, duration: Duration, tick: Duration) -> Self {
        Self::Holding {
            until: past(now, duration, tick),
            round_ended: false,
        }
    }

    /// A round trip has ended.
    pub(super) fn on_round(&mut self) {
        if let Self::Holding { round_ended, .. } = self {
            *round_ended = true;
        }
    }

    /// The window was held long enough, and for a round trip.
    pub(super) fn is_over(self, now: Instant) -> bool {
        matches!(
            self,
            Self::Holding {
                round_ended: true,
                ..
            }
        ) && self.time_is_over(now)
    }

    /// The window was held long enough.
    pub(super) fn time_is_over(self, now: Instant) -> bool {
        matches!(self, Self::Holding { until, .. } if now >= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tcp_jiffies32` in `bbr_update_min_rtt`.
    #[test]
    fn the_time_is_counted_in_ticks() {
        let (at, ms) = (Instant::from_millis, Duration::from_millis);
        let probe = ProbeRtt::drained(at(1005), ms(200), ms(10));
        let over = [1209, 1210].map(|now| probe.time_is_over(at(now)));
        assert_eq!(over, [false, true]);
    }

    #[test]
    fn it_holds_for_the_time_and_a_round_trip() {
        let (begin, time) = (Instant::from_secs(1), Duration::from_millis(200));
        let late = begin + time + Duration::from_nanos(1);
        let mut probe = ProbeRtt::Draining;
        probe.on_round();
        assert!(!probe.time_is_over(late) && !probe.is_over(late));
        probe = ProbeRtt::drained(begin, time, Duration::ZERO);
        assert!(!probe.time_is_over(begin + time));
        assert!(
            probe.time_is_over(late) && !probe.is_over(late),
            "no round trip yet"
        );
        probe.on_round();
        assert!(probe.is_over(late) && !probe.is_over(begin + time));
    }
}
