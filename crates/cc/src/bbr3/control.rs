//! What the model comes to: pacing rate, send quantum, window, draft-ietf-ccwg-bbr "Updating
//! Control Parameters".

use core::time::Duration;

use tautline_base::{Bytes, Rate};

use super::bounds::{bounded, tighter, with_headroom};
use super::{Bbr3, State, scale, scale_rate};
use crate::controller::Ack;
use crate::pacing::{SLOWEST, burst};
use crate::window::LARGEST;

impl Bbr3 {
    /// The rate of a new connection: the initial window in a round trip, times the gain of Startup.
    pub(super) fn initial_rate(&self, rtt: Duration) -> Rate {
        scale_rate(
            Rate::from_amount(self.initial_window, rtt),
            self.config.startup_pacing_gain,
        )
        .max(SLOWEST)
    }

    /// Follows the bandwidth, but only upwards until the pipe was full: samples may be low for
    /// other reasons.
    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let rate = scale_rate(self.bw, gain * (1.0 - self.config.pacing_margin)).max(SLOWEST);
        if self.full_pipe.reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// How much leaves back to back.
    pub(super) fn quantum(&self) -> Bytes {
        let quantum = burst(self.pacing_rate, self.mss);
        match self.min_rtt.get() {
            Some(rtt) if self.config.burst_by_rtt => {
                let halvings = u32::try_from(rtt.as_micros() / 512).unwrap_or(u32::MAX);
                let near = Bytes::new(Bytes::kib(64).get().checked_shr(halvings).unwrap_or(0));
                (quantum + near).min(Bytes::kib(64)).max(self.mss * 2)
            }
            _ => quantum,
        }
    }

    /// The least window.
    pub(super) fn least(&self) -> Bytes {
        self.mss * self.config.min_pipe_segments.clamp(1, LARGEST)
    }

    /// `inflight`, raised to what segments, offloads and a probe need.
    fn quantised(&self, inflight: Bytes) -> Bytes {
        let inflight = inflight
            .max(self.quantum() * self.config.offload_quanta)
            .max(self.least());
        if matches!(self.state, State::Up(_)) {
            inflight + self.mss * 2
        } else {
            inflight
        }
    }

    /// What the path holds at `bw`, times `gain`, with what segments and offloads need.
    pub(super) fn inflight(&self, bw: Rate, gain: f64) -> Bytes {
        self.quantised(self.bdp_at(bw, gain))
    }

    /// What may be in flight by the model.
    fn max_inflight(&self) -> Bytes {
        let extra = bounded(
            self.aggregation.extra(),
            self.config.extra_acked_cap.map(|cap| self.bw * cap),
        );
        self.quantised(self.bdp(self.state.cwnd_gain(&self.config)) + extra)
    }

    /// Steers the window towards what the model allows: down at once, up by what is acknowledged.
    pub(super) fn set_cwnd(&mut self, ack: &Ack) {
        let max_inflight = self.max_inflight();
        if self.full_pipe.reached {
            self.cwnd = (self.cwnd + ack.acked).min(max_inflight);
        } else if self.cwnd < max_inflight || ack.delivered < self.initial_window {
            self.cwnd += ack.acked;
        }
        self.cwnd = self.cwnd.max(self.least());
        if matches!(self.state, State::ProbeRtt(_)) {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        let bound = tighter(self.longterm_bound(), self.shortterm.inflight);
        self.set_cwnd_within(bounded(
            self.cwnd,
            bound.map(|bound| bound.max(self.least())),
        ));
    }

    pub(super) fn set_cwnd_within(&mut self, cwnd: Bytes) {
        self.cwnd = cwnd.clamp(self.mss, self.mss * LARGEST);
    }

    /// What the long-term bound means in the present state.
    fn longterm_bound(&self) -> Option<Bytes> {
        match self.state {
            State::Cruise(_) | State::ProbeRtt(_) => self.longterm_with_headroom(),
            State::Down(_) | State::Refill | State::Up(_) => self.longterm,
            State::Startup | State::Drain { .. } => None,
        }
    }

    pub(super) fn longterm_with_headroom(&self) -> Option<Bytes> {
        self.longterm
            .map(|longterm| with_headroom(longterm, self.mss, self.least(), &self.config))
    }

    /// What the sender wants in flight: what the path holds, unless congestion has cut the window.
    pub(super) fn target_inflight(&self) -> Bytes {
        self.bdp(1.0).min(self.cwnd)
    }

    /// The bandwidth-delay product times `gain`.
    pub(super) fn bdp(&self, gain: f64) -> Bytes {
        self.bdp_at(self.bw, gain)
    }

    fn bdp_at(&self, bw: Rate, gain: f64) -> Bytes {
        self.min_rtt
            .get()
            .map_or(self.initial_window, |min_rtt| scale(bw * min_rtt, gain))
    }

    /// Of `in_flight`, what is in the network.
    pub(super) fn in_network(&self, ack: &Ack, in_flight: Bytes) -> Bytes {
        if self.config.undeparted_counts {
            return in_flight;
        }
        in_flight.saturating_sub(self.bw * (ack.next_departure - ack.now))
    }
}
