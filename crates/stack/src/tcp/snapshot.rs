//! A connection's [`TcpInfo`].

use tautline_base::{Bytes, Instant};

use super::connection::{Connection, State};
use super::info::{Limited, TcpInfo};
use crate::attribution::Cause;
use crate::config::Pacing;

impl Connection {
    /// A snapshot.
    pub(crate) fn info(&self, now: Instant) -> TcpInfo {
        let mut info = TcpInfo {
            state: self.state_name(),
            ecn: self.ecn.state(),
            delivered_ce: self.ecn.totals.delivered,
            received_ce: self.ecn.totals.received,
            path_error: self.path_error,
            tsq_charged: self.tsq.charged(),
            tsq_limit: self.config.tsq.at(
                self.send.flight.congestion.verdict().pacing_rate,
                self.full_frame(),
                self.config.pacing != Pacing::Off,
            ),
            tsq_throttles: self.tsq.throttles(),
            delayed_ack: self.receiver.present_ack_delay(self.ack_bounds()),
            advertised_mss: Bytes::new(
                (self.send.flight.path.link() - self.tuple.headers_len()) as u64,
            ),
            receive_buffer: self.config.receive_buffer,
            last_heard: now - self.liveness.heard(),
            limited: self.limited(),
            ..TcpInfo::default()
        };
        if let Some(negotiated) = &self.negotiated {
            info.timestamps = negotiated.timestamps.recent.is_some();
            info.sack = negotiated.sack;
            info.scales = negotiated
                .scaling
                .then_some((negotiated.peer_scale, negotiated.own_scale));
        }
        self.send.fill(&mut info, now);
        self.receiver.fill(&mut info, now);
        info
    }

    fn limited(&self) -> Option<Limited> {
        let attribution = self.attribution()?;
        let idle = [Cause::Application, Cause::Handshake];
        let busy = Cause::ALL.into_iter().filter(|cause| !idle.contains(cause));
        Some(Limited {
            busy: busy.map(|cause| attribution.time_blocked_by(cause)).sum(),
            peer_window: attribution.time_blocked_by(Cause::PeerWindow),
            send_buffer: attribution.time_blocked_by(Cause::SendBuffer),
            cwnd: attribution.time_blocked_by(Cause::Cwnd),
            tsq: attribution.time_blocked_by(Cause::Tsq),
            pacer: attribution.time_blocked_by(Cause::Pacer),
        })
    }

    fn state_name(&self) -> &'static str {
        match self.state {
            State::SynSent => "SYN-SENT",
            State::SynReceived { .. } => "SYN-RECEIVED",
            State::Established => "ESTABLISHED",
            State::FinWait1 => "FIN-WAIT-1",
            State::FinWait2 => "FIN-WAIT-2",
            State::CloseWait => "CLOSE-WAIT",
            State::Closing => "CLOSING",
            State::LastAck => "LAST-ACK",
            State::TimeWait => "TIME-WAIT",
            State::Closed => "CLOSED",
        }
    }
}
