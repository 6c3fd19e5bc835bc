//! [`Recovery`]: the window while losses are repaired.
//!
//! Packet conservation for one round trip, because the cause of the loss is unknown; then the model
//! sets the window again. The end of recovery restores the prior window (`net/ipv4/tcp_bbr.c`
//! `bbr_set_cwnd_to_recover_or_restore`).

use tautline_base::Bytes;

use crate::controller::{Ack, CongestionState};

/// State of loss recovery, and the window to restore.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovery {
    /// State at the last acknowledgment or timeout.
    state: CongestionState,
    /// Packet conservation is in effect.
    conserving: bool,
    prior_cwnd: Bytes,
}

/// The window after an acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Fast recovery begins, with a round trip of packet conservation.
    Enters(Bytes),
    /// Packet conservation.
    Conserves(Bytes),
    /// The model decides, from this window.
    Grows(Bytes),
}

fn repairs(state: CongestionState) -> bool {
    matches!(state, CongestionState::Recovery | CongestionState::Loss)
}

impl Recovery {
    pub(super) const fn new() -> Self {
        Self {
            state: CongestionState::Open,
            conserving: false,
            prior_cwnd: Bytes::ZERO,
        }
    }

    /// Saves the window before a cut. `whole`: no PROBE_RTT has cut it.
    pub(super) fn save(&mut self, cwnd: Bytes, whole: bool) {
        self.prior_cwnd = if whole && !repairs(self.state) {
            cwnd
        } else {
            self.prior_cwnd.max(cwnd)
        };
    }

    /// The window to restore.
    pub(super) fn prior_cwnd(&self) -> Bytes {
        self.prior_cwnd
    }

    pub(super) fn on_timeout(&mut self) {
        self.state = CongestionState::Loss;
    }

    /// A round trip begins.
    pub(super) fn on_round(&mut self) {
        self.conserving = false;
    }

    /// The window after `ack`, which is at least `mss`.
    pub(super) fn on_ack(&mut self, ack: &Ack, cwnd: Bytes, mss: Bytes) -> Step {
        let delivering = ack.in_flight + ack.acked;
        let before = core::mem::replace(&mut self.state, ack.state);
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
