//! The response to losses: in a probe they bound it for long, elsewhere they bound the short term,
//! draft-ietf-ccwg-bbr "Updating the Model Upon Packet Loss".

use tautline_base::{Bytes, Instant};

use super::bounds::inflight_at_loss;
use super::undo::Left;
use super::{Bbr3, State, scale};
use crate::controller::{Congestion, Loss};
use crate::sampler::RateSample;

impl Bbr3 {
    /// A loss, or a mark, was seen: the first of an episode and of a round are remembered as such.
    pub(super) fn note_loss(&mut self, now: Instant) {
        if !self.recovering {
            self.save();
            self.recovering = true;
        }
        self.signals.on_loss(now, self.delivered);
    }

    /// A segment is lost. If it was sent in a probe, this may show how far the probe can go.
    pub(super) fn handle_lost(&mut self, loss: &Loss) {
        self.note_loss(loss.now);
        if self.probe.sampling && self.exceeds(loss.lost_since, loss.sent_in_flight) {
            let held = inflight_at_loss(
                loss.bytes,
                loss.sent_in_flight,
                loss.lost_since,
                self.config.loss_threshold,
            );
            self.inflight_too_high(held, loss.app_limited, loss.now);
        }
    }

    /// A window of marks: congestion, though nothing is lost. There is nothing to take back.
    pub(super) fn handle_mark(&mut self, mark: &Congestion) {
        self.note_loss(mark.now);
        if self.state == State::Startup {
            self.pipe_overflows();
            self.enter_drain();
        } else if self.probe.sampling {
            self.inflight_too_high(mark.in_flight, false, mark.now);
        }
        self.undo.forget();
    }

    /// The flight of `sample` lost more than a queue under pressure may.
    pub(super) fn loses_too_much(&self, sample: Option<&RateSample>) -> bool {
        sample.is_some_and(|sample| self.exceeds(sample.lost, sample.sent_in_flight))
    }

    fn exceeds(&self, lost: Bytes, sent_in_flight: Bytes) -> bool {
        lost.get() as f64 > sent_in_flight.get() as f64 * self.config.loss_threshold
    }

    /// A probe went too far: the path held `held`. Once per probe.
    pub(super) fn inflight_too_high(&mut self, held: Bytes, app_limited: bool, now: Instant) {
        self.probe.too_high = true;
        self.probe.sampling = false;
        if !app_limited {
            let floor = scale(self.target_inflight(), self.config.beta);
            self.longterm = Some(held.max(floor).max(self.least()));
        }
        if matches!(self.state, State::Up(_)) {
            self.undo.leave(Left::Up);
            self.enter_down(now);
        }
    }

    /// Once a round in which something was lost, unless the sender was probing for more.
    pub(super) fn adapt_lower_bounds(&mut self) {
        if !self.signals.round_ends {
            return;
        }
        if self.signals.lossy && !self.state.accelerates() {
            let latest = (self.signals.bw_latest, self.signals.inflight_latest);
            self.shortterm
                .cut(latest, self.max_bw(), self.cwnd, &self.config);
        }
        self.signals.lossy = false;
    }
}
