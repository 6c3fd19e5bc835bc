//! A connection's [`TcpInfo`].

use tautline_base::{Bytes, Instant};

use super::connection::Connection;
use super::info::{Limited, TcpInfo};
use super::receiver::Bounds;
use crate::config::Pacing;

impl Connection {
    /// A snapshot.
    pub(crate) fn info(&self, now: Instant) -> TcpInfo {
        let mut info = TcpInfo {
            state: self.state.name(),
            ecn: self.ecn.state(),
            delivered_ce: self.ecn.totals.delivered,
            received_ce: self.ecn.totals.received,
            path_error: self.path_error,
            tsq_charged: self.tsq.charged(),
            tsq_limit: self.config.tsq.at(
                self.send.flight.pacing_rate(),
                self.send.full_frame(),
                self.config.pacing != Pacing::Off,
            ),
            tsq_throttles: self.tsq.throttles(),
            delayed_ack: self
                .receiver
                .acks
                .delay(Bounds::new(&self.config, &self.send.flight.rtt)),
            advertised_mss: Bytes::new(
                self.tuple
                    .own_mss(self.send.flight.path.link(), &self.config)
                    .into(),
            ),
            syn_data_acked: self.send.stream.syn_data_acked,
            receive_buffer: self.config.receive_buffer,
            last_heard: now - self.liveness.heard(),
            limited: self.attribution.as_deref().map(Limited::new),
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
}
