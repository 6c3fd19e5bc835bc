//! Addresses of advertised prefixes and their lifetimes (RFC 4862 §5.5, RFC 7217).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tautline_base::Bytes;
use tautline_stack::socket::SocketError;
use tautline_stack::{
    Autoconfiguration, CloseReason, Event, HostConfig, Identifiers, SendError, TcpConfig, UdpConfig,
};
use tautline_testkit::{Ip, SYN, Segment, TCP};

use crate::pair::{PORT, Pair};
use crate::{
    ALL_NODES, ALL_NODES_MAC, AUTONOMOUS, Advertisement, HOST, HOUR, ON_LINK, ROUTER_MAC, SETTLED,
    bare, global, ip, listening, v6, watch,
};

const NETWORK: &str = "2001:db8:1::";
const BOTH: u8 = ON_LINK | AUTONOMOUS;

fn network(address: std::net::Ipv6Addr) -> u128 {
    address.to_bits() >> 64
}

#[test]
fn an_address_is_formed_of_each_prefix_and_stays_the_same() {
    let advertisement = Advertisement::new()
        .prefix(NETWORK, BOTH, HOUR, HOUR)
        .prefix("2001:db8:2::", AUTONOMOUS, HOUR, HOUR)
        .prefix("2001:db8:3::", ON_LINK, HOUR, HOUR);
    let formed = |seed| {
        let mut pair = listening(seed);
        pair.inject(HOST, &advertisement.frame());
        pair.run_for(SETTLED);
        global(&pair)
    };
    let own = formed(1);
    let networks: Vec<_> = own.iter().map(|own| network(*own)).collect();
    assert_eq!(networks.len(), 2);
    assert!(networks.contains(&network(v6(NETWORK))));
    assert!(networks.contains(&network(v6("2001:db8:2::"))));
    // RFC 7217: neither the hardware address nor the same identifier in both networks.
    let identifiers: Vec<_> = own.iter().map(|own| own.to_bits() as u64).collect();
    assert_ne!(identifiers[0], identifiers[1]);
    assert!(own.iter().all(|own| own.octets()[11..13] != [0xff, 0xfe]));
    assert_eq!(own, formed(1));
    assert_ne!(own, formed(2));
}

#[test]
fn an_identifier_may_come_from_the_hardware_address() {
    let mut pair = Pair::configured(1, |config| HostConfig {
        autoconfiguration: Autoconfiguration {
            identifiers: Identifiers::FromMac,
            ..Autoconfiguration::IPV6
        },
        ..bare(config)
    });
    pair.run_for(SETTLED);
    let advertisement = Advertisement::new().prefix(NETWORK, BOTH, HOUR, HOUR);
    pair.inject(HOST, &advertisement.frame());
    pair.run_for(SETTLED);
    assert_eq!(global(&pair), [v6("2001:db8:1::ff:fe00:1")]);
}

/// RFC 7217 §6: after a duplicate comes another identifier, three times.
#[test]
fn a_duplicate_is_followed_by_another_identifier() {
    let mut pair = listening(3);
    let advertisement = Advertisement::new().prefix(NETWORK, BOTH, HOUR, HOUR);
    pair.inject(HOST, &advertisement.frame());
    let mut tried = Vec::new();
    for _ in 0..6 {
        pair.run_for(Duration::from_millis(1));
        for tentative in pair.hosts[HOST].configuration().tentative {
            let IpAddr::V6(target) = tentative else {
                panic!("{tentative}")
            };
            tried.push(target);
            let message = [&[136, 0, 0, 0, 0x20, 0, 0, 0][..], &target.octets()].concat();
            let claim = Ip {
                hop_limit: 255,
                ..Ip::new(target, v6(ALL_NODES), 58)
            };
            pair.inject(
                HOST,
                &claim.frame(ALL_NODES_MAC, [2, 0, 0, 0, 0, 66], &message),
            );
        }
    }
    assert_eq!(tried.len(), 4);
    tried.sort_unstable();
    tried.dedup();
    assert_eq!(tried.len(), 4);
    pair.run_for(SETTLED);
    assert!(global(&pair).is_empty());
}

