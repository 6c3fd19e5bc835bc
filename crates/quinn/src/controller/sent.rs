//! [`SentTimes`]: what the delivery-rate sampler wants remembered, found again by the time of
//! sending.
//!
//! quinn says of an acknowledged packet when it was sent, not which it was, and of a burst only
//! that it left. So there is one record per instant of sending, whatever left at that instant.

use std::collections::VecDeque;
use std::time::Duration;

use tautline_base::{Bytes, Instant};
use tautline_cc::SentRate;

/// Most instants remembered. An end that only acknowledges reports its datagrams as sent but never
/// as delivered, so age alone would not bound this.
pub(super) const MOST: usize = 4096;

/// Records of what was sent, oldest first.
#[derive(Debug, Default)]
pub(super) struct SentTimes {
    records: VecDeque<SentRate>,
}

impl SentTimes {
    /// Whether something was sent at `now` already; then its flight is now `in_flight`.
    pub(super) fn extend(&mut self, now: Instant, in_flight: Bytes) -> bool {
        match self.records.back_mut() {
            Some(newest) if newest.sent_at >= now => {
                newest.in_flight = in_flight;
                true
            }
            _ => false,
        }
    }

    /// Remembers what was sent after everything that is remembered.
    pub(super) fn push(&mut self, record: SentRate) {
        if self.records.len() >= MOST {
            self.records.pop_front();
        }
        self.records.push_back(record);
    }

    /// The record of `sent`. Packets that quinn does not report as sent (path MTU probes) count as
    /// sent with the packet before them. `None` if that is forgotten.
    pub(super) fn find(&self, sent: Instant) -> Option<SentRate> {
        let after = self
            .records
            .partition_point(|record| record.sent_at <= sent);
        self.records.get(after.checked_sub(1)?).copied()
    }

    /// Something sent at `newest` was acknowledged at `now`: whatever was sent before it and more
    /// than `age` ago is delivered or declared lost, and is forgotten.
    pub(super) fn forget(&mut self, newest: Instant, now: Instant, age: Duration) {
        let gone = self
            .records
            .partition_point(|record| record.sent_at < newest && now - record.sent_at > age);
        self.records.drain(..gone);
    }
}
