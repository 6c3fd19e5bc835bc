//! [`Bearer`]: RLC in unacknowledged mode over one NIC: packets are segmented to fill transport
//! blocks (3GPP TS 36.322).

use tautline_base::{Bytes, Instant};
use tautline_qdisc::Backlog;

use crate::nic::{SimNic, TxStatus};

/// MAC and RLC headers of a transport block: a subheader of three bytes, a sequence number of ten
/// bits.
pub(super) const BLOCK_OVERHEAD: u64 = 5;

/// Overhead of a packet: the PDCP header with a sequence number of twelve bits, and a length field.
const PACKET_OVERHEAD: u64 = 4;

const ETHERNET: u64 = 14;

/// One direction of a station's bearer. Its buffer is the NIC's ring.
#[derive(Debug, Default)]
pub(super) struct Bearer {
    /// Bytes of the oldest packet that were sent.
    begun: u64,
    /// Grants of the current TTI.
    on_air: u32,
}

impl Bearer {
    /// Bytes waiting, overhead included.
    pub(super) fn backlog(&self, nic: &SimNic) -> u64 {
        let Backlog { packets, bytes } = nic.waiting();
        let around = (packets as u64).saturating_mul(ETHERNET.abs_diff(PACKET_OVERHEAD));
        bytes
            .get()
            .saturating_sub(around)
            .saturating_sub(self.begun)
    }

    /// Fills a transport block from `nic`. Returns the bytes of padding.
    pub(super) fn send(&mut self, block: Bytes, now: Instant, nic: &mut SimNic) -> u64 {
        let mut left = block.get().saturating_sub(BLOCK_OVERHEAD);
        let begun = &mut self.begun;
        nic.grant(now, usize::MAX, |len| {
            let rest =
                (len.get().saturating_sub(ETHERNET) + PACKET_OVERHEAD).saturating_sub(*begun);
            if rest <= left {
                (left, *begun) = (left - rest, 0);
                return true;
            }
            *begun += left;
            left = 0;
            false
        });
        self.on_air += 1;
        left
    }

    /// Ends the TTI: packets whose last byte was in its block have arrived.
    pub(super) fn conclude(&mut self, at: Instant, nic: &mut SimNic) {
        for _ in 0..std::mem::take(&mut self.on_air) {
            nic.conclude(at, |_| TxStatus::Acknowledged);
        }
    }

    pub(super) fn is_on_air(&self) -> bool {
        self.on_air > 0
    }
}
