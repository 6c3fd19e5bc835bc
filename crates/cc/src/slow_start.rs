//! [`SlowStart`]: how a window opens before the first congestion signal, as a part that can be
//! exchanged.

use tautline_base::Bytes;

use crate::controller::{Ack, Verdict};

/// A slow-start algorithm: sees every acknowledgement of the initial slow start.
pub trait SlowStart: Clone + Send {
    /// Takes an acknowledgement in and says what to do with the window. `before`: window and rate
    /// in force until now.
    fn on_ack(&mut self, ack: &Ack, before: &Verdict) -> Step;

    /// It suspects that the window is large enough, and opens it more slowly (RFC 9406).
    fn is_conservative(&self) -> bool {
        false
    }
}

/// A slow-start algorithm's answer to an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Open the window by so much.
    Grow(Bytes),
    /// The window is large enough: congestion avoidance begins.
    Leave,
}
