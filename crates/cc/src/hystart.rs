//! HyStart++ (RFC 9406): leaves slow start when the path's delay grows, before it overflows.
//!
//! §4.2: the lowest RTT of a round is compared with that of the round before. A clear rise leads into *conservative slow start*
//! (CSS): a quarter of the growth for at most five rounds. If the RTT falls back below the level that raised the alarm, it was
//! jitter, and slow start resumes. `L` is infinite, as the document allows for paced senders.

use core::time::Duration;

use crate::controller::Ack;
use crate::slow_start::{SlowStart, Step};

const MIN_RTT_THRESHOLD: Duration = Duration::from_millis(4);
const MAX_RTT_THRESHOLD: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const RTT_SAMPLES: u32 = 8;
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;

/// The state of HyStart++ of one connection.
#[derive(Clone, Copy, Debug)]
pub struct HystartPlusPlus {
    phase: Phase,
    /// Lowest RTT of the round before; `None` if it gave no sample.
    last_round: Option<Duration>,
    /// Lowest RTT of this round.
    this_round: Option<Duration>,
    /// RTT samples in this round.
    samples: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SlowStart,
    /// Conservative slow start, entered at an RTT of `baseline`, begun rounds counted.
    Conservative {
        baseline: Duration,
        rounds: u32,
    },
    Left,
}

impl HystartPlusPlus {
    /// The start of a connection.
    pub const fn new() -> Self {
        Self {
            phase: Phase::SlowStart,
            last_round: None,
            this_round: None,
            samples: 0,
        }
    }

    /// True in conservative slow start.
    pub fn is_conservative(&self) -> bool {
        matches!(self.phase, Phase::Conservative { .. })
    }

    fn begin_round(&mut self) {
        self.last_round = self.this_round.take();
        self.samples = 0;
        if let Phase::Conservative { rounds, .. } = &mut self.phase {
            *rounds += 1;
            if *rounds > CSS_ROUNDS {
                self.phase = Phase::Left;
            }
        }
    }

    fn take_sample(&mut self, rtt: Duration) {
        let lowest = self.this_round.map_or(rtt, |lowest| lowest.min(rtt));
        self.this_round = Some(lowest);
        self.samples = self.samples.saturating_add(1);
        if self.samples < RTT_SAMPLES {
            return;
        }
        match (self.phase, self.last_round) {
            (Phase::SlowStart, Some(last))
                if lowest >= last.saturating_add(rtt_threshold(last)) =>
            {
                self.phase = Phase::Conservative {
                    baseline: lowest,
                    rounds: 1,
                };
            }
            (Phase::Conservative { baseline, .. }, _) if lowest < baseline => {
                self.phase = Phase::SlowStart
            }
            _ => {}
        }
    }
}

impl Default for HystartPlusPlus {
    fn default() -> Self {
        Self::new()
    }
}

impl SlowStart for HystartPlusPlus {
    fn on_ack(&mut self, ack: &Ack) -> Step {
        if ack.round_start {
            self.begin_round();
        }
        if let Some(rtt) = ack.rtt {
            self.take_sample(rtt);
        }
        match self.phase {
            Phase::SlowStart => Step::Grow(ack.acked),
            Phase::Conservative { .. } => Step::Grow(ack.acked / CSS_GROWTH_DIVISOR),
            Phase::Left => Step::Leave,
        }
    }
}

/// The rise that counts: an eighth of the last round's RTT, within 4 ms and 16 ms.
fn rtt_threshold(last_round: Duration) -> Duration {
    (last_round / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESHOLD, MAX_RTT_THRESHOLD)
}
