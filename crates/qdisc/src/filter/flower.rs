//! [`Keys`]: the fields of a packet's headers that a `flower` rule names.

use core::fmt;

use tautline_base::Item;
use tautline_base::headers::Headers;

use super::masked::{Masked, Ports, Prefix};
use super::protocol::Protocol;
use crate::words::{NUMBER, ParseError, Word, Words, units};

/// Fields that must all agree; those that are `None` do not matter. A field the packet does not
/// have never agrees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// Number of the outermost VLAN tag.
    pub vlan_id: Option<u16>,
    /// Priority of the outermost VLAN tag, 0..=7.
    pub vlan_prio: Option<u8>,
    /// The protocol behind the outermost VLAN tag.
    pub vlan_ethtype: Option<Protocol>,
    /// The transport protocol (behind IPv6's extension headers).
    pub ip_proto: Option<u8>,
    /// The TOS byte or traffic class.
    pub ip_tos: Option<Masked<u8>>,
    /// Time to live, or hop limit.
    pub ip_ttl: Option<Masked<u8>>,
    /// Source address.
    pub src_ip: Option<Prefix>,
    /// Destination address.
    pub dst_ip: Option<Prefix>,
    /// Source port.
    pub src_port: Option<Ports>,
    /// Destination port.
    pub dst_port: Option<Ports>,
    /// Flags of a TCP header: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128, AE 256.
    pub tcp_flags: Option<Masked<u16>>,
}

pub(super) const HELP: &str = "vlan_id ID, vlan_prio PRIO, vlan_ethtype PROTOCOL, ip_proto PROTOCOL, ip_tos TOS[/MASK], \
    ip_ttl TTL[/MASK], src_ip PREFIX, dst_ip PREFIX, src_port PORT[-PORT], dst_port PORT[-PORT], tcp_flags FLAGS[/MASK], \
    classid CLASS, action ACTION";

/// True if `key` does not matter or `agrees` with what was found.
fn holds<K: Copy, F>(key: Option<K>, found: Option<F>, agrees: impl FnOnce(K, F) -> bool) -> bool {
    key.is_none_or(|key| found.is_some_and(|found| agrees(key, found)))
}

impl Keys {
    /// True if every field agrees with those of `packet`.
    pub(super) fn matches<P: Item>(&self, packet: &P, headers: &Headers) -> bool {
        let (vlan, ip) = (headers.vlan, headers.ip);
        let ports = ip.and_then(|ip| ip.ports);
        holds(self.vlan_id, vlan, |id, vlan| id == vlan.id)
            && holds(self.vlan_prio, vlan, |priority, vlan| {
                priority == vlan.priority
            })
            && holds(self.vlan_ethtype, vlan, |protocol, vlan| {
                protocol.admits(Some(vlan.ethertype))
            })
            && holds(
                self.ip_proto,
                ip.and_then(|ip| ip.protocol),
                |own, found| own == found,
            )
            && holds(self.ip_tos, ip, |tos, _| tos.matches(packet.tos()))
            && holds(self.ip_ttl, ip, |ttl, ip| ttl.matches(ip.ttl))
            && holds(self.src_ip, ip, |prefix, ip| prefix.contains(ip.source))
            && holds(self.dst_ip, ip, |prefix, ip| {
                prefix.contains(ip.destination)
            })
            && holds(self.src_port, ports, |own, (source, _)| {
                own.contains(source)
            })
            && holds(self.dst_port, ports, |own, (_, destination)| {
                own.contains(destination)
            })
            && holds(
                self.tcp_flags,
                ip.and_then(|ip| ip.tcp_flags),
                Masked::matches,
            )
    }

    /// Reads the value of `option`; false if there is no such field.
    pub(super) fn set(
        &mut self,
        option: Word<'_>,
        words: &mut Words<'_>,
    ) -> Result<bool, ParseError> {
        const PREFIX: &str = "addresses, e.g. 10.0.0.0/8 or 2001:db8::1";
        const PORTS: &str = "a port or a range of ports, e.g. 80 or 1000-2000";
        const MASKED: &str = "a value and its mask, e.g. 0xb8/0xfc";
        match option.text {
            "vlan_id" => {
                self.vlan_id =
                    Some(words.value(option, |text| below(text, 0x1000), "from 0 to 4095")?)
            }
            "vlan_prio" => {
                self.vlan_prio = Some(words.value(option, |text| below(text, 8), "from 0 to 7")?)
            }
            "vlan_ethtype" => {
                self.vlan_ethtype = Some(words.value(
                    option,
                    Protocol::parse,
                    "a protocol, e.g. ip, ipv6, 0x88cc",
                )?);
            }
            "ip_proto" => {
                self.ip_proto =
                    Some(words.value(option, ip_proto, "tcp, udp, icmp... or a number")?)
            }
            "ip_tos" => {
                self.ip_tos =
                    Some(words.value(option, |text| Masked::parse(text, u8::MAX), MASKED)?)
            }
            "ip_ttl" => {
                self.ip_ttl =
                    Some(words.value(option, |text| Masked::parse(text, u8::MAX), MASKED)?)
            }
            "src_ip" => {
                self.src_ip = Some(words.value(option, |text| text.parse().ok(), PREFIX)?)
            }
            "dst_ip" => {
                self.dst_ip = Some(words.value(option, |text| text.parse().ok(), PREFIX)?)
            }
            "src_port" => self.src_port = Some(words.value(option, Ports::parse, PORTS)?),
            "dst_port" => self.dst_port = Some(words.value(option, Ports::parse, PORTS)?),
            "tcp_flags" => {
                self.tcp_flags =
                    Some(words.value(option, |text| Masked::parse(text, 0xfff), NUMBER)?)
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
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

impl fmt::Display for Keys {
    /// In `tc`'s words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn put<K: fmt::Display>(
            f: &mut fmt::Formatter<'_>,
            name: &str,
            key: Option<K>,
        ) -> fmt::Result {
            key.map_or(Ok(()), |key| write!(f, " {name} {key}"))
        }
        put(f, "vlan_id", self.vlan_id)?;
        put(f, "vlan_prio", self.vlan_prio)?;
        put(f, "vlan_ethtype", self.vlan_ethtype)?;
        match self
            .ip_proto
            .map(|number| (number, IP_PROTOS.iter().find(|(_, named)| *named == number)))
        {
            Some((_, Some((name, _)))) => put(f, "ip_proto", Some(name))?,
            Some((number, None)) => put(f, "ip_proto", Some(number))?,
            None => {}
        }
        put(f, "ip_tos", self.ip_tos)?;
        put(f, "ip_ttl", self.ip_ttl)?;
        put(f, "src_ip", self.src_ip)?;
        put(f, "dst_ip", self.dst_ip)?;
        put(f, "src_port", self.src_port)?;
        put(f, "dst_port", self.dst_port)?;
        put(f, "tcp_flags", self.tcp_flags)
    }
}
