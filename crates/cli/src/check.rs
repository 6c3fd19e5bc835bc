//! Command lines that cannot work, refused before anything is opened.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};

use tautline_stack::Cidr;

use crate::args::{DeviceKind, Mode, OwnAddress, StackArgs};

/// An option whose value cannot work.
#[derive(Debug, thiserror::Error)]
#[error("--{option}{}: {problem}", after_space(.value))]
pub struct Unusable {
    option: &'static str,
    value: String,
    /// Cause and remedy.
    problem: String,
}

/// A value that follows its option.
fn after_space(value: &str) -> String {
    if value.is_empty() {
        String::new()
    } else {
        format!(" {value}")
    }
}

impl Unusable {
    /// Refuses `value` of `option`.
    pub fn new(option: &'static str, value: impl Display, problem: impl Into<String>) -> Self {
        Self {
            option,
            value: value.to_string(),
            problem: problem.into(),
        }
    }
}

/// Least MTU of IPv6 (RFC 8200 §5) and of IPv4 (RFC 791 §3.2).
const LEAST_MTU: [usize; 2] = [1280, 68];

impl StackArgs {
    /// # Errors
    /// If no host can have these addresses and routers, or an option is for another device.
    pub fn check(&self) -> Result<(), Unusable> {
        let all: Vec<_> = self.own().collect();
        for (at, own) in all.iter().enumerate() {
            self.check_own(*own, &all[..at])?;
        }
        self.check_dhcp()?;
        for (at, via) in self.gateway.iter().enumerate() {
            self.check_gateway(*via, &self.gateway[..at])?;
        }
        let kernel = self.device != DeviceKind::AfXdp;
        let foreign = if self.offload && self.device == DeviceKind::Packet {
            Some((
                "offload",
                "with --device packet".to_owned(),
                "tap or af_xdp",
            ))
        } else if let Some(queue) = self.queue.filter(|_| kernel) {
            Some(("queue", queue.to_string(), "af_xdp"))
        } else if let Some(queues) = self.queues.filter(|_| kernel) {
            Some(("queues", queues.to_string(), "af_xdp"))
        } else if kernel && self.mode != Mode::Auto {
            Some(("mode", format!("{:?}", self.mode).to_lowercase(), "af_xdp"))
        } else {
            None
        };
        foreign.map_or(Ok(()), |(option, value, device)| {
            let problem = format!("it is an option of --device {device}; leave it out");
            Err(Unusable::new(option, value, problem))
        })
    }

    /// # Errors
    /// If no lease can be obtained for these options.
    pub(crate) fn check_dhcp(&self) -> Result<(), Unusable> {
        let asks = self.ip.iter().filter(|own| **own == OwnAddress::Dhcp);
        let problem = match asks.count() {
            0 => return Ok(()),
            1 if self.device == DeviceKind::Tap => {
                "it needs --device af_xdp or packet; a TAP interface has no other hosts"
            }
            1 if self.queues.is_some() => "it does without --queues; leave one of them out",
            1 => return Ok(()),
            _ => "once is enough: an interface gets one address",
        };
        Err(Unusable::new("ip", "dhcp", problem))
    }

    /// Whether an address of ours is of the family of `address`; that of a lease to come counts.
    fn has_family(&self, address: IpAddr) -> bool {
        let is_leased = address.is_ipv4() && self.ip.contains(&OwnAddress::Dhcp);
        is_leased
            || self
                .own()
                .any(|own| own.address().is_ipv4() == address.is_ipv4())
    }

    fn check_own(&self, own: Cidr, before: &[Cidr]) -> Result<(), Unusable> {
        let address = own.address();
        let problem = if let Some(kind) = not_a_host(address) {
            format!("{kind} is no address of a host")
        } else if own.broadcast().map(IpAddr::V4) == Some(address) {
            "it is the broadcast address of its network".to_owned()
        } else if own.broadcast().is_some() && is_network(own) {
            "it is the address of the network itself".to_owned()
        } else if before.iter().any(|other| other.address() == address) {
            "it is given twice".to_owned()
        } else {
            return Ok(());
        };
        let remedy = "name a free address of the network, e.g. 10.7.0.1/24";
        Err(Unusable::new("ip", own, format!("{problem}; {remedy}")))
    }

