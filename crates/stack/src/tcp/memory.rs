//! The memory of a connection's buffers, and how it does with less when the host is short of it.

use std::time::Duration;

use tautline_base::Instant;

use super::connection::Connection;
use super::state::State;

/// How long records of segments are kept for the next ones.
const KEEP: Duration = Duration::from_secs(1);

impl Connection {
    /// Bytes of memory in its buffers.
    pub(crate) fn memory(&self) -> u64 {
        (self.send.stream.buffer.memory() + self.receiver.memory()) as u64
    }

    /// When memory that a quiet connection keeps for what may come goes, unless something comes.
    pub(crate) fn release_at(&self) -> Option<Instant> {
        let records = self
            .send
            .flight
            .segments
            .idles_with_memory()
            .then(|| self.liveness.heard() + KEEP);
        self.receiver.release_at().into_iter().chain(records).min()
    }

    /// Gives it back if its time has come.
    pub(crate) fn release_memory(&mut self, now: Instant) {
        self.receiver.release_memory(now);
        if self.liveness.heard() + KEEP <= now {
            self.send.flight.segments.release_memory();
        }
    }

    /// It holds memory for nobody, or for a peer that does not take what it asked for: the first to
    /// go when memory is short (CVE-2008-4609).
    pub(crate) fn is_suspect(&self) -> bool {
        (self.orphan || self.send.is_probing_window())
            && self.state != State::Closed
            && self.memory() > 0
    }
}
