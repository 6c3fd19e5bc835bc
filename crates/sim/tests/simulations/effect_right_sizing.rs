//! The receive window follows what the application reads: a long fat path is filled although the
//! window starts small.

use crate::common::{ms, path, run};
use tautline_base::{Bytes, Rate};
use tautline_sim::{Outcome, Transfer};
use tautline_stack::TcpConfig;

fn transfer(receive_buffer: Bytes) -> Outcome {
    let receiver = TcpConfig {
        receive_buffer,
        ..TcpConfig::default()
    };
    run(&Transfer {
        bytes: 16 << 20,
        links: path(100, ms(100)),
        receiver,
        ..Transfer::default()
    })
}

/// The effect: a window that may not grow lets through one start per round trip.
#[test]
fn the_window_grows_with_the_reader() {
    let (grows, stays) = (transfer(Bytes::mib(6)), transfer(Bytes::kib(64)));
    assert!(grows.goodput > Rate::mbit(50), "{}", grows.goodput);
    assert!(stays.goodput < Rate::mbit(6), "{}", stays.goodput);
    assert!(stays.sender.peer_limited && !grows.sender.peer_limited);
}
