//! ProbeRTT: keeps the flight small for a moment, to measure the round trip without the sender's own
//! queue, draft-ietf-ccwg-bbr "ProbeRTT".

use tautline_base::{Bytes, Instant};

use super::bounds::bounded;
use super::{Bbr3, State};
use crate::controller::Ack;
use crate::sampler::RateSample;

/// Progress of ProbeRTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeRtt {
    /// The flight is still too large.
    Draining,
    /// The flight is kept small until a time, and for a round.
    Holding { until: Instant, round_done: bool },
}

/// The data sent during ProbeRTT, by the total delivered at its transmission. Its samples say
/// nothing about the bandwidth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Throttled {
    from: Bytes,
    to: Bytes,
}

impl Throttled {
    /// Marks `sample` as app-limited if ProbeRTT limited it.
    pub(super) fn mark(self, sample: RateSample) -> RateSample {
        let throttled = (self.from..=self.to).contains(&sample.prior_delivered);
        RateSample {
            app_limited: sample.app_limited || throttled,
            ..sample
        }
    }
}

impl Bbr3 {
    /// Enters ProbeRTT if it is `due`, advances it, and leaves it.
    pub(super) fn check_probe_rtt(&mut self, ack: &Ack, due: bool) {
        if due && !self.idle_restart && !matches!(self.state, State::ProbeRtt(_)) {
            self.save_cwnd();
            self.state = State::ProbeRtt(ProbeRtt::Draining);
            self.bandwidth.throttled = Some(Throttled {
                from: ack.delivered,
                to: ack.delivered,
            });
            self.stop_probing();
        }
        if let State::ProbeRtt(probe) = self.state {
            self.hold_flight_small(probe, ack);
        }
        if ack.acked > Bytes::ZERO {
            self.idle_restart = false;
        }
    }

    fn hold_flight_small(&mut self, probe: ProbeRtt, ack: &Ack) {
        if let Some(throttled) = &mut self.bandwidth.throttled {
            throttled.to = ack.delivered + ack.in_flight;
        }
        match probe {
            ProbeRtt::Draining if ack.in_flight <= self.probe_rtt_cwnd() => {
                let until = ack.now + self.config.probe_rtt_duration;
                self.state = State::ProbeRtt(ProbeRtt::Holding {
                    until,
                    round_done: false,
                });
                self.rounds.restart(ack.delivered);
            }
            ProbeRtt::Draining => {}
            ProbeRtt::Holding { until, round_done } => {
                let round_done = round_done || self.rounds.started;
                self.state = State::ProbeRtt(ProbeRtt::Holding { until, round_done });
                if round_done {
                    self.check_probe_rtt_done(ack.now);
                }
            }
        }
    }

    /// Leaves ProbeRTT if the flight was small for long enough. A connection that went idle in it
    /// does not wait for a round.
    pub(super) fn check_probe_rtt_done(&mut self, now: Instant) {
        let State::ProbeRtt(ProbeRtt::Holding { until, .. }) = self.state else {
            return;
        };
        if now > until {
            self.min_rtt.probed(now, &self.config);
            self.restore_cwnd();
            // Losses during ProbeRTT do not justify staying slow, and the queue is drained already.
            self.bounds.shortterm = Default::default();
            if self.full_pipe.reached {
                let wait = self.start_down(now);
                self.enter_cruise(wait);
            } else {
                self.state = State::Startup;
            }
        }
    }

    /// The window in ProbeRTT. The round trip that replaced the expired one may be inflated by the
    /// very queue that ProbeRTT shall drain.
    pub(super) fn probe_rtt_cwnd(&self) -> Bytes {
        let gain = self.config.probe_rtt_cwnd_gain;
        bounded(self.bdp(self.bandwidth.bw, gain), self.remembered).max(self.min_window())
    }
}

/// Adds the round trip of `ack` to the model of `bbr`. True if ProbeRTT is due.
pub(super) fn measure_rtt(bbr: &mut Bbr3, ack: &Ack) -> bool {
    let config = &bbr.config;
    let expired = bbr.min_rtt.has_expired(ack.now);
    if expired && config.probe_rtt_interval.is_none() {
        bbr.remembered = Some(bbr.bdp(bbr.bandwidth.bw, config.probe_rtt_cwnd_gain));
    }
    bbr.min_rtt.on_ack(ack, expired, config);
    expired
}
