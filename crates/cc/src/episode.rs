//! [`Episode`]: one congestion signal costs one reduction, however often the same window signals again.
//!
//! RFC 5681 §3.1 (`ssthresh` is held when a timeout repeats), RFC 6582, and Linux: a second signal during the recovery of
//! the same window does not cut again, and after a timeout the window grows by slow start although the loss is still being repaired.

use crate::controller::{Ack, Signal};

/// Where a connection stands between a congestion signal and the end of its recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Episode {
    /// No signal is being answered.
    Open,
    /// The window was cut and is held until the recovery ends.
    Reduced { by: Signal },
    /// The retransmission timer expired. `progress`: something was delivered since.
    TimedOut { progress: bool },
}

impl Episode {
    /// Takes a signal in; true when it is a new one, to be answered by a reduction of `ssthresh`.
    pub(crate) fn on_signal(&mut self, signal: Signal) -> bool {
        let before = core::mem::replace(
            self,
            match signal {
                Signal::Timeout => Self::TimedOut { progress: false },
                _ => Self::Reduced { by: signal },
            },
        );
        match (before, signal) {
            (Self::Open | Self::TimedOut { progress: true }, _) => true,
            // The transport says that a new episode began although no acknowledgement came between the two.
            (Self::Reduced { by }, _) => by == signal,
            (Self::TimedOut { progress: false }, signal) => signal == Signal::Loss,
        }
    }

    /// Takes an acknowledgement in; true when the window may grow.
    pub(crate) fn on_ack(&mut self, ack: &Ack) -> bool {
        if !ack.in_recovery {
            *self = Self::Open;
            return true;
        }
        match self {
            Self::Open | Self::Reduced { .. } => false,
            Self::TimedOut { progress } => {
                *progress |= ack.acked.get() > 0;
                true
            }
        }
    }
}
