//! The memory of a connection's buffers, and what it releases when it is idle or the host runs out.

use std::time::Duration;

use tautline_base::Instant;

use super::connection::Connection;
use super::state::State;

/// Idle time after which the allocations for segment records and loss recovery are released.
const KEEP: Duration = Duration::from_secs(1);

impl Connection {
    /// Bytes allocated for its buffers, and for the records of many segments.
    pub(crate) fn memory(&self) -> u64 {
        (self.send.memory() + self.receiver.memory()) as u64
    }

    /// When an idle connection releases its spare allocations, unless a segment arrives first.
    pub(crate) fn release_at(&self) -> Option<Instant> {
        let flight = &self.send.flight;
        let holds = flight.segments.idles_with_memory()
            || (flight.segments.is_empty() && flight.recovery.has_spare());
        let records = holds.then(|| self.liveness.heard() + KEEP);
        self.receiver.release_at().into_iter().chain(records).min()
    }

    /// Releases spare allocations whose idle time is over.
    pub(crate) fn release_memory(&mut self, now: Instant) {
        self.receiver.release_memory(now);
        if self.liveness.heard() + KEEP <= now {
            self.send.flight.segments.release_memory();
            self.send.flight.recovery.release_spare();
        }
    }

    /// Puts it into the host's queue of receivers or takes it out. Returns whether it was there, and
    /// the number of bytes that the application has read, if more have arrived.
    pub(crate) fn set_listed(&mut self, is_listed: bool) -> (bool, Option<u64>) {
        let was_listed = std::mem::replace(&mut self.receiver.is_listed, is_listed);
        (was_listed, self.receiver.unread_from())
    }

    /// True if its memory serves no application, or a peer that keeps its window closed: the first
    /// to be aborted when memory is short (CVE-2008-4609).
    pub(crate) fn is_suspect(&self) -> bool {
        (self.orphan || self.send.is_probing_window())
            && self.state != State::Closed
            && self.memory() > 0
    }
}
