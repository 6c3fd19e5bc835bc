//! [`MinRtt`]: the round trip without queues, and when to measure it, draft-ietf-ccwg-bbr
//! "ProbeRTT Logic".
//!
//! A second, shorter filter schedules ProbeRTT. Without [`Config::probe_rtt_interval`] there is one filter, and
//! ProbeRTT begins when the lowest round trip expires.

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

/// The filters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MinRtt {
    lowest: Option<Measured>,
    /// The lowest since the last ProbeRTT, if that has a filter of its own.
    recent: Option<Measured>,
}

impl MinRtt {
    /// The estimate; `None` before the first sample.
    pub(super) fn get(&self) -> Option<Duration> {
        self.lowest.map(|lowest| lowest.rtt)
    }

    /// Whether the filter that schedules ProbeRTT has expired.
    pub(super) fn has_expired(&self, now: Instant) -> bool {
        let scheduling = self.recent.or(self.lowest);
        scheduling.is_some_and(|measured| now > measured.expires)
    }

    /// Adds the sample of `ack`; `expired`: what [`has_expired`](Self::has_expired) says of its time.
    pub(super) fn on_ack(&mut self, ack: &Ack, expired: bool, config: &Config) {
        // A delayed acknowledgment measures the receiver's delay too.
        let replaces = expired && !ack.delayed;
        let Some(interval) = config.probe_rtt_interval else {
            // A round trip as low as the lowest confirms it.
            if let Some(rtt) = ack.rtt
                && self
                    .lowest
                    .is_none_or(|lowest| rtt <= lowest.rtt || replaces)
            {
                self.lowest = Some(Measured::new(rtt, ack.now, config.min_rtt_window));
            }
            return;
        };
        if let Some(rtt) = ack.rtt
            && self
                .recent
                .is_none_or(|recent| rtt < recent.rtt || replaces)
        {
            self.recent = Some(Measured::new(rtt, ack.now, interval));
        }
        if let Some(recent) = self.recent
            && self
                .lowest
                .is_none_or(|lowest| recent.rtt < lowest.rtt || ack.now > lowest.expires)
        {
            self.lowest = Some(Measured::new(recent.rtt, recent.at, config.min_rtt_window));
        }
    }

    /// ProbeRTT has ended; the next one is an interval away.
    pub(super) fn probed(&mut self, now: Instant, config: &Config) {
        let (filter, validity) = match config.probe_rtt_interval {
            None => (&mut self.lowest, config.min_rtt_window),
            Some(interval) => (&mut self.recent, interval),
        };
        if let Some(measured) = filter {
            *measured = Measured::new(measured.rtt, now, validity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_base::Bytes;

    fn one_filter() -> Config {
        Config {
            probe_rtt_interval: None,
            ..Config::default()
        }
    }

    /// Adds samples of so many milliseconds at so many seconds: whether ProbeRTT is due, and the
    /// estimate afterwards.
    fn follow(filter: &mut MinRtt, config: &Config, samples: &[(u64, u64, bool, u64)]) {
        for &(at, millis, due, estimate) in samples {
            let ack = Ack {
                rtt: Some(Duration::from_millis(millis)),
                ..Ack::new(Instant::from_secs(at), Bytes::ZERO, Bytes::ZERO)
            };
            let expired = filter.has_expired(ack.now);
            assert_eq!(expired, due, "at {at} s");
            filter.on_ack(&ack, expired, config);
            let estimate = Some(Duration::from_millis(estimate));
            assert_eq!(filter.get(), estimate, "at {at} s");
        }
    }

    /// A longer path: ProbeRTT is due when the estimate is ten seconds old.
    #[test]
    fn the_estimate_lives_until_probe_rtt() {
        let (mut filter, config) = (MinRtt::default(), one_filter());
        let samples = [
            (1, 40, false, 40),
            (6, 40, false, 40),
            (16, 60, false, 40),
            (17, 60, true, 60),
            (18, 50, false, 50),
        ];
        follow(&mut filter, &config, &samples);
        filter.probed(Instant::from_secs(20), &config);
        follow(
            &mut filter,
            &config,
            &[(30, 60, false, 50), (31, 60, true, 60)],
        );
    }

    /// With a filter of its own, ProbeRTT is due after five seconds, and after ten the estimate is
    /// what it measures.
    #[test]
    fn the_estimate_outlives_one_probe_but_not_its_window() {
        let samples = [
            (1, 40, false, 40),
            (6, 60, false, 40),
            (7, 60, true, 40),
            (11, 60, false, 40),
            (12, 60, false, 60),
            (13, 50, true, 50),
        ];
        follow(&mut MinRtt::default(), &Config::default(), &samples);
    }

    #[test]
    fn a_delayed_acknowledgment_does_not_replace_the_estimate() {
        let (mut filter, config) = (MinRtt::default(), one_filter());
        follow(&mut filter, &config, &[(1, 40, false, 40)]);
        let ack = Ack {
            rtt: Some(Duration::from_millis(240)),
            delayed: true,
            ..Ack::new(Instant::from_secs(20), Bytes::ZERO, Bytes::ZERO)
        };
        filter.on_ack(&ack, true, &config);
        assert_eq!(filter.get(), Some(Duration::from_millis(40)));
    }
}
