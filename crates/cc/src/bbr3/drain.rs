//! Drain: empties the queue that Startup left, draft-ietf-ccwg-bbr "Drain".

use super::{Bbr3, State};
use crate::controller::Ack;

impl Bbr3 {
    pub(super) fn enter_drain(&mut self) {
        self.state = State::Drain {
            since: self.rounds.count,
        };
    }

    /// Leaves Drain when the flight is down to the bandwidth-delay product, or when that takes too
    /// long because the bandwidth was overestimated.
    pub(super) fn check_drain_done(&mut self, ack: &Ack) {
        let State::Drain { since } = self.state else {
            return;
        };
        let overdue = self
            .config
            .drain_rounds
            .is_some_and(|rounds| self.rounds.count > since.saturating_add(rounds));
        if overdue || self.in_network(ack, ack.in_flight) <= self.inflight(self.bandwidth.bw, 1.0) {
            self.enter_down(ack.now);
        }
    }
}
