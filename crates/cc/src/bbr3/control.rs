//! Pacing rate, send quantum and window from the model, draft-ietf-ccwg-bbr "Updating Control
//! Parameters".

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

    /// Follows the bandwidth, but only upwards until the pipe was full: samples may be low because
    /// too little was sent.
    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let rate =
            scale_rate(self.bandwidth.bw, gain * (1.0 - self.config.pacing_margin)).max(SLOWEST);
        if self.full_pipe.reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Size of a burst.
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

    /// Smallest window.
    pub(super) fn min_window(&self) -> Bytes {
        self.mss * self.config.min_pipe_segments
    }

    /// `inflight`, raised to the needs of segments, offloads and a probe.
    fn quantized(&self, inflight: Bytes) -> Bytes {
        let inflight = inflight
            .max(self.quantum() * self.config.offload_quanta)
            .max(self.min_window());
        if matches!(self.state, State::Up(_)) {
            inflight + self.mss * 2
        } else {
            inflight
        }
    }

    /// Bandwidth-delay product at `bw` times `gain`, raised to the needs of segments and offloads.
    pub(super) fn inflight(&self, bw: Rate, gain: f64) -> Bytes {
        self.quantized(self.bdp(bw, gain))
    }

    /// Largest flight of the model.
    fn max_inflight(&self) -> Bytes {
        let extra = bounded(
            self.aggregation.extra(),
            self.config
                .extra_acked_cap
                .map(|cap| self.bandwidth.bw * cap),
        );
        self.quantized(self.bdp(self.bandwidth.bw, self.state.cwnd_gain(&self.config)) + extra)
    }

    /// Moves the window towards the model: down at once, up by the acknowledged bytes.
    pub(super) fn set_cwnd(&mut self, ack: &Ack) {
        let max_inflight = self.max_inflight();
        if self.full_pipe.reached {
            self.cwnd = (self.cwnd + ack.acked).min(max_inflight);
        } else if self.cwnd < max_inflight || ack.delivered < self.initial_window {
            self.cwnd += ack.acked;
        }
        self.cwnd = self.cwnd.max(self.min_window());
        if matches!(self.state, State::ProbeRtt(_)) {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        let bound = tighter(self.longterm_bound(), self.bounds.shortterm.inflight);
        self.set_cwnd_within(bounded(
            self.cwnd,
            bound.map(|bound| bound.max(self.min_window())),
        ));
    }

    pub(super) fn set_cwnd_within(&mut self, cwnd: Bytes) {
        self.cwnd = cwnd.clamp(self.mss, self.mss * LARGEST);
    }

    /// Long-term bound in the present state.
    fn longterm_bound(&self) -> Option<Bytes> {
        match self.state {
            State::Cruise(_) | State::ProbeRtt(_) => self.longterm_with_headroom(),
            State::Down(_) | State::Refill | State::Up(_) => self.bounds.longterm,
            State::Startup | State::Drain { .. } => None,
        }
    }

    pub(super) fn longterm_with_headroom(&self) -> Option<Bytes> {
        self.bounds
            .longterm
            .map(|longterm| with_headroom(longterm, self.mss, self.min_window(), &self.config))
    }

    /// Target flight: the bandwidth-delay product, unless congestion has cut the window.
    pub(super) fn target_inflight(&self) -> Bytes {
        self.bdp(self.bandwidth.bw, 1.0).min(self.cwnd)
    }

    /// Bandwidth-delay product at `bw`, times `gain`.
    pub(super) fn bdp(&self, bw: Rate, gain: f64) -> Bytes {
        self.min_rtt
            .get()
            .map_or(self.initial_window, |min_rtt| scale(bw * min_rtt, gain))
    }

    /// The part of `in_flight` that is in the network.
    pub(super) fn in_network(&self, ack: &Ack, in_flight: Bytes) -> Bytes {
        if self.config.undeparted_counts {
            return in_flight;
        }
        in_flight.saturating_sub(self.bandwidth.bw * (ack.next_departure - ack.now))
    }
}
