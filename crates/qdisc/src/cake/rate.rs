//! [`Pace`]: the time a byte takes, in Linux's integers.

use tautline_base::Rate;

/// Nanoseconds per byte, a fraction of 2^shift with 34 significant bits: precise to 10⁻⁹ up to 100
/// Gbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    nanos: u64,
    shift: u32,
}

/// No slower than this, in bytes per second, so that any packet leaves in reasonable time.
const SLOWEST: u64 = 64;

/// Significant bits of the fraction.
const BITS: u32 = 34;

impl Pace {
    /// The pace of `rate`; `None` if it is zero, which stands for no limit.
    pub(super) fn new(rate: Rate) -> Option<Self> {
        let rate = rate.as_bytes_per_sec();
        if rate == 0 {
            return None;
        }
        let (mut nanos, mut shift) = ((1_000_000_000 << BITS) / rate.max(SLOWEST), BITS);
        while nanos >> BITS > 0 {
            nanos >>= 1;
            shift -= 1;
        }
        Some(Self { nanos, shift })
    }

    /// The nanoseconds that `len` bytes take, rounded down.
    pub(super) fn time(self, len: u32) -> u64 {
        u64::try_from((u128::from(len) * u128::from(self.nanos)) >> self.shift)
            .expect("at most 2³² bytes of 2²⁴ ns each")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `net/sched/sch_cake.c` `cake_set_rate`, worked by hand.
    #[test]
    fn paces_are_those_of_the_kernel() {
        let pace = |rate| Pace::new(rate).expect("limited");
        assert_eq!(
            pace(Rate::mbit(1)),
            Pace {
                nanos: 16_777_216_000,
                shift: 21
            }
        );
        assert_eq!(
            pace(Rate::mbit(100)),
            Pace {
                nanos: 10_737_418_240,
                shift: 27
            }
        );
        for (rate, nanos) in [
            (Rate::mbit(1), 12_112_000),
            (Rate::mbit(100), 121_120),
            (Rate::kbit(250), 48_448_000),
            (Rate::kbit(64), 189_250_000),
            (Rate::bytes_per_sec(1), 23_656_250_000),
        ] {
            assert_eq!(pace(rate).time(1514), nanos, "{rate}");
        }
        assert_eq!(Pace::new(Rate::ZERO), None);
    }

    proptest! {
        /// Within 10⁻⁹ and a nanosecond of the exact time, up to 100 Gbit/s and for every length.
        #[test]
        fn times_are_precise(rate in 64u64.., shift in 31..58u32, len: u32) {
            let rate = (rate >> shift).max(64);
            let time = u128::from(Pace::new(Rate::bytes_per_sec(rate)).expect("limited").time(len));
            let exact = u128::from(len) * 1_000_000_000 / u128::from(rate);
            prop_assert!(time <= exact && exact - time <= 1 + exact / 1_000_000_000, "{} {}", time, exact);
        }
    }
}
