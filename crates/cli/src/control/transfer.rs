//! [`TransferControl`]: the HTTP server's requests, answered by one end of a transfer: the way out of
//! its host, and its connection.

use std::net::SocketAddr;

use tautline_base::{Device, Instant, Packet, SocketId};
use tautline_bql::Limit;
use tautline_live::PortState;
use tautline_qdisc::{Qdisc, Stats};
use tautline_rt::EventLoop;
use tautline_stack::{Host, Tracer};
use tautline_tc::Inspect;

use super::capture::{Feed, Taps};
use super::connection::ConnectionState;
use super::request::{Answer, Request};
use super::state::State;
use super::talkers::TopTalkers;
use super::{Control, Endpoints};
use crate::failure::Failure;

/// One end of a transfer as clients of its HTTP server see it.
pub struct TransferControl {
    control: Control,
    /// No request over HTTP begins a capture.
    taps: Taps,
    interface: String,
    begun: Instant,
}

impl TransferControl {
    /// Serves HTTP at `address` for the host on `interface` that `event_loop` drives.
    ///
    /// # Errors
    /// If the system refuses the address.
    pub fn listen(
        address: SocketAddr,
        interface: &str,
        event_loop: &EventLoop,
    ) -> Result<Self, Failure> {
        let endpoints = Endpoints {
            socket: None,
            http: Some((address, None)),
        };
        let control = Control::listen(endpoints, None)?;
        let clock = event_loop.clock();
        let feed = Feed {
            clock,
            places: [interface.to_owned(), interface.to_owned()],
        };
        control.attach(&event_loop.event_fd(), feed);
        Ok(Self {
            control,
            taps: Taps::default(),
            interface: interface.to_owned(),
            begun: clock.now(),
        })
    }

    /// Answers every request that has come. `socket` is the connection, once there is one.
    pub fn serve<Q, D, T, L>(
        &self,
        host: &Host<Stats<Q>, D, T, L>,
        socket: Option<SocketId>,
        now: Instant,
    ) where
        D: Device,
        Q: Qdisc<Packet<D::Frame>> + Inspect,
        T: Tracer,
        L: Limit,
    {
        self.control.serve(&self.taps, |request| match request {
            Request::Show => Answer {
                error: None,
                ports: vec![self.state(host, socket, now)],
            },
            Request::Change { .. } | Request::Replace { .. } | Request::Capture(_) => {
                let why = "a transfer keeps its qdisc, see --qdisc; that of a middlebox can change";
                Answer::of(Err(why.to_owned()))
            }
        });
    }

    fn state<Q, D, T, L>(
        &self,
        host: &Host<Stats<Q>, D, T, L>,
        socket: Option<SocketId>,
        now: Instant,
    ) -> State
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>> + Inspect,
        T: Tracer,
        L: Limit,
    {
        let port = PortState::of(format!("out ({})", self.interface), host.port());
        let report = host.port().qdisc().report();
        let place = (&*self.interface, (now - self.begun).as_secs_f64());
        let connection = socket.and_then(|socket| {
            let info = host.info(socket)?;
            Some(ConnectionState::new(&info, host.attribution(socket)))
        });
        State {
            connection: Some(connection.unwrap_or_default()),
            ..State::new(port, &report, TopTalkers::default(), place)
        }
    }
}

#[cfg(test)]
mod tests {
    use tautline_sim::Transfer;
    use tautline_sim::transfer::SENDER;
    use tautline_stack::TcpConfig;

    use super::super::metrics;
    use super::*;

    /// The last state of a sender while its connection was open.
    fn last_state(sender: TcpConfig) -> State {
        let control = TransferControl {
            control: Control::default(),
            taps: Taps::default(),
            interface: "eth0".to_owned(),
            begun: Instant::ZERO,
        };
        let mut shown = None;
        let watched = Transfer {
            bytes: 300_000,
            sender,
            ..Transfer::default()
        }
        .run_watched(|network| {
            let end = network.endpoint(SENDER);
            let socket = end.apps.sockets().next().map(|(_, socket)| socket);
            let state = control.state(&end.host, socket, network.now());
            if state
                .connection
                .as_ref()
                .is_some_and(|of| !of.state.is_empty())
            {
                shown = Some(state);
            }
        });
        watched.expect("the transfer completes");
        shown.expect("the connection was open")
    }

    #[test]
    fn a_sender_shows_its_connection_and_its_way_out() {
        let state = last_state(TcpConfig {
            attribution: true,
            ..TcpConfig::default()
        });
        let connection = state.connection.as_ref().expect("a transfer has one");
        let acked = connection.acked_bytes;
        assert!((200_000..=300_000).contains(&acked), "{connection:?}");
        assert!(connection.cwnd_bytes > 0 && connection.srtt_s > 0.0);
        assert!(connection.tsq_limit_bytes > Some(0), "{connection:?}");
        assert!(state.sent.bytes >= acked, "{state:?}");
        // The causes' clocks cover the connection's life.
        let blocked: f64 = connection.blocked_s.values().sum();
        assert!(blocked > 0.0 && blocked <= state.time_s, "{connection:?}");

        let page = metrics::text(std::slice::from_ref(&state));
        for line in [
            "# TYPE tautline_tcp_acked_bytes_total counter".to_owned(),
            format!("tautline_tcp_acked_bytes_total{{device=\"eth0\"}} {acked}"),
            "# TYPE tautline_tsq_limit_bytes gauge".to_owned(),
            format!(
                "tautline_tcp_blocked_seconds_total{{device=\"eth0\",cause=\"cwnd\"}} {}",
                connection.blocked_s["cwnd"]
            ),
            format!(
                "node_qdisc_packets_total{{device=\"eth0\",kind=\"{}\"}} {}",
                state.kind, state.sent.packets
            ),
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
        let again = serde_json::to_string(&state).expect("plain fields");
        let again: State = serde_json::from_str(&again).expect("its own text");
        assert_eq!(again.connection.map(|of| of.acked_bytes), Some(acked));
    }

    #[test]
    fn without_attribution_and_small_queues_their_series_are_absent() {
        let state = last_state(TcpConfig {
            tsq: tautline_stack::TsqLimit::Off,
            ..TcpConfig::default()
        });
        let page = metrics::text(&[state]);
        let has = |name: &str| page.lines().any(|line| line.starts_with(name));
        assert!(has("tautline_tcp_cwnd_bytes{"), "{page}");
        assert!(!has("tautline_tsq_limit_bytes{"), "{page}");
        assert!(!has("tautline_tcp_blocked_seconds_total{"), "{page}");
    }
}
