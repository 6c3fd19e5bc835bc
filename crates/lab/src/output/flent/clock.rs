//! [`Clock`]: from a run's time to that of its data file.

use crate::quantity::Quantity;
use crate::recording::{Run, Series};

use super::LEAD_IN;

/// 2020-01-01 in seconds since 1970.
const EPOCH: f64 = 1_577_836_800.0;
/// The same as Flent writes it: six digits and a `Z`, for otherwise it guesses a time zone.
pub(super) const EPOCH_TEXT: &str = "2020-01-01T00:00:00.000000Z";
/// Flent's default sampling interval, for runs with too few samples to derive it.
const STEP: f64 = 0.2;
/// More slots than this would be no axis: 83 minutes at 0.1 s. Longer runs get a wider step.
const MOST_SLOTS: f64 = 5e4;
/// Largest `--step-size` for Flent, in seconds. Longer runs than this and the slots allow are cut.
const LONGEST_STEP: f64 = 10.0;

/// Converts the time of the run to the time of the file.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    /// Second of the run that is second [`LEAD_IN`] of the file.
    begin: f64,
    /// Whole seconds of measured time.
    pub(super) length: u64,
    /// Seconds from slot to slot of the axis.
    pub(super) step: f64,
}

impl Clock {
    pub(super) fn of(run: &Run) -> Self {
        let spacing = |series: &Series| {
            series
                .points
                .windows(2)
                .map(|pair| pair[1].0 - pair[0].0)
                .next()
        };
        let step = run
            .of(Quantity::Goodput)
            .chain(run.of(Quantity::Backlog))
            .find_map(spacing);
        let begin = if run.begin.is_finite() {
            run.begin
        } else {
            0.0
        };
        // A length that is no number is the shortest.
        let length = f64::min((run.end - begin).ceil().max(1.0), MOST_SLOTS * LONGEST_STEP);
        let least = length / MOST_SLOTS;
        // Sample times are sums of the interval: their difference is off by an ulp or two.
        let step = step
            .filter(|step| step.is_finite() && *step > 0.0)
            .map_or(STEP, |step| (step * 1e6).round() / 1e6);
        Self {
            begin,
            length: length as u64,
            step: step.clamp(least, LONGEST_STEP),
        }
    }

    /// The file's second for one of the run; `None` outside of the file.
    fn second(&self, at: f64) -> Option<f64> {
        let second = at - self.begin + LEAD_IN;
        (0.0..=self.length as f64 + 2.0 * LEAD_IN)
            .contains(&second)
            .then_some(second)
    }

    /// Seconds since 1970, on the microsecond.
    pub(super) fn stamp(&self, at: f64) -> Option<f64> {
        self.second(at)
            .map(|second| ((EPOCH + second) * 1e6).round() / 1e6)
    }

    /// Times of the slots.
    pub(super) fn axis(&self) -> Vec<f64> {
        let slots = ((self.length as f64 + LEAD_IN) / self.step).floor() as usize;
        (0..=slots)
            .map(|i| ((i as f64 * self.step) * 1e6).round() / 1e6)
            .collect()
    }

    /// The mean of the points nearest to each slot.
    pub(super) fn slots(&self, points: &[(f64, f64)]) -> Vec<Option<f64>> {
        let mut slots = vec![(0.0, 0usize); self.axis().len()];
        for (at, value) in points.iter().filter(|(_, value)| value.is_finite()) {
            let slot = self
                .second(*at)
                .map(|second| (second / self.step).round() as usize);
            if let Some((sum, count)) = slot.and_then(|slot| slots.get_mut(slot)) {
                (*sum, *count) = (*sum + value, *count + 1);
            }
        }
        slots
            .into_iter()
            .map(|(sum, count)| {
                (count > 0)
                    .then(|| sum / count as f64)
                    .filter(|mean| mean.is_finite())
            })
            .collect()
    }
}
