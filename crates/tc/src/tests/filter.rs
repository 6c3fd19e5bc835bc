//! The rules against hand-made packets, naive models and random bytes.

mod actions;
mod models;
mod u32_rules;

use std::net::Ipv6Addr;
use std::vec;
use std::vec::Vec;

use tautline_base::headers::Headers;
use tautline_base::{Instant, Item};
use tautline_testkit::Ip;
use tautline_testkit::frame::ethernet;

use super::*;
use tautline_qdisc::ClassId;
use tautline_qdisc::filter::*;
use tautline_testkit::Probe;

/// The rule that `words` describe.
fn rule(words: &str) -> Filter {
    read_filter(&mut Words::new(words)).unwrap_or_else(|error| panic!("{words}: {error}"))
}

/// The rules that `lines` describe.
fn rules(lines: &[&str]) -> Filters {
    let mut filters = Filters::default();
    for line in lines {
        filters
            .add(rule(line))
            .unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    filters
}

/// The minor number of the class that `filters` find for `packet`; `None` if they find none.
fn class(filters: &mut Filters, packet: &Probe) -> Option<u16> {
    match filters.classify(&mut packet.clone(), Instant::ZERO) {
        Verdict::Class(class) => Some(class.minor),
        _ => None,
    }
}

/// True if the rule that `words` describe matches `packet`.
fn matches(words: &str, packet: &Probe) -> bool {
    let mut filters = rules(&[&std::format!("{words} classid 1:1")]);
    class(&mut filters, packet) == Some(1)
}

fn frame(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    ethernet([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], ethertype, payload)
}

/// An IPv4 header with `options` bytes of options, then `payload`.
fn ipv4(protocol: u8, addresses: [[u8; 4]; 2], options: usize, payload: &[u8]) -> Vec<u8> {
    let [source, destination] = addresses;
    let ip = Ip {
        fragment: 1 << 16,
        options: vec![1; options],
        ..Ip::new(source, destination, protocol)
    };
    ip.packet_of(payload)
}

/// An IPv6 header, then `payload`.
fn ipv6(next: u8, addresses: [u128; 2], payload: &[u8]) -> Vec<u8> {
    let [source, destination] = addresses.map(Ipv6Addr::from);
    let ip = Ip {
        hop_limit: 63,
        ..Ip::new(source, destination, next)
    };
    ip.packet_of(payload)
}

fn ports(source: u16, destination: u16) -> Vec<u8> {
    [source.to_be_bytes(), destination.to_be_bytes()].concat()
}

fn tcp(source: u16, destination: u16, flags: u8) -> Vec<u8> {
    [
        &ports(source, destination)[..],
        &[0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0],
    ]
    .concat()
}

/// 10.1.2.3:1000 to 192.168.7.9:80, UDP.
fn udp4() -> Vec<u8> {
    ipv4(
        17,
        [[10, 1, 2, 3], [192, 168, 7, 9]],
        0,
        &[&ports(1000, 80)[..], &[0, 8, 0, 0]].concat(),
    )
}

fn probe(ethertype: u16, payload: &[u8]) -> Probe {
    Probe::new(1).with_headers(frame(ethertype, payload))
}

#[test]
fn rules_are_tried_by_preference_then_as_they_were_added() {
    let packet = probe(0x0800, &udp4());
    let mut filters = rules(&[
        "prio 2 matchall classid 1:2",
        "prio 1 handle 9 fw classid 1:1",
        "prio 3 matchall classid 1:3",
        "prio 1 handle 9 fw classid 1:4",
    ]);
    assert_eq!(class(&mut filters, &packet), Some(2));
    assert_eq!(class(&mut filters, &packet.clone().marked(9)), Some(1));
    assert_eq!(filters.hits().collect::<Vec<_>>(), [1, 1, 0, 0]);
    assert_eq!(filters.remove(2), 1);
    assert_eq!(class(&mut filters, &packet), Some(3));
    assert_eq!(
        (filters.remove(7), filters.remove(1), filters.remove(3)),
        (0, 2, 1)
    );
    assert!(filters.is_empty());
    assert_eq!(class(&mut filters, &packet), None);
}

/// Linux gives the first rule 49152 and puts every later one before all others.
#[test]
fn rules_without_preference_go_first() {
    let mut filters = rules(&[
        "matchall classid 1:1",
        "matchall classid 1:2",
        "prio 7 matchall classid 1:3",
    ]);
    let preferences: Vec<_> = filters.iter().map(|filter| filter.preference).collect();
    assert_eq!(preferences, [Some(49152), Some(49151), Some(7)]);
    assert_eq!(class(&mut filters, &Probe::new(1)), Some(3));
    filters.add(rule("matchall classid 1:4")).expect("fits");
    assert_eq!(class(&mut filters, &Probe::new(1)), Some(4));
}

#[test]
fn protocols_are_told_apart() {
    let (ip, ip6) = (
        probe(0x0800, &udp4()),
        probe(0x86dd, &ipv6(17, [1, 2], &ports(1, 2))),
    );
    let tagged = probe(0x8100, &[&[0, 5, 8, 0][..], &udp4()].concat());
    let arp = probe(0x0806, &[0; 28]);
    for (protocol, expected) in [
        ("all", [true; 4]),
        ("ip", [true, false, false, false]),
        ("ipv6", [false, true, false, false]),
        ("802.1q", [false, false, true, false]),
        ("0x0806", [false, false, false, true]),
    ] {
        let words = std::format!("protocol {protocol} matchall");
        assert_eq!(
            [&ip, &ip6, &tagged, &arp].map(|packet| matches(&words, packet)),
            expected,
            "{protocol}"
        );
    }
    // Without bytes nothing is known.
    assert!(
        matches("matchall", &Probe::new(1)) && !matches("protocol ip matchall", &Probe::new(1))
    );
}

#[test]
fn marks_are_compared_within_their_mask() {
    let packet = Probe::new(1).marked(0x1234);
    assert!(matches("handle 0x1234 fw", &packet) && matches("handle 4660 fw", &packet));
    assert!(matches("handle 0x34/0xff fw", &packet) && !matches("handle 0x35/0xff fw", &packet));
    assert!(!matches("handle 0x34 fw", &packet));
    // As C reads numbers: 064 is 52, 020 is 16.
    assert!(matches("handle 064/0xff fw", &packet));
    assert!(matches("u32 match mark 16 020", &packet));
    assert!(!matches("u32 match mark 0 0x10", &packet));
}

#[test]
fn fields_are_found_by_name() {
    let packet = probe(
        0x0800,
        &ipv4(
            6,
            [[10, 1, 2, 3], [192, 168, 7, 9]],
            8,
            &tcp(1000, 443, 0x12),
        ),
    )
    .tos(0xb9);
    for yes in [
        "flower",
        "flower ip_proto tcp src_ip 10.0.0.0/8 dst_ip 192.168.7.9 src_port 1000 dst_port 400-500",
        "flower ip_tos 0xb8/0xfc",
        "flower ip_tos 0xb9",
        "flower ip_ttl 64",
        "flower tcp_flags 0x2/0x2",
        "flower tcp_flags 0x12",
        "flower tcp_flags 12/3f",
        "flower tcp_flags 10/10",
        "flower ip_tos b8/fc",
        "flower ip_ttl 64/ff",
        "flower src_ip 0.0.0.0/0",
        "protocol ip flower dst_port 443",
    ] {
        assert!(matches(yes, &packet), "{yes}");
    }
    for no in [
        "flower ip_proto udp",
        "flower src_ip 11.0.0.0/8",
        "flower dst_ip 192.168.7.8/32",
        "flower src_ip ::/0",
        "flower src_port 443",
        "flower dst_port 444-500",
        "flower ip_tos 0xb8",
        "flower ip_ttl 63",
        "flower tcp_flags 0x1/0x1",
        "flower tcp_flags 8/8",
        "flower ip_ttl 0x10/10",
        "flower vlan_id 0",
    ] {
        assert!(!matches(no, &packet), "{no}");
    }
}

#[test]
fn tags_are_looked_behind() {
    let single = probe(0x8100, &[&[0x60, 5, 8, 0][..], &udp4()].concat());
    let double = probe(
        0x88a8,
        &[&[0, 7, 0x81, 0, 0, 8, 8, 0][..], &udp4()].concat(),
    );
    assert!(matches(
        "protocol 802.1q flower vlan_id 5 vlan_prio 3 vlan_ethtype ip dst_port 80",
        &single
    ));
    assert!(!matches("flower vlan_id 6", &single) && !matches("flower vlan_prio 2", &single));
    assert!(matches(
        "protocol 802.1ad flower vlan_id 7 vlan_ethtype 802.1q dst_port 80",
        &double
    ));
    let triple = probe(
        0x8100,
        &[&[0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3, 8, 0][..], &udp4()].concat(),
    );
    assert!(matches("flower vlan_id 1", &triple) && !matches("flower dst_port 80", &triple));
}

#[test]
fn extension_headers_are_looked_behind() {
    let addresses = [0x2001_0db8 << 96 | 1, 0x2001_0db8 << 96 | 2];
    let options = [43, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let routing = [44, 0, 0, 0, 0, 0, 0, 0];
    let fragment = |offset: u16| {
        [
            &[17, 0][..],
            &(offset << 3 | 1).to_be_bytes(),
            &[0, 0, 0, 9],
        ]
        .concat()
    };
    let chain = |offset| [&options[..], &routing, &fragment(offset), &ports(5, 53)].concat();
    let first = probe(0x86dd, &ipv6(0, addresses, &chain(0)));
    assert!(matches(
        "flower ip_proto udp src_ip 2001:db8::/32 dst_ip 2001:db8::2 dst_port 53 ip_ttl 63",
        &first
    ));
    assert!(
        !matches("flower src_ip 2001:db8::2", &first)
            && !matches("flower src_ip 10.0.0.0/8", &first)
    );
    // A later fragment has a protocol, but no ports.
    let later = probe(0x86dd, &ipv6(0, addresses, &chain(4)));
    assert!(matches("flower ip_proto udp", &later) && !matches("flower dst_port 53", &later));
    let authentication = [&[6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &tcp(1, 22, 2)].concat();
    assert!(matches(
        "flower ip_proto tcp dst_port 22 tcp_flags 2",
        &probe(0x86dd, &ipv6(51, addresses, &authentication))
    ));
    // Nine extension headers are one too many, eight are not.
    let many = |count: usize| {
        [
            vec![[0; 8]; count - 1].concat(),
            vec![17, 0, 0, 0, 0, 0, 0, 0],
            ports(5, 53),
        ]
        .concat()
    };
    assert!(matches(
        "flower dst_port 53",
        &probe(0x86dd, &ipv6(0, addresses, &many(7)))
    ));
    assert!(!matches(
        "flower ip_proto udp",
        &probe(0x86dd, &ipv6(0, addresses, &many(9)))
    ));
}

#[test]
fn without_a_link_header_the_version_decides() {
    let read = |bytes: &[u8]| Headers::parse(bytes, 0);
    let four = read(&udp4());
    assert_eq!(
        (four.protocol, four.ip.and_then(|ip| ip.ports)),
        (Some(0x0800), Some((1000, 80)))
    );
    let six = read(&ipv6(17, [1, 2], &ports(5, 53)));
    assert_eq!(
        (six.protocol, six.ip.and_then(|ip| ip.ports)),
        (Some(0x86dd), Some((5, 53)))
    );
    for neither in [&[0x50; 60][..], &[], &[0x05; 60]] {
        assert_eq!(read(neither), Headers::default());
    }
    // A link header shorter than Ethernet's is passed over.
    let behind = Headers::parse(&[&[9; 13], &udp4()[..]].concat(), 13);
    assert_eq!(behind.ip.map(|ip| ip.at), Some(13));
}

#[test]
fn headers_that_contradict_themselves_are_none() {
    let with_first = |first: u8| {
        let mut bytes = udp4();
        bytes[0] = first;
        probe(0x0800, &bytes)
    };
    assert!(matches("flower ip_proto udp", &with_first(0x45)));
    for first in [0x65, 0x55, 0x44, 0x40] {
        assert!(
            !matches("flower ip_proto udp", &with_first(first)),
            "{first:#x}"
        );
    }
    // Options that reach beyond the end hide the ports, no more.
    assert!(
        matches("flower ip_proto udp", &with_first(0x4f))
            && !matches("flower dst_port 0-65535", &with_first(0x4f))
    );
    let mut six = ipv6(17, [1, 2], &ports(5, 53));
    six[0] = 0x45;
    assert!(!matches("flower ip_proto udp", &probe(0x86dd, &six)));
}

#[test]
fn fragments_of_ipv4_have_ports_only_in_the_first() {
    let mut bytes = udp4();
    bytes[6] = 0x20;
    assert!(matches("flower dst_port 80", &probe(0x0800, &bytes)));
    bytes[7] = 1;
    assert!(
        matches("flower ip_proto udp", &probe(0x0800, &bytes))
            && !matches("flower dst_port 80", &probe(0x0800, &bytes))
    );
}

#[test]
fn a_report_counts_per_rule() {
    let mut filters = rules(&[
        "prio 1 handle 1 fw classid 1:1",
        "prio 2 matchall action police rate 8bit burst 1 drop",
    ]);
    assert_eq!(class(&mut filters, &Probe::new(1)), None);
    assert_eq!(class(&mut filters, &Probe::new(1).marked(1)), Some(1));
    let report = filters.report();
    let counters = |index: usize| report.children[index].counters.clone();
    assert_eq!(
        counters(0),
        [("rule_hit", Value::Count(2)), ("success", Value::Count(1))]
    );
    assert_eq!(
        counters(1),
        [("rule_hit", Value::Count(1)), ("success", Value::Count(1))]
    );
    assert_eq!(
        (report.children[0].overlimits, report.children[1].overlimits),
        (0, 1)
    );
    assert_eq!(report.children[0].id, Some(ClassId::new(1, 1)));
    assert_eq!(
        report.children[0].options,
        [(
            "rule",
            Value::word("protocol all pref 1 handle 0x1/0xffffffff fw flowid 1:1")
        )]
    );
}
