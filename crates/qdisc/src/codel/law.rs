//! [`Law`]: CoDel's control law, the time from one congestion signal to the next: interval / √count
//! (RFC 8289 §5).
//!
//! Two arithmetics. RFC 8289 asks for the exact root. Linux divides by no root: it keeps 1/√count
//! in 16 bits and improves it by one Newton step whenever count changes, on a clock of 1024 ns. Its
//! first steps are far off (0.5 instead of 0.707 for count 2), so the third signal comes 29 ms
//! early at the usual interval of 100 ms.

use core::fmt;

use tautline_base::Instant;

/// Arithmetic of the control law.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Law {
    /// Exact: ⌊interval / √count⌋ nanoseconds. The default: it is what the standard and every
    /// published analysis of CoDel assume, and the root is taken once per signal, not per packet,
    /// so exactness costs nothing that can be measured.
    #[default]
    Rfc8289,
    /// As the Linux kernel computes it, bit by bit, for comparison with its traces; also where
    /// drops of a full fq_codel make it wrap.
    Linux,
}

/// log2 of Linux's CoDel clock tick in nanoseconds.
const TICK_SHIFT: u32 = 10;

impl Law {
    /// The bits of a time in nanoseconds that this law's clock has: Linux drops the low ten.
    pub(crate) fn clock(self) -> u64 {
        match self {
            Self::Rfc8289 => u64::MAX,
            Self::Linux => u64::MAX << TICK_SHIFT,
        }
    }

    /// Whether `until` has been reached; Linux wants it exceeded.
    pub(crate) fn reached(self, until: Instant, now: u64) -> bool {
        let until = until.as_nanos();
        match self {
            Self::Rfc8289 => now >= until,
            Self::Linux => now > until,
        }
    }

    /// Nanoseconds from a signal to the next.
    pub(crate) fn gap(self, interval: u64, count: u32, root: InverseRoot) -> u64 {
        match self {
            Self::Rfc8289 => {
                let squared =
                    u128::from(interval) * u128::from(interval) / u128::from(count.max(1));
                u64::try_from(squared.isqrt())
                    .expect("a root of at most interval² is at most interval")
            }
            Self::Linux => {
                let ticks = (u128::from(interval >> TICK_SHIFT) * u128::from(root.0)) >> 16;
                u64::try_from(ticks << TICK_SHIFT)
                    .expect("a fraction of the interval is at most the interval")
            }
        }
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rfc8289 => "rfc8289",
            Self::Linux => "linux",
        })
    }
}

/// 1/√count as Linux keeps it: a fraction of 2¹⁶.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InverseRoot(u16);

impl InverseRoot {
    /// The value for count 1, as near to 1 as it gets. Starting at anything smaller would be kept
    /// small by the Newton step, and 0 forever: a law that drops a whole queue at once.
    pub(crate) const ONE: Self = Self(u16::MAX);

