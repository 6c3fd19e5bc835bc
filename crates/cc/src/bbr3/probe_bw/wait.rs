//! [`Wait`]: the time between two probes, draft-ietf-ccwg-bbr "Time Scale for Bandwidth Probing".
//!
//! Two to three seconds, or as many rounds as Reno needs to recover from a loss, at most 63, so that
//! Reno and CUBIC have time to grow in small pipes. Both are random, so that flows do not probe in
//! step.

use core::time::Duration;

use tautline_base::{Bytes, Instant, SplitMix64};

use crate::bbr3::params::Config;

/// A wait that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bbr3) struct Wait {
    since: Instant,
    length: Duration,
    /// Rounds since it began, plus zero or one at random.
    rounds: u64,
}

impl Wait {
    /// A wait that begins `now`.
    pub(in crate::bbr3) fn new(now: Instant, config: &Config, rng: &mut SplitMix64) -> Self {
        let rounds = rng.next_u64() >> 63;
        let spread = (u128::from(rng.next_u64() >> 32) * config.probe_wait_spread.as_nanos()) >> 32;
        let spread = Duration::from_nanos(u64::try_from(spread).unwrap_or(u64::MAX));
        Self {
            since: now,
            length: config.probe_wait.saturating_add(spread),
            rounds,
        }
    }

    /// Counts a round, if one `started`.
    pub(super) fn on_round(mut self, started: bool) -> Self {
        self.rounds = self.rounds.saturating_add(u64::from(started));
        self
    }

    /// The wait is over for a sender with a target flight of `target`.
    pub(in crate::bbr3) fn is_over(
        &self,
        now: Instant,
        target: Bytes,
        mss: Bytes,
        config: &Config,
    ) -> bool {
        now > self.since + self.length || self.rounds >= Self::rounds_for(target, mss, config)
    }

    /// Rounds between probes: one per segment, like Reno's growth.
    pub(in crate::bbr3) fn rounds_for(target: Bytes, mss: Bytes, config: &Config) -> u64 {
        (target.get() / mss.get().max(1)).min(config.probe_rounds)
    }
}
