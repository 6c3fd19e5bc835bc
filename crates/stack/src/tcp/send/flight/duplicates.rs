//! D-SACK at the sender (RFC 2883, RFC 3708; Linux `tcp_check_dsack`): the peer reports segments
//! that arrived twice.

use std::ops::Range;

use super::Flight;
use super::recovery::TailProbe;
use crate::tcp::send::ack::{AckInput, Duplicate};

impl Flight {
    /// Evaluates the report of a duplicate, before anything else in the segment. Reports of more
    /// duplicates than we sent, and of ranges wider than the largest window, are lies.
    pub(super) fn on_dsack(&mut self, input: &AckInput, largest_window: u64) -> Option<Duplicate> {
        let [Some(range), second, ..] = &input.sack else {
            return None;
        };
        let within = |outer: &Range<u64>| outer.start <= range.start && range.end <= outer.end;
        let is_duplicate = range.start < input.ack || second.as_ref().is_some_and(within);
        let len = range
            .end
            .checked_sub(range.start)
            .filter(|len| (1..=largest_window).contains(len))?;
        if !is_duplicate || range.end > self.nxt() {
            return None;
        }
        let segments = u32::try_from(len.div_ceil(self.mss)).unwrap_or(u32::MAX);
        let counts = &mut self.recovery.counts;
        counts.duplicates = counts.duplicates.saturating_add(segments);
        if u64::from(counts.duplicates) > self.totals.retransmits {
            return None;
        }
        let known = range.end <= self.una() || self.segments.is_retransmitted(range.end);
        if let Some(undo) = self.recovery.undo.as_mut().filter(|_| known) {
            undo.on_duplicate(range.end, segments);
        }
        let of_probe = segments == 1
            && matches!(self.recovery.tail, TailProbe::Sent { high, again: Some(_), .. } if high == range.end);
        if !of_probe {
            self.segments.duplicated();
        }
        Some(Duplicate { of_probe })
    }
}
