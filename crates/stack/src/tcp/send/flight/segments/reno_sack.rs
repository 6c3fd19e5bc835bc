//! [`RenoSack`]: duplicate acknowledgments of a peer without SACK, each of which shows that some
//! segment arrived (Linux `tcp_add_reno_sack`).

use tautline_base::Bytes;

use super::{Delivery, Segments};

/// Count of segments that must have arrived out of order at a peer that does not report which.
#[derive(Debug, Default)]
pub(super) struct RenoSack {
    count: u32,
    /// Bytes of each.
    size: u32,
    /// Duplicate acknowledgments that may still be counted: in all as many as segments were
    /// outstanding at the first one (RFC 5681 §3.2).
    limit: Option<u32>,
}

impl RenoSack {
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.count) * u64::from(self.size)
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }
}

impl Segments {
    /// Bytes that proportional rate reduction counts as delivered at a peer without SACK: a
    /// duplicate acknowledgment (`repeats`) stands for a segment of `mss` bytes, which is not
    /// counted again when it is acknowledged (RFC 9937 §6.1).
    pub(in crate::tcp) fn assume_delivered(
        &mut self,
        delivery: &Delivery,
        repeats: bool,
        mss: u64,
        in_recovery: bool,
    ) -> Bytes {
        if repeats {
            let arrived = self.add_reno_sack(mss);
            return Bytes::new(if arrived { mss } else { 0 });
        }
        let before = self.remove_reno_sacks(delivery.packets, in_recovery);
        delivery.bytes.saturating_sub(Bytes::new(before))
    }

    /// Number of segments that must have arrived out of order at a peer that does not report which.
    pub(in crate::tcp) fn reno_sacked(&self) -> u32 {
        self.holes.as_ref().map_or(0, |holes| holes.reno_sack.count)
    }

    /// A duplicate acknowledgment of a peer without SACK: some segment of `size` bytes has arrived
    /// beyond the hole (RFC 3042). False if all outstanding segments had been counted.
    pub(super) fn add_reno_sack(&mut self, size: u64) -> bool {
        let outstanding = self.records.len().saturating_sub(1) as u32;
        let most = self.most_reno_sacked();
        let reno = &mut self.holes.get_or_insert_default().reno_sack;
        let limit = reno.limit.get_or_insert(outstanding);
        if *limit == 0 {
            return false;
        }
        *limit -= 1;
        (reno.count, reno.size) = ((reno.count + 1).min(most), size as u32);
        true
    }

    /// A peer without SACK acknowledged `packets` segments. In recovery one of them was the hole,
    /// and the others had arrived before; otherwise no hole is left. Returns the bytes that had been
    /// counted as delivered already.
    pub(super) fn remove_reno_sacks(&mut self, packets: u64, in_recovery: bool) -> u64 {
        let most = self.most_reno_sacked();
        let Some(holes) = &mut self.holes else {
            return 0;
        };
        let reno = &mut holes.reno_sack;
        if packets > 0 {
            reno.limit = None;
        }
        let holes = u32::try_from(packets.saturating_sub(1)).unwrap_or(u32::MAX);
        let left = if in_recovery {
            reno.count.saturating_sub(holes)
        } else {
            0
        };
        let removed = reno.count - left;
        reno.count = left.min(most);
        u64::from(removed) * u64::from(reno.size)
    }

    /// Most segments that can have arrived if at least one has not.
    fn most_reno_sacked(&self) -> u32 {
        (self.records.len() as u32).saturating_sub(self.lost_count.max(1))
    }
}
