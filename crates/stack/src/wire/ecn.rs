//! [`EcnFlags`]: the three flags of a TCP header that speak of congestion (RFC 3168 §6.1, RFC 9768 §3.1.1).

/// AE, CWR and ECE as the number of three bits they form in the header, AE first. Once AccECN is agreed on they are one field,
/// ACE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EcnFlags(u8);

impl EcnFlags {
    /// None of them.
    pub(crate) const NONE: Self = Self(0b000);
    /// ECN-Echo: the SYN-ACK that agrees to classic ECN, and the echo of a mark.
    pub(crate) const ECE: Self = Self(0b001);
    /// Congestion window reduced.
    pub(crate) const CWR: Self = Self(0b010);
    /// The SYN that asks for classic ECN.
    pub(crate) const CLASSIC_SETUP: Self = Self(0b011);
    /// The SYN that asks for AccECN.
    pub(crate) const ACCURATE_SETUP: Self = Self(0b111);

    /// The flags one by one.
    pub(crate) const fn new(ae: bool, cwr: bool, ece: bool) -> Self {
        Self((ae as u8) << 2 | (cwr as u8) << 1 | ece as u8)
    }

    /// The lowest three bits of `number`.
    pub(crate) const fn from_bits(number: u8) -> Self {
        Self(number & 0b111)
    }

    /// The number.
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// Accurate ECN.
    pub(crate) const fn ae(self) -> bool {
        self.0 & 0b100 != 0
    }

    /// Congestion window reduced.
    pub(crate) const fn cwr(self) -> bool {
        self.0 & Self::CWR.0 != 0
    }

    /// ECN-Echo.
    pub(crate) const fn ece(self) -> bool {
        self.0 & Self::ECE.0 != 0
    }
}
