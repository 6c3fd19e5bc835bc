//! `flower`'s words: `ip_proto udp dst_port 5000-5999`.

use alloc::string::ToString;
use core::fmt;

use tautline_qdisc::filter::{Keys, Masked, Ports, Prefix, Protocol};
use tautline_qdisc::units;

use crate::report::Value;
use crate::words::Expected;
use crate::words::parameter::*;

const MASKED: &str = "a value and its mask, e.g. 0xb8/0xfc";
const FLAGS: &str = "flags and their mask in hexadecimal, e.g. 10/12";
const PREFIX: &str = "addresses, e.g. 10.0.0.0/8 or 2001:db8::1";
const PORTS: &str = "a port or a range of ports, e.g. 80 or 1000-2000";
pub(super) const PROTOCOL: &str = "a protocol, e.g. all, ip, ipv6, 0x88cc";

impl Parameters for Keys {
    const KIND: &'static str = "flower";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        optional!(
            "vlan_id",
            key("ID", "from 0 to 4095", |text| below::<u16>(text, 0x1000)),
            vlan_id
        ),
        optional!(
            "vlan_prio",
            key("PRIO", "from 0 to 7", |text| below::<u8>(text, 8)),
            vlan_prio
        ),
        optional!(
            "vlan_ethtype",
            key("PROTOCOL", PROTOCOL, Protocol::parse),
            vlan_ethtype
        ),
        optional!("ip_proto", IP_PROTO, ip_proto),
        optional!("ip_tos", key("TOS[/MASK]", MASKED, masked), ip_tos),
        optional!("ip_ttl", key("TTL[/MASK]", MASKED, masked), ip_ttl),
        optional!("src_ip", key("PREFIX", PREFIX, prefix), src_ip),
        optional!("dst_ip", key("PREFIX", PREFIX, prefix), dst_ip),
        optional!(
            "src_port",
            key("PORT[-PORT]", PORTS, Ports::parse),
            src_port
        ),
        optional!(
            "dst_port",
            key("PORT[-PORT]", PORTS, Ports::parse),
            dst_port
        ),
        optional!(
            "tcp_flags",
            key("FLAGS[/MASK]", FLAGS, |text| {
                let hexadecimal = units::parse_hexadecimal;
                Masked::parse(text, 0xfff, (hexadecimal, hexadecimal))
            }),
            tcp_flags
        ),
    ];
}

/// The syntax of a field that prints as it is read.
const fn key<T: fmt::Display>(
    name: &'static str,
    expected: &'static str,
    parse: fn(&str) -> Option<T>,
) -> Syntax<T> {
    Syntax {
        name,
        expected: Expected::Text(expected),
        parse,
        show: |key| Value::word(key.to_string()),
    }
}

fn prefix(text: &str) -> Option<Prefix> {
    text.parse().ok()
}

/// A value is decimal if it can be, else hexadecimal (`flower_parse_ip_tos_ttl`).
fn masked(text: &str) -> Option<Masked<u8>> {
    let value =
        |digits: &str| units::parse_integer(digits).or_else(|| units::parse_hexadecimal(digits));
    Masked::parse(text, u8::MAX, (value, units::parse_hexadecimal))
}

fn below<T: TryFrom<u64>>(text: &str, bound: u64) -> Option<T> {
    let number = units::parse_integer(text).filter(|number| *number < bound);
    number?.try_into().ok()
}

const IP_PROTOS: [(&str, u8); 6] = [
    ("tcp", 6),
    ("udp", 17),
    ("icmp", 1),
    ("icmpv6", 58),
    ("sctp", 132),
    ("dccp", 33),
];

/// The name or number of a transport protocol.
pub(super) const IP_PROTO: Syntax<u8> = Syntax {
    name: "PROTOCOL",
    expected: Expected::Text("tcp, udp, icmp... or a number"),
    parse: |text| {
        let named = IP_PROTOS.iter().find(|(name, _)| *name == text);
        named.map_or_else(|| below(text, 0x100), |(_, number)| Some(*number))
    },
    show: |protocol| {
        let named = IP_PROTOS.iter().find(|(_, number)| number == protocol);
        named.map_or_else(
            || Value::Count((*protocol).into()),
            |(name, _)| Value::word(*name),
        )
    },
};
