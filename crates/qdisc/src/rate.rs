//! The time that a packet takes at a rate, in nanoseconds, as Linux computes it for its shapers:
//! [`Tbf`](crate::Tbf) and [`Htb`](crate::Htb) (`include/net/sch_generic.h` `psched_l2t_ns`). CAKE
//! has a conversion of its own.
//!
//! A rate becomes a multiplier and a shift chosen once, so that a packet costs one multiplication.
//! The multiplier has 32 significant bits; the time is rounded down, at 10 Gbit/s by 0.02 % of a
//! full frame.

use core::fmt;

use tautline_base::{Bytes, Rate};

/// Framing of the link below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkLayer {
    /// As one piece.
    #[default]
    Ethernet,
    /// In cells of 53 bytes that carry 48.
    Atm,
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ethernet => "ethernet",
            Self::Atm => "atm",
        })
    }
}

/// Overhead of a packet on the link. The default adds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Framing {
    /// Bytes added to every packet.
    pub overhead: u16,
    /// Bytes that a packet with its overhead counts at least.
    pub mpu: u16,
    /// Framing of the link.
    pub linklayer: LinkLayer,
}

impl Framing {
    /// The length on the link of a packet of `len`.
    fn on_the_wire(self, len: Bytes) -> u64 {
        let framed = len
            .get()
            .saturating_add(self.overhead.into())
            .max(self.mpu.into());
        match self.linklayer {
            LinkLayer::Ethernet => framed,
            LinkLayer::Atm => framed.div_ceil(48).saturating_mul(53),
        }
    }
}

/// A rate as multiplier and shift, and the framing at which packets are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    mult: u32,
    shift: u32,
    framing: Framing,
}

impl Cost {
    /// The conversion at `rate`, which is not zero.
    pub(crate) fn new(rate: Rate, framing: Framing) -> Self {
        let per_second = rate.as_bytes_per_sec().max(1);
        let (mut factor, mut shift) = (1_000_000_000u64, 0);
        // As many significant bits as a u32 holds; a very fast rate runs out of factor first.
        while (factor / per_second) >> 31 == 0 && factor >> 63 == 0 {
            factor <<= 1;
            shift += 1;
        }
        Self {
            mult: u32::try_from(factor / per_second).unwrap_or(u32::MAX),
            shift,
            framing,
        }
    }

    /// Nanoseconds that a packet of `len` takes, at most half the range of an `i64`.
    #[inline]
    pub(crate) fn nanos(&self, len: Bytes) -> i64 {
        let nanos =
            (u128::from(self.framing.on_the_wire(len)) * u128::from(self.mult)) >> self.shift;
        i64::try_from(nanos).unwrap_or(i64::MAX).min(i64::MAX / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cost(rate: Rate) -> Cost {
        Cost::new(rate, Framing::default())
    }

    /// `include/net/sch_generic.h` `psched_l2t_ns`, the table.
    #[test]
    fn multipliers_are_those_of_linux() {
        for (rate, mult, shift) in [
            (Rate::mbit(1), 4_194_304_000, 19),
            (Rate::mbit(10), 3_355_443_200, 22),
            (Rate::mbit(100), 2_684_354_560, 25),
            (Rate::gbit(1), 2_147_483_648, 28),
            (Rate::gbit(10), 3_435_973_836, 32),
        ] {
            let cost = cost(rate);
            assert_eq!((cost.mult, cost.shift), (mult, shift), "{rate}");
        }
        assert_eq!(cost(Rate::gbit(10)).nanos(Bytes::new(1514)), 1211);
        assert_eq!(cost(Rate::mbit(1)).nanos(Bytes::new(1500)), 12_000_000);
    }

    #[test]
    fn framing_adds_overhead_then_the_least_then_cells() {
        let at = |framing| Cost::new(Rate::mbit(1), framing).nanos(Bytes::new(40)) / 8000;
        let plain = Framing {
            overhead: 8,
            mpu: 0,
            linklayer: LinkLayer::Ethernet,
        };
        assert_eq!(at(plain), 48);
        assert_eq!(at(Framing { mpu: 64, ..plain }), 64);
        assert_eq!(
            at(Framing {
                linklayer: LinkLayer::Atm,
                ..plain
            }),
            53
        );
        assert_eq!(
            at(Framing {
                overhead: 9,
                linklayer: LinkLayer::Atm,
                ..plain
            }),
            106
        );
        assert_eq!(
            at(Framing {
                mpu: 64,
                linklayer: LinkLayer::Atm,
                ..plain
            }),
            106
        );
    }

    proptest! {
        /// Never above the true time, below it by less than a share of 2⁻³¹ and a nanosecond; never
        /// a panic.
        #[test]
        fn the_time_is_true(bytes in 1..u64::MAX, len: u64, lenshift in 0u32..64, rateshift in 0u32..64) {
            let (rate, len) = (Rate::bytes_per_sec((bytes >> rateshift).max(1)), Bytes::new(len >> lenshift));
            let exact = u128::from(len.get()) * 1_000_000_000 / u128::from(rate.as_bytes_per_sec());
            let nanos = u128::try_from(cost(rate).nanos(len)).expect("not negative");
            prop_assert!(nanos <= exact);
            if exact < 1 << 62 && rate < Rate::gbit(34) {
                prop_assert!(nanos + exact / (1 << 31) + 1 >= exact, "{nanos} {exact}");
            }
        }
    }
}
