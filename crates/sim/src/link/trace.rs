//! What a link tells about the frames that cross it.

use std::time::Duration;

use tautline_base::Instant;
use tautline_qdisc::DropReason;

/// One event in a frame's life on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkEvent {
    /// When.
    pub at: Instant,
    /// What happened.
    pub what: LinkWhat,
}

/// What happened to a frame on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkWhat {
    /// It came in and was handed to the queue (which may drop it at once).
    Entered,
    /// The queue dropped it.
    Dropped(DropReason),
    /// The queue marked it "congestion experienced".
    Marked,
    /// Its first bit is on the wire, or it is in the ring of the link's card, after so long in the
    /// queue.
    Serialised {
        /// Time spent in the queue.
        sojourn: Duration,
    },
    /// It was lost on the way.
    Lost,
    /// A copy of it was made.
    Duplicated,
    /// One of its bits was flipped.
    Corrupted {
        /// Which, counted from the first bit of the frame.
        bit: u32,
    },
    /// It was held back.
    HeldBack,
    /// It reached the other end.
    Arrived,
}

/// Hears of the frames on a link.
pub trait LinkTracer {
    /// `event` happened to `frame`.
    fn record(&mut self, event: &LinkEvent, frame: &[u8]);
}

/// Hears nothing.
impl LinkTracer for () {
    fn record(&mut self, _event: &LinkEvent, _frame: &[u8]) {}
}
