use super::*;
use crate::pacing::{PacingRatios, WindowPacing};

const MSS: Bytes = Bytes::new(1000);
const MS: Duration = Duration::from_millis(1);

/// A sender of `window` segments; each acknowledgment covers one.
struct Path {
    hystart: Hystart,
    window: u64,
    now: Instant,
    delivered: Bytes,
}

impl Path {
    fn new(window: u64, paced: bool) -> Self {
        let hystart = Hystart::new(&Config {
            paced,
            ..Config::new(MSS)
        });
        Self {
            hystart,
            window,
            now: Instant::from_secs(1),
            delivered: Bytes::ZERO,
        }
    }

    fn ack(&mut self, rtt: Option<Duration>) -> Step {
        self.delivered += MSS;
        let ack = Ack {
            rtt,
            delivered: self.delivered,
            ..Ack::new(self.now, MSS, MSS * (self.window - 1))
        };
        // 10 Mbit/s or so: four super-packets take far longer than the most that counts.
        let before = WindowPacing::new(PacingRatios::default())
            .verdict(MSS, (MSS * self.window, Bytes::MAX));
        self.hystart.on_ack(&ack, || crate::controller::Verdict {
            pacing_rate: tautline_base::Rate::mbit(10),
            ..before
        })
    }

    /// `acks` acknowledgments `gap` apart with `rtt`; how many came before the way out, if it was
    /// found.
    fn train(&mut self, acks: u64, gap: Duration, rtt: Duration) -> Option<u64> {
        (0..acks).find(|_| {
            let leaves = self.ack(Some(rtt)) == Step::Leave;
            self.now += gap;
            leaves
        })
    }
}

#[test]
fn a_train_as_long_as_the_path_ends_slow_start() {
    // 20 ms and 1 ms for aggregation: past 21 ms when paced, past 10.5 ms when not.
    for (paced, millis) in [(true, 22), (false, 11)] {
        let left = Path::new(100, paced).train(99, MS, 20 * MS);
        assert_eq!(left, Some(millis), "paced: {paced}");
    }
}

#[test]
fn a_gap_ends_the_train() {
    let mut path = Path::new(100, false);
    path.train(5, MS, 20 * MS);
    path.now += 2 * MS;
    assert_eq!(
        path.train(90, MS, 20 * MS),
        None,
        "what follows a gap of 3 ms does not count"
    );
}

#[test]
fn a_new_round_begins_a_new_train() {
    let mut path = Path::new(20, true);
    for _ in 0..10 {
        assert_eq!(
            path.train(20, MS, 20 * MS),
            None,
            "twenty acknowledgments are one round"
        );
    }
}

#[test]
fn a_rise_of_the_delay_ends_slow_start_after_eight_samples() {
    // Gaps of 3 ms keep the trains out.
    let mut path = Path::new(20, true);
    assert_eq!(path.train(20, 3 * MS, 50 * MS), None);
    assert_eq!(
        path.train(20, 3 * MS, Duration::from_micros(56_250)),
        None,
        "6.25 ms is not more than an eighth"
    );
    let left = path.train(20, 3 * MS, Duration::from_micros(56_251));
    assert_eq!(
        left,
        Some(8),
        "eight samples are collected, the ninth counts"
    );
}

#[test]
fn one_low_sample_in_the_round_is_enough_to_stay() {
    let mut path = Path::new(20, true);
    path.train(20, 3 * MS, 50 * MS);
    path.train(2, 3 * MS, 51 * MS);
    assert_eq!(
        path.train(18, 3 * MS, 90 * MS),
        None,
        "the lowest of the round counts"
    );
}

#[test]
fn small_windows_are_let_be() {
    let mut path = Path::new(15, false);
    assert_eq!(path.train(200, MS, MS), None);
    assert_eq!(path.ack(None), Step::Grow(MSS), "no sample, no look");
}

/// The train of a round begins with the round, and what came before the window was large enough is
/// a gap in it.
#[test]
fn a_round_that_begins_below_the_least_window_has_no_train() {
    let mut path = Path::new(15, false);
    path.train(5, MS, 4 * MS);
    path.window = 16;
    assert_eq!(path.train(10, MS, 4 * MS), None, "the rest of the round");
    assert_eq!(
        path.train(10, MS, 4 * MS),
        Some(3),
        "(4 + 1) / 2 ms into the next"
    );
}
