//! Initial sequence numbers near 0, 2³¹ and 2³²: streams that wrap, or change sign, in the
//! handshake, early, and in mid-stream, on a wire with losses, so that SACK and retransmission
//! cross the place too.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tautline_base::Instant;
use tautline_stack::{Event, TcpConfig};

use crate::pair::{DELAY, PORT, Pair};

/// The clock of initial sequence numbers ticks once in this time (RFC 6528 with `keyed`'s choice of
/// 64 ns).
const TICK_NANOS: u64 = 64;

/// A pair that connects at `start`; both initial sequence numbers, the connecting side's first.
fn connect(start: Instant) -> (Pair, [u32; 2]) {
    let mut pair = Pair::new(5);
    pair.now = start;
    pair.hosts[1]
        .listen(PORT, TcpConfig::default())
        .expect("the port is free");
    let isns = Rc::new(RefCell::new([None; 2]));
    let seen = isns.clone();
    pair.filter = Box::new(move |side, frame| {
        if frame[12..14] == [8, 0] && frame[47] & 2 != 0 {
            seen.borrow_mut()[side] = Some(u32::from_be_bytes([
                frame[38], frame[39], frame[40], frame[41],
            ]));
        }
        true
    });
    pair.connect(TcpConfig::default());
    pair.run_for(DELAY * 8);
    let isns = isns.borrow().map(|isn| isn.expect("both SYNs were sent"));
    (pair, isns)
}

/// The moment at which the connection of `side` gets `wanted`: the numbers follow a clock, so it
/// only has to be late enough.
fn start_for(side: usize, wanted: u32) -> Instant {
    let start = Instant::from_secs(1);
    let (_, isns) = connect(start);
    let ticks = wanted.wrapping_sub(isns[side]);
    start + Duration::from_nanos(u64::from(ticks) * TICK_NANOS)
}

fn transfers_both_ways(side: usize, wanted: u32) {
    let (mut pair, isns) = connect(start_for(side, wanted));
    assert_eq!(isns[side], wanted, "the clock is as assumed");
    let find = |events: &[Event]| {
        events.iter().find_map(|event| match event {
            Event::Accepted { socket, .. } | Event::Connected(socket) => Some(*socket),
            _ => None,
        })
    };
    let sockets = [0, 1].map(|side| find(&pair.events[side]).expect("established"));
    let mut count = 0;
    pair.filter = Box::new(move |_, _| {
        count += 1;
        count % 23 != 0
    });
    let data: Vec<u8> = (0..120_000u32).map(|i| (i % 251) as u8).collect();
    for from in [0, 1] {
        let got = pair.transfer(
            from,
            sockets[from],
            sockets[1 - from],
            &data,
            Duration::from_secs(60),
        );
        assert!(
            got == data,
            "ISN {wanted:#x} at side {side}: {} of {} bytes",
            got.len(),
            data.len()
        );
    }
    for (side, socket) in sockets.into_iter().enumerate() {
        pair.hosts[side].close(socket, pair.now);
    }
    pair.run_for(Duration::from_secs(100));
    for host in &pair.hosts {
        assert_eq!(host.outstanding(), 0);
    }
    assert_eq!(
        pair.hosts[0].socket_count(),
        0,
        "ISN {wanted:#x} at side {side}: closed in order"
    );
}

#[test]
fn streams_cross_zero_and_the_change_of_sign() {
    for place in [0u32, 1 << 31] {
        for before in [0, 1, 2, 1_449, 50_000, 1 << 16] {
            for side in [0, 1] {
                transfers_both_ways(side, place.wrapping_sub(before));
            }
        }
    }
}
