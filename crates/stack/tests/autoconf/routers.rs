//! Router discovery (RFC 4861 §6.3), and forged advertisements (RFC 3756, RFC 6104).

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use tautline_base::Bytes;
use tautline_stack::{Event, HostConfig, LinkLocal, TcpConfig, UdpConfig};
use tautline_testkit::{ACK, Ip, SYN, Segment, TCP};

use crate::pair::{PORT, Pair, address_v6};
use crate::{
    AUTONOMOUS, Advertisement, HOST, HOUR, ON_LINK, PEER, ROUTER, ROUTER_MAC, SETTLED, automatic,
    bare, global, ip, listening, messages, v6, watch,
};

const ROUTER_SOLICITATION: u8 = 133;
const NEIGHBOR_SOLICITATION: u8 = 135;
const FAR: &str = "2001:db8:ffff::1";

/// Whether the host has a way to hosts that are not on the link.
fn has_route(pair: &mut Pair) -> bool {
    let remote = SocketAddr::new(ip(FAR), PORT);
    let socket = pair.hosts[HOST].connect(remote, TcpConfig::default(), pair.now);
    socket.is_ok()
}

#[test]
fn routers_are_solicited_until_one_answers() {
    for (answers, expected) in [(false, 3), (true, 1)] {
        let mut pair = Pair::configured(1, bare);
        let sent = watch(&mut pair);
        pair.run_for(SETTLED);
        if answers {
            pair.inject(HOST, &Advertisement::new().frame());
        }
        pair.run_for(Duration::from_secs(60));
        let solicitations = messages(&sent.take(), ROUTER_SOLICITATION);
        assert_eq!(solicitations.len(), expected);
        for (source, destination, message) in solicitations {
            assert!(source.is_unicast_link_local());
            assert_eq!(destination, v6("ff02::2"));
            assert_eq!(message[8..], [1, 1, 2, 0, 0, 0, 0, 1]);
        }
    }
}

#[test]
fn the_route_ends_with_the_routers_lifetime() {
    let mut pair = Pair::configured(2, automatic);
    pair.run_for(SETTLED);
    assert!(!has_route(&mut pair), "no router yet");
    let half_an_hour = Advertisement::new();
    pair.inject(HOST, &half_an_hour.frame());
    pair.run_for(Duration::from_secs(1799));
    assert!(has_route(&mut pair));
    pair.run_for(Duration::from_secs(2));
    assert!(!has_route(&mut pair), "its lifetime is over");
    assert!(pair.hosts[HOST].configuration().routers.is_empty());
    // A router that leaves says so.
    pair.inject(HOST, &half_an_hour.frame());
    assert!(has_route(&mut pair));
    let leaves = Advertisement {
        lifetime: 0,
        ..Advertisement::new()
    };
    pair.inject(HOST, &leaves.frame());
    assert!(!has_route(&mut pair));
    assert!(pair.events[HOST].contains(&Event::AddressesChanged));
}

#[test]
fn a_prefix_on_the_link_needs_no_router() {
    let mut pair = Pair::configured(3, automatic);
    let sent = watch(&mut pair);
    pair.run_for(SETTLED);
    let advertisement = Advertisement::new().prefix("2001:db8:5::", ON_LINK, 100, 100);
    pair.inject(HOST, &advertisement.frame());
    let solicited = |pair: &mut Pair| {
        sent.take();
        let remote = SocketAddr::new(ip("2001:db8:5::9"), PORT);
        let socket = pair.hosts[HOST].connect(remote, TcpConfig::default(), pair.now);
        socket.expect("a route");
        pair.run_for(Duration::from_millis(10));
        let targets = messages(&sent.take(), 135).into_iter();
        targets
            .map(|(.., message)| {
                <[u8; 16]>::try_from(&message[8..24])
                    .expect("an address")
                    .into()
            })
            .collect::<Vec<Ipv6Addr>>()
    };
    assert_eq!(solicited(&mut pair), [v6("2001:db8:5::9")]);
    pair.run_for(Duration::from_secs(110));
    assert_eq!(solicited(&mut pair), [v6(ROUTER)]);
}

