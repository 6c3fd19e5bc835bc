//! Duplicate address detection (RFC 4862 §5.4).

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use tautline_stack::{Cidr, ConnectError, Event, HostConfig, TcpConfig};
use tautline_testkit::Ip;

use crate::pair::{PORT, Pair, address_v6};
use crate::{
    ALL_NODES, AUTONOMOUS, Advertisement, HOST, HOUR, PEER, SETTLED, automatic, global, ip,
    listening, messages, v6, watch,
};

const NEIGHBOR_SOLICITATION: u8 = 135;
const SHARED: &str = "fd07::77";

/// Both sides have the same address; only the first tests it.
fn rivals(seed: u64, change: fn(HostConfig) -> HostConfig) -> Pair {
    Pair::configured(seed, change)
}

fn shared(config: HostConfig) -> HostConfig {
    automatic(config).address(Cidr::new(v6(SHARED), 64))
}

/// The side with an even hardware address does not test.
fn shared_with_an_owner(config: HostConfig) -> HostConfig {
    if config.mac[5] == 1 {
        return shared(config);
    }
    config.address(Cidr::new(v6(SHARED), 64))
}

#[test]
fn an_address_that_another_host_has_is_not_used() {
    let mut pair = rivals(1, shared_with_an_owner);
    pair.run_for(SETTLED);
    let ours = pair.hosts[HOST].configuration();
    assert_eq!(ours.duplicates, [ip(SHARED)]);
    assert!(ours.addresses.iter().all(|own| own.address() != ip(SHARED)));
    // The addresses that nobody else has are in use.
    let alone = address_v6(HOST);
    assert!(ours.addresses.iter().any(|own| own.address() == alone));
    assert_eq!(pair.hosts[HOST].stats().duplicate_addresses, 1);
    assert!(pair.events[HOST].contains(&Event::AddressesChanged));
    let owner = pair.hosts[PEER].configuration();
    assert!(
        owner
            .addresses
            .iter()
            .any(|own| own.address() == ip(SHARED))
    );
}

/// Without the test both use it: the effect is the test's.
#[test]
fn without_the_test_both_hosts_use_the_address() {
    let mut pair = rivals(1, |config| config.address(Cidr::new(v6(SHARED), 64)));
    pair.run_for(SETTLED);
    for host in &pair.hosts {
        let own = host.configuration().addresses;
        assert!(own.iter().any(|own| own.address() == ip(SHARED)));
    }
}

#[test]
fn of_two_hosts_that_test_at_once_at_most_one_uses_the_address() {
    for seed in 0..40 {
        let mut pair = rivals(seed, shared);
        pair.run_for(SETTLED);
        let has = |host: &crate::pair::Stack| {
            let own = host.configuration().addresses;
            own.iter().any(|own| own.address() == ip(SHARED))
        };
        let users = pair.hosts.iter().filter(|host| has(host)).count();
        assert!(users <= 1, "seed {seed}: {users} hosts use it");
    }
}

#[test]
fn a_tentative_address_is_not_used_and_joins_its_group_before_its_probe() {
    let mut pair = Pair::configured(3, automatic);
    let sent = watch(&mut pair);
    let connect = |pair: &mut Pair| {
        let remote = SocketAddr::new(address_v6(PEER).into(), PORT);
        pair.hosts[HOST].connect(remote, TcpConfig::default(), pair.now)
    };
    pair.run_for(Duration::from_millis(1));
    let first = connect(&mut pair);
    assert!(matches!(first, Err(ConnectError::NoRoute(_))), "{first:?}");
    assert_eq!(pair.hosts[HOST].configuration().tentative.len(), 2);
    pair.run_for(SETTLED);
    assert!(connect(&mut pair).is_ok());
    let frames = sent.take();
    let probes = messages(&frames, NEIGHBOR_SOLICITATION);
    let probes: Vec<_> = probes.iter().filter(|one| one.0.is_unspecified()).collect();
    assert_eq!(probes.len(), 2, "one for each address");
    for (_, destination, message) in probes {
        let target: [u8; 16] = message[8..24].try_into().expect("an address");
        let group =
            0xff02_0000_0000_0000_0000_0001_ff00_0000 | u128::from_be_bytes(target) & 0xff_ffff;
        assert_eq!(*destination, Ipv6Addr::from_bits(group));
        // RFC 7527: a nonce, and no hardware address.
        assert_eq!((message.len(), &message[24..26]), (32, &[14, 1][..]));
    }
    let place = |kind| {
        frames
            .iter()
            .position(|frame| !messages(std::slice::from_ref(frame), kind).is_empty())
    };
    assert!(
        place(143) < place(NEIGHBOR_SOLICITATION),
        "a report comes first"
    );
}

