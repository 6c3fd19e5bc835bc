//! Extension headers of IPv6 that the host cannot go past, and what their sender is told (RFC 8200 §4,
//! RFC 4443 §2.4 and §3.4).

use std::cell::RefCell;
use std::net::Ipv6Addr;
use std::rc::Rc;
use std::time::Duration;

use tautline_testkit::Ip;

use crate::frames::is_ipv6;
use crate::pair::{Pair, address_v6};

const HOP_BY_HOP: u8 = 0;
const UDP: u8 = 17;
const ROUTING: u8 = 43;
const ICMPV6: u8 = 58;
const DESTINATION_OPTIONS: u8 = 60;
const PARAMETER_PROBLEM: u8 = 4;
/// A datagram without a checksum: no host takes it over IPv6.
const DATAGRAM: [u8; 8] = [0x9c, 0x40, 0, 9, 0, 8, 0, 0];
const ALL_NODES: &str = "ff02::1";
/// The group in which neighbors ask for fd07::2.
const OWN_GROUP: &str = "ff02::1:ff00:2";

/// Side 1 of a pair, and the ICMPv6 messages that it sends.
struct Target {
    pair: Pair,
    seen: Rc<RefCell<Vec<Vec<u8>>>>,
}

impl Target {
    fn new() -> Self {
        let mut pair = Pair::new(7);
        let seen: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
        let keep = seen.clone();
        pair.filter = Box::new(move |side, frame| {
            if side == 1 && is_ipv6(frame) && frame[20] == ICMPV6 {
                keep.borrow_mut().push(frame[14..].to_vec());
            }
            true
        });
        Self { pair, seen }
    }

    /// Sends a packet from side 0 whose first header is of kind `first`.
    fn send(&mut self, to: Ipv6Addr, first: u8, payload: &[u8]) -> Vec<u8> {
        let mac = match to.octets() {
            [0xff, .., a, b, c, d] => [0x33, 0x33, a, b, c, d],
            _ => [2, 0, 0, 0, 0, 2],
        };
        let ip = Ip::new(address_v6(0), to, first);
        let frame = ip.frame(mac, [2, 0, 0, 0, 0, 1], payload);
        self.pair.inject(1, &frame);
        self.pair.run_for(Duration::from_millis(1));
        frame[14..].to_vec()
    }

    /// Code and pointer of the parameter problem that answers such a packet. It quotes the packet, and
    /// goes from an address of the host to the sender.
    fn answer(&mut self, to: &str, first: u8, payload: &[u8]) -> Option<(u8, u32)> {
        let to = to.parse().expect("an address");
        let packet = self.send(to, first, payload);
        let answer = self.seen.borrow_mut().pop()?;
        assert_eq!(answer[40], PARAMETER_PROBLEM);
        let source = if to.is_multicast() { address_v6(1) } else { to };
        assert_eq!(answer[8..24], source.octets());
        assert_eq!(answer[24..40], address_v6(0).octets());
        assert_eq!(answer[48..], packet);
        let pointer = answer[44..48].try_into().expect("four bytes");
        Some((answer[41], u32::from_be_bytes(pointer)))
    }
}

/// A header of options, and what follows it.
fn options(next: u8, options: [u8; 6]) -> Vec<u8> {
    [&[next, 0][..], &options].concat()
}

const PADDING: [u8; 6] = [1, 4, 0, 0, 0, 0];

