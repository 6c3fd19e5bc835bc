//! [`Autoconfiguration`]: addresses and routes that a host learns from its link.

/// Automatic configuration over Ethernet. Nothing is automatic by default: the addresses and routes
/// of [`HostConfig`](crate::HostConfig) are used at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Autoconfiguration {
    /// Probes for another host with the same IPv6 address, a second apart, before the host uses one
    /// of its own (RFC 4862 §5.4; `DupAddrDetectTransmits`). An address that another host has is
    /// never used. Default 0: no test. RFC 4862 has 1, which delays an address by one to two seconds.
    pub dad_transmits: u8,
    /// Whether router advertisements are solicited and believed (RFC 4861 §6.3, RFC 4862 §5.5):
    /// default routers, prefixes on the link, MTU and hop limit of IPv6, and an address of each
    /// prefix for it. Default false, for any host on the link can forge them (RFC 6104).
    pub router_advertisements: bool,
    /// Origin of the second half of those addresses. Default [`Identifiers::Stable`].
    pub identifiers: Identifiers,
    /// Secret of stable identifiers, and of [`LinkLocal::Private`](crate::LinkLocal::Private): keep
    /// it, and the addresses stay the same. Default: [`HostConfig::seed`](crate::HostConfig::seed).
    pub secret: Option<u64>,
}

/// Origin of the interface identifiers of addresses from router advertisements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Identifiers {
    /// A keyed hash of prefix and hardware address (RFC 7217, as RFC 8064 recommends): it reveals
    /// neither the hardware nor the host's other networks, it differs from the address that a kernel
    /// forms for the same interface, and a duplicate is followed by another one, up to three times.
    #[default]
    Stable,
    /// The hardware address (RFC 4291 appendix A).
    FromMac,
}

impl Autoconfiguration {
    /// Router advertisements, and one probe for each address.
    pub const IPV6: Self = Self {
        dad_transmits: 1,
        router_advertisements: true,
        identifiers: Identifiers::Stable,
        secret: None,
    };
}
