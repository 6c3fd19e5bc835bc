//! ProbeBW_CRUISE: sends at the delivery rate until the next probe; losses lower the short-term
//! bounds.

use super::wait::Wait;
use super::{Bbr3, State};
use crate::bbr3::bounds::bounded;
use crate::controller::Ack;

impl Bbr3 {
    pub(in crate::bbr3) fn enter_cruise(&mut self, wait: Wait) {
        if self.config.cruise_clips_shortterm {
            self.bounds.shortterm.inflight = self
                .bounds
                .shortterm
                .inflight
                .map(|inflight| bounded(inflight, self.bounds.longterm));
        }
        self.state = State::Cruise(wait);
    }

    pub(super) fn cruise(&mut self, wait: Wait, ack: &Ack) {
        let wait = wait.on_round(self.rounds.started);
        if self.probe_is_due(wait, ack) {
            self.enter_refill();
        } else {
            self.state = State::Cruise(wait);
        }
    }
}
