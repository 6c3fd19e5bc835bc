//! ProbeBW: the cycle of probing for bandwidth, and what its acknowledgements teach,
//! draft-ietf-ccwg-bbr "ProbeBW".

mod cruise;
mod down;
mod refill;
pub(super) mod up;
pub(super) mod wait;

use super::{Bbr3, State};
use crate::controller::Ack;

/// Which part of a probe the present acknowledgements tell about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Feedback {
    /// None.
    #[default]
    None,
    /// A probe is being prepared.
    Refilling,
    /// It has begun, but what is acknowledged was sent before.
    Starting,
    /// The probe itself.
    Probe,
    /// It is over, but what is acknowledged was sent in it.
    Stopping,
}

/// What is known about the present probe and the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    pub(super) feedback: Feedback,
    /// Losses of segments sent in the probe bound the long term, once a probe.
    pub(super) sampling: bool,
    /// The latest probe lost too much.
    pub(super) too_high: bool,
    /// The latest probe stopped at the bound, for the one before had lost too much.
    pub(super) precautionary: bool,
}

impl Bbr3 {
    /// Moves the cycle on.
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

    /// Follows the feedback of a probe: lets the bandwidth of old cycles go, and raises the
    /// long-term bound where more was in flight without harm. True if the next probe begins at
    /// once.
    fn adapt_long_term(&mut self, ack: &Ack) -> bool {
        match self.probe.feedback {
            Feedback::Starting if self.rounds.started => self.probe.feedback = Feedback::Probe,
            Feedback::Stopping if self.rounds.started => {
                self.probe.sampling = false;
                self.probe.feedback = Feedback::None;
                if self.state.is_probe_bw() && ack.rate.is_some_and(|sample| !sample.app_limited) {
                    self.cycle = self.cycle.saturating_add(1);
                }
                // A cautious probe found nothing wrong: the next may stay at the bound.
                if self.state.is_probe_bw() && self.probe.precautionary && !self.probe.too_high {
                    self.enter_refill();
                    return true;
                }
            }
            _ => {}
        }
        if let Some(longterm) = self.longterm
            && !self.loses_too_much(ack.rate.as_ref())
        {
            let held = ack.rate.map_or(longterm, |sample| sample.sent_in_flight);
            self.longterm = Some(longterm.max(held));
            self.raise_longterm(ack);
        }
        false
    }

    /// Acceleration is over: one more round of acknowledgements tells about it.
    pub(super) fn stop_probing(&mut self) {
        self.probe.feedback = Feedback::Stopping;
        self.rounds.restart(self.delivered);
    }
}
