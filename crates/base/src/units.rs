//! [`Bytes`] and [`Rate`]: integers that know what they count.
//!
//! Only operators that mean something exist. Rounding follows one rule: *a link is never faster
//! than its rate*, so a transmission time rounds up and an amount carried in a time rounds down.

mod parse;

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use core::time::Duration;

pub use parse::parse_duration;

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// An amount of data in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

impl Bytes {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The largest amount that can be written.
    pub const MAX: Self = Self(u64::MAX);

    /// `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// `kib` × 1024 bytes.
    pub const fn kib(kib: u64) -> Self {
        Self(kib << 10)
    }

    /// `mib` × 1024² bytes.
    pub const fn mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// The amount in bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The amount in bytes, for indexing.
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }

    /// Nanoseconds that `self` takes at `rate`, rounded up and saturating: division by a rate without
    /// a [`Duration`].
    #[inline]
    pub fn nanos_at(self, rate: Rate) -> u64 {
        match self.0.checked_mul(NANOS_PER_SEC as u64) {
            _ if rate.0 == 0 => u64::MAX,
            Some(product) => product.div_ceil(rate.0),
            None => {
                u64::try_from((u128::from(self.0) * NANOS_PER_SEC).div_ceil(u128::from(rate.0)))
                    .unwrap_or(u64::MAX)
            }
        }
    }

    /// `self - other`, or zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Bytes {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Self;

    /// # Panics
    /// If `other` is larger: more bytes left an account than entered it, which is a bug.
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0.checked_sub(other.0).expect("byte ledger underflow"))
    }
}

impl SubAssign for Bytes {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Div<u64> for Bytes {
    type Output = Self;

    fn div(self, parts: u64) -> Self {
        Self(self.0 / parts)
    }
}

impl Div<Rate> for Bytes {
    type Output = Duration;

    /// The time `self` takes at `rate`, rounded up to the nanosecond; [`Duration::MAX`] on a stopped
    /// link.
    fn div(self, rate: Rate) -> Duration {
        if rate.0 == 0 {
            Duration::MAX
        } else {
            Duration::from_nanos(self.nanos_at(rate))
        }
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}b", self.0)
    }
}

/// A rate in bytes per second. Constructors in bits use decimal prefixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// A stopped link.
    pub const ZERO: Self = Self(0);
    /// The largest rate: no pacing.
    pub const MAX: Self = Self(u64::MAX);

    /// `bytes` bytes per second.
    pub const fn bytes_per_sec(bytes: u64) -> Self {
        Self(bytes)
    }

    /// `bits` bits per second, rounded down to whole bytes.
    pub const fn bits_per_sec(bits: u64) -> Self {
        Self(bits / 8)
    }

    /// `kbit` × 10³ bits per second.
    pub const fn kbit(kbit: u64) -> Self {
        Self(kbit * 125)
    }

    /// `mbit` × 10⁶ bits per second.
    pub const fn mbit(mbit: u64) -> Self {
        Self(mbit * 125_000)
    }

    /// `gbit` × 10⁹ bits per second.
    pub const fn gbit(gbit: u64) -> Self {
        Self(gbit * 125_000_000)
    }

    /// Bytes per second.
    pub const fn as_bytes_per_sec(self) -> u64 {
        self.0
    }

    /// Bits per second, saturating.
    pub const fn as_bits_per_sec(self) -> u64 {
        self.0.saturating_mul(8)
    }

    /// The rate that carries `amount` in `time`, rounded down; [`Rate::MAX`] if `time` is zero.
    pub fn from_amount(amount: Bytes, time: Duration) -> Self {
        let nanos = time.as_nanos();
        if nanos == 0 {
            return Self::MAX;
        }
        // A division of 128 bits is a function call; 64 bits suffice up to 18 GB and 584 years.
        if let (Some(product), Ok(nanos)) = (
            amount.0.checked_mul(NANOS_PER_SEC as u64),
            u64::try_from(nanos),
        ) {
            return Self(product / nanos);
        }
        Self(u64::try_from(u128::from(amount.0) * NANOS_PER_SEC / nanos).unwrap_or(u64::MAX))
    }

    /// `percent` hundredths of this rate, saturating.
    pub fn percent(self, percent: u32) -> Self {
        if let Some(product) = self.0.checked_mul(percent.into()) {
            return Self(product / 100);
        }
        Self(u64::try_from(u128::from(self.0) * u128::from(percent) / 100).unwrap_or(u64::MAX))
    }
}

impl Mul<Duration> for Rate {
    type Output = Bytes;

    /// The bytes carried in `time`, rounded down, saturating.
    fn mul(self, time: Duration) -> Bytes {
        let nanos = u64::try_from(time.as_nanos());
        if let Some(product) = nanos.ok().and_then(|nanos| self.0.checked_mul(nanos)) {
            return Bytes(product / NANOS_PER_SEC as u64);
        }
        let product = u128::from(self.0).saturating_mul(time.as_nanos());
        Bytes(u64::try_from(product / NANOS_PER_SEC).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.as_bits_per_sec();
        match bits {
            0..1_000_000 => write!(f, "{}.{:01}Kbit", bits / 1_000, bits % 1_000 / 100),
            1_000_000..1_000_000_000 => write!(
                f,
                "{}.{:02}Mbit",
                bits / 1_000_000,
                bits % 1_000_000 / 10_000
            ),
            _ => write!(
                f,
                "{}.{:02}Gbit",
                bits / 1_000_000_000,
                bits % 1_000_000_000 / 10_000_000
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmission_time_rounds_up_and_volume_down() {
        // 1514 bytes at 100 Mbit/s are exactly 121.12 µs.
        assert_eq!(
            Bytes::new(1514) / Rate::mbit(100),
            Duration::from_nanos(121_120)
        );
        assert_eq!(
            Bytes::new(1) / Rate::bytes_per_sec(3),
            Duration::from_nanos(333_333_334)
        );
        assert_eq!(
            Rate::bytes_per_sec(3) * Duration::from_nanos(333_333_333),
            Bytes::ZERO
        );
    }

    #[test]
    fn extremes_do_not_overflow() {
        assert_eq!(Bytes::MAX / Rate::ZERO, Duration::MAX);
        assert_eq!(
            Bytes::MAX / Rate::bytes_per_sec(1),
            Duration::from_nanos(u64::MAX)
        );
        assert_eq!(Rate::MAX * Duration::MAX, Bytes::MAX);
        assert_eq!(Rate::from_amount(Bytes::new(1), Duration::ZERO), Rate::MAX);
    }

    #[test]
    #[should_panic(expected = "byte ledger underflow")]
    fn an_account_cannot_go_negative() {
        let _ = Bytes::new(1) - Bytes::new(2);
    }
}
