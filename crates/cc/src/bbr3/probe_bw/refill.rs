//! ProbeBW_REFILL: clears the short-term bounds and fills the pipe for a round, so that the first
//! losses of the probe are due to the probe.

use super::{Bbr3, Feedback, State};
use crate::controller::Ack;

impl Bbr3 {
    pub(in crate::bbr3) fn enter_refill(&mut self) {
        self.bounds.shortterm = Default::default();
        self.probe.precautionary = false;
        self.probe.feedback = Feedback::Refilling;
        self.rounds.restart(self.delivered);
        self.state = State::Refill;
    }

    pub(super) fn refill(&mut self, ack: &Ack) {
        if self.rounds.started {
            self.probe.sampling = true;
            self.enter_up(ack.rate.map(|sample| sample.rate).unwrap_or_default());
        }
    }
}
