//! [`Served`]: a host and the sockets of its handles, until the end of both.

use tautline_base::{Device, HeapFrame, Instant};
use tautline_rt::application::serve;
use tautline_rt::{ByWords, Sockets};
use tautline_stack::{Host, reset_connections};

use crate::alarm::deadline;
use crate::settings::Queue;

/// A host that a task drives.
pub(crate) struct Served<D: Device<Frame = HeapFrame>> {
    pub(crate) host: Host<Queue, D>,
    /// `None` once the stack has ended.
    sockets: Option<Sockets<ByWords>>,
    /// Peers that have missed data challenge their resets (RFC 5961 §3.2), and wait for an answer.
    has_challengers: bool,
}

impl<D: Device<Frame = HeapFrame>> Served<D> {
    pub(crate) fn new(host: Host<Queue, D>, sockets: Sockets<ByWords>) -> Self {
        Self {
            host,
            sockets: Some(sockets),
            has_challengers: false,
        }
    }

    /// Serves the handles and polls the host. Returns the latest time of the next turn.
    pub(crate) fn turn(&mut self, now: Instant) -> Option<Instant> {
        match &mut self.sockets {
            Some(sockets) => deadline(serve(&mut self.host, sockets, now)),
            None => self.host.poll(now).map(|wake| wake.at),
        }
    }

    /// Fails the handles, and resets the connections: those that are held, and those of dropped streams that
    /// are not delivered.
    pub(crate) fn end(&mut self, now: Instant) {
        if let Some(mut sockets) = self.sockets.take() {
            sockets.abort_all(&mut self.host, now);
            self.has_challengers = reset_connections(&mut self.host) > 0;
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.sockets.is_none()
    }

    /// Whether the stack has ended, and its last packets have left; `next` is the result of the last turn.
    pub(crate) fn is_done(&self, next: Option<Instant>, now: Instant) -> bool {
        let is_idle = self.host.outstanding() == 0 && next.is_none_or(|at| at > now);
        self.has_ended() && is_idle && !self.has_challengers
    }
}
