//! [`Blocked`]: why a connection sends nothing now, what follows from it, and how its
//! [`Attribution`] accounts for the time.

use tautline_base::{Instant, Tso};

use super::connection::Connection;
use super::send::{Blocked, Kind, Plan};
use crate::attribution::{Attribution, Cause};

impl Connection {
    /// The next segment to send, after the connection's own state has been brought up to date.
    ///
    /// # Errors
    /// Why nothing may be sent; everything that follows from it has been done, but for the
    /// host's own wake-up at [`Blocked::Pacer`].
    pub(crate) fn plan(&mut self, most: Option<Tso>, now: Instant) -> Result<Plan, Blocked> {
        let mut planned = self.next_segment(most, now);
        if planned == Err(Blocked::Restart) {
            self.send.flight.restart(now);
            planned = self.next_segment(most, now);
        }
        match planned {
            Ok(_) => self.set_wait_cause(Cause::Host, now),
            Err(blocked) => self.on_blocked(blocked, now),
        }
        planned
    }

    /// Everything that follows from being blocked.
    fn on_blocked(&mut self, blocked: Blocked, now: Instant) {
        let context = self.send_context(now);
        let cause = match blocked {
            Blocked::Idle if self.send.stream.buffer.wants_room() => Cause::SendBuffer,
            Blocked::Idle => Cause::Application,
            Blocked::Handshake => Cause::Handshake,
            Blocked::Restart | Blocked::Refused => Cause::Host,
            Blocked::Cwnd => Cause::Cwnd,
            Blocked::PeerWindow => Cause::PeerWindow,
            Blocked::Nagle => Cause::Nagle,
            Blocked::Pacer(_) => Cause::Pacer,
            Blocked::Tsq => {
                self.tsq.throttle();
                Cause::Tsq
            }
        };
        if self.send.on_blocked(blocked, &context) {
            self.liveness.wait(now);
        }
        self.set_wait_cause(cause, now);
    }

    /// The account of what the bytes waited for, if the configuration asks for one.
    pub(crate) fn attribution(&self) -> Option<&Attribution> {
        self.attribution.as_deref()
    }

    /// The same, mutable.
    pub(crate) fn attribution_mut(&mut self) -> Option<&mut Attribution> {
        self.attribution.as_deref_mut()
    }

    fn set_wait_cause(&mut self, cause: Cause, now: Instant) {
        if let Some(attribution) = &mut self.attribution {
            attribution.set_wait_cause(cause, now);
        }
    }

    /// The application wrote.
    pub(crate) fn note_written(&mut self, now: Instant) {
        let end = self.send.stream.buffer.end();
        if let Some(attribution) = &mut self.attribution {
            attribution.written(end, now);
        }
    }

    /// Accounts for the waits of the payload that `plan` sends for the first time.
    pub(super) fn note_born(&mut self, plan: &Plan, now: Instant) {
        let payload = plan.payload();
        if let Some(attribution) = &mut self.attribution
            && plan.kind == Kind::New
            && !payload.is_empty()
        {
            attribution.born(payload, plan.departure > now, now);
        }
    }
}
