//! CUBIC against RFC 9438 computed apart from the implementation: the equations of §4.2 to §4.7 as
//! the document writes them, per acknowledged segment, in real numbers.

use std::time::Duration;

use crate::support::{Flow, MSS, config, segments};
use tautline_cc::{Controller, Cubic};

const C: f64 = 0.4;
const BETA: f64 = 0.7;

/// The document's variables; windows in segments, times in seconds.
struct Reference {
    cwnd: f64,
    cwnd_prior: f64,
    w_max: f64,
    w_est: f64,
    k: f64,
    t: f64,
}

impl Reference {
    fn new(cwnd: f64) -> Self {
        Self {
            cwnd,
            cwnd_prior: 0.0,
            w_max: 0.0,
            w_est: 0.0,
            k: 0.0,
            t: 0.0,
        }
    }

    fn lose(&mut self) {
        self.w_max = if self.cwnd < self.w_max {
            self.cwnd * (1.0 + BETA) / 2.0
        } else {
            self.cwnd
        };
        self.cwnd_prior = self.cwnd;
        self.cwnd *= BETA;
        self.k = ((self.w_max - self.cwnd) / C).cbrt();
        self.w_est = self.cwnd;
        self.t = 0.0;
    }

    fn w_cubic(&self, t: f64) -> f64 {
        C * (t - self.k).powi(3) + self.w_max
    }

    /// One acknowledged segment `gap` after the one before.
    fn ack(&mut self, gap: f64, rtt: f64, first: bool) {
        // The epoch begins with its first acknowledgment.
        self.t += if first { 0.0 } else { gap };
        let alpha = if self.w_est >= self.cwnd_prior {
            1.0
        } else {
            3.0 * (1.0 - BETA) / (1.0 + BETA)
        };
        self.w_est += alpha / self.cwnd;
        if self.w_cubic(self.t) < self.w_est {
            self.cwnd = self.cwnd.max(self.w_est);
        } else {
            let target = self.w_cubic(self.t + rtt).clamp(self.cwnd, 1.5 * self.cwnd);
            self.cwnd += (target - self.cwnd) / self.cwnd;
        }
    }
}

/// Both from `start` segments over a path of `rtt`, losing when the window passes one of `losses`
/// in turn. The largest relative distance of the two at the end of any round.
fn deviation(start: u64, rtt: Duration, losses: &[f64], rounds: u32) -> f64 {
    let mut flow = Flow::new(Cubic::new(&config(start)), rtt);
    let mut reference = Reference::new(start as f64);
    flow.lose();
    reference.lose();
    let (mut worst, mut losses, mut first) = (0.0_f64, losses.iter(), true);
    let mut next = losses.next();
    for _ in 0..rounds {
        let sent = flow.round();
        let gap = rtt.as_secs_f64() / sent as f64;
        for _ in 0..sent {
            reference.ack(gap, rtt.as_secs_f64(), first);
            first = false;
        }
        let window = segments(&flow.controller);
        worst = worst.max((window / reference.cwnd - 1.0).abs());
        if next.is_some_and(|&at| window > at) {
            flow.lose();
            reference.lose();
            (next, first) = (losses.next(), true);
        }
    }
    assert!(
        next.is_none(),
        "{} segments are too few for the losses",
        segments(&flow.controller)
    );
    worst
}

#[test]
fn every_region_is_within_two_percent_of_the_documents_equations() {
    let ms = Duration::from_millis;
    let cases: [(u64, Duration, &[f64], u32); 7] = [
        (100, ms(100), &[], 120),
        // Fast convergence, twice in a row, and back above.
        (100, ms(100), &[90.0, 70.0, 100.0], 200),
        (1000, ms(100), &[950.0], 250),
        (1000, ms(20), &[], 1000),
        (5000, ms(200), &[], 140),
        // Reno-friendly, past the old window, where α becomes one.
        (100, ms(1), &[110.0, 90.0], 400),
        (40, ms(10), &[50.0], 400),
    ];
    for (start, rtt, losses, rounds) in cases {
        let worst = deviation(start, rtt, losses, rounds);
        assert!(
            worst < 0.02,
            "from {start} segments over {rtt:?}: off by {:.2} %",
            100.0 * worst
        );
    }
}

/// The reference follows the worked curve too, or it would prove nothing.
#[test]
fn the_reference_follows_the_worked_curve() {
    let mut reference = Reference::new(100.0);
    reference.lose();
    assert!((reference.k - 4.2172).abs() < 1e-4);
    for (t, window) in [
        (0.0, 70.0),
        (1.0, 86.68),
        (2.0, 95.64),
        (3.0, 99.28),
        (8.0, 121.65),
        (10.0, 177.4),
    ] {
        assert!((reference.w_cubic(t) - window).abs() < 0.05, "W({t})");
    }
}

#[test]
fn in_renos_region_alpha_becomes_one_at_the_window_before_the_cut_not_at_the_plateau() {
    // After fast convergence the plateau is below the old window; the estimate must not grow
    // faster there.
    let mut flow = Flow::new(Cubic::new(&config(100)), Duration::from_millis(1));
    flow.lose();
    while segments(&flow.controller) < 90.0 {
        flow.round();
    }
    let prior = segments(&flow.controller);
    flow.lose();
    let mut rounds_below = 0;
    let start = segments(&flow.controller);
    while segments(&flow.controller) < prior {
        flow.round();
        rounds_below += 1;
    }
    // 9/17 of a segment per round all the way, past the plateau at 0.85 of the old window.
    let expected = (prior - start) * 17.0 / 9.0;
    assert!(
        (f64::from(rounds_below) / expected - 1.0).abs() < 0.05,
        "{rounds_below} rounds and not {expected}"
    );
    flow.rounds(40);
    let above = (segments(&flow.controller) - prior) / 40.0;
    assert!(
        (above - 1.0).abs() < 0.06,
        "{above} segments per round above it"
    );
    assert!(flow.controller.verdict().ssthresh < MSS * 100);
}
