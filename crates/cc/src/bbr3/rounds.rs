//! [`Rounds`]: round trips counted by packets, draft-ietf-ccwg-bbr "Tracking Packet-Timed Round
//! Trips".

use tautline_base::Bytes;

/// A round ends when something sent after its beginning is delivered, however long that takes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    /// How many there were.
    pub(super) count: u64,
    /// The present acknowledgement began one.
    pub(super) started: bool,
    /// Delivered in all when the present one began.
    begin: Bytes,
}

impl Rounds {
    /// A segment was delivered that was sent when `prior_delivered` was; now `delivered` is.
    pub(super) fn on_sample(&mut self, prior_delivered: Option<Bytes>, delivered: Bytes) {
        self.started = prior_delivered.is_some_and(|prior| prior >= self.begin);
        if self.started {
            self.restart(delivered);
            self.count = self.count.saturating_add(1);
        }
    }

    /// The present round begins now.
    pub(super) fn restart(&mut self, delivered: Bytes) {
        self.begin = delivered;
    }
}
