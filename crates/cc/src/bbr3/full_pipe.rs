//! [`FullPipe`]: whether sending faster still gets more delivered, draft-ietf-ccwg-bbr "Exiting
//! Acceleration Based on Bandwidth Plateau".

use tautline_base::Bytes;
use tautline_base::Rate;

use super::params::Config;
use super::scale_rate;
use crate::sampler::RateSample;

/// Looks for rounds that did not deliver noticeably faster.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    /// The pipe was full at least once.
    pub(super) reached: bool,
    /// It is full now, as far as the present acceleration tells.
    pub(super) now: bool,
    /// The rate that must be exceeded.
    baseline: Rate,
    /// Rounds since it was.
    plateau: u32,
}

impl FullPipe {
    /// Begins to look anew, for rates above `baseline`.
    pub(super) fn restart(&mut self, baseline: Rate) {
        *self = Self {
            reached: self.reached,
            now: false,
            baseline,
            plateau: 0,
        };
    }

    /// A sample of an acceleration.
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

    /// The pipe is full for other reasons.
    pub(super) fn set(&mut self) {
        self.now = true;
        self.reached = true;
    }
}
