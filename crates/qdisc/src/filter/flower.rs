//! [`Keys`]: the fields of a packet's headers that a `flower` rule names.

use tautline_base::Item;
use tautline_base::headers::Headers;

use super::masked::{Masked, Ports, Prefix};
use super::protocol::Protocol;

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
}