    /// One Newton step towards 1/√`count`, as Linux computes it: x ← x (3 − count x²) / 2.
    ///
    /// Where count x² exceeds 3 the unsigned difference wraps: it gets there when drops of a full
    /// queue raise count by many at once. The result is then far from the root, at worst 0, and the
    /// next signals come too late or all at once. Only traces of the kernel are worth that;
    /// [`Law::Rfc8289`] asks for no such root.
    pub(crate) fn step(self, count: u32) -> Self {
        const THREE: u64 = 3 << 32;
        let x = u64::from(self.0) << 16;
        let bracket = THREE.wrapping_sub(u64::from(count).wrapping_mul((x * x) >> 32)) >> 2;
        Self((bracket.wrapping_mul(x) >> 31 >> 16) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const INTERVAL: u64 = 100_000_000;

    /// RFC 8289 §5.6, worked by hand: ideal signal times after entry, in hundredths of a
    /// millisecond.
    #[test]
    fn the_exact_law_gives_the_ideal_signal_times() {
        let mut at = 0;
        let times: Vec<u64> = (1..=11)
            .map(|count| {
                at += Law::Rfc8289.gap(INTERVAL, count, InverseRoot::ONE);
                (at + 5_000) / 10_000
            })
            .collect();
        assert_eq!(
            times,
            [
                10000, 17071, 22845, 27845, 32317, 36399, 40179, 43714, 47048, 50210, 53225
            ]
        );
    }

    /// RFC 8289 §5.6, worked by hand: Linux's integers, count: inverse root, gap in ticks;
    /// cumulative ms (those confirm the kernel).
    #[test]
    fn the_linux_law_gives_the_kernels_integers() {
        let table = [
            (65535, 97654, 99.998),
            (32769, 48829, 149.999),
            (36864, 54931, 206.248),
            (31968, 47635, 255.026),
            (28935, 43116, 299.177),
            (26481, 39459, 339.583),
            (24588, 36638, 377.100),
            (23037, 34327, 412.251),
            (21746, 32403, 445.432),
            (20647, 30766, 476.936),
        ];
        let (mut root, mut at) = (InverseRoot::ONE, 0);
        for (count, (value, ticks, millis)) in (1..).zip(table) {
            if count > 1 {
                root = root.step(count);
            }
            let gap = Law::Linux.gap(INTERVAL, count, root);
            at += gap;
            assert_eq!((root.0, gap >> TICK_SHIFT), (value, ticks), "count {count}");
            assert!(
                (at as f64 / 1e6 - millis).abs() < 0.000_6,
                "count {count}: {at}"
            );
        }
        assert_eq!(
            root.step(9),
            InverseRoot(21748),
            "re-entry with count 9 after leaving with 10"
        );
        assert_eq!(
            Law::Linux.gap(INTERVAL, 9, InverseRoot(21748)) >> TICK_SHIFT,
            32406
        );
    }

    /// ns-3's CoDel suite: the Newton step, against a model in 128-bit arithmetic, for all starts
    /// it converges from.
    #[test]
    fn the_newton_step_matches_a_wide_model() {
        for start in [0xff_u16, 0x7f, 0x7fff, 0x1fff, 0xffff] {
            for count in [1_u32, 2, 4, 8, 16, 32, 64, 128] {
                let x = u128::from(start) << 16;
                let product = u128::from(count) * ((x * x) >> 32);
                if product >= 2 << 32 {
                    continue;
                }
                let wide = ((((3 << 32) - product) * x) >> 33 >> 16) as u16;
                assert!(
                    InverseRoot(start).step(count).0.abs_diff(wide) <= 1,
                    "{start} {count}"
                );
            }
        }
    }

    /// As in the kernel: after a jump of count the difference wraps, and the root is anything.
    #[test]
    fn a_jump_of_count_wraps() {
        let model = |count: u32| {
            let x = 0xffff_0000_u128;
            let wrapped = |value: u128| value % (1 << 64);
            let bracket = wrapped((3 << 32) + (1 << 64) - u128::from(count) * ((x * x) >> 32)) >> 2;
            (wrapped(bracket * x) >> 47) as u16
        };
        for count in [4, 5, 17, 64, 65, 730, 65_536, u32::MAX] {
            assert_eq!(
                InverseRoot::ONE.step(count).0,
                model(count),
                "count {count}"
            );
        }
        assert_eq!(InverseRoot(0).step(7), InverseRoot(0), "0 is kept");
    }

    #[test]
    fn the_longest_interval_does_not_overflow() {
        assert_eq!(
            Law::Linux.gap(u64::MAX, 1, InverseRoot::ONE) >> TICK_SHIFT,
            (u64::MAX >> TICK_SHIFT) - (1 << 38)
        );
    }

    proptest! {
        /// The exact law is the largest whole number whose square times count does not exceed
        /// interval², up to both extremes.
        #[test]
        fn the_exact_law_is_the_floor_of_the_root(interval in 1u64.., count in 1u32.., shift in 0..32u32) {
            for (interval, count) in [(interval, count), (u64::MAX, count), (interval >> shift, count >> shift | 1)] {
                let gap = u128::from(Law::Rfc8289.gap(interval, count, InverseRoot::ONE));
                let wanted = u128::from(interval).pow(2) / u128::from(count);
                prop_assert!(gap.pow(2) <= wanted && wanted < (gap + 1).pow(2), "{} {}: {}", interval, count, gap);
            }
        }
    }
}