/// RFC 4861 §6.3.4: `RetransTimer`. A time that would cut the host off has no effect.
#[test]
fn neighbors_are_asked_for_again_when_the_router_says() {
    for (millis, expected) in [(0, 2), (300, 3), (60_000, 2)] {
        let mut pair = Pair::configured(4, automatic);
        let sent = watch(&mut pair);
        pair.run_for(SETTLED);
        let advertisement = Advertisement {
            times: [0, millis],
            ..Advertisement::new()
        };
        pair.inject(HOST, &advertisement.frame());
        sent.take();
        let nobody = pair.hosts[HOST].ping(ip("fd07::99"), (1, 1), &[], pair.now);
        nobody.expect("on the link");
        pair.run_for(Duration::from_millis(1900));
        let requests = messages(&sent.take(), NEIGHBOR_SOLICITATION);
        assert_eq!(requests.len(), expected, "{millis} ms");
    }
}

/// RFC 4861 §6.3.2 and §6.3.4: `ReachableTime` is random around 30 s, or around what routers say.
#[test]
fn neighbors_are_trusted_for_as_long_as_the_router_says() {
    for (millis, expected) in [(0, 3..=7), (3_600_000, 0..=0), (10_000, 7..=20)] {
        let mut pair = Pair::configured(4, automatic);
        let sent = watch(&mut pair);
        pair.run_for(SETTLED);
        let advertisement = Advertisement {
            times: [millis, 0],
            ..Advertisement::new()
        };
        pair.inject(HOST, &advertisement.frame());
        let mut asked = 0;
        for second in 0..120 {
            let ping = pair.hosts[HOST].ping(address_v6(PEER), (1, second), &[], pair.now);
            ping.expect("on the link");
            pair.run_for(Duration::from_secs(1));
            let requests = messages(&sent.take(), NEIGHBOR_SOLICITATION);
            asked += if second == 0 { 0 } else { requests.len() };
        }
        assert!(expected.contains(&asked), "{asked} at {millis} ms");
    }
}

/// The link's MTU bounds segments, and the hop limit is that of packets, of IPv6 alone.
#[test]
fn mtu_and_hop_limit_are_taken_over_within_bounds() {
    // The advertised values, and those that the SYN shows: its MSS and its hop limit.
    for (mtu, hop_limit, expected) in [
        (1400, 200, (1340, 200)),
        (1279, 1, (1440, 64)),
        (9000, 0, (1440, 64)),
        (1280, 255, (1220, 255)),
    ] {
        let mut pair = Pair::configured(4, automatic);
        let sent = watch(&mut pair);
        pair.run_for(SETTLED);
        let option = [&[5, 1, 0, 0][..], &u32::to_be_bytes(mtu)].concat();
        let advertisement = Advertisement {
            cur_hop_limit: hop_limit,
            ..Advertisement::new()
                .option(&option)
                .option(&[&[1, 1][..], &ROUTER_MAC].concat())
        };
        pair.inject(HOST, &advertisement.frame());
        assert!(has_route(&mut pair));
        pair.run_for(Duration::from_millis(10));
        let frames = sent.take();
        let syn = frames.iter().find(|frame| frame[20] == 6).expect("a SYN");
        // The router's option has told its hardware address.
        assert_eq!(syn[..6], ROUTER_MAC);
        let mss = syn[74..]
            .windows(4)
            .find(|option| option[..2] == [2, 4])
            .expect("an MSS");
        assert_eq!((u16::from_be_bytes([mss[2], mss[3]]), syn[21]), expected);
        pair.connect(TcpConfig::default());
        pair.run_for(Duration::from_millis(20));
        let frames = sent.take();
        let syn = frames
            .iter()
            .find(|frame| frame[12..14] == [8, 0])
            .expect("a SYN of IPv4");
        assert_eq!(syn[22], 64);
    }
}

