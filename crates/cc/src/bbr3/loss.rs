//! The response to losses: in a probe they set the long-term bound, elsewhere the short-term bounds,
//! draft-ietf-ccwg-bbr "Updating the Model Upon Packet Loss".

use tautline_base::{Bytes, Instant};

use super::bounds::inflight_at_loss;
use super::undo::Interrupted;
use super::{Bbr3, State, scale};
use crate::controller::{Congestion, Loss};

impl Bbr3 {
    /// Records a loss or a mark; the first of an episode saves the state.
    pub(super) fn note_loss(&mut self, now: Instant) {
        if !self.undo.recovering {
            self.save();
            self.undo.recovering = true;
        }
        self.signals.on_loss(now, self.delivered);
    }

    /// A segment is lost. If it was sent in a probe, this may show the limit of the path.
    pub(super) fn handle_lost(&mut self, loss: &Loss) {
        self.note_loss(loss.now);
        if self.probe.sampling && self.config.exceeds(loss.lost_since, loss.sent_in_flight) {
            let held = inflight_at_loss(
                loss.bytes,
                loss.sent_in_flight,
                loss.lost_since,
                self.config.loss_threshold,
            );
            self.inflight_too_high(held, loss.app_limited, loss.now);
        }
    }

    /// A window of marks. They are certain, so there is nothing to undo.
    pub(super) fn handle_mark(&mut self, mark: &Congestion) {
        self.note_loss(mark.now);
        if self.state == State::Startup {
            self.pipe_overflows();
            self.enter_drain();
        } else if self.probe.sampling {
            self.inflight_too_high(mark.in_flight, false, mark.now);
        }
        self.undo.clear();
    }

    /// A probe exceeded the limit of the path, `held`. Called once per probe.
    pub(super) fn inflight_too_high(&mut self, held: Bytes, app_limited: bool, now: Instant) {
        self.probe.too_high = true;
        self.probe.sampling = false;
        if !app_limited {
            let floor = scale(self.target_inflight(), self.config.beta);
            self.bounds.longterm = Some(held.max(floor).max(self.min_window()));
        }
        if matches!(self.state, State::Up(_)) {
            self.undo.interrupt(Interrupted::Up);
            self.enter_down(now);
        }
    }

    /// Lowers the short-term bounds at the end of a round with losses, unless the sender was probing
    /// for more.
    pub(super) fn adapt_lower_bounds(&mut self) {
        if !self.signals.round_ends {
            return;
        }
        if self.signals.lossy && !self.state.accelerates() {
            let latest = (self.signals.bw_latest, self.signals.inflight_latest);
            self.bounds
                .shortterm
                .cut(latest, self.max_bw(), self.cwnd, &self.config);
        }
        self.signals.lossy = false;
    }
}
