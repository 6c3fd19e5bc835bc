//! `flower`'s words: `ip_proto udp dst_port 5000-5999`.

use core::fmt;

use tautline_qdisc::filter::{Keys, Masked, Ports, Protocol};
use tautline_qdisc::units;

use crate::words::{NUMBER, ParseError, Word, Words};

pub(super) const HELP: &str = "vlan_id ID, vlan_prio PRIO, vlan_ethtype PROTOCOL, ip_proto PROTOCOL, ip_tos TOS[/MASK], \
    ip_ttl TTL[/MASK], src_ip PREFIX, dst_ip PREFIX, src_port PORT[-PORT], dst_port PORT[-PORT], tcp_flags FLAGS[/MASK], \
    classid CLASS, action ACTION";

/// Reads the value of `option`; false if there is no such field.
pub(super) fn set(
    keys: &mut Keys,
    option: Word<'_>,
    words: &mut Words<'_>,
) -> Result<bool, ParseError> {
    const PREFIX: &str = "addresses, e.g. 10.0.0.0/8 or 2001:db8::1";
    const PORTS: &str = "a port or a range of ports, e.g. 80 or 1000-2000";
    const MASKED: &str = "a value and its mask, e.g. 0xb8/0xfc";
    match option.text {
        "vlan_id" => {
            keys.vlan_id =
                Some(words.value(option, |text| below(text, 0x1000), "from 0 to 4095")?)
        }
        "vlan_prio" => {
            keys.vlan_prio = Some(words.value(option, |text| below(text, 8), "from 0 to 7")?)
        }
        "vlan_ethtype" => {
            keys.vlan_ethtype =
                Some(words.value(option, Protocol::parse, "a protocol, e.g. ip, ipv6, 0x88cc")?);
        }
        "ip_proto" => {
            keys.ip_proto = Some(words.value(option, ip_proto, "tcp, udp, icmp... or a number")?)
        }
        "ip_tos" => {
            keys.ip_tos = Some(words.value(option, |text| Masked::parse(text, u8::MAX), MASKED)?)
        }
        "ip_ttl" => {
            keys.ip_ttl = Some(words.value(option, |text| Masked::parse(text, u8::MAX), MASKED)?)
        }
        "src_ip" => keys.src_ip = Some(words.value(option, |text| text.parse().ok(), PREFIX)?),
        "dst_ip" => keys.dst_ip = Some(words.value(option, |text| text.parse().ok(), PREFIX)?),
        "src_port" => keys.src_port = Some(words.value(option, Ports::parse, PORTS)?),
        "dst_port" => keys.dst_port = Some(words.value(option, Ports::parse, PORTS)?),
        "tcp_flags" => {
            keys.tcp_flags = Some(words.value(option, |text| Masked::parse(text, 0xfff), NUMBER)?)
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn below<T: TryFrom<u64>>(text: &str, bound: u64) -> Option<T> {
    units::parse_integer(text)
        .filter(|number| *number < bound)?
        .try_into()
        .ok()
}

const IP_PROTOS: [(&str, u8); 6] = [
    ("tcp", 6),
    ("udp", 17),
    ("icmp", 1),
    ("icmpv6", 58),
    ("sctp", 132),
    ("dccp", 33),
];

/// Reads the name or number of a transport protocol.
pub(super) fn ip_proto(text: &str) -> Option<u8> {
    let named = IP_PROTOS
        .iter()
        .find(|(name, _)| *name == text)
        .map(|(_, number)| *number);
    named.or_else(|| below(text, 0x100))
}

/// Writes the fields in `tc`'s words, each after a space.
pub(super) fn write(f: &mut fmt::Formatter<'_>, keys: &Keys) -> fmt::Result {
    fn put<K: fmt::Display>(f: &mut fmt::Formatter<'_>, name: &str, key: Option<K>) -> fmt::Result {
        key.map_or(Ok(()), |key| write!(f, " {name} {key}"))
    }
    put(f, "vlan_id", keys.vlan_id)?;
    put(f, "vlan_prio", keys.vlan_prio)?;
    put(f, "vlan_ethtype", keys.vlan_ethtype)?;
    match keys
        .ip_proto
        .map(|number| (number, IP_PROTOS.iter().find(|(_, named)| *named == number)))
    {
        Some((_, Some((name, _)))) => put(f, "ip_proto", Some(name))?,
        Some((number, None)) => put(f, "ip_proto", Some(number))?,
        None => {}
    }
    put(f, "ip_tos", keys.ip_tos)?;
    put(f, "ip_ttl", keys.ip_ttl)?;
    put(f, "src_ip", keys.src_ip)?;
    put(f, "dst_ip", keys.dst_ip)?;
    put(f, "src_port", keys.src_port)?;
    put(f, "dst_port", keys.dst_port)?;
    put(f, "tcp_flags", keys.tcp_flags)
}
