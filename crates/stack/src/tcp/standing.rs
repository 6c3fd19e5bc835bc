//! Which obstacle a connection stands before, for its [`Attribution`]. The conditions are those of
//! `output`, looked at once more; only connections that are attributed pay for it.

use tautline_base::Instant;

use super::connection::{Connection, State};
use super::output::{Kind, Plan};
use crate::attribution::{Attribution, Cause};

impl Connection {
    /// What the bytes waited for, if that is kept.
    pub(crate) fn attribution(&self) -> Option<&Attribution> {
        self.attribution.as_deref()
    }

    /// The same, to be added to.
    pub(crate) fn attribution_mut(&mut self) -> Option<&mut Attribution> {
        self.attribution.as_deref_mut()
    }

    /// From now on the connection stands before what `cause` says.
    pub(crate) fn stand(&mut self, cause: impl FnOnce(&Self) -> Cause, now: Instant) {
        if let Some(mut attribution) = self.attribution.take() {
            attribution.stand(cause(self), now);
            self.attribution = Some(attribution);
        }
    }

    /// The application wrote.
    pub(crate) fn note_written(&mut self, now: Instant) {
        let end = self.buffer.end();
        if let Some(attribution) = &mut self.attribution {
            attribution.written(end, now);
        }
    }

    /// `plan` was born.
    pub(crate) fn note_born(&mut self, plan: &Plan, departure: Instant, now: Instant) {
        let payload = plan.payload();
        if let Some(attribution) = &mut self.attribution
            && plan.kind == Kind::New
            && !payload.is_empty()
        {
            attribution.born(payload, departure > now, now);
        }
    }

    /// What keeps the connection from sending more, now that it has nothing it may send.
    pub(crate) fn obstacle(&self) -> Cause {
        let available = self.buffer.end();
        match self.state {
            State::SynSent | State::SynReceived { .. } => return Cause::Handshake,
            State::Established | State::CloseWait if self.nxt < available => {}
            State::Established | State::CloseWait if self.wants_room => return Cause::SendBuffer,
            _ => return Cause::Application,
        }
        if self.flight.refused {
            return Cause::Host;
        }
        let end = (self.nxt + self.segment_size())
            .min(available)
            .min(self.peer.edge.max(self.nxt));
        let len = end - self.nxt;
        let small = len < self.segment_size() && !self.segments.is_empty() && self.fin != Some(end);
        if self.segments.any_lost() || !self.fits_cwnd(&(self.nxt..end)) {
            Cause::Cwnd
        } else if len == 0 || (small && end < available) {
            Cause::PeerWindow
        } else if small {
            Cause::Nagle
        } else {
            Cause::Host
        }
    }
}
