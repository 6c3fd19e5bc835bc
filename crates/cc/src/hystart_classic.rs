//! HyStart as in Linux's CUBIC since 5.16 (`net/ipv4/tcp_cubic.c`, `hystart_update`): leaves slow
//! start when the acknowledgments of one round form a train as long as the path, or when the delay
//! grows (Ha and Rhee, "Taming the elephants: new TCP slow start", 2011).
//!
//! Unlike HyStart++ it decides at once, and compares with the lowest delay ever seen, not with the
//! previous round.

use core::time::Duration;

use tautline_base::{Bytes, Instant};

use crate::config::Config;
use crate::controller::{Ack, Verdict};
use crate::rounds::Round;
use crate::slow_start::{SlowStart, Step};

/// Smallest window, in segments, at which it leaves slow start (`hystart_low_window`).
const LOW_WINDOW: u64 = 16;
/// Acknowledgments closer than this belong to one train (`hystart_ack_delta_us`).
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// Aggregation of acknowledgments accounts for at most this part of a train ...
const MOST_ACK_DELAY: Duration = Duration::from_millis(1);
/// ... and for at most the time that four packets of 64 KiB take to leave (`hystart_ack_delay`).
const AGGREGATE: Bytes = Bytes::kib(4 * 64);
/// Delay samples of a round before the first decision.
const SAMPLES: u32 = 8;
/// A rise of the delay by an eighth, within these bounds, ends slow start.
const LEAST_RISE: Duration = Duration::from_millis(4);
const MOST_RISE: Duration = Duration::from_millis(16);

/// HyStart for one connection.
#[derive(Clone, Copy, Debug)]
pub struct Hystart {
    low_window: Bytes,
    paced: bool,
    /// Lowest RTT ever.
    delay_min: Option<Duration>,
    round: Option<Observed>,
}

/// Observations of a round.
#[derive(Clone, Copy, Debug)]
struct Observed {
    round: Round,
    since: Instant,
    /// Last acknowledgment of the train that began the round.
    train_end: Instant,
    /// Lowest RTT of the round.
    lowest: Duration,
    samples: u32,
}

impl Hystart {
    /// The state at the start of a connection.
    pub fn new(config: &Config) -> Self {
        Self {
            low_window: config.mss * LOW_WINDOW,
            paced: config.paced,
            delay_min: None,
            round: None,
        }
    }

    /// The train of acknowledgments is as long as the path: a round trip if the sender paces, half
    /// of one if it sends in bursts, plus an allowance for aggregated acknowledgments.
    fn train_is_long(
        &self,
        observed: &mut Observed,
        now: Instant,
        delay_min: Duration,
        before: &Verdict,
    ) -> bool {
        if now - observed.train_end > TRAIN_GAP {
            return false;
        }
        observed.train_end = now;
        let length = delay_min.saturating_add((AGGREGATE / before.pacing_rate).min(MOST_ACK_DELAY));
        now - observed.since > if self.paced { length } else { length / 2 }
    }
}

impl Observed {
    fn begin(ack: &Ack) -> Self {
        Self {
            round: Round::starting_at(ack),
            since: ack.now,
            train_end: ack.now,
            lowest: Duration::MAX,
            samples: 0,
        }
    }

    /// The lowest delay of the round is well above the path's.
    fn delay_grew(&mut self, rtt: Duration, delay_min: Duration) -> bool {
        self.lowest = self.lowest.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        self.lowest > delay_min.saturating_add((delay_min / 8).clamp(LEAST_RISE, MOST_RISE))
    }
}

impl SlowStart for Hystart {
    fn on_ack(&mut self, ack: &Ack, before: impl FnOnce() -> Verdict) -> Step {
        let Some(rtt) = ack.rtt else {
            return Step::Grow(ack.acked);
        };
        let delay_min = self.delay_min.map_or(rtt, |lowest| lowest.min(rtt));
        self.delay_min = Some(delay_min);
        let same_round = self.round.filter(|observed| !observed.round.is_passed(ack));
        let mut observed = same_round.unwrap_or_else(|| Observed::begin(ack));
        let before = before();
        if before.cwnd < self.low_window {
            self.round = Some(observed);
            return Step::Grow(ack.acked);
        }
        let long = self.train_is_long(&mut observed, ack.now, delay_min, &before);
        let leave = observed.delay_grew(rtt, delay_min) || long;
        self.round = Some(observed);
        if leave {
            Step::Leave
        } else {
            Step::Grow(ack.acked)
        }
    }
}

#[cfg(test)]
mod tests;
