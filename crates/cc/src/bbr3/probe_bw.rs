//! ProbeBW: the cycle of probing for bandwidth, and the evaluation of its acknowledgments,
//! draft-ietf-ccwg-bbr "ProbeBW".

mod cruise;
mod down;
mod refill;
pub(super) mod up;
pub(super) mod wait;

use super::{Bbr3, State};
use crate::controller::Ack;

/// Part of a probe that the present acknowledgments cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Feedback {
    /// None.
    #[default]
    None,
    /// A probe is being prepared.
    Refilling,
    /// It has begun, but the acknowledged data was sent before.
    Starting,
    /// The probe itself.
    Probe,
    /// It is over, but the acknowledged data was sent in it.
    Stopping,
}

/// State of the present probe and the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    pub(super) feedback: Feedback,
    /// A loss of segments sent in the probe sets the long-term bound, once per probe.
    pub(super) sampling: bool,
    /// The latest probe lost too much.
    pub(super) too_high: bool,
    /// The latest probe stopped at the bound, because the one before had lost too much.
    pub(super) precautionary: bool,
}

impl Bbr3 {
    /// Advances the cycle.
    pub(super) fn update_probe_bw(&mut self, ack: &Ack) {
        if !self.full_pipe.reached || self.adapt_long_term(ack) {
            return;
        }
        match self.state {
            State::Down(wait) => self.down(wait, ack),
            State::Cruise(wait) => self.cruise(wait, ack),
            State::Refill => self.refill(ack),
            State::Up(_) => self.up(ack),
            State::Startup | State::Drain { .. } | State::ProbeRtt(_) => {}
        }
    }

    /// Evaluates the feedback of a probe: expires the bandwidth of old cycles, and raises the
    /// long-term bound if more was in flight without loss. True if the next probe begins at once.
    fn adapt_long_term(&mut self, ack: &Ack) -> bool {
        match self.probe.feedback {
            Feedback::Starting if self.rounds.started => self.probe.feedback = Feedback::Probe,
            Feedback::Stopping if self.rounds.started => {
                self.probe.sampling = false;
                self.probe.feedback = Feedback::None;
                if self.state.is_probe_bw() && ack.rate.is_some_and(|sample| !sample.app_limited) {
                    self.bandwidth.cycle = self.bandwidth.cycle.saturating_add(1);
                }
                // A cautious probe found nothing wrong: the next may stay at the bound.
                if self.state.is_probe_bw() && self.probe.precautionary && !self.probe.too_high {
                    self.enter_refill();
                    return true;
                }
            }
            _ => {}
        }
        if let Some(longterm) = self.bounds.longterm
            && !self.config.loses_too_much(ack.rate.as_ref())
        {
            let held = ack.rate.map_or(longterm, |sample| sample.sent_in_flight);
            self.bounds.longterm = Some(longterm.max(held));
            self.raise_longterm(ack);
        }
        false
    }

    /// Ends an acceleration; one more round of acknowledgments covers it.
    pub(super) fn stop_probing(&mut self) {
        self.probe.feedback = Feedback::Stopping;
        self.rounds.restart(self.delivered);
    }
}
