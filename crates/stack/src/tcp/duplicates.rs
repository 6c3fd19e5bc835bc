//! D-SACK at the sender (RFC 2883, RFC 3708; `spec/tcp.md` §1.5): the peer tells of segments that
//! arrived twice.

use std::ops::Range;

use super::connection::Connection;
use super::tail_probe::TailProbe;
use crate::seq;
use crate::wire::Segment;

/// A believable report of a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Duplicate {
    /// It was the probe of the tail that came twice.
    pub(super) of_probe: bool,
}

impl Connection {
    /// Takes the report of a duplicate in a segment that acknowledges up to offset `ack`, before
    /// anything else of it is taken. Reports of more duplicates than we sent, and of ranges wider
    /// than the largest window, are lies.
    pub(super) fn take_duplicate(&mut self, ack: u64, segment: &Segment<'_>) -> Option<Duplicate> {
        if !self.has_sack() {
            return None;
        }
        let [first, second, _] = segment.sack.map(|block| self.offsets(block?));
        let range = first?;
        let within = |outer: &Range<u64>| outer.start <= range.start && range.end <= outer.end;
        let is_duplicate = range.start < ack || second.as_ref().is_some_and(within);
        let len = range
            .end
            .checked_sub(range.start)
            .filter(|len| (1..=self.peer.largest).contains(len))?;
        if !is_duplicate || range.end > self.nxt {
            return None;
        }
        let segments = u32::try_from(len.div_ceil(self.segment_size())).unwrap_or(u32::MAX);
        let counts = &mut self.repair.counts;
        counts.duplicates = counts.duplicates.saturating_add(segments);
        if u64::from(counts.duplicates) > self.totals.retransmits {
            return None;
        }
        let known = range.end <= self.una || self.segments.was_sent_again(range.end);
        if let Some(undo) = self.repair.undo.as_mut().filter(|_| known) {
            undo.came_twice(range.end, segments);
        }
        let of_probe = segments == 1
            && matches!(self.repair.tail, TailProbe::Sent { high, again: Some(_), .. } if high == range.end);
        if !of_probe {
            self.segments.duplicated();
        }
        Some(Duplicate { of_probe })
    }

    /// The stream offsets that a SACK block names.
    pub(super) fn offsets(&self, (left, right): (u32, u32)) -> Option<Range<u64>> {
        Some(seq::from_wire(self.isn, self.una, left)?..seq::from_wire(self.isn, self.una, right)?)
    }
}