/// A forged advertisement changes nothing and is counted.
#[test]
fn forged_advertisements_change_nothing() {
    let good = || Advertisement::new().prefix("2001:db8:6::", ON_LINK | AUTONOMOUS, HOUR, HOUR);
    let mut zero = good();
    zero.options[1] = 0;
    let mut cut = good();
    cut.options.truncate(20);
    for (name, forged) in [
        (
            "through a router",
            Advertisement {
                hop_limit: 64,
                ..good()
            },
        ),
        (
            "from a global address",
            Advertisement {
                from: v6("2001:db8::1"),
                ..good()
            },
        ),
        (
            "from nobody",
            Advertisement {
                from: Ipv6Addr::UNSPECIFIED,
                ..good()
            },
        ),
        ("another code", Advertisement { code: 1, ..good() }),
        ("an option of no length", zero),
        ("an option cut short", cut),
    ] {
        let mut pair = listening(5);
        let (before, refused) = (
            pair.hosts[HOST].configuration(),
            pair.hosts[HOST].stats().refused(),
        );
        pair.inject(HOST, &forged.frame());
        assert_eq!(pair.hosts[HOST].stats().refused(), refused + 1, "{name}");
        pair.run_for(SETTLED);
        assert_eq!(pair.hosts[HOST].configuration(), before, "{name}");
    }
    let mut pair = listening(5);
    pair.inject(HOST, &good().frame());
    pair.run_for(SETTLED);
    assert_eq!(global(&pair).len(), 1);
    // A host that has not asked for routers does not believe them.
    let mut pair = Pair::new(5);
    pair.run_for(SETTLED);
    let before = pair.hosts[HOST].configuration();
    pair.inject(HOST, &good().frame());
    pair.run_for(SETTLED);
    assert_eq!(pair.hosts[HOST].configuration(), before);
}

/// A flood of advertisements fills bounded tables, and the first router keeps its place.
#[test]
fn a_flood_of_routers_and_prefixes_stays_bounded() {
    let mut pair = listening(6);
    pair.inject(HOST, &Advertisement::new().frame());
    for number in 0..2000u16 {
        let advertisement = Advertisement {
            from: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 9, number),
            ..Advertisement::new().prefix(
                &format!("2001:db8:{number:x}::"),
                ON_LINK | AUTONOMOUS,
                HOUR,
                HOUR,
            )
        };
        pair.inject(HOST, &advertisement.frame());
        if number % 100 == 0 {
            pair.run_for(Duration::from_millis(1));
        }
    }
    pair.run_for(SETTLED);
    let ours = pair.hosts[HOST].configuration();
    assert_eq!((ours.routers.len(), global(&pair).len()), (8, 16));
    assert_eq!(ours.routers[0], ip(ROUTER));
    let limited = pair.hosts[HOST].stats().advertisements_limited;
    assert!(limited > 5000, "{limited}");
}

/// RFC 4861 §6.3.6: a router that does not answer gives way to another one, for open connections, too.
#[test]
fn a_router_that_does_not_answer_is_replaced() {
    let mut pair = Pair::configured(7, automatic);
    let sent = watch(&mut pair);
    pair.run_for(SETTLED);
    pair.inject(HOST, &Advertisement::new().frame());
    let other = Advertisement {
        from: v6("fe80::2:2"),
        ..Advertisement::new()
    };
    let named = other.option(&[1, 1, 2, 0, 0, 0, 2, 2]);
    pair.inject(HOST, &named.frame());
    assert!(has_route(&mut pair));
    pair.run_for(Duration::from_secs(8));
    let frames = sent.take();
    let syn = frames
        .iter()
        .find(|frame| frame[12..14] == [0x86, 0xdd] && frame[20] == 6);
    assert_eq!(syn.expect("a SYN")[..6], [2, 0, 0, 0, 2, 2]);
    assert_eq!(
        pair.hosts[HOST].configuration().routers,
        [ip("fe80::2:2"), ip(ROUTER)]
    );
}

/// RFC 4861 §7.3.3: also one that did answer, and has gone silent.
#[test]
fn a_router_that_answers_no_more_is_replaced() {
    let mut pair = Pair::configured(7, automatic);
    pair.run_for(SETTLED);
    let other = Advertisement {
        from: v6("fe80::2:2"),
        ..Advertisement::new()
    };
    let other_mac = [2, 0, 0, 0, 2, 2];
    for (router, mac) in [(Advertisement::new(), ROUTER_MAC), (other, other_mac)] {
        let named = router.option(&[&[1, 1][..], &mac].concat());
        pair.inject(HOST, &named.frame());
    }
    let sent = watch(&mut pair);
    let remote = SocketAddr::new(ip(FAR), PORT);
    let patient = TcpConfig {
        syn_retries: 200,
        ..TcpConfig::default()
    };
    let socket = pair.hosts[HOST].connect(remote, patient, pair.now);
    socket.expect("a route");
    pair.run_for(Duration::from_secs(1700));
    let frames = sent.take();
    let is_syn = |frame: &&Vec<u8>| frame[12..14] == [0x86, 0xdd] && frame[20] == 6;
    let mut ways: Vec<_> = frames.iter().filter(is_syn).map(|syn| &syn[..6]).collect();
    ways.dedup();
    assert_eq!(ways, [ROUTER_MAC, other_mac]);
}

