//! [`WindowedMax`]: the largest of recent samples in constant memory and time.
//!
//! Kathleen Nichols's algorithm as in Linux's `lib/win_minmax.c`: keeps the best, second best and
//! third best sample, each newer than the one before; when the best expires, the second takes its
//! place. The result may be somewhat below the true maximum of the window, but never above it and
//! never a sample from outside the window.

/// A sample and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample<T> {
    at: u64,
    value: T,
}

/// The largest sample of the last `window` units of time; the unit is the caller's (rounds, probe
/// cycles, nanoseconds).
#[derive(Clone, Copy, Debug)]
pub struct WindowedMax<T> {
    window: u64,
    /// Best first, each newer than the one before. `None` before any sample.
    best: Option<[Sample<T>; 3]>,
}

impl<T: Copy + PartialOrd> WindowedMax<T> {
    /// An empty filter over `window` units of time.
    pub const fn new(window: u64) -> Self {
        Self { window, best: None }
    }

    /// The largest sample in the window as of the last update.
    pub fn get(&self) -> Option<T> {
        self.best.map(|best| best[0].value)
    }

    /// Discards all samples.
    pub fn clear(&mut self) {
        self.best = None;
    }

    /// Adds a sample and returns the largest of the window. A time before the last one counts as the
    /// last one.
    pub fn update(&mut self, at: u64, value: T) -> T {
        let sample = Sample { at, value };
        let mut best = match self.best {
            Some(best) if value < best[0].value && at.saturating_sub(best[2].at) <= self.window => {
                best
            }
            _ => [sample; 3],
        };
        if value >= best[1].value {
            best[1] = sample;
            best[2] = sample;
        } else if value >= best[2].value {
            best[2] = sample;
        }
        let best = self.age(best, sample);
        self.best = Some(best);
        best[0].value
    }

    /// Expires the best when it has left the window, and takes the runners-up from later parts of
    /// the window.
    fn age(&self, mut best: [Sample<T>; 3], sample: Sample<T>) -> [Sample<T>; 3] {
        let age = sample.at.saturating_sub(best[0].at);
        if age > self.window {
            best = [best[1], best[2], sample];
            if sample.at.saturating_sub(best[0].at) > self.window {
                best = [best[1], best[2], sample];
            }
        } else if best[1].at == best[0].at && age > self.window / 4 {
            best[1] = sample;
            best[2] = sample;
        } else if best[2].at == best[1].at && age > self.window / 2 {
            best[2] = sample;
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn the_best_goes_when_it_is_older_than_the_window() {
        let mut filter = WindowedMax::new(10);
        assert_eq!(filter.get(), None);
        for (at, value, largest) in [
            (0, 90, 90),
            (3, 60, 90),
            (6, 50, 90),
            (10, 40, 90),
            (11, 30, 60),
            (14, 20, 50),
        ] {
            assert_eq!(filter.update(at, value), largest, "at {at}");
        }
    }

    #[test]
    fn a_new_best_replaces_the_others() {
        let mut filter = WindowedMax::new(10);
        filter.update(0, 5);
        filter.update(1, 3);
        assert_eq!(filter.update(2, 7), 7);
        assert_eq!(filter.update(13, 1), 1);
    }

    /// `lib/win_minmax.c`: a quarter of the window without a second best takes the sample at hand,
    /// and half of it without a third best does.
    #[test]
    fn runners_up_come_from_later_parts_of_the_window() {
        let mut filter = WindowedMax::new(8);
        for (at, value, largest) in [
            (0, 90, 90),
            (2, 50, 90),
            (3, 40, 90),
            (4, 30, 90),
            (5, 20, 90),
            (9, 1, 40),
            (12, 1, 20),
        ] {
            assert_eq!(filter.update(at, value), largest, "at {at}");
        }
        filter.clear();
        assert_eq!(filter.get(), None);
    }

    proptest! {
        #[test]
        fn it_is_a_sample_of_the_window_and_never_above_its_maximum(
            window in 1..20_u64, steps in prop::collection::vec((0..8_u64, 0..100_u32), 1..200)
        ) {
            let mut filter = WindowedMax::new(window);
            let (mut at, mut seen) = (0, Vec::new());
            for (step, value) in steps {
                at += step;
                seen.push((at, value));
                let largest = filter.update(at, value);
                let within: Vec<u32> = seen.iter().filter(|(then, _)| at - then <= window).map(|(_, v)| *v).collect();
                prop_assert!(within.contains(&largest), "{largest} is not of {within:?}");
                prop_assert!(largest >= value);
            }
        }
    }
}
