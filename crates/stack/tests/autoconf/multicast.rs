//! Reports of multicast groups (RFC 3810 §5.2, §6).

use std::net::Ipv6Addr;
use std::time::Duration;

use tautline_testkit::Ip;
use tautline_testkit::frame::{IPV6, ethernet};

use crate::pair::Pair;
use crate::{ALL_NODES, ALL_NODES_MAC, HOST, SETTLED, automatic, listening, messages, v6, watch};

const REPORT: u8 = 143;
/// Kinds of records.
const MEMBER: u8 = 2;
const JOINED: u8 = 4;

/// Kind and group of each record of a report.
fn records(message: &[u8]) -> Vec<(u8, [u8; 16])> {
    let count = usize::from(u16::from_be_bytes([message[6], message[7]]));
    let records: Vec<_> = message[8..]
        .chunks(20)
        .map(|record| (record[0], record[4..20].try_into().expect("an address")))
        .collect();
    assert_eq!((records.len(), message.len()), (count, 8 + 20 * count));
    records
}

/// A query for all groups, to be answered within a second.
pub(crate) fn query(hop_limit: u8, from: &str) -> Vec<u8> {
    let message = [
        &[130, 0, 0, 0, 0x03, 0xe8, 0, 0][..],
        &[0; 16],
        &[2, 125, 0, 0],
    ]
    .concat();
    let ip = Ip {
        hop_limit,
        ..Ip::new(v6(from), v6(ALL_NODES), 58)
    };
    ip.frame(ALL_NODES_MAC, crate::ROUTER_MAC, &message)
}

#[test]
fn the_groups_of_the_addresses_are_reported_twice_with_a_router_alert() {
    let mut pair = Pair::configured(1, automatic);
    let sent = watch(&mut pair);
    pair.run_for(SETTLED);
    let frames = sent.take();
    let reports = messages(&frames, REPORT);
    let mut joined: Vec<_> = reports
        .iter()
        .flat_map(|(.., message)| records(message))
        .collect();
    joined.sort_unstable();
    let group = |text| (JOINED, v6(text).octets());
    // fd07::1 and the link-local address of 02:00:00:00:00:01 end in the same 24 bits.
    assert_eq!(joined, [group("ff02::1:ff00:1"); 2]);
    for frame in frames
        .iter()
        .filter(|frame| frame[12..14] == IPV6.to_be_bytes() && frame[20] == 0)
    {
        assert_eq!(
            (&frame[..6], frame[21]),
            (&[0x33, 0x33, 0, 0, 0, 0x16][..], 1)
        );
        assert_eq!(frame[38..54], v6("ff02::16").octets());
        assert_eq!(frame[54..62], [58, 0, 5, 2, 0, 0, 1, 0]);
        // The checksum over the message with its pseudo-header is zero.
        let (addresses, message) = (&frame[22..54], &frame[62..]);
        let again = Ip::new(
            <[u8; 16]>::try_from(&addresses[..16]).expect("an address"),
            <[u8; 16]>::try_from(&addresses[16..]).expect("an address"),
            58,
        );
        assert_eq!(&again.packet(message)[40..], message);
    }
}

/// RFC 3810 §6.2: an answer is delayed at random, within the time that the query allows.
#[test]
fn answers_to_a_query_are_spread_over_its_time() {
    let mut pair = listening(2);
    let sent = watch(&mut pair);
    let mut at_once = 0;
    for _ in 0..20 {
        pair.inject(HOST, &query(1, "fe80::9"));
        pair.run_for(Duration::from_millis(100));
        at_once += messages(&sent.take(), REPORT).len();
        pair.run_for(Duration::from_secs(2));
        sent.take();
    }
    assert!(at_once <= 8, "{at_once} of 20 in a tenth of the time");
}

#[test]
fn a_query_is_answered_once_and_a_forged_one_is_not() {
    let mut pair = listening(2);
    let sent = watch(&mut pair);
    for (frame, answers) in [
        (query(1, "fe80::9"), 1),
        (query(64, "fe80::9"), 0),
        (query(1, "2001:db8::9"), 0),
        (
            ethernet(ALL_NODES_MAC, [2; 6], IPV6, &query(1, "fe80::9")[14..60]),
            0,
        ),
    ] {
        pair.inject(HOST, &frame);
        pair.run_for(Duration::from_secs(2));
        let reports = messages(&sent.take(), REPORT);
        assert_eq!(reports.len(), answers);
        for (source, _, message) in reports {
            assert!(source.is_unicast_link_local());
            assert!(records(&message).iter().all(|(kind, _)| *kind == MEMBER));
        }
    }
    // A flood of queries draws no flood of reports.
    for _ in 0..1000 {
        pair.inject(HOST, &query(1, "fe80::9"));
    }
    pair.run_for(Duration::from_secs(2));
    assert_eq!(messages(&sent.take(), REPORT).len(), 1);
}

/// RFC 3810 §5.2.15: records that do not fit into one packet go into several.
#[test]
fn many_groups_are_reported_in_several_packets() {
    let mut pair = Pair::configured(1, |config| {
        let many = (0..100u16).map(|last| Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 1, last));
        let config = many.fold(automatic(config), |config, own| {
            config.address(tautline_stack::Cidr::new(own, 64))
        });
        automatic(config)
    });
    let sent = watch(&mut pair);
    pair.run_for(SETTLED);
    let frames = sent.take();
    assert!(frames.iter().all(|frame| frame.len() <= 1514));
    let reports = messages(&frames, REPORT);
    let mut joined: Vec<_> = reports
        .iter()
        .flat_map(|(.., message)| records(message))
        .collect();
    joined.sort_unstable();
    joined.dedup();
    assert_eq!(joined.len(), 101);
}
