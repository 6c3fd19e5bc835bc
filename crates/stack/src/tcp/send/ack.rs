//! [`AckInput`]: an acknowledgment as it arrives; [`AckSummary`]: its meaning for the sender.

use std::ops::Range;

use tautline_base::{Bytes, Instant};

use super::flight::Delivery;
use super::flight::recovery::Proof;
use crate::wire::SACK_BLOCKS;

/// An acceptable acknowledgment, as stream offsets.
#[derive(Clone, Debug)]
pub(in crate::tcp) struct AckInput {
    pub(in crate::tcp) now: Instant,
    /// Everything below is acknowledged.
    pub(in crate::tcp) ack: u64,
    /// SACK blocks in the order of the option; all `None` unless SACK was negotiated.
    pub(in crate::tcp) sack: [Option<Range<u64>>; SACK_BLOCKS],
    /// The timestamp of ours that it echoes, if both ends use them.
    pub(in crate::tcp) echo: Option<u32>,
    /// The segment has neither payload nor FIN.
    pub(in crate::tcp) bare: bool,
}

/// The stream and the peer's window when an acknowledgment arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    /// The acknowledgment moved the right edge of the peer's window.
    pub(super) moved: bool,
    /// The largest window the peer has offered.
    pub(super) largest: u64,
    /// There is new data within the peer's window.
    pub(super) more: bool,
}

/// An acknowledgment, as far as the sender is concerned.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct AckSummary {
    pub(super) now: Instant,
    /// The offset it acknowledges up to.
    pub(in crate::tcp) ack: u64,
    /// SND.UNA moved.
    pub(super) advanced: bool,
    /// There is new data within the peer's window.
    pub(super) more: bool,
    /// A duplicate acknowledgment: no data, no window, nothing delivered.
    pub(super) repeats: bool,
    pub(super) duplicate: Option<Duplicate>,
    pub(in crate::tcp) delivery: Delivery,
    /// The timestamp of ours that it echoes.
    pub(super) echo: Option<u32>,
    /// Bytes that were not yet reported delivered before it.
    pub(super) recoverable: Bytes,
    /// Bytes in flight before it.
    pub(super) prior_in_flight: Bytes,
}

impl AckSummary {
    pub(super) fn proof(&self) -> Proof {
        Proof {
            believed_lost: self.delivery.believed_lost,
            retransmission: self.delivery.retransmission,
            echo: self.echo,
        }
    }
}

/// A believable report of a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tcp) struct Duplicate {
    /// It was the probe of the tail that came twice.
    pub(in crate::tcp) of_probe: bool,
}
