//! [`MinRtt`]: the round trip without queues.

use core::time::Duration;

use tautline_base::Instant;

use crate::controller::Ack;

/// The lowest round trip time within the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt {
    window: Duration,
    /// The RTT and when it was measured.
    lowest: Option<(Duration, Instant)>,
}

impl MinRtt {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            window,
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
            .is_some_and(|(_, at)| ack.now - at > self.window);
        let Some(rtt) = ack.rtt else { return expired };
        match self.lowest {
            // A controller that takes over a connection starts with its lowest RTT.
            None if ack.min_rtt.is_zero() => self.lowest = Some((rtt, ack.now)),
            None => self.lowest = Some((rtt.min(ack.min_rtt), ack.now)),
            Some((lowest, _)) if rtt < lowest || (expired && !ack.delayed) => {
                self.lowest = Some((rtt, ack.now))
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

    /// `bbr_update_min_rtt`: only a lower sample renews the estimate before it expires.
    #[test]
    fn an_equal_sample_does_not_renew_the_estimate() {
        let mut filter = MinRtt::new(Duration::from_secs(10));
        let mut sample = |seconds, millis| {
            let ack = Ack {
                rtt: Some(Duration::from_millis(millis)),
                ..Ack::new(Instant::from_secs(seconds), Bytes::ZERO, Bytes::ZERO)
            };
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
