//! Startup: an exponential search for the bandwidth, draft-ietf-ccwg-bbr "Startup".

use super::undo::Left;
use super::{Bbr3, State};
use crate::controller::{Ack, CongestionState};

impl Bbr3 {
    pub(super) fn enter_startup(&mut self) {
        self.state = State::Startup;
    }

    /// Leaves Startup when the pipe is full.
    pub(super) fn check_startup_done(&mut self, ack: &Ack) {
        if self.state == State::Startup {
            self.check_startup_loss(ack);
            if self.full_pipe.reached {
                self.enter_drain();
            }
        }
    }

    /// The second sign of a full pipe: a whole round of recovery with a high rate of loss, in
    /// several places, so that one burst does not count.
    fn check_startup_loss(&mut self, ack: &Ack) {
        let in_recovery = ack.state == CongestionState::Recovery;
        let many = self.signals.moments >= self.config.startup_losses;
        if !self.full_pipe.reached
            && self.signals.round_ends
            && in_recovery
            && many
            && self.loses_too_much(ack.rate.as_ref())
        {
            self.pipe_overflows();
        }
    }

    /// Startup has found the limit of the path by congestion, not by its plateau.
    pub(super) fn pipe_overflows(&mut self) {
        self.undo.leave(Left::Startup);
        self.full_pipe.set();
        self.longterm = Some(
            self.bdp(1.0)
                .max(self.signals.inflight_latest)
                .max(self.least()),
        );
    }
}
