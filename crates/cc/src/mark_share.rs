//! [`MarkShare`]: the moving average of the share of marked bytes (RFC 8257 §3.3).

use tautline_base::Bytes;

use crate::controller::Ack;

/// The weight of the newest window is 1/16 (`g`).
const GAIN_SHIFT: u32 = 4;

/// The average `alpha` in units of 2⁻ᴮᴵᵀˢ. Starts at one, so that the first
/// mark costs as much as a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MarkShare<const BITS: u32> {
    alpha: u64,
    acked: Bytes,
    marked: Bytes,
}

impl<const BITS: u32> MarkShare<BITS> {
    const ONE: u64 = 1 << BITS;

    pub(crate) const fn new() -> Self {
        Self {
            alpha: Self::ONE,
            acked: Bytes::ZERO,
            marked: Bytes::ZERO,
        }
    }

    /// Adds `ack` to this window.
    #[inline]
    pub(crate) fn count(&mut self, ack: &Ack) {
        self.acked += ack.acked;
        self.marked += ack.marked.min(ack.acked);
    }

    /// Ends the window and updates the average.
    pub(crate) fn advance(&mut self) {
        let fall = self.alpha >> GAIN_SHIFT;
        // An average too small to fall by a sixteenth becomes zero.
        self.alpha -= if fall == 0 { self.alpha } else { fall };
        let share = (u128::from(self.marked.get()) << (BITS - GAIN_SHIFT))
            / u128::from(self.acked.get().max(1));
        self.alpha = (self.alpha + share as u64).min(Self::ONE);
        self.clear();
    }

    /// Ends the window without updating the average.
    pub(crate) fn clear(&mut self) {
        (self.acked, self.marked) = (Bytes::ZERO, Bytes::ZERO);
    }

    /// `alpha / 2` of `amount`, rounded down.
    pub(crate) fn half_of(&self, amount: u64) -> u64 {
        ((u128::from(amount) * u128::from(self.alpha)) >> (BITS + 1)) as u64
    }

    /// `alpha`, from 0 to 1.
    pub(crate) fn fraction(&self) -> f64 {
        self.alpha as f64 / Self::ONE as f64
    }

    #[cfg(test)]
    pub(crate) fn raw(&self) -> u64 {
        self.alpha
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows<const BITS: u32>(marked_of_100: u64, count: u32) -> MarkShare<BITS> {
        let mut share = MarkShare::new();
        for _ in 0..count {
            share.acked = Bytes::new(100);
            share.marked = Bytes::new(marked_of_100);
            share.advance();
        }
        share
    }

    #[test]
    fn the_worked_averages() {
        // 1024 less a sixteenth each, rounded down.
        let unmarked = [0, 1, 2, 3, 4, 5].map(|count| windows::<10>(0, count).raw());
        assert_eq!(unmarked, [1024, 960, 900, 844, 792, 743]);
    }

    #[test]
    fn it_converges_on_the_share_and_reaches_zero_without_marks() {
        for percent in [1, 10, 50, 100] {
            let fine = windows::<20>(percent, 400).fraction();
            assert!(
                (fine - percent as f64 / 100.0).abs() < 1e-4,
                "{percent} %: {fine}"
            );
        }
        // Ten bits round both terms: Linux's DCTCP sees 1/1024 to 15/1024 too much.
        let coarse = windows::<10>(10, 400).fraction();
        assert!((0.1..0.115).contains(&coarse), "{coarse}");
        assert_eq!(windows::<10>(0, 200).raw(), 0);
    }

    #[test]
    fn a_window_is_cut_by_half_the_average() {
        let mut share = MarkShare::<10>::new();
        assert_eq!(share.half_of(100), 50);
        share.alpha = 102;
        assert_eq!(share.half_of(100), 4, "a share of 0.1 leaves 96 of 100");
    }
}
