//! Startup: an exponential search for the bandwidth, draft-ietf-ccwg-bbr "Startup".

use super::undo::Interrupted;
use super::{Bbr3, State};
use crate::controller::{Ack, CongestionState};

impl Bbr3 {
    /// Leaves Startup when the pipe is full.
    pub(super) fn check_startup_done(&mut self, ack: &Ack) {
        if self.state == State::Startup {
            self.check_startup_loss(ack);
            if self.full_pipe.reached {
                self.enter_drain();
            }
        }
    }

    /// The second sign of a full pipe: a whole round of recovery with a high loss rate and several
    /// loss events, so that one burst does not count.
    fn check_startup_loss(&mut self, ack: &Ack) {
        let in_recovery = ack.state == CongestionState::Recovery;
        let many = self.signals.loss_events >= self.config.startup_losses;
        if !self.full_pipe.reached
            && self.signals.round_ends
            && in_recovery
            && many
            && self.config.loses_too_much(ack.rate.as_ref())
        {
            self.pipe_overflows();
        }
    }

    /// Congestion, not a plateau, has shown the limit of the path.
    pub(super) fn pipe_overflows(&mut self) {
        self.undo.interrupt(Interrupted::Startup);
        self.full_pipe.set();
        self.bounds.longterm = Some(
            self.bdp(self.bandwidth.bw, 1.0)
                .max(self.signals.inflight_latest)
                .max(self.min_window()),
        );
    }
}