/// RFC 4862 §5.5.3 e: who forges an advertisement cannot take an address away within two hours.
#[test]
fn a_valid_lifetime_falls_to_two_hours_at_least() {
    // Lifetime before and in the second advertisement; seconds after which the address is there
    // still, and no more.
    for (first, second, there, gone) in [
        (10 * HOUR, 1, 2 * HOUR - 60, 2 * HOUR + 60),
        (10 * HOUR, 3 * HOUR, 3 * HOUR - 60, 3 * HOUR + 60),
        (HOUR, 1, HOUR - 60, HOUR + 60),
        (HOUR, HOUR * 3 / 2, HOUR * 3 / 2 - 60, HOUR * 3 / 2 + 60),
    ] {
        let mut pair = listening(4);
        for valid in [first, second] {
            let advertisement = Advertisement::new().prefix(NETWORK, AUTONOMOUS, valid, valid);
            pair.inject(HOST, &advertisement.frame());
            pair.run_for(SETTLED);
            assert_eq!(global(&pair).len(), 1);
        }
        pair.run_for(Duration::from_secs(u64::from(there)) - SETTLED);
        assert_eq!(global(&pair).len(), 1, "{first} {second}");
        pair.run_for(Duration::from_secs(u64::from(gone - there)));
        assert!(global(&pair).is_empty(), "{first} {second}");
    }
}

#[test]
fn a_deprecated_address_is_the_last_choice_and_one_that_is_over_ends_its_connections() {
    let mut pair = listening(5);
    let first = Advertisement::new().prefix(NETWORK, BOTH, 100, 10);
    pair.inject(HOST, &first.frame());
    pair.run_for(SETTLED);
    let old = global(&pair)[0];
    let connect = |pair: &mut Pair, to| {
        let remote = SocketAddr::new(ip(to), PORT);
        let patient = TcpConfig {
            syn_retries: 200,
            ..TcpConfig::default()
        };
        let socket = pair.hosts[HOST].connect(remote, patient, pair.now);
        let socket = socket.expect("a route");
        let local = pair.hosts[HOST].local(socket).expect("open").ip();
        (socket, local)
    };
    let (socket, local) = connect(&mut pair, "2001:db8:1::9");
    assert_eq!(local, old);
    let second = Advertisement::new().prefix("2001:db8:2::", BOTH, HOUR, HOUR);
    pair.inject(HOST, &second.frame());
    pair.run_for(Duration::from_secs(20));
    let young = global(&pair).into_iter().find(|own| *own != old);
    let (_, local) = connect(&mut pair, "2001:db8:1::9");
    assert_eq!(
        Some(local),
        young.map(IpAddr::from),
        "not the deprecated one"
    );
    assert!(global(&pair).contains(&old));
    pair.run_for(Duration::from_secs(100));
    assert_eq!(global(&pair), [young.expect("formed")]);
    let why = CloseReason::AddressLost;
    assert!(pair.events[HOST].contains(&Event::Closed { socket, why }));
}

#[test]
fn prefixes_that_cannot_be_are_not_taken() {
    let mut pair = listening(6);
    let unusable = Advertisement::new()
        .prefix("fe80::", BOTH, HOUR, HOUR)
        .prefix("ff02::", BOTH, HOUR, HOUR)
        .prefix("::", BOTH, HOUR, HOUR)
        .prefix("2001:db8:9::", AUTONOMOUS, HOUR, 2 * HOUR)
        .prefix("2001:db8:8::", AUTONOMOUS, 0, 0);
    let mut long = Advertisement::new().prefix(NETWORK, AUTONOMOUS, HOUR, HOUR);
    long.options[2] = 80;
    for advertisement in [unusable, long] {
        pair.inject(HOST, &advertisement.frame());
        pair.run_for(SETTLED);
        assert!(global(&pair).is_empty());
    }
}