/// RFC 4861 §7.2.5: a router that advertises itself as a host is used no more. An advertisement from
/// another hardware address than the router's is not believed.
#[test]
fn a_router_that_becomes_a_host_is_replaced() {
    const ROUTER_FLAG: u8 = 0x80;
    let liar = [2, 0, 0, 0, 0, 66];
    for (flags, from, stays) in [
        (0, ROUTER_MAC, false),
        (ROUTER_FLAG, ROUTER_MAC, true),
        (0, liar, true),
    ] {
        let mut pair = Pair::configured(7, automatic);
        pair.run_for(SETTLED);
        let named = Advertisement::new().option(&[&[1, 1][..], &ROUTER_MAC].concat());
        pair.inject(HOST, &named.frame());
        assert!(has_route(&mut pair));
        let message = [
            &[136, 0, 0, 0, 0x20 | flags, 0, 0, 0][..],
            &v6(ROUTER).octets(),
            &[2, 1],
            &from,
        ]
        .concat();
        let ip = Ip {
            hop_limit: 255,
            ..Ip::new(v6(ROUTER), v6(crate::ALL_NODES), 58)
        };
        pair.inject(HOST, &ip.frame(crate::ALL_NODES_MAC, from, &message));
        pair.run_for(Duration::from_millis(1100));
        assert_eq!(has_route(&mut pair), stays, "{flags:#x} from {from:?}");
    }
}

/// A datagram that waits for its router has no way when that one leaves: it is dropped, not kept.
#[test]
fn a_datagram_without_a_route_is_dropped() {
    let mut pair = Pair::configured(8, automatic);
    pair.run_for(SETTLED);
    pair.inject(HOST, &Advertisement::new().frame());
    let host = &mut pair.hosts[HOST];
    let local = "[::]:0".parse::<SocketAddr>().expect("an address");
    let socket = host.udp().bind(local, UdpConfig::default()).expect("free");
    let remote = SocketAddr::new(ip(FAR), PORT);
    assert_eq!(host.udp().send_to(socket, b"far", Some(remote)), Ok(()));
    pair.run_for(Duration::from_secs(1));
    let leaves = Advertisement {
        lifetime: 0,
        ..Advertisement::new()
    };
    let named = leaves.option(&[&[1, 1][..], &ROUTER_MAC].concat());
    pair.inject(HOST, &named.frame());
    pair.run_for(Duration::from_secs(10));
    let info = pair.hosts[HOST].udp().info(socket).expect("open");
    assert_eq!(
        (info.sent, info.unresolved, info.sending),
        (0, 1, Bytes::ZERO)
    );
    pair.hosts[HOST].close(socket, pair.now);
    assert_eq!(pair.hosts[HOST].socket_count(), 0);
}

/// A connection that waits for a router which leaves does not wait for that one to time out.
#[test]
fn a_connection_that_waits_for_a_router_takes_another_once_it_leaves() {
    let mut pair = Pair::configured(9, automatic);
    pair.run_for(SETTLED);
    let leaving = Advertisement::new();
    let other = Advertisement {
        from: v6("fe80::2:2"),
        ..Advertisement::new()
    };
    let named = other.option(&[1, 1, 2, 0, 0, 0, 2, 2]);
    pair.inject(HOST, &leaving.frame());
    pair.inject(HOST, &named.frame());
    pair.run_for(Duration::from_secs(2));
    let sent = watch(&mut pair);
    let remote = SocketAddr::new(ip(FAR), PORT);
    let socket = pair.hosts[HOST].connect(remote, TcpConfig::default(), pair.now);
    let socket = socket.expect("a route");
    pair.run_for(Duration::from_millis(100));
    let leaves = Advertisement {
        lifetime: 0,
        ..leaving
    };
    pair.inject(HOST, &leaves.frame());
    pair.run_for(Duration::from_millis(10));
    let is_syn = |frame: &Vec<u8>| frame[12..14] == [0x86, 0xdd] && frame[20] == 6;
    let ways: Vec<_> = sent
        .take()
        .into_iter()
        .filter(is_syn)
        .map(|syn| syn[5])
        .collect();
    assert_eq!(ways, [2]);
    pair.run_for(Duration::from_secs(4));
    let info = pair.hosts[HOST].info(socket).expect("open");
    assert_eq!(info.path_error, None, "the other router is there");
}

