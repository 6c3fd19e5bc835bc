//! HyStart++ (RFC 9406): leaves slow start when the path's delay grows, before it overflows.
//!
//! §4.2: the lowest RTT of a round is compared with that of the round before. A clear rise leads
//! into *conservative slow start* (CSS): a quarter of the growth for at most five rounds. If the
//! RTT falls back below the level that started CSS, the rise was jitter, and slow start resumes. One
//! acknowledgment opens the window by `L` segments at most: without bound if the sender paces, by
//! eight if not (§4.3), since what an acknowledgment releases then leaves as one burst.

use core::num::NonZeroU32;
use core::time::Duration;

use tautline_base::Bytes;

use crate::controller::{Ack, Verdict};
use crate::slow_start::{SlowStart, Step};

const MIN_RTT_THRESHOLD: Duration = Duration::from_millis(4);
const MAX_RTT_THRESHOLD: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const RTT_SAMPLES: u32 = 8;
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;
/// `L` of a sender that does not pace, in segments.
const UNPACED_SEGMENTS: u32 = 8;

/// HyStart++ for one connection.
#[derive(Clone, Copy, Debug)]
pub struct HystartPlusPlus {
    phase: Phase,
    /// Lowest RTT of the previous round; `None` without a sample.
    last_round: Option<Duration>,
    /// Lowest RTT of this round.
    this_round: Option<Duration>,
    /// RTT samples in this round.
    samples: u32,
    /// Most bytes of one acknowledgment that open the window; `None` without bound.
    limit: Option<NonZeroU32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SlowStart,
    /// Conservative slow start, entered at an RTT of `baseline`, for `rounds` begun rounds.
    Conservative {
        baseline: Duration,
        rounds: u32,
    },
    Left,
}

impl HystartPlusPlus {
    /// The state at the start of a connection whose sender paces.
    pub const fn new() -> Self {
        Self {
            phase: Phase::SlowStart,
            last_round: None,
            this_round: None,
            samples: 0,
            limit: None,
        }
    }

    /// The same for a sender of segments of `mss` bytes that does not pace.
    pub fn unpaced(mss: Bytes) -> Self {
        let mss = u32::try_from(mss.get()).unwrap_or(u32::MAX);
        Self {
            limit: NonZeroU32::new(mss.saturating_mul(UNPACED_SEGMENTS)),
            ..Self::new()
        }
    }

    /// In conservative slow start.
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

