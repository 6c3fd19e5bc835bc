//! [`MinRtt`]: the round trip without queues, and when to measure it, draft-ietf-ccwg-bbr
//! "ProbeRTT Logic".

use core::time::Duration;

use tautline_base::Instant;

use super::params::Config;
use crate::controller::Ack;

/// A round trip, the time of its measurement or last confirmation, and the end of its validity.
#[derive(Clone, Copy, Debug)]
struct Measured {
    rtt: Duration,
    at: Instant,
    expires: Instant,
}

impl Measured {
    fn new(rtt: Duration, at: Instant, validity: Duration) -> Self {
        let expires = at + validity;
        Self { rtt, at, expires }
    }
}

/// Two filters: the lowest round trip since the last ProbeRTT, and since the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MinRtt {
    long: Option<Measured>,
    short: Option<Measured>,
}

impl MinRtt {
    /// The estimate; `None` before the first sample.
    pub(super) fn get(&self) -> Option<Duration> {
        self.long.map(|long| long.rtt)
    }

    /// Adds the sample of `ack`. True if ProbeRTT is due.
    pub(super) fn on_ack(&mut self, ack: &Ack, config: &Config) -> bool {
        let expired = self.short.is_some_and(|short| ack.now > short.expires);
        if let Some(rtt) = ack.rtt {
            // A delayed acknowledgment measures the receiver's delay too.
            if self
                .short
                .is_none_or(|short| rtt < short.rtt || (expired && !ack.delayed))
            {
                self.short = Some(Measured::new(rtt, ack.now, config.probe_rtt_interval));
            }
        }
        if let Some(short) = self.short
            && self
                .long
                .is_none_or(|long| short.rtt < long.rtt || ack.now > long.expires)
        {
            self.long = Some(Measured::new(short.rtt, short.at, config.min_rtt_window));
        }
        expired
    }

    /// ProbeRTT has ended; the next one is an interval away.
    pub(super) fn probed(&mut self, now: Instant, config: &Config) {
        if let Some(short) = &mut self.short {
            *short = Measured::new(short.rtt, now, config.probe_rtt_interval);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_base::Bytes;

    /// A longer path: ProbeRTT is due after five seconds, and after ten the estimate is what it
    /// measures.
    #[test]
    fn the_estimate_outlives_one_probe_but_not_its_window() {
        let (mut filter, config) = (MinRtt::default(), Config::default());
        for (at, millis, due, estimate) in [
            (1, 40, false, 40),
            (6, 60, false, 40),
            (7, 60, true, 40),
            (11, 60, false, 40),
            (12, 60, false, 60),
            (13, 50, true, 50),
        ] {
            let ack = Ack {
                rtt: Some(Duration::from_millis(millis)),
                ..Ack::new(Instant::from_secs(at), Bytes::ZERO, Bytes::ZERO)
            };
            assert_eq!(filter.on_ack(&ack, &config), due, "at {at} s");
            let estimate = Some(Duration::from_millis(estimate));
            assert_eq!(filter.get(), estimate, "at {at} s");
        }
    }
}
