//! The end that connects.

use std::net::SocketAddrV4;
use std::time::Duration;

use tautline_stack::CloseReason;

use crate::pair::address;
use crate::peer::*;
use crate::{FAST_OPEN, on, option};

const COOKIE: [u8; 6] = [1, 2, 3, 4, 5, 6];

/// The host connects and writes `len` bytes; its SYN.
fn connect(peer: &mut Peer, len: usize) -> Segment {
    let remote = SocketAddrV4::new(address(1 - HOST), PEER_PORT);
    let now = peer.pair.now;
    peer.socket = peer.pair.hosts[HOST]
        .connect(remote, on(), now)
        .expect("the address is good");
    let data: Vec<u8> = (0..len).map(|at| at as u8).collect();
    assert_eq!(peer.pair.hosts[HOST].send(peer.socket, &data), Ok(len));
    let sent = peer.run_for(Duration::from_millis(20));
    let [syn] = &sent[..] else {
        panic!("one SYN, not {sent:?}")
    };
    assert_eq!(syn.flags, SYN);
    (peer.port, peer.host_isn) = (syn.source_port, syn.seq);
    syn.clone()
}

/// The peer's SYN-ACK, which takes `taken` bytes of the SYN's data.
fn syn_ack(peer: &Peer, taken: u32, options: Vec<u8>) -> Segment {
    Segment {
        flags: SYN | ACK,
        seq: ISN,
        ack: peer.host_at(taken),
        options,
        ..peer.ack()
    }
}

/// A host with a cookie of the peer's, whose MSS is 1000.
fn with_cookie() -> Peer {
    let mut peer = Peer::stranger(on());
    let syn = connect(&mut peer, 10);
    assert_eq!(syn.option(FAST_OPEN), Some(&[][..]), "it asks");
    assert_eq!(syn.payload, [], "without a cookie no data");
    let options = [mss(1000), option(&COOKIE)].concat();
    let sent = peer.send(&syn_ack(&peer, 0, options));
    assert!(
        sent.iter().any(|segment| segment.payload.len() == 10),
        "{sent:?}"
    );
    let reset = Segment {
        flags: RST,
        ack: 0,
        ..peer.ack()
    };
    peer.send(&reset);
    assert_eq!(peer.pair.closed(HOST), Some(CloseReason::Reset));
    peer
}

#[test]
fn the_syn_carries_what_fits_and_the_rest_follows() {
    let mut peer = with_cookie();
    let syn = connect(&mut peer, 2000);
    assert_eq!(syn.option(FAST_OPEN), Some(&COOKIE[..]));
    // The peer's MSS less the most that options take.
    assert_eq!(syn.payload.len(), 960);
    let sent = peer.send(&syn_ack(&peer, 960, mss(1000)));
    let lens: Vec<_> = sent.iter().map(|it| (it.seq, it.payload.len())).collect();
    assert_eq!(lens, [(peer.host_at(960), 1000), (peer.host_at(1960), 40)]);
    assert_eq!(sent[0].payload[0], 960_u32 as u8);
    let info = peer.info();
    assert!(info.syn_data_acked);
    assert_eq!((info.bytes_acked, info.retransmits), (961, 0));
    peer.send(&peer.acknowledges(2000));
    assert_eq!(peer.info().in_flight.get(), 0);
    peer.still_works_at(0);
}

/// RFC 7413 §4.2.1 step 3: what the SYN-ACK leaves out is sent again at once.
#[test]
fn what_the_server_does_not_take_is_sent_again() {
    for taken in [0, 1, 30, 99] {
        let mut peer = with_cookie();
        let syn = connect(&mut peer, 100);
        assert_eq!(syn.payload.len(), 100);
        let sent = peer.send(&syn_ack(&peer, taken, mss(1000)));
        let data = sent.iter().find(|segment| !segment.payload.is_empty());
        let data = data.expect("the rest of the data");
        assert_eq!(
            (data.seq, data.payload.len() as u32),
            (peer.host_at(taken), 100 - taken)
        );
        assert_eq!(data.payload[0], taken as u8);
        assert_eq!(peer.info().syn_data_acked, taken > 0);
        peer.send(&peer.acknowledges(100));
        peer.still_works_at(0);
    }
}

#[test]
fn more_than_was_sent_cannot_be_acknowledged() {
    let mut peer = with_cookie();
    connect(&mut peer, 100);
    let segment = syn_ack(&peer, 101, mss(1000));
    let answers = peer.send(&segment);
    let [answer] = &answers[..] else {
        panic!("one reset, not {answers:?}")
    };
    assert_eq!((answer.flags, answer.seq), (RST, segment.ack));
}

