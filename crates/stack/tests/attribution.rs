//! What bytes wait for when the application writes little: the handshake, Nagle's algorithm, and the application itself. The
//! mechanisms that make much wait are shown in simulations.

#[expect(dead_code, reason = "of what tests share, these need little")]
mod pair;

use std::time::Duration;

use pair::{DELAY, PORT, Pair};
use tautline_base::SocketId;
use tautline_stack::TcpConfig;
use tautline_stack::attribution::{Attribution, Cause};

fn config() -> TcpConfig {
    TcpConfig { attribution: true, ..TcpConfig::default() }
}

fn attribution(pair: &Pair, socket: SocketId) -> &Attribution {
    pair.hosts[0].attribution(socket).expect("the connection keeps account")
}

/// Twenty small writes, `gap` apart; what they waited for Nagle's algorithm on average.
fn small_writes(nagle: bool, gap: Duration) -> (Duration, Duration) {
    let (mut pair, client, _) = Pair::connected(3, TcpConfig { nagle, ..config() });
    for _ in 0..20 {
        assert_eq!(pair.hosts[0].send(client, &[7; 100]), Ok(100));
        pair.run_for(gap);
    }
    pair.run_for(DELAY * 10);
    let found = attribution(&pair, client);
    assert_eq!(found.waits(Cause::Nagle).bytes(), 2000, "every byte counts");
    (found.waits(Cause::Nagle).mean(), found.stood(Cause::Application))
}

#[test]
fn small_segments_wait_for_nagle() {
    let millis = Duration::from_millis(1);
    let (waited, _) = small_writes(true, millis);
    assert!(waited > DELAY / 2 && waited < DELAY * 2, "half a round trip of 10 ms on average: {waited:?}");
    assert_eq!(small_writes(false, millis).0, Duration::ZERO);
}

#[test]
fn a_quiet_application_is_what_the_connection_waits_for() {
    let (_, quiet) = small_writes(false, Duration::from_millis(100));
    assert!(quiet > Duration::from_millis(19 * 100), "{quiet:?}");
    let (_, busy) = small_writes(false, Duration::ZERO);
    assert!(busy < Duration::from_millis(150), "{busy:?}");
}

/// Waits for the host and for the handshake of 100 bytes, written before the connection is open or after.
fn opening(before: bool) -> [Duration; 2] {
    let mut pair = Pair::new(5);
    pair.hosts[1].listen(PORT, TcpConfig::default()).expect("free");
    let client = pair.connect(config());
    if !before {
        pair.run_for(DELAY * 8);
    }
    pair.hosts[0].send(client, &[1; 100]).expect("open");
    pair.run_for(DELAY * 8);
    [Cause::Host, Cause::Handshake].map(|cause| attribution(&pair, client).waits(cause).mean())
}

#[test]
fn what_is_written_early_waits_for_the_handshake() {
    // A round trip for the neighbour's address, one for the SYN.
    assert_eq!(opening(true), [DELAY * 2; 2]);
    assert_eq!(opening(false), [Duration::ZERO; 2]);
}

#[test]
fn nobody_pays_who_did_not_ask() {
    let (pair, client, _) = Pair::connected(3, TcpConfig::default());
    assert!(pair.hosts[0].attribution(client).is_none());
}