/// RFC 4861 §6.3.4: the MTU of an advertisement is that of the link. It holds for open connections
/// and for datagrams that wait, too.
#[test]
fn nothing_that_leaves_is_longer_than_an_advertised_mtu() {
    let mut pair = Pair::configured(4, automatic);
    pair.run_for(SETTLED);
    pair.hosts[1]
        .listen(PORT, TcpConfig::default())
        .expect("the port is free");
    let remote = SocketAddr::new(crate::pair::address_v6(1).into(), PORT);
    let client = pair.hosts[HOST]
        .connect(remote, TcpConfig::default(), pair.now)
        .expect("the address is good");
    pair.run_for(Duration::from_millis(40));
    let sent = watch(&mut pair);
    let host = &mut pair.hosts[HOST];
    let local = "[::]:0".parse::<SocketAddr>().expect("an address");
    let socket = host.udp().bind(local, UdpConfig::default()).expect("free");
    let waits = SocketAddr::new(ip("fd07::77"), PORT);
    assert_eq!(host.udp().send_to(socket, &[7; 1400], Some(waits)), Ok(()));
    assert_eq!(host.udp().send_to(socket, &[7; 1400], Some(remote)), Ok(()));
    let option = [&[5, 1, 0, 0][..], &u32::to_be_bytes(1280)].concat();
    pair.inject(HOST, &Advertisement::new().option(&option).frame());
    let (mut taken, mut received) = (0, 0);
    while received < 100_000 {
        taken += pair.hosts[HOST]
            .send(client, &vec![7; 100_000 - taken])
            .expect("open");
        pair.run_for(Duration::from_millis(5));
        let server = pair.events[1].iter().find_map(|event| match event {
            Event::Accepted { socket, .. } => Some(*socket),
            _ => None,
        });
        received += pair.read(1, server.expect("accepted")).0.len();
    }
    let longest = sent.take().iter().map(|frame| frame.len() - 14).max();
    assert_eq!(longest, Some(1280));
}

/// Each gives way to the other when it does not answer; the connection ends all the same.
#[test]
fn a_connection_behind_two_silent_routers_ends() {
    let mut pair = Pair::configured(9, automatic);
    pair.run_for(SETTLED);
    for from in ["fe80::2:2", "fe80::2:3"].map(v6) {
        let router = Advertisement {
            from,
            ..Advertisement::new()
        };
        pair.inject(HOST, &router.frame());
    }
    pair.run_for(Duration::from_secs(2));
    let remote = SocketAddr::new(ip(FAR), PORT);
    let config = TcpConfig {
        syn_retries: 3,
        ..TcpConfig::default()
    };
    let socket = pair.hosts[HOST].connect(remote, config, pair.now);
    let socket = socket.expect("a route");
    pair.run_for(Duration::from_secs(9));
    assert!(
        pair.hosts[HOST]
            .info(socket)
            .is_some_and(|info| info.state == "SYN-SENT")
    );
    // Four rounds of three seconds, and a second at most until each change of the route.
    pair.run_for(Duration::from_secs(7));
    let closed = pair.hosts[HOST].info(socket).expect("not released");
    assert_eq!(closed.state, "CLOSED");
    pair.hosts[HOST].close(socket, pair.now);
    assert_eq!(pair.hosts[HOST].socket_count(), 0);
}

/// A query for groups right behind an advertisement does not keep what that has changed from being made known.
#[test]
fn a_query_behind_an_advertisement_does_not_defer_it() {
    let without_address = |config| HostConfig {
        link_local: LinkLocal::None,
        ..bare(config)
    };
    let mut pair = Pair::configured(1, without_address);
    pair.run_for(Duration::from_secs(100));
    pair.inject(HOST, &Advertisement::new().frame());
    pair.inject(HOST, &crate::multicast::query(1, ROUTER));
    pair.run_for(Duration::from_secs(2));
    assert!(pair.events[HOST].contains(&Event::AddressesChanged));
}

