//! [`MinRtt`]: the round trip without queues.

use core::time::Duration;

use tautline_base::Instant;

use super::ticks::past;
use crate::controller::Ack;

/// The lowest round trip time within the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt {
    window: Duration,
    /// One tick of the clock that counts the window.
    tick: Duration,
    /// The RTT and when it was measured.
    lowest: Option<(Duration, Instant)>,
}

impl MinRtt {
    pub(super) fn new(window: Duration, tick: Duration) -> Self {
        Self {
            window,
            tick,
            lowest: None,
        }
    }

    pub(super) fn get(&self) -> Option<Duration> {
        self.lowest.map(|(rtt, _)| rtt)
    }

    /// Adds the sample of `ack`. True if the lowest RTT had expired, which starts PROBE_RTT.
    pub(super) fn on_ack(&mut self, ack: &Ack) -> bool {
        let expired = self
            .lowest
            .is_some_and(|(_, at)| ack.now >= past(at, self.window, self.tick));
        let Some(rtt) = ack.rtt else { return expired };
        match self.lowest {
            // A controller that takes over a connection starts with its lowest RTT. DIVERGES: Linux dates it from then
            // (`bbr_init`), here it dates from the departure of the first segment that is measured.
            None if ack.min_rtt < rtt && !ack.min_rtt.is_zero() => {
                self.lowest = Some((ack.min_rtt, ack.now - rtt));
            }
            None => self.lowest = Some((rtt, ack.now)),
            // The kernel compares microseconds.
            Some((lowest, _))
                if rtt.as_micros() < lowest.as_micros() || (expired && !ack.delayed) =>
            {
                self.lowest = Some((rtt, ack.now));
            }
            Some(_) => {}
        }
        expired
    }

    /// PROBE_RTT has measured the path: the estimate is fresh.
    pub(super) fn renew(&mut self, now: Instant) {
        if let Some((_, at)) = &mut self.lowest {
            *at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_base::Bytes;

    fn ack(now: Instant, rtt: Duration, min_rtt: Duration) -> Ack {
        Ack {
            rtt: Some(rtt),
            min_rtt,
            ..Ack::new(now, Bytes::ZERO, Bytes::ZERO)
        }
    }

    /// `bbr_init`: the handshake's round trip is 20 ms, the first segment leaves at 1.01 s and takes 30 ms.
    #[test]
    fn the_lowest_before_the_first_segment_expires_in_ticks_from_there() {
        let (ms, at) = (Duration::from_millis, Instant::from_millis);
        let mut filter = MinRtt::new(Duration::from_secs(10), ms(10));
        filter.on_ack(&ack(at(1040), ms(30), ms(20)));
        assert_eq!(filter.get(), Some(ms(20)));
        assert!(!filter.on_ack(&ack(at(11_019), ms(30), ms(20))));
        assert!(filter.on_ack(&ack(at(11_020), ms(30), ms(20))));
    }

    #[test]
    fn samples_are_compared_in_whole_microseconds() {
        let (ns, at) = (Duration::from_nanos, Instant::from_secs);
        let mut filter = MinRtt::new(Duration::from_secs(10), Duration::ZERO);
        for (second, sample, lowest) in [
            (1, 20_900, 20_900),
            (9, 20_100, 20_900),
            (10, 20_000, 20_900),
            (11, 19_999, 19_999),
        ] {
            assert!(!filter.on_ack(&ack(at(second), ns(sample), ns(sample))));
            assert_eq!(filter.get(), Some(ns(lowest)));
        }
    }

    /// `bbr_update_min_rtt`: only a lower sample renews the estimate before it expires.
    #[test]
    fn an_equal_sample_does_not_renew_the_estimate() {
        let mut filter = MinRtt::new(Duration::from_secs(10), Duration::from_millis(1));
        let mut sample = |seconds, millis| {
            let rtt = Duration::from_millis(millis);
            let ack = ack(Instant::from_secs(seconds), rtt, rtt);
            (filter.on_ack(&ack), filter.get())
        };
        for (at, millis, expired, lowest) in [
            (1, 40, false, 40),
            (9, 40, false, 40),
            (11, 41, false, 40),
            (12, 41, true, 41),
            (20, 40, false, 40),
            (30, 50, false, 40),
        ] {
            let lowest = Some(Duration::from_millis(lowest));
            assert_eq!(sample(at, millis), (expired, lowest), "at {at} s");
        }
    }
}
