//! [`FullPipe`]: whether sending faster still delivers more, draft-ietf-ccwg-bbr "Exiting
//! Acceleration Based on Bandwidth Plateau".

use tautline_base::Bytes;
use tautline_base::Rate;

use super::params::Config;
use super::scale_rate;
use crate::sampler::RateSample;

/// Counts rounds without noticeable growth of the delivery rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    /// The pipe was full at least once.
    pub(super) reached: bool,
    /// The present acceleration has reached a plateau.
    pub(super) now: bool,
    /// Rate to exceed.
    baseline: Rate,
    /// Rounds since it was exceeded.
    plateau: u32,
}

impl FullPipe {
    /// Restarts the search, for rates above `baseline`.
    pub(super) fn restart(&mut self, baseline: Rate) {
        *self = Self {
            reached: self.reached,
            now: false,
            baseline,
            plateau: 0,
        };
    }

    /// Evaluates a sample.
    pub(super) fn on_sample(&mut self, sample: &RateSample, round_started: bool, config: &Config) {
        if self.now
            || sample.app_limited
            || sample.delivered == Bytes::ZERO
            || !(round_started || config.full_bw_every_ack)
        {
            return;
        }
        if sample.rate >= scale_rate(self.baseline, config.full_bw_growth) {
            self.restart(sample.rate);
        } else if round_started {
            self.plateau += 1;
            self.now = self.plateau >= config.full_bw_rounds;
            self.reached |= self.now;
        }
    }

    /// Losses or marks show that the pipe is full.
    pub(super) fn set(&mut self) {
        self.now = true;
        self.reached = true;
    }
}