/// RFC 7527: a link that reflects multicast does not make every address a duplicate.
#[test]
fn a_probe_that_comes_back_is_not_a_duplicate() {
    let mut pair = Pair::configured(4, automatic);
    let sent = watch(&mut pair);
    for _ in 0..3000 {
        pair.run_for(Duration::from_millis(1));
        for frame in sent.take() {
            pair.inject(HOST, &frame);
        }
    }
    let ours = pair.hosts[HOST].configuration();
    assert_eq!((ours.duplicates, ours.tentative), (vec![], vec![]));
}

/// RFC 4862 §5.1: the host waits for `RetransTimer` after its probe, which routers set (RFC 4861 §6.3.4).
/// A time that would keep the host off the link has no effect.
#[test]
fn a_test_takes_as_long_as_the_router_says() {
    for (millis, expected) in [(0, 1000), (3000, 3000), (60_000, 1000), (1, 10)] {
        let mut pair = listening(6);
        let advertisement = Advertisement {
            times: [0, millis],
            ..Advertisement::new().prefix("2001:db8:1::", AUTONOMOUS, HOUR, HOUR)
        };
        pair.inject(HOST, &advertisement.frame());
        let sent = watch(&mut pair);
        let mut probed = None;
        while global(&pair).is_empty() {
            pair.run_for(Duration::from_millis(1));
            if !messages(&sent.take(), NEIGHBOR_SOLICITATION).is_empty() {
                probed = Some(pair.now);
            }
        }
        let took = (pair.now - probed.expect("a probe")).as_millis();
        assert!(
            (expected..=expected + 1).contains(&took),
            "{took} at {millis}"
        );
    }
}

/// A forged answer from elsewhere, or about another address, ends no test.
#[test]
fn forged_claims_change_nothing() {
    let mut pair = Pair::configured(5, automatic);
    pair.run_for(Duration::from_millis(1));
    let claim = |target: Ipv6Addr, hop_limit| {
        let message = [
            &[136, 0, 0, 0, 0x20, 0, 0, 0][..],
            &target.octets(),
            &[2, 1, 2, 0, 0, 0, 0, 66],
        ];
        let ip = Ip {
            hop_limit,
            ..Ip::new(v6("fe80::66"), v6(ALL_NODES), 58)
        };
        ip.frame(crate::ALL_NODES_MAC, [2, 0, 0, 0, 0, 66], &message.concat())
    };
    for frame in [claim(address_v6(HOST), 64), claim(v6("fd07::5"), 255)] {
        pair.inject(HOST, &frame);
    }
    pair.run_for(SETTLED);
    assert!(pair.hosts[HOST].configuration().duplicates.is_empty());
    // The same from the link does end it.
    let mut pair = Pair::configured(5, automatic);
    pair.run_for(Duration::from_millis(1));
    pair.inject(HOST, &claim(address_v6(HOST), 255));
    pair.run_for(SETTLED);
    assert_eq!(pair.hosts[HOST].configuration().duplicates, [ip("fd07::1")]);
}

/// RFC 4862 §5.4.5: of a host whose link-local address is a duplicate, which is formed of its hardware
/// address, no other address is used either: not one that had passed its test before.
#[test]
fn with_a_duplicate_link_local_address_no_other_is_used() {
    let mut tried = 0;
    for seed in 0..40 {
        let mut pair = Pair::configured(seed, crate::bare);
        pair.run_for(Duration::from_millis(1));
        let prefix = crate::ON_LINK | crate::AUTONOMOUS;
        let advertisement =
            crate::Advertisement::new().prefix("2001:db8:1::", prefix, crate::HOUR, crate::HOUR);
        pair.inject(HOST, &advertisement.frame());
        let link_local = |pair: &Pair| {
            let mut tentative = pair.hosts[HOST].configuration().tentative.into_iter();
            tentative.find(|address| matches!(address, std::net::IpAddr::V6(own) if own.is_unicast_link_local()))
        };
        // The global one may have passed its test while the link-local one is still tested.
        let passed = (0..3000).any(|_| {
            pair.run_for(Duration::from_millis(1));
            !crate::global(&pair).is_empty() && link_local(&pair).is_some()
        });
        if !passed {
            continue;
        }
        tried += 1;
        let Some(std::net::IpAddr::V6(target)) = link_local(&pair) else {
            panic!("it is tested")
        };
        let message = [
            &[136, 0, 0, 0, 0x20, 0, 0, 0][..],
            &target.octets(),
            &[2, 1, 2, 0, 0, 0, 0, 66],
        ];
        let ip = Ip {
            hop_limit: 255,
            ..Ip::new(target, v6(ALL_NODES), 58)
        };
        let claim = ip.frame(crate::ALL_NODES_MAC, [2, 0, 0, 0, 0, 66], &message.concat());
        pair.inject(HOST, &claim);
        pair.run_for(SETTLED);
        assert_eq!(crate::global(&pair), Vec::<Ipv6Addr>::new(), "seed {seed}");
    }
    assert!(tried > 3, "{tried}");
}