/// RFC 7413 §4.1.3.1: a middlebox may drop SYNs with options or data it does not know. The next one
/// has neither, nor have those of the next minutes.
#[test]
fn after_a_loss_syns_are_plain_for_a_while() {
    let mut peer = with_cookie();
    connect(&mut peer, 100);
    let again = peer.run_for(Duration::from_millis(1100));
    let [again] = &again[..] else {
        panic!("one SYN, not {again:?}")
    };
    assert_eq!(
        (again.flags, again.option(FAST_OPEN), again.payload.len()),
        (SYN, None, 0)
    );
    // The first one did arrive.
    let sent = peer.send(&syn_ack(&peer, 100, mss(1000)));
    assert!(
        sent.iter().all(|segment| segment.payload.is_empty()),
        "{sent:?}"
    );
    peer.still_works_at(0);
    let now = peer.pair.now;
    peer.pair.hosts[HOST].close(peer.socket, now);
    peer.run_for(Duration::from_secs(20));
    let plain = connect(&mut peer, 100);
    assert_eq!((plain.option(FAST_OPEN), plain.payload.len()), (None, 0));
    peer.run_for(Duration::from_secs(120));
    let tried = connect(&mut peer, 100);
    assert_eq!(
        (tried.option(FAST_OPEN), tried.payload.len()),
        (Some(&COOKIE[..]), 100)
    );
}

/// The window of the SYN-ACK counts from what it acknowledges.
#[test]
fn the_window_begins_after_the_data_of_the_syn() {
    let mut peer = with_cookie();
    connect(&mut peer, 1500);
    let sent = peer.send(&Segment {
        window: 100,
        ..syn_ack(&peer, 960, mss(1000))
    });
    let end = sent
        .iter()
        .map(|it| it.seq.wrapping_add(it.payload.len() as u32))
        .max();
    assert_eq!(end, Some(peer.host_at(1060)));
}

/// `MSG_EOR`: no segment holds bytes of two records, nor does the SYN.
#[test]
fn the_syn_carries_no_more_than_the_first_record() {
    let mut peer = with_cookie();
    let remote = SocketAddrV4::new(address(1 - HOST), PEER_PORT);
    let now = peer.pair.now;
    let host = &mut peer.pair.hosts[HOST];
    peer.socket = host
        .connect(remote, on(), now)
        .expect("the address is good");
    let mut socket = host.tcp(peer.socket).expect("open");
    for record in [&b"first"[..], b"second"] {
        assert_eq!(socket.send_record(record), Ok(record.len()));
    }
    let sent = peer.run_for(Duration::from_millis(20));
    let [syn] = &sent[..] else {
        panic!("one SYN, not {sent:?}")
    };
    assert_eq!((syn.flags, &syn.payload[..]), (SYN, &b"first"[..]));
    (peer.port, peer.host_isn) = (syn.source_port, syn.seq);
    let sent = peer.send(&syn_ack(&peer, 5, mss(1000)));
    let data: Vec<_> = sent
        .iter()
        .map(|it| &it.payload[..])
        .filter(|it| !it.is_empty())
        .collect();
    assert_eq!(data, [b"second"]);
}

/// The peer's SYN crosses ours before it has left: the answer is a SYN-ACK like any other.
#[test]
fn a_syn_ack_to_a_crossing_syn_has_neither_cookie_nor_data() {
    let mut peer = with_cookie();
    let local = (address(HOST), 7_000);
    let remote = SocketAddrV4::new(address(1 - HOST), PEER_PORT);
    let now = peer.pair.now;
    let host = &mut peer.pair.hosts[HOST];
    let socket = host.connect_from(Some(local.into()), remote, on(), now);
    peer.socket = socket.expect("the address is good");
    assert_eq!(host.send(peer.socket, b"early"), Ok(5));
    peer.port = 7_000;
    let crossing = Segment {
        flags: SYN,
        seq: ISN,
        ack: 0,
        options: mss(1000),
        ..peer.ack()
    };
    let answers = peer.send(&crossing);
    let [answer] = &answers[..] else {
        panic!("one SYN-ACK, not {answers:?}")
    };
    assert_eq!(answer.flags, SYN | ACK);
    assert_eq!(
        (answer.option(FAST_OPEN), &answer.payload[..]),
        (None, &[][..])
    );
    peer.host_isn = answer.seq;
    let sent = peer.send(&peer.ack());
    assert_eq!(
        sent.iter().map(|it| &it.payload[..]).collect::<Vec<_>>(),
        [b"early"]
    );
    peer.still_works_at(0);
}
