//! [`Round`]: a flight, from an acknowledgement until all that was outstanding then is delivered.

use tautline_base::Bytes;

use crate::controller::Ack;

/// One flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// Total delivered when the last of it is.
    end: Bytes,
}

impl Round {
    /// What is in flight after `ack`.
    pub(crate) fn after(ack: &Ack) -> Self {
        Self {
            end: ack.delivered + ack.in_flight,
        }
    }

    /// All of it is delivered.
    pub(crate) fn is_over(&self, ack: &Ack) -> bool {
        ack.delivered >= self.end
    }

    /// All of it is delivered, and something sent later as well.
    pub(crate) fn is_passed(&self, ack: &Ack) -> bool {
        ack.delivered > self.end
    }
}
