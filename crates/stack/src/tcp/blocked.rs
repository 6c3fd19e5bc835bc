//! [`Blocked`]: why a connection sends nothing now, what follows from it, and the [`Cause`] that its
//! attribution accounts the time to.

use tautline_base::{Instant, Tso};

use super::connection::Connection;
use super::send::{Blocked, Plan};
use crate::attribution::Cause;

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
        if let Err(blocked) = planned {
            if blocked == Blocked::Tsq {
                self.tsq.throttle();
            }
            let context = self.send_context(now);
            if self.send.on_blocked(blocked, &context) {
                self.liveness.wait(now);
            }
        }
        if let Some(attribution) = &mut self.attribution {
            let wants_room = self.send.stream.buffer.wants_room();
            attribution.set_wait_cause(wait_cause(planned.as_ref().err(), wants_room), now);
        }
        planned
    }
}

/// `wants_room`: the application has more to write than the send buffer can hold.
fn wait_cause(blocked: Option<&Blocked>, wants_room: bool) -> Cause {
    match blocked {
        Some(Blocked::Idle) if wants_room => Cause::SendBuffer,
        Some(Blocked::Idle | Blocked::Cork) => Cause::Application,
        Some(Blocked::Handshake) => Cause::Handshake,
        Some(Blocked::Cwnd) => Cause::Cwnd,
        Some(Blocked::PeerWindow) => Cause::PeerWindow,
        Some(Blocked::Nagle) => Cause::Nagle,
        Some(Blocked::Pacer(_)) => Cause::Pacer,
        Some(Blocked::Tsq) => Cause::Tsq,
        None | Some(Blocked::Restart | Blocked::Refused) => Cause::Host,
    }
}