/// RFC 4861 §6.3.4: nor does an echo request that waits for a neighbor leave longer than an advertised
/// MTU.
#[test]
fn no_echo_request_is_longer_than_an_advertised_mtu() {
    let mut pair = Pair::configured(4, automatic);
    pair.run_for(SETTLED);
    let (now, host) = (pair.now, &mut pair.hosts[HOST]);
    let waits = v6("fd07::77");
    host.ping(waits, (1, 1), &[7; 1400], now)
        .expect("it fits the link");
    let sent = watch(&mut pair);
    let option = [&[5, 1, 0, 0][..], &u32::to_be_bytes(1280)].concat();
    pair.inject(HOST, &Advertisement::new().option(&option).frame());
    pair.run_for(Duration::from_millis(10));
    let answer = [
        &[136, 0, 0, 0, 0x20, 0, 0, 0][..],
        &waits.octets(),
        &[2, 1],
        &ROUTER_MAC,
    ]
    .concat();
    let ip = Ip {
        hop_limit: 255,
        ..Ip::new(waits, v6(crate::ALL_NODES), 58)
    };
    pair.inject(HOST, &ip.frame(crate::ALL_NODES_MAC, ROUTER_MAC, &answer));
    pair.run_for(SETTLED);
    let longest = sent.take().iter().map(|frame| frame.len() - 14).max();
    assert!(
        longest.is_some_and(|longest| longest <= 1280),
        "{longest:?}"
    );
    let failed = |event: &Event| matches!(event, Event::PingFailed { sequence: 1, .. });
    assert!(pair.events[HOST].iter().any(failed));
}

/// RFC 4861 §7.3.1: data that a peer sends again shows that nothing of ours reaches it, not that the
/// router is there. It comes through the other router.
#[test]
fn data_that_is_sent_again_does_not_confirm_the_router() {
    let mut pair = Pair::configured(7, automatic);
    pair.run_for(SETTLED);
    let other = Advertisement {
        from: v6("fe80::2:2"),
        ..Advertisement::new()
    };
    let other_mac = [2, 0, 0, 0, 2, 2];
    for (router, mac) in [(Advertisement::new(), ROUTER_MAC), (other, other_mac)] {
        let named = router.option(&[&[1, 1][..], &mac].concat());
        pair.inject(HOST, &named.frame());
    }
    let config = TcpConfig::default();
    pair.hosts[HOST].listen(PORT, config).expect("it is free");
    let sent = watch(&mut pair);
    let (far, own) = (v6(FAR), crate::pair::address_v6(HOST));
    let from_far = |segment: Segment| {
        let segment = Segment {
            source_port: 9,
            destination_port: PORT,
            window: 60_000,
            ..segment
        };
        Ip::new(far, own, TCP).frame([2, 0, 0, 0, 0, 1], other_mac, &segment.to_bytes())
    };
    let is_segment = |frame: &&Vec<u8>| frame[12..14] == [0x86, 0xdd] && frame[20] == TCP;
    let syn = Segment {
        flags: SYN,
        seq: 100,
        ..Segment::default()
    };
    pair.inject(HOST, &from_far(syn));
    pair.run_for(Duration::from_millis(1));
    let frames = sent.take();
    let answer = frames.iter().find(is_segment).expect("a SYN-ACK");
    let data = Segment {
        flags: ACK,
        seq: 101,
        ack: Segment::from_bytes(&answer[54..], 0).seq.wrapping_add(1),
        payload: b"data".to_vec(),
        ..Segment::default()
    };
    pair.inject(HOST, &from_far(data.clone()));
    pair.run_for(Duration::from_secs(62));
    sent.take();
    for _ in 0..10 {
        pair.inject(HOST, &from_far(data.clone()));
        pair.run_for(Duration::from_secs(1));
    }
    let frames = sent.take();
    let mut ways: Vec<_> = frames
        .iter()
        .filter(is_segment)
        .map(|ack| &ack[..6])
        .collect();
    ways.dedup();
    assert_eq!(ways, [ROUTER_MAC, other_mac]);
}

