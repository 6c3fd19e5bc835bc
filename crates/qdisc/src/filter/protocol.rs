//! [`Protocol`]: what the link layer says a packet is, as `tc filter ... protocol` names it.

use core::fmt;

use tautline_base::headers::{ARP, IPV4, IPV6, QINQ, VLAN};

use crate::units;

/// The protocols a rule applies to.
///
/// A tagged packet is of its outermost tag's protocol, as in Linux: `protocol ip` does not see it,
/// `protocol 802.1q` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Any, also packets whose protocol is not known.
    #[default]
    All,
    /// Packets with this ethertype.
    Ethertype(u16),
}

/// Names and numbers; of two names the first is printed.
const NAMES: [(&str, u16); 11] = [
    ("ip", IPV4),
    ("ipv4", IPV4),
    ("ipv6", IPV6),
    ("ip6", IPV6),
    ("arp", ARP),
    ("802.1q", VLAN),
    ("802.1Q", VLAN),
    ("802.1ad", QINQ),
    ("802.1AD", QINQ),
    ("mpls_uc", 0x8847),
    ("mpls_mc", 0x8848),
];

impl Protocol {
    /// IPv4.
    pub const IP: Self = Self::Ethertype(IPV4);
    /// IPv6.
    pub const IPV6: Self = Self::Ethertype(IPV6);
    /// ARP.
    pub const ARP: Self = Self::Ethertype(ARP);
    /// Tagged with a VLAN, IEEE 802.1Q.
    pub const VLAN: Self = Self::Ethertype(VLAN);

    /// True if a packet of `ethertype` is one of its packets.
    #[inline]
    pub(super) fn admits(self, ethertype: Option<u16>) -> bool {
        match self {
            Self::All => true,
            Self::Ethertype(own) => ethertype == Some(own),
        }
    }

    /// Reads `all`, a name, or a number.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "all" {
            return Some(Self::All);
        }
        let named = NAMES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, number)| *number);
        let number = named.or_else(|| u16::try_from(units::parse_integer(text)?).ok())?;
        Some(Self::Ethertype(number))
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Ethertype(number) = *self else {
            return f.write_str("all");
        };
        match NAMES.iter().find(|(_, named)| *named == number) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{number:#06x}"),
        }
    }
}