    fn add_sample(&mut self, rtt: Duration) {
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
    fn is_conservative(&self) -> bool {
        Self::is_conservative(self)
    }

    fn on_ack(&mut self, ack: &Ack, _before: impl FnOnce() -> Verdict) -> Step {
        if ack.round_start {
            self.begin_round();
        }
        if let Some(rtt) = ack.rtt {
            self.add_sample(rtt);
        }
        let limit = self
            .limit
            .map_or(Bytes::MAX, |limit| Bytes::new(limit.get().into()));
        let acked = ack.acked.min(limit);
        match self.phase {
            Phase::SlowStart => Step::Grow(acked),
            Phase::Conservative { .. } => Step::Grow(acked / CSS_GROWTH_DIVISOR),
            Phase::Left => Step::Leave,
        }
    }
}

/// The rise that starts CSS: an eighth of the last round's RTT, within 4 ms and 16 ms.
fn rtt_threshold(last_round: Duration) -> Duration {
    (last_round / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESHOLD, MAX_RTT_THRESHOLD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacing::{PacingRatios, WindowPacing};
    use tautline_base::Instant;

    fn ack(rtt: Option<Duration>, round_start: bool) -> Ack {
        Ack {
            rtt,
            round_start,
            ..Ack::new(Instant::ZERO, Bytes::new(1000), Bytes::ZERO)
        }
    }

    fn answer(hystart: &mut HystartPlusPlus, ack: &Ack) -> Step {
        let mss = Bytes::new(1000);
        hystart.on_ack(ack, || {
            WindowPacing::new(PacingRatios::default()).verdict(mss, (mss * 10, Bytes::MAX))
        })
    }

    /// A round of `samples` acknowledgments at `rtt_ms`; the last answer.
    fn round(hystart: &mut HystartPlusPlus, rtt_ms: u64, samples: u32) -> Step {
        let steps = (0..samples)
            .map(|i| answer(hystart, &ack(Some(Duration::from_millis(rtt_ms)), i == 0)));
        steps.last().unwrap()
    }

    #[test]
    fn the_threshold_is_an_eighth_within_bounds() {
        for (rtt_us, threshold_us) in [
            (10_000, 4_000),
            (50_000, 6_250),
            (100_000, 12_500),
            (128_000, 16_000),
            (1_000_000, 16_000),
        ] {
            assert_eq!(
                rtt_threshold(Duration::from_micros(rtt_us)),
                Duration::from_micros(threshold_us)
            );
        }
    }

    #[test]
    fn a_rise_of_the_rtt_slows_the_growth_to_a_quarter() {
        let mut hystart = HystartPlusPlus::new();
        assert_eq!(round(&mut hystart, 50, 10), Step::Grow(Bytes::new(1000)));
        assert_eq!(
            round(&mut hystart, 57, 7),
            Step::Grow(Bytes::new(1000)),
            "seven samples are too few"
        );
        assert_eq!(
            answer(&mut hystart, &ack(Some(Duration::from_millis(57)), false)),
            Step::Grow(Bytes::new(250))
        );
    }

    #[test]
    fn a_rise_below_the_threshold_changes_nothing() {
        let mut hystart = HystartPlusPlus::new();
        round(&mut hystart, 50, 10);
        round(&mut hystart, 56, 10);
        assert!(!hystart.is_conservative());
    }

    #[test]
    fn five_conservative_rounds_end_slow_start() {
        let mut hystart = HystartPlusPlus::new();
        round(&mut hystart, 50, 10);
        for _ in 0..5 {
            assert_eq!(round(&mut hystart, 60, 10), Step::Grow(Bytes::new(250)));
        }
        assert_eq!(round(&mut hystart, 60, 1), Step::Leave);
    }

    #[test]
    fn an_rtt_below_the_baseline_resumes_slow_start() {
        let mut hystart = HystartPlusPlus::new();
        round(&mut hystart, 50, 10);
        round(&mut hystart, 60, 10);
        assert!(hystart.is_conservative());
        assert_eq!(round(&mut hystart, 59, 8), Step::Grow(Bytes::new(1000)));
    }

    /// RFC 9406 §4.3: `L` is 8 without pacing, in both phases.
    #[test]
    fn without_pacing_an_acknowledgment_opens_the_window_by_eight_segments_at_most() {
        let grown = |hystart: &mut HystartPlusPlus, segments| {
            let ack = Ack::new(Instant::ZERO, Bytes::new(segments * 1000), Bytes::ZERO);
            match answer(hystart, &ack) {
                Step::Grow(bytes) => bytes.get(),
                step => panic!("{step:?}"),
            }
        };
        let mut paced = HystartPlusPlus::new();
        let mut unpaced = HystartPlusPlus::unpaced(Bytes::new(1000));
        for (segments, bytes) in [(1, 1000), (8, 8000), (9, 8000), (44, 8000)] {
            assert_eq!(grown(&mut unpaced, segments), bytes);
            assert_eq!(grown(&mut paced, segments), segments * 1000);
        }
        round(&mut unpaced, 50, 10);
        round(&mut unpaced, 60, 10);
        assert!(unpaced.is_conservative());
        assert_eq!(grown(&mut unpaced, 44), 2000);
    }

    #[test]
    fn a_round_without_samples_does_not_start_css() {
        let mut hystart = HystartPlusPlus::new();
        round(&mut hystart, 50, 10);
        answer(&mut hystart, &ack(None, true));
        round(&mut hystart, 500, 10);
        assert!(!hystart.is_conservative());
    }
}
