//! [`Recovery`]: the window while losses are repaired.
//!
//! For one round trip as much is sent as is delivered, because nobody knows what the loss means;
//! then the model decides again. Afterwards the window is what it was before.

use tautline_base::Bytes;

use crate::controller::{Ack, CongestionState};

/// Where loss recovery stands, and the window to return to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovery {
    /// At the last acknowledgement or timeout.
    phase: CongestionState,
    /// As much is sent as is delivered.
    conserving: bool,
    prior_cwnd: Bytes,
}

/// What an acknowledgement means to the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Fast recovery begins: so does a round trip of packet conservation.
    Enters(Bytes),
    /// Send as much as is delivered.
    Conserves(Bytes),
    /// The model decides, from this window.
    Grows(Bytes),
}

fn repairs(phase: CongestionState) -> bool {
    matches!(phase, CongestionState::Recovery | CongestionState::Loss)
}

impl Recovery {
    pub(super) const fn new() -> Self {
        Self {
            phase: CongestionState::Open,
            conserving: false,
            prior_cwnd: Bytes::ZERO,
        }
    }

    /// Remembers the window before it is cut. `whole`: nothing but a recovery has cut it before.
    pub(super) fn save(&mut self, cwnd: Bytes, whole: bool) {
        self.prior_cwnd = if whole && !repairs(self.phase) {
            cwnd
        } else {
            self.prior_cwnd.max(cwnd)
        };
    }

    /// The window before the cuts.
    pub(super) fn prior_cwnd(&self) -> Bytes {
        self.prior_cwnd
    }

    pub(super) fn on_timeout(&mut self) {
        self.phase = CongestionState::Loss;
    }

    /// A round trip begins.
    pub(super) fn on_round(&mut self) {
        self.conserving = false;
    }

    /// What an acknowledgement makes of the window `cwnd`, which is never below `mss`.
    pub(super) fn on_ack(&mut self, ack: &Ack, cwnd: Bytes, mss: Bytes) -> Step {
        let delivering = ack.in_flight + ack.acked;
        let before = core::mem::replace(&mut self.phase, ack.state);
        if ack.state == CongestionState::Recovery && before != CongestionState::Recovery {
            self.conserving = true;
            return Step::Enters(delivering.max(mss));
        }
        let mut cwnd = cwnd.saturating_sub(ack.lost).max(mss);
        if repairs(before) && !repairs(ack.state) {
            self.conserving = false;
            cwnd = cwnd.max(self.prior_cwnd);
        }
        if self.conserving {
            Step::Conserves(cwnd.max(delivering))
        } else {
            Step::Grows(cwnd)
        }
    }
}