/// A datagram that waits for a router which leaves takes another one's way.
#[test]
fn a_datagram_that_waits_for_a_router_takes_another_once_it_leaves() {
    let mut pair = Pair::configured(8, automatic);
    pair.run_for(SETTLED);
    let leaving = Advertisement::new();
    let other = Advertisement {
        from: v6("fe80::2:2"),
        ..Advertisement::new()
    };
    let named = other.option(&[1, 1, 2, 0, 0, 0, 2, 2]);
    pair.inject(HOST, &leaving.frame());
    pair.inject(HOST, &named.frame());
    pair.run_for(Duration::from_secs(2));
    let host = &mut pair.hosts[HOST];
    let local = "[::]:0".parse::<SocketAddr>().expect("an address");
    let socket = host.udp().bind(local, UdpConfig::default()).expect("free");
    let remote = SocketAddr::new(ip(FAR), PORT);
    assert_eq!(host.udp().send_to(socket, b"far", Some(remote)), Ok(()));
    pair.run_for(Duration::from_millis(100));
    let leaves = Advertisement {
        lifetime: 0,
        ..leaving
    };
    pair.inject(HOST, &leaves.frame());
    pair.run_for(Duration::from_secs(10));
    let info = pair.hosts[HOST].udp().info(socket).expect("open");
    assert_eq!((info.sent, info.unresolved), (1, 0));
}

/// Nor is it discarded when the router that left does not answer, while the other one is asked.
#[test]
fn a_datagram_that_waits_for_a_new_router_outlives_the_old_one() {
    let mut pair = Pair::configured(8, automatic);
    pair.run_for(SETTLED);
    let leaving = Advertisement::new();
    let other = Advertisement {
        from: v6("fe80::2:2"),
        ..Advertisement::new()
    };
    pair.inject(HOST, &leaving.frame());
    pair.inject(HOST, &other.frame());
    pair.run_for(Duration::from_secs(2));
    let host = &mut pair.hosts[HOST];
    let local = "[::]:0".parse::<SocketAddr>().expect("an address");
    let socket = host.udp().bind(local, UdpConfig::default()).expect("free");
    let remote = SocketAddr::new(ip(FAR), PORT);
    assert_eq!(host.udp().send_to(socket, b"far", Some(remote)), Ok(()));
    pair.run_for(Duration::from_millis(1500));
    let leaves = Advertisement {
        lifetime: 0,
        ..leaving
    };
    pair.inject(HOST, &leaves.frame());
    // The old router has not answered three requests by now, the new one not yet two.
    pair.run_for(Duration::from_millis(1800));
    let named = other.option(&[1, 1, 2, 0, 0, 0, 2, 2]);
    pair.inject(HOST, &named.frame());
    pair.run_for(Duration::from_millis(100));
    let info = pair.hosts[HOST].udp().info(socket).expect("open");
    assert_eq!((info.sent, info.unresolved), (1, 0));
}

/// An echo request that waits for a router takes another one's way, too.
#[test]
fn an_echo_request_that_waits_for_a_new_router_outlives_the_old_one() {
    let mut pair = Pair::configured(8, automatic);
    pair.run_for(SETTLED);
    let leaving = Advertisement::new();
    let other = Advertisement {
        from: v6("fe80::2:2"),
        ..Advertisement::new()
    };
    pair.inject(HOST, &leaving.frame());
    pair.inject(HOST, &other.frame());
    pair.run_for(Duration::from_secs(2));
    let now = pair.now;
    let asked = pair.hosts[HOST].ping(ip(FAR), (1, 1), b"far", now);
    asked.expect("a route");
    pair.run_for(Duration::from_millis(1500));
    let leaves = Advertisement {
        lifetime: 0,
        ..leaving
    };
    pair.inject(HOST, &leaves.frame());
    pair.run_for(Duration::from_millis(1800));
    let sent = watch(&mut pair);
    let named = other.option(&[1, 1, 2, 0, 0, 0, 2, 2]);
    pair.inject(HOST, &named.frame());
    pair.run_for(Duration::from_millis(100));
    let requests = messages(&sent.take(), 128);
    assert_eq!(requests.len(), 1);
    let failed = |event: &Event| matches!(event, Event::PingFailed { .. });
    assert!(!pair.events[HOST].iter().any(failed));
}
