//! ProbeBW_DOWN: drains the queue of the probe and leaves room for other flows.

use tautline_base::Instant;

use super::wait::Wait;
use super::{Bbr3, State};
use crate::bbr3::bounds::bounded;
use crate::controller::Ack;

impl Bbr3 {
    pub(in crate::bbr3) fn enter_down(&mut self, now: Instant) {
        self.state = State::Down(self.start_down(now));
    }

    /// Begins a cycle. Returns the wait for its probe.
    pub(in crate::bbr3) fn start_down(&mut self, now: Instant) -> Wait {
        self.signals.reset();
        self.stop_probing();
        Wait::new(now, &self.config, &mut self.rng)
    }

    pub(super) fn down(&mut self, wait: Wait, ack: &Ack) {
        let wait = wait.on_round(self.rounds.started);
        if self.probe_is_due(wait, ack) {
            self.enter_refill();
        } else if self.has_drained(ack) {
            self.enter_cruise(wait);
        } else {
            self.state = State::Down(wait);
        }
    }

    /// The flight leaves headroom and is at most the bandwidth-delay product.
    fn has_drained(&self, ack: &Ack) -> bool {
        let target = bounded(
            self.inflight(self.max_bw(), 1.0),
            self.longterm_with_headroom(),
        );
        self.in_network(ack, ack.in_flight) <= target
    }

    pub(super) fn probe_is_due(&self, wait: Wait, ack: &Ack) -> bool {
        wait.is_over(ack.now, self.target_inflight(), self.mss, &self.config)
    }
}