#[test]
fn the_sender_of_a_packet_that_is_not_understood_is_told_where() {
    let mut target = Target::new();
    let us = "fd07::2";
    let mut answer = |first, headers: &[Vec<u8>]| {
        let payload = [&headers.concat()[..], &DATAGRAM].concat();
        target.answer(us, first, &payload)
    };
    let option = |kind| vec![options(UDP, [kind, 4, 0, 0, 0, 0])];
    for first in [HOP_BY_HOP, DESTINATION_OPTIONS] {
        assert_eq!(answer(first, &option(0x80 | 0x1e)), Some((2, 42)));
        assert_eq!(answer(first, &option(0xc0 | 0x1e)), Some((2, 42)));
        assert_eq!(
            answer(first, &option(0x40 | 0x1e)),
            None,
            "dropped silently"
        );
    }
    // Behind padding of both kinds, and in the second header.
    let behind = options(UDP, [1, 0, 0, 0xbe, 1, 0]);
    assert_eq!(answer(DESTINATION_OPTIONS, &[behind]), Some((2, 45)));
    let second = [
        options(DESTINATION_OPTIONS, PADDING),
        options(UDP, [0xbe, 4, 0, 0, 0, 0]),
    ];
    assert_eq!(answer(HOP_BY_HOP, &second), Some((2, 50)));
    // An option that is longer than its header points nowhere.
    let cut = [
        options(UDP, [1, 3, 0, 0, 0, 0xbe]),
        options(UDP, [1, 9, 0, 0, 0, 0]),
    ];
    for cut in cut {
        assert_eq!(answer(DESTINATION_OPTIONS, &[cut]), None);
    }
    // A route with segments left, of a type that is unknown, or no longer used.
    for kind in [0, 4, 253] {
        let route = vec![UDP, 0, kind, 1, 0, 0, 0, 0];
        assert_eq!(answer(ROUTING, &[route]), Some((0, 42)), "type {kind}");
    }
    // Hop-by-hop options that do not come first are a next header that is not known there.
    let late = [options(HOP_BY_HOP, PADDING), options(UDP, PADDING)];
    assert_eq!(answer(DESTINATION_OPTIONS, &late), Some((1, 40)));
    assert_eq!(answer(253, &[]), Some((1, 6)));
    // The ninth header is one too many (RFC 8883 §2).
    let many = vec![options(DESTINATION_OPTIONS, PADDING); 9];
    assert_eq!(answer(DESTINATION_OPTIONS, &many), Some((8, 40 + 8 * 8)));
}

#[test]
fn a_multicast_packet_draws_an_answer_only_if_its_option_says_so() {
    let mut target = Target::new();
    let option = |kind| [&options(UDP, [kind, 4, 0, 0, 0, 0])[..], &DATAGRAM].concat();
    for group in [ALL_NODES, OWN_GROUP] {
        let mut answer = |first, payload: &[u8]| target.answer(group, first, payload);
        assert_eq!(answer(DESTINATION_OPTIONS, &option(0xbe)), Some((2, 42)));
        assert_eq!(answer(DESTINATION_OPTIONS, &option(0xfe)), None);
        let route = [&[UDP, 0, 4, 1, 0, 0, 0, 0][..], &DATAGRAM].concat();
        assert_eq!(answer(ROUTING, &route), None);
        assert_eq!(answer(253, &DATAGRAM), None);
    }
    for foreign in ["ff02::fb", "ff02::1:ff00:9"] {
        assert_eq!(
            target.answer(foreign, DESTINATION_OPTIONS, &option(0xbe)),
            None
        );
    }
}

#[test]
fn an_icmp_error_draws_none() {
    let mut target = Target::new();
    for (kind, answered) in [
        (1, false),
        (4, false),
        (127, false),
        (137, false),
        (128, true),
    ] {
        for message in [vec![kind, 0, 0, 0, 0, 0, 0, 0], Vec::new()] {
            // What is no longer there may have been an error.
            let is_answered = answered && !message.is_empty();
            for (first, header) in [
                (DESTINATION_OPTIONS, options(ICMPV6, [0xbe, 4, 0, 0, 0, 0])),
                (ROUTING, vec![ICMPV6, 0, 4, 1, 0, 0, 0, 0]),
            ] {
                let payload = [&header[..], &message].concat();
                let answer = target.answer("fd07::2", first, &payload);
                assert_eq!(answer.is_some(), is_answered, "{kind} behind {first}");
            }
        }
    }
}

#[test]
fn a_flood_of_such_packets_draws_no_flood_of_answers() {
    let mut target = Target::new();
    let payload = [&options(UDP, [0xbe, 4, 0, 0, 0, 0])[..], &DATAGRAM].concat();
    let ip = Ip::new(address_v6(0), address_v6(1), DESTINATION_OPTIONS);
    let frame = ip.frame([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], &payload);
    for _ in 0..1000 {
        target.pair.inject(1, &frame);
    }
    target.pair.run_for(Duration::from_millis(1));
    let stats = target.pair.hosts[1].stats();
    let answers = target.seen.borrow().len();
    assert!((1..=50).contains(&answers), "{answers} answers");
    assert_eq!(
        (stats.icmp_limited, stats.not_for_us),
        (1000 - answers as u64, 1000)
    );
}
