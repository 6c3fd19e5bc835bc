//! Both ends ours; what the wire does to the two bits between them.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tautline_stack::{EcnMode, EcnState, TcpConfig};

use crate::pair::Pair;
use crate::peer::seal;

/// Sets the ECN field of a frame that is a TCP segment with payload; false for others.
fn set_ecn(frame: &mut [u8], ecn: u8) -> bool {
    let data = is_data(frame);
    if data {
        frame[15] = frame[15] & !3 | ecn;
        seal(frame);
    }
    data
}

fn is_data(frame: &[u8]) -> bool {
    let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    frame[12..14] == [8, 0] && frame[23] == 6 && total > 20 + usize::from(frame[46] >> 4) * 4
}

fn stream(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}

fn between(mode: EcnMode) -> TcpConfig {
    TcpConfig {
        ecn: mode,
        ..TcpConfig::default()
    }
}

const NOTICED: [(EcnMode, EcnState); 2] = [
    (EcnMode::Request, EcnState::Classic),
    (EcnMode::AccEcn, EcnState::AccEcn),
];

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn marks_slow_the_sender_down_and_nothing_is_lost() {
    for (mode, state) in NOTICED {
        let (mut pair, client, server) = Pair::connected(3, between(mode));
        let (marks, mut count) = (Rc::new(Cell::new(0)), 0);
        let set = marks.clone();
        pair.mangle = Box::new(move |side, frame| {
            count += usize::from(side == 0 && is_data(frame));
            if side == 0 && count % 50 == 49 && frame[15] & 3 != 0 && set_ecn(frame, 3) {
                set.set(set.get() + 1);
            }
        });
        let upload = stream(1_000_000);
        assert_eq!(pair.transfer(0, client, server, &upload, LIMIT), upload);
        let (sender, receiver) = (
            pair.hosts[0].info(client).unwrap(),
            pair.hosts[1].info(server).unwrap(),
        );
        assert_eq!((sender.ecn, receiver.ecn), (state, state));
        assert_eq!(receiver.received_ce, marks.get(), "{mode:?}");
        assert!(
            marks.get() > 10 && sender.ce_reductions > 3,
            "{} marks, {} reductions",
            marks.get(),
            sender.ce_reductions
        );
        assert_eq!((sender.retransmits, sender.timeouts), (0, 0), "{mode:?}");
        if mode == EcnMode::AccEcn {
            pair.run_for(Duration::from_millis(100));
            let told = pair.hosts[0].info(client).unwrap().delivered_ce;
            assert_eq!(told, marks.get(), "the count is exact");
        }
    }
}

/// A path that clears the field: no marks, no harm.
#[test]
fn a_bleached_path_carries_all_the_same() {
    for (mode, _) in NOTICED {
        let (mut pair, client, server) = Pair::connected(4, between(mode));
        pair.mangle = Box::new(|_, frame| {
            set_ecn(frame, 0);
        });
        let upload = stream(500_000);
        assert_eq!(pair.transfer(0, client, server, &upload, LIMIT), upload);
        let sender = pair.hosts[0].info(client).unwrap();
        assert_eq!(
            (
                sender.ce_reductions,
                sender.delivered_ce,
                sender.retransmits
            ),
            (0, 0, 0),
            "{mode:?}"
        );
    }
}

/// A path that marks everything: the least there is of a window, and the stream arrives.
#[test]
fn a_path_that_marks_everything_is_slow_and_loses_nothing() {
    for mode in [EcnMode::Request, EcnMode::AccEcn] {
        let (mut pair, client, server) = Pair::connected(5, between(mode));
        pair.mangle = Box::new(|_, frame| {
            if frame[15] & 3 != 0 {
                set_ecn(frame, 3);
            }
        });
        let upload = stream(100_000);
        assert_eq!(pair.transfer(0, client, server, &upload, LIMIT), upload);
        let sender = pair.hosts[0].info(client).unwrap();
        assert_eq!(sender.retransmits, 0, "{mode:?}");
        assert!(
            sender.cwnd.get() <= 4 * sender.mss.get(),
            "{mode:?}: {}",
            sender.cwnd
        );
    }
}

/// The flags of acknowledgments are cleared on the way: with one flag the echo never comes; a
/// count that is always zero shows.
#[test]
fn cleared_flags_are_survived_and_noticed_where_they_can_be() {
    for mode in [EcnMode::Request, EcnMode::AccEcn] {
        let (mut pair, client, server) = Pair::connected(6, between(mode));
        pair.mangle = Box::new(|side, frame| {
            if side == 1 && frame[12..14] == [8, 0] && frame[23] == 6 {
                frame[46] &= !1;
                frame[47] &= !0xc0;
                seal(frame);
            }
        });
        let upload = stream(500_000);
        assert_eq!(pair.transfer(0, client, server, &upload, LIMIT), upload);
        let capable = Rc::new(Cell::new(false));
        let seen = capable.clone();
        pair.mangle = Box::new(move |side, frame| {
            seen.set(seen.get() || (side == 0 && is_data(frame) && frame[15] & 3 != 0));
        });
        pair.transfer(0, client, server, &upload, LIMIT);
        assert_eq!(
            capable.get(),
            mode == EcnMode::Request,
            "{mode:?}: a sender that notices stops being capable"
        );
        assert!(pair.hosts[0].info(client).unwrap().ce_reductions <= 1);
    }
}

/// The announcement of a reduction is lost: the echo goes on, which is one more reduction, and then
/// ends.
#[test]
fn a_lost_announcement_is_made_again() {
    let (mut pair, client, server) = Pair::connected(7, between(EcnMode::Request));
    let (mut data, mut dropped) = (0, false);
    pair.mangle = Box::new(move |side, frame| {
        if side == 0 && is_data(frame) {
            data += 1;
            if data == 60 {
                set_ecn(frame, 3);
            }
        }
    });
    pair.filter = Box::new(move |side, frame| {
        let announces = side == 0 && is_data(frame) && frame[47] & 0x80 != 0;
        let lost = announces && !dropped;
        dropped |= lost;
        !lost
    });
    let upload = stream(1_000_000);
    assert_eq!(pair.transfer(0, client, server, &upload, LIMIT), upload);
    let (sender, receiver) = (
        pair.hosts[0].info(client).unwrap(),
        pair.hosts[1].info(server).unwrap(),
    );
    assert_eq!((receiver.received_ce, sender.retransmits), (1, 1));
    assert!(
        sender.ce_reductions >= 1 && sender.ce_reductions <= 2,
        "{}",
        sender.ce_reductions
    );
    assert_eq!(sender.timeouts, 0);
}