    fn check_gateway(&self, via: IpAddr, before: &[IpAddr]) -> Result<(), Unusable> {
        let family = |other: &IpAddr| other.is_ipv4() == via.is_ipv4();
        let problem = if let Some(kind) = self.not_a_peer(via) {
            format!("{kind}; name the router's own address")
        } else if before.iter().any(family) {
            "it is the second of its family; name one router of each".to_owned()
        } else if !self.has_family(via) {
            "no --ip is of its family; add one".to_owned()
        } else {
            return Ok(());
        };
        Err(Unusable::new("gateway", via, problem))
    }

    /// Checks everything, and that `peer` can be reached from these addresses.
    ///
    /// # Errors
    /// If it cannot.
    pub fn check_peer(&self, peer: SocketAddr) -> Result<(), Unusable> {
        self.check()?;
        // IPv4-mapped addresses stand for IPv4 (RFC 4291 §2.5.5.2).
        let address = peer.ip().to_canonical();
        let family = |other: &IpAddr| other.is_ipv4() == address.is_ipv4();
        let on_link = self.own().any(|own| own.contains(address))
            || matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let problem = if peer.port() == 0 {
            "nobody can listen on port 0; name a port from 1 to 65535".to_owned()
        } else if let Some(kind) = self.not_a_peer(address) {
            format!("{kind}; name the address of another host")
        } else if on_link {
            return Ok(());
        } else if !self.has_family(address) {
            "no --ip is of its family; add one".to_owned()
        } else if !self.routers().any(|router| family(&router)) {
            let own: Vec<_> = self.own().map(|own| own.to_string()).collect();
            format!(
                "it is not on the network of {}; add --gateway ROUTER, or correct the prefix",
                own.join(" or ")
            )
        } else {
            return Ok(());
        };
        Err(Unusable::new("to", peer, problem))
    }

    /// # Errors
    /// If packets of `mtu` bytes are too short for a family of ours.
    pub fn check_mtu(&self, mtu: usize) -> Result<(), Unusable> {
        for own in self.own() {
            let least = LEAST_MTU[usize::from(own.address().is_ipv4())];
            if mtu < least {
                let iface = &self.iface;
                let problem = format!(
                    "its MTU of {mtu} is below {least}, the least for {own}: `ip link set {iface} mtu {least}`"
                );
                return Err(Unusable::new("iface", iface, problem));
            }
        }
        Ok(())
    }

    /// Why `address` cannot be another host's.
    fn not_a_peer(&self, address: IpAddr) -> Option<String> {
        if let Some(kind) = not_a_host(address) {
            return Some(format!("{kind} is no other host"));
        }
        self.own().find_map(|own| {
            if own.address() == address {
                Some("it is our own address (--ip)".to_owned())
            } else if own.broadcast().map(IpAddr::V4) == Some(address) {
                Some(format!("it is the broadcast address of {own}"))
            } else {
                None
            }
        })
    }
}

/// The kind of address if it is not that of one host.
fn not_a_host(address: IpAddr) -> Option<&'static str> {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    if address.is_unspecified() {
        Some("the unspecified address")
    } else if address.is_multicast() {
        Some("a multicast address")
    } else if broadcast {
        Some("the broadcast address")
    } else if address.is_loopback() {
        Some("a loopback address")
    } else if address.to_canonical() != address {
        Some("an IPv4-mapped address")
    } else {
        None
    }
}

/// Whether all bits behind the prefix are zero.
fn is_network(own: Cidr) -> bool {
    match own.address() {
        IpAddr::V4(v4) => v4.to_bits() & (u32::MAX >> own.prefix().min(31)) == 0,
        IpAddr::V6(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Unusable;

    #[test]
    fn a_value_follows_its_option_if_there_is_one() {
        let shown = |value: &str| Unusable::new("left", value, "name another").to_string();
        assert_eq!(shown("eth0"), "--left eth0: name another");
        assert_eq!(shown(""), "--left: name another");
    }
}
