//! ARP (RFC 826): probes of other hosts for our address, and neighbors that move.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::Duration;

use tautline_stack::{UdpConfig, announce};
use tautline_testkit::frame::{ARP, arp, ethernet};

use crate::pair::{FRAMES, PORT, Pair, address};

const HOST: usize = 0;
const PEER: usize = 1;
const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OTHER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 66];
const EVERYONE: [u8; 6] = [0xff; 6];
const NOBODY: [u8; 6] = [0; 6];

/// A pair with everything that the host sent.
fn watched() -> (Pair, Rc<RefCell<Vec<Vec<u8>>>>) {
    let mut pair = Pair::new(3);
    let sent: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
    let keep = sent.clone();
    pair.filter = Box::new(move |side, frame| {
        if side == HOST {
            keep.borrow_mut().push(frame.to_vec());
        }
        true
    });
    (pair, sent)
}

/// RFC 5227 §2.1.1: a probe has no sender address. The host that has the address answers, or the one
/// that probes takes it too.
#[test]
fn a_probe_for_our_address_is_answered() {
    let (mut pair, sent) = watched();
    let probe = |target| {
        let message = arp(1, (OTHER_MAC, Ipv4Addr::UNSPECIFIED), (NOBODY, target));
        ethernet(EVERYONE, OTHER_MAC, ARP, &message)
    };
    pair.inject(HOST, &probe(address(HOST)));
    pair.inject(HOST, &probe(Ipv4Addr::new(10, 7, 0, 77)));
    pair.run_for(Duration::from_millis(1));
    let answer = arp(
        2,
        (HOST_MAC, address(HOST)),
        (OTHER_MAC, Ipv4Addr::UNSPECIFIED),
    );
    assert_eq!(
        sent.take(),
        [ethernet(OTHER_MAC, HOST_MAC, ARP, &answer)],
        "one answer, to the hardware address that asked"
    );
}

/// Answers take no more than three quarters of the frames, as those to any other flood: the rest are for
/// connections.
#[test]
fn a_flood_of_requests_leaves_frames() {
    let (mut pair, sent) = watched();
    let asks = (OTHER_MAC, Ipv4Addr::new(10, 7, 0, 77));
    let message = arp(1, asks, (NOBODY, address(HOST)));
    let request = ethernet(EVERYONE, OTHER_MAC, ARP, &message);
    for _ in 0..2 * FRAMES {
        pair.inject(HOST, &request);
    }
    pair.run_for(Duration::from_millis(10));
    assert_eq!(sent.take().len(), FRAMES - FRAMES / 4);
}

/// RFC 826: a known neighbor that announces another hardware address has moved, as the address of
/// redundant routers does (RFC 5944 §4.6). The host asks at once, and does not wait for the entry to
/// age.
#[test]
fn a_neighbor_that_announces_a_new_hardware_address_is_asked() {
    let (mut pair, sent) = watched();
    let host = &mut pair.hosts[HOST];
    let local = (Ipv4Addr::UNSPECIFIED, 0);
    let socket = host.udp().bind(local, UdpConfig::default()).expect("free");
    let send = |pair: &mut Pair| {
        let to = Some((address(PEER), PORT).into());
        let sent = pair.hosts[HOST].udp().send_to(socket, b"data", to);
        assert_eq!(sent, Ok(()));
        pair.run_for(Duration::from_millis(50));
    };
    send(&mut pair);
    for kind in [1, 2] {
        let mac = [2, 0, 0, 0, 0, 66 + kind as u8];
        let message = arp(kind, (mac, address(PEER)), (NOBODY, address(PEER)));
        pair.inject(HOST, &ethernet(EVERYONE, mac, ARP, &message));
        sent.take();
        send(&mut pair);
        let asked = |frame: &Vec<u8>| frame[12..14] == ARP.to_be_bytes() && frame[21] == 1;
        assert_eq!(sent.take().iter().filter(|frame| asked(frame)).count(), 1);
        pair.run_for(Duration::from_secs(2));
    }
}

/// The announcement of the host's address (RFC 5227 §2.3).
fn announcement() -> Vec<u8> {
    let own = (HOST_MAC, address(HOST));
    ethernet(
        EVERYONE,
        HOST_MAC,
        ARP,
        &arp(1, own, (NOBODY, address(HOST))),
    )
}

/// RFC 5227 §2.4 (c): the host keeps its address and tells its neighbors so, but once in ten seconds at
/// most, whatever it is that the other host sends.
#[test]
fn an_address_that_another_host_uses_is_defended_every_ten_seconds_at_most() {
    let (mut pair, sent) = watched();
    let claim = |kind, mac, target| {
        let message = arp(kind, (mac, address(HOST)), (NOBODY, target));
        ethernet(EVERYONE, mac, ARP, &message)
    };
    let peer = address(PEER);
    pair.inject(HOST, &claim(1, HOST_MAC, peer)); // our own frame, which came back
    pair.run_for(Duration::from_millis(1));
    assert_eq!(sent.take(), Vec::<Vec<u8>>::new());
    let claims = [
        claim(1, OTHER_MAC, peer),
        claim(2, OTHER_MAC, peer),
        claim(1, OTHER_MAC, address(HOST)),
        claim(2, OTHER_MAC, address(HOST)),
    ];
    for second in 0..21 {
        for claim in &claims {
            pair.inject(HOST, claim);
        }
        pair.run_for(Duration::from_secs(1));
        let defense = [announcement()];
        let expected = if second % 10 == 0 { &defense[..] } else { &[] };
        assert_eq!(sent.take(), expected, "after {second} s");
    }
    let stats = pair.hosts[HOST].stats();
    assert_eq!((stats.address_conflicts, stats.malformed), (84, 0));
}

#[test]
fn a_host_announces_an_address_of_its_own() {
    let (mut pair, sent) = watched();
    let now = pair.now;
    announce(&mut pair.hosts[HOST], address(PEER), now);
    announce(&mut pair.hosts[HOST], address(HOST), now);
    pair.run_for(Duration::from_millis(1));
    assert_eq!(sent.take(), [announcement()]);
    assert_eq!(pair.hosts[PEER].stats().address_conflicts, 0);
}
