//! [`Params`]: the parameters of CoDel; shared by all queues it governs.

use core::time::Duration;

use tautline_base::{Bytes, ConfigError};

use super::law::Law;
use crate::units;

/// Parameters of the algorithm. `Default` is what RFC 8289 and Linux agree on, except for
/// [`law`](Self::law).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Acceptable standing delay. Default 5 ms (RFC 8289).
    pub target: Duration,
    /// Time within which the delay must fall below the target once; about the longest usual round
    /// trip. Default 100 ms (RFC 8289).
    pub interval: Duration,
    /// A backlog of at most this much is never a standing queue. Default 1514 bytes, one Ethernet
    /// frame.
    pub mtu: Bytes,
    /// Mark instead of dropping where the packet allows it. Default off, as in Linux's `codel`.
    pub ecn: bool,
    /// Mark every packet delayed by more than this, besides what the control law does. Default
    /// none.
    pub ce_threshold: Option<CeThreshold>,
    /// Arithmetic of the control law. Default [`Law::Rfc8289`].
    pub law: Law,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            mtu: Bytes::new(1514),
            ecn: false,
            ce_threshold: None,
            law: Law::default(),
        }
    }
}

/// Immediate marking above a delay, for congestion controls that answer to the amount of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CeThreshold {
    /// Packets delayed longer are marked.
    pub delay: Duration,
    /// Mask of the TOS byte that selects the packets; 0 chooses all.
    pub mask: u8,
    /// The value of these bits: 1 under mask 3 chooses ECT(1), the packets of L4S (RFC 9331).
    pub selector: u8,
}

impl CeThreshold {
    /// Marks all packets delayed longer than `delay`.
    pub const fn all(delay: Duration) -> Self {
        Self {
            delay,
            mask: 0,
            selector: 0,
        }
    }

    /// Whether a packet with this TOS byte is meant.
    pub(crate) fn selects(self, tos: u8) -> bool {
        tos & self.mask == self.selector & self.mask
    }
}

impl Params {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let least = match self.law {
            Law::Rfc8289 => Duration::from_nanos(1),
            Law::Linux => Duration::from_nanos(1024),
        };
        ConfigError::check(
            self.interval >= least,
            "interval",
            units::time(self.interval),
            "longer than the tick of the control law's clock (1ns, or 1024ns with law linux)",
        )
    }
}
