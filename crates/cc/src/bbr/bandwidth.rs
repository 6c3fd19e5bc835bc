//! [`Bandwidth`]: the largest delivery rate of the last ten round trips.

use tautline_base::{Bytes, Rate};

use crate::sampler::RateSample;
use crate::windowed_max::WindowedMax;

/// The bandwidth filter. Samples of a flight that the network did not limit can raise the bandwidth,
/// not lower it.
#[derive(Clone, Debug)]
pub(super) struct Bandwidth {
    filter: WindowedMax<Rate>,
    /// Totals delivered at the beginning and the end of the data sent during PROBE_RTT.
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

    /// Marks the data sent until `delivered + in_flight` is delivered as limited by this
    /// controller.
    pub(super) fn hold_back(&mut self, delivered: Bytes, in_flight: Bytes) {
        let from = match self.held {
            Some((from, until)) if delivered <= until => from,
            _ => delivered,
        };
        self.held = Some((from, delivered + in_flight));
    }

    /// The application or this controller limited the flight of `sample`.
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
