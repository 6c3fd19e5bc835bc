//! [`Masked`], [`Prefix`], [`Ports`]: values of which only a part is compared.

use core::error::Error;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::{BitAnd, BitXor};
use core::str::FromStr;

/// A value compared only in the bits of `mask`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masked<T> {
    /// The value to match.
    pub value: T,
    /// The bits that count.
    pub mask: T,
}

impl<T: Copy + BitAnd<Output = T> + BitXor<Output = T> + PartialEq + Default> Masked<T> {
    /// `value` in the bits of `mask`; bits of `value` outside are cleared.
    pub fn new(value: T, mask: T) -> Self {
        Self {
            value: value & mask,
            mask,
        }
    }

    /// True if `found` agrees in every bit that counts.
    #[inline]
    pub fn matches(self, found: T) -> bool {
        (found ^ self.value) & self.mask == T::default()
    }
}

/// Reads a number.
pub type ReadNumber = fn(&str) -> Option<u64>;

impl<T: TryFrom<u64> + Copy + BitAnd<Output = T> + BitXor<Output = T> + PartialEq + Default>
    Masked<T>
{
    /// Reads `VALUE` or `VALUE/MASK`, in numbers that these functions read; alone, the value counts in the
    /// bits of `whole`.
    pub fn parse(text: &str, whole: T, (value, mask): (ReadNumber, ReadNumber)) -> Option<Self> {
        let number = |digits: Option<u64>| T::try_from(digits?).ok();
        match text.split_once('/') {
            Some((digits, bits)) => Some(Self::new(number(value(digits))?, number(mask(bits))?)),
            None => Some(Self::new(number(value(text))?, whole)),
        }
    }
}

impl<T: fmt::LowerHex> fmt::Display for Masked<T> {
    /// `0xb8/0xfc`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}/{:#x}", self.value, self.mask)
    }
}

/// Addresses that share their first bits: `10.0.0.0/8`, `2001:db8::/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// The addresses that share `address`'s first `length` bits; `None` if it has not as many.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let address = match address {
            IpAddr::V4(four) if length <= 32 => {
                Ipv4Addr::from_bits(four.to_bits() & mask4(length)).into()
            }
            IpAddr::V6(six) if length <= 128 => {
                Ipv6Addr::from_bits(six.to_bits() & mask6(length)).into()
            }
            _ => return None,
        };
        Some(Self { address, length })
    }

    /// The first of its addresses.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Number of bits that they share.
    pub fn length(self) -> u8 {
        self.length
    }

    /// The bits that they share, as a mask over an address of their family.
    pub fn mask(self) -> u128 {
        match self.address {
            IpAddr::V4(_) => mask4(self.length).into(),
            IpAddr::V6(_) => mask6(self.length),
        }
    }

    /// True if `address` is one of them.
    #[inline]
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(found)) => {
                (own.to_bits() ^ found.to_bits()) & mask4(self.length) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(found)) => {
                (own.to_bits() ^ found.to_bits()) & mask6(self.length) == 0
            }
            _ => false,
        }
    }
}

/// The first `length` bits of 32.
fn mask4(length: u8) -> u32 {
    u32::MAX
        .checked_shl(32u32.saturating_sub(length.into()))
        .unwrap_or(0)
}

/// The first `length` bits of 128.
fn mask6(length: u8) -> u128 {
    u128::MAX
        .checked_shl(128u32.saturating_sub(length.into()))
        .unwrap_or(0)
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// A text that names no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPrefix;

impl fmt::Display for NoPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "no addresses: write an address, or one with the bits of its network, e.g. 10.0.0.0/8",
        )
    }
}

impl Error for NoPrefix {}

impl FromStr for Prefix {
    type Err = NoPrefix;

    /// `10.0.0.0/8`, or an address alone.
    fn from_str(text: &str) -> Result<Self, NoPrefix> {
        let (address, length) = text
            .split_once('/')
            .map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| NoPrefix)?;
        let whole = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(whole), str::parse).map_err(|_| NoPrefix)?;
        Self::new(address, length).ok_or(NoPrefix)
    }
}

/// Ports from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The lowest.
    pub first: u16,
    /// The highest.
    pub last: u16,
}

impl Ports {
    /// Only `port`.
    pub const fn one(port: u16) -> Self {
        Self {
            first: port,
            last: port,
        }
    }

    /// True if `port` is among them.
    #[inline]
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// Reads `80` or `1000-2000`.
    pub fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let ports = Self {
            first: first.parse().ok()?,
            last: last.parse().ok()?,
        };
        (ports.first <= ports.last).then_some(ports)
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}
