//! [`InverseRoot`]: 1/√count as COBALT keeps it, in 32 bits, and the gap between signals that
//! follows from it.

use super::params::Start;

/// 1/√count, a fraction of 2³². The first sixteen come from a table; from then on one Newton step
/// per change of count follows the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InverseRoot(u32);

/// Roots of counts below this come from a table.
const TABLE: usize = 16;

/// The table, exact to the last bit.
static EXACT: [InverseRoot; TABLE] = {
    let mut roots = [InverseRoot::ONE; TABLE];
    let mut count = 1;
    while count < TABLE {
        roots[count] = InverseRoot((u64::MAX / count as u64).isqrt() as u32);
        count += 1;
    }
    roots
};

/// Linux 6.1's table, each root four Newton steps from the one before: the second is 0.06 % short,
/// the others right to a few bits.
static LINUX: [InverseRoot; TABLE] = {
    let mut roots = [InverseRoot::ONE; TABLE];
    let mut count = 1;
    while count < TABLE {
        let root = roots[count - 1];
        let number = count as u32;
        roots[count] = root
            .newton(number)
            .newton(number)
            .newton(number)
            .newton(number);
        count += 1;
    }
    roots
};

impl InverseRoot {
    /// The root for counts 0 and 1, as near to 1 as it gets.
    pub(crate) const ONE: Self = Self(u32::MAX);

    /// Linux's initial value: no gap at all, until count first changes.
    pub(crate) const NONE: Self = Self(0);

    /// The root now that count has become `count`.
    pub(crate) fn follow(self, count: u32, start: Start) -> Self {
        let table = match start {
            Start::Patient => &EXACT,
            Start::Linux => &LINUX,
        };
        table
            .get(count as usize)
            .copied()
            .unwrap_or_else(|| self.newton(count))
    }

    /// One Newton step towards 1/√`count`: x ← x (3 − count x²) / 2.
    ///
    /// Count changes by one at a time, so count x² stays near 1; the difference saturates all the
    /// same.
    const fn newton(self, count: u32) -> Self {
        let x = self.0 as u64;
        let bracket = (3u64 << 32).saturating_sub((count as u64).saturating_mul((x * x) >> 32));
        // A quarter of the bracket, so that the product fits 64 bits.
        let next = ((bracket >> 2) * x) >> 31;
        // The step from any root lands at one or below, for a count of one or more: it fits.
        Self(next as u32)
    }

    /// Nanoseconds from one signal to the next: interval / √count.
    pub(crate) fn gap(self, interval: u64) -> u64 {
        u64::try_from((u128::from(interval) * u128::from(self.0)) >> 32)
            .expect("a fraction of the interval")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `net/sched/sch_cake.c` `cobalt_should_drop`, worked by hand: gaps at an interval of 100 ms.
    /// Linux 6.1's differ in the second.
    #[test]
    fn gaps_are_those_of_the_kernel() {
        for start in [Start::Patient, Start::Linux] {
            let table = [
                99_999_999, 70_710_678, 57_735_026, 49_999_999, 44_721_359, 40_824_829, 37_796_447,
                35_355_339, 33_333_333, 31_622_776,
            ];
            for (count, expected) in (1..).zip(table) {
                let gap = InverseRoot::NONE.follow(count, start).gap(100_000_000);
                match (start, count) {
                    (Start::Linux, 2) => assert_eq!(gap, 70_670_846),
                    (Start::Linux, _) => assert!(expected - gap <= 1, "count {count}: {gap}"),
                    (Start::Patient, _) => assert_eq!(gap, expected, "count {count}"),
                }
            }
            assert_eq!(InverseRoot::NONE.follow(0, start), InverseRoot::ONE);
            let mut root = InverseRoot::NONE.follow(15, start);
            for (count, expected) in [(16, 24_959_226), (17, 24_222_466), (18, 23_542_902)] {
                root = root.follow(count, start);
                assert!(
                    root.gap(100_000_000).abs_diff(expected) <= 1,
                    "{start} count {count}"
                );
            }
        }
    }

    /// The steps stay on the root for as long as count counts, up and down, and at its end.
    #[test]
    fn the_root_is_followed_up_and_down() {
        for start in [Start::Patient, Start::Linux] {
            let mut root = InverseRoot::ONE;
            for count in (1..5000).chain((1..5000).rev()) {
                root = root.follow(count, start);
                let ideal = 4_294_967_296.0 / f64::from(count).sqrt();
                assert!(
                    (f64::from(root.0) / ideal - 1.0).abs() < 0.002,
                    "count {count}: {root:?} beside {ideal}"
                );
            }
        }
        assert_eq!(InverseRoot::ONE.newton(1), InverseRoot::ONE, "one stays");
        assert_eq!(
            InverseRoot::ONE.newton(u32::MAX),
            InverseRoot(0),
            "saturates"
        );
        assert_eq!(
            InverseRoot::ONE.gap(u64::MAX),
            u64::MAX - (1 << 32),
            "no overflow"
        );
    }
}