/// RFC 4862 §5.5.4: an address whose lifetime is over is no source any more: not of bound sockets, nor
/// of datagrams that wait for a neighbor, nor of connections that the application has yet to accept.
#[test]
fn nothing_leaves_from_an_address_that_is_over() {
    let mut pair = listening(7);
    let advertisement = Advertisement::new()
        .prefix(NETWORK, ON_LINK, HOUR, HOUR)
        .prefix(NETWORK, AUTONOMOUS, 20, 10);
    pair.inject(HOST, &advertisement.frame());
    pair.run_for(SETTLED);
    let (own, peer) = (global(&pair)[0], v6("2001:db8:1::9"));
    let here = SocketAddr::new(own.into(), PORT);
    let there = Some(SocketAddr::new(peer.into(), PORT));
    let host = &mut pair.hosts[HOST];
    let bound = host.udp().bind(here, UdpConfig::default()).expect("ours");
    let deferred = TcpConfig {
        deferred_accept: true,
        ..TcpConfig::default()
    };
    host.listen(PORT, deferred).expect("the port is free");
    let syn = Segment {
        source_port: 9,
        destination_port: PORT,
        flags: SYN,
        ..Segment::default()
    };
    let frame = |ip: Ip, payload: &[u8]| ip.frame([2, 0, 0, 0, 0, 1], ROUTER_MAC, payload);
    pair.inject(HOST, &frame(Ip::new(peer, own, TCP), &syn.to_bytes()));
    pair.run_for(Duration::from_millis(14_500));
    assert_eq!(
        pair.hosts[HOST].udp().send_to(bound, b"waits", there),
        Ok(())
    );
    pair.run_for(Duration::from_secs(2));
    assert!(global(&pair).is_empty());
    let sent = watch(&mut pair);
    let (now, host) = (pair.now, &mut pair.hosts[HOST]);
    let refused = host.udp().send_to(bound, b"no", there);
    assert_eq!(refused, Err(SendError::BadSource(here)));
    let requested = pair.events[HOST].iter().find_map(|event| match event {
        Event::Requested { request, .. } => Some(*request),
        _ => None,
    });
    let accepted = host.accept(requested.expect("a SYN"), now);
    assert_eq!(accepted, Err(SocketError::NoSuchSocket));
    let answer = [
        &[136, 0, 0, 0, 0x20, 0, 0, 0][..],
        &peer.octets(),
        &[2, 1],
        &ROUTER_MAC,
    ]
    .concat();
    let ip = Ip {
        hop_limit: 255,
        ..Ip::new(peer, v6(ALL_NODES), 58)
    };
    pair.inject(HOST, &ip.frame(ALL_NODES_MAC, ROUTER_MAC, &answer));
    pair.run_for(SETTLED);
    let from_own = sent
        .take()
        .iter()
        .filter(|frame| frame[22..38] == own.octets())
        .count();
    assert_eq!(from_own, 0);
    let info = pair.hosts[HOST].udp().info(bound).expect("open");
    assert_eq!(
        (info.sent, info.unresolved, info.sending),
        (0, 1, Bytes::ZERO)
    );
}

/// An echo request that waits for a neighbor does not leave from an address that is over meanwhile: it
/// fails.
#[test]
fn no_echo_request_leaves_from_an_address_that_is_over() {
    let mut pair = listening(7);
    let advertisement = Advertisement::new()
        .prefix(NETWORK, ON_LINK, HOUR, HOUR)
        .prefix(NETWORK, AUTONOMOUS, 20, 10);
    pair.inject(HOST, &advertisement.frame());
    pair.run_for(Duration::from_millis(18_500));
    let (own, peer) = (global(&pair)[0], v6("2001:db8:1::9"));
    let (now, host) = (pair.now, &mut pair.hosts[HOST]);
    host.ping(peer, (1, 1), b"waits", now)
        .expect("a good address");
    pair.run_for(Duration::from_secs(2));
    assert!(global(&pair).is_empty());
    let failed = |event: &Event| matches!(event, Event::PingFailed { sequence: 1, .. });
    assert!(pair.events[HOST].iter().any(failed));
    let sent = watch(&mut pair);
    let answer = [
        &[136, 0, 0, 0, 0x20, 0, 0, 0][..],
        &peer.octets(),
        &[2, 1],
        &ROUTER_MAC,
    ]
    .concat();
    let ip = Ip {
        hop_limit: 255,
        ..Ip::new(peer, v6(ALL_NODES), 58)
    };
    pair.inject(HOST, &ip.frame(ALL_NODES_MAC, ROUTER_MAC, &answer));
    pair.run_for(SETTLED);
    let from_own = |frame: &&Vec<u8>| frame[22..38] == own.octets();
    assert_eq!(sent.take().iter().filter(from_own).count(), 0);
}
