//! [`SlowStart`]: the growth of the window before the first congestion signal.

use tautline_base::Bytes;

use crate::controller::{Ack, Verdict};

/// A slow-start algorithm. Called for every acknowledgment of the initial slow start.
pub trait SlowStart: Clone + Send {
    /// Name of CUBIC with this slow start.
    const CUBIC: &'static str = "cubic";

    /// Decides about the window. `before`: window and rate in force until now.
    fn on_ack(&mut self, ack: &Ack, before: impl FnOnce() -> Verdict) -> Step;

    /// The window grows more slowly, because it may be large enough (RFC 9406).
    fn is_conservative(&self) -> bool {
        false
    }
}

/// A slow-start algorithm's answer to an acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Open the window by this many bytes.
    Grow(Bytes),
    /// The window is large enough: congestion avoidance begins.
    Leave,
    /// The window is too large: congestion avoidance begins from this one.
    LeaveAt(Bytes),
}
