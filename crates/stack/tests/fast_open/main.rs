//! TCP Fast Open (RFC 7413): both ends of tautline together, and each against a peer played segment
//! by segment.

#[path = "../pair/mod.rs"]
#[expect(
    dead_code,
    reason = "a module shared by test files, each of which uses a part of it"
)]
mod pair;
#[path = "../hostile/peer.rs"]
#[expect(
    dead_code,
    reason = "shared with other tests, which use another part of it"
)]
mod peer;

mod client;
mod server;

use std::time::Duration;

use tautline_base::SocketId;
use tautline_stack::{Event, Recv, TcpConfig};

use crate::pair::{DELAY, PORT, Pair};

/// The kind of the option.
const FAST_OPEN: u8 = 34;

fn on() -> TcpConfig {
    TcpConfig {
        fast_open: true,
        fast_open_queue: 8,
        ..TcpConfig::default()
    }
}

/// The option with `cookie`, as it stands on the wire.
fn option(cookie: &[u8]) -> Vec<u8> {
    [&[FAST_OPEN, 2 + cookie.len() as u8], cookie].concat()
}

fn accepted(pair: &Pair) -> Vec<SocketId> {
    let events = pair.events[1].iter();
    events
        .filter_map(|event| match event {
            Event::Accepted { socket, .. } => Some(*socket),
            _ => None,
        })
        .collect()
}

/// Opens a connection, sends a request, waits for the response; the time that took.
fn ask(pair: &mut Pair, config: &TcpConfig) -> Duration {
    pair.events = [Vec::new(), Vec::new()];
    let start = pair.now;
    let client = pair.connect(config.clone());
    assert_eq!(pair.hosts[0].send(client, b"request"), Ok(7));
    let mut server = None;
    for _ in 0..100 {
        pair.run_for(Duration::from_millis(1));
        if server.is_none()
            && let Some(&socket) = accepted(pair).first()
            && pair.read(1, socket).0 == b"request"
        {
            server = Some(socket);
            assert_eq!(pair.hosts[1].send(socket, b"response"), Ok(8));
        }
        if pair.read(0, client).0 == b"response" {
            let took = pair.now - start;
            assert_eq!(
                pair.events[0]
                    .iter()
                    .filter(|it| **it == Event::Connected(client))
                    .count(),
                1
            );
            assert_eq!(accepted(pair).len(), 1);
            pair.run_for(DELAY * 4);
            let sockets = [(0, client), (1, server.expect("it has answered"))];
            for (side, socket) in sockets {
                assert_eq!(pair.state(side, socket), Some("ESTABLISHED"));
            }
            for (side, socket) in sockets {
                pair.hosts[side].close(socket, pair.now);
            }
            pair.run_for(Duration::from_secs(2));
            return took;
        }
    }
    panic!("no response");
}

/// The effect: with a cookie from an earlier connection a request and its response take one round
/// trip instead of two.
#[test]
fn a_request_takes_one_round_trip_once_there_is_a_cookie() {
    for (config, trips) in [(on(), [2, 1, 1]), (TcpConfig::default(), [2, 2, 2])] {
        let mut pair = Pair::new(5);
        pair.hosts[1]
            .listen(PORT, config.clone())
            .expect("the port is free");
        // Hardware addresses.
        ask(&mut pair, &TcpConfig::default());
        for trips in trips {
            let took = ask(&mut pair, &config);
            let least = DELAY * 2 * trips;
            let fits = least..=least + Duration::from_millis(2);
            assert!(fits.contains(&took), "{took:?}, not {fits:?}");
        }
    }
}

/// A server's data follows its SYN-ACK at once; its FIN waits for the client.
#[test]
fn a_server_may_answer_and_finish_before_the_client_is_proven() {
    let mut pair = Pair::new(6);
    pair.hosts[1].listen(PORT, on()).expect("the port is free");
    ask(&mut pair, &on());
    pair.events = [Vec::new(), Vec::new()];
    let client = pair.connect(on());
    assert_eq!(pair.hosts[0].send(client, b"request"), Ok(7));
    pair.run_for(DELAY + Duration::from_millis(1));
    let [server] = accepted(&pair)[..] else {
        panic!("accepted at the SYN, not {:?}", pair.events)
    };
    assert_eq!(pair.state(1, server), Some("SYN-RECEIVED"));
    assert_eq!(pair.read(1, server).0, b"request");
    let response = vec![7; 8000];
    assert_eq!(pair.hosts[1].send(server, &response), Ok(8000));
    pair.hosts[1].close(server, pair.now);
    pair.run_for(DELAY * 10);
    assert_eq!(pair.read(0, client), (response, Recv::EndOfStream));
}
