//! [`LinkEvent`]: events in the life of a frame on a link.

use std::time::Duration;

use tautline_base::{DropReason, Instant};

/// An event in the life of a frame on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkEvent {
    /// Time of the event.
    pub at: Instant,
    /// The event.
    pub kind: LinkEventKind,
}

impl LinkEvent {
    pub(crate) const fn new(at: Instant, kind: LinkEventKind) -> Self {
        Self { at, kind }
    }
}

/// Kind of a [`LinkEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEventKind {
    /// It entered and was passed to the queue, which may drop it at once.
    Entered,
    /// The queue dropped it.
    Dropped(DropReason),
    /// The queue marked it "congestion experienced".
    Marked,
    /// Its first bit is on the wire, or it is in the ring of the link's NIC.
    Serialized {
        /// Time in the queue.
        sojourn: Duration,
    },
    /// It was lost in flight.
    Lost,
    /// It was duplicated.
    Duplicated,
    /// One of its bits was flipped.
    Corrupted {
        /// Number of the bit, from the first bit of the frame.
        bit: u32,
    },
    /// It was delayed to arrive out of order.
    HeldBack,
    /// It reached the far end.
    Arrived,
}
