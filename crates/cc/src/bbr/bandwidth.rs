//! [`Bandwidth`]: the largest delivery rate of the last ten round trips.

use tautline_base::{Bytes, Rate};

use crate::sampler::RateSample;
use crate::windowed_max::WindowedMax;

/// The bandwidth filter. Samples of a flight that something other than the network limited can
/// raise it but not lower it.
#[derive(Clone, Debug)]
pub(super) struct Bandwidth {
    filter: WindowedMax<Rate>,
    /// Totals between which segments were sent into a window that PROBE_RTT had closed.
    held: Option<(Bytes, Bytes)>,
}

impl Bandwidth {
    pub(super) fn new(rounds: u64) -> Self {
        Self {
            filter: WindowedMax::new(rounds),
            held: None,
        }
    }

    /// Zero before the first sample.
    pub(super) fn get(&self) -> Rate {
        self.filter.get().unwrap_or(Rate::ZERO)
    }

    /// What is sent until `delivered + in_flight` is delivered does not show what the path can
    /// carry, because this controller holds it back.
    pub(super) fn hold_back(&mut self, delivered: Bytes, in_flight: Bytes) {
        let from = match self.held {
            // Holding back goes on.
            Some((from, until)) if delivered <= until => from,
            _ => delivered,
        };
        self.held = Some((from, delivered + in_flight));
    }

    /// Whether the flight of `sample` was limited by the application or by this controller.
    pub(super) fn is_limited(&self, sample: &RateSample) -> bool {
        sample.app_limited
            || self
                .held
                .is_some_and(|(from, until)| (from..=until).contains(&sample.prior_delivered))
    }

    pub(super) fn on_sample(&mut self, sample: &RateSample, round: u64) {
        if sample.rate >= self.get() || !self.is_limited(sample) {
            self.filter.update(round, sample.rate);
        }
    }
}
