use core::time::Duration;

use super::*;

const PARAMS: fn() -> PolicerParams = PolicerParams::default;

/// A flow that delivers at some rate and loses some share, in rounds of 100 ms.
struct Flow {
    policer: Policer,
    totals: Totals,
}

impl Flow {
    fn new() -> Self {
        let totals = Totals {
            at: Instant::from_secs(1),
            delivered: Bytes::ZERO,
            lost: Bytes::ZERO,
        };
        Self {
            policer: Policer::Unsuspected,
            totals,
        }
    }

    fn step(&mut self, rate: Rate, lost_percent: u64, app_limited: bool) -> bool {
        let time = Duration::from_millis(100);
        let delivered = rate * time;
        self.totals.at += time;
        self.totals.delivered += delivered;
        self.totals.lost += delivered * lost_percent / 100;
        let evidence = Evidence {
            totals: self.totals,
            losing: lost_percent > 0,
            app_limited,
            round_start: true,
            probing_bw: true,
        };
        self.policer.on_evidence(&evidence, &PARAMS())
    }

    fn rounds(&mut self, rounds: u32, rate: Rate, lost_percent: u64) -> &mut Self {
        for _ in 0..rounds {
            self.step(rate, lost_percent, false);
        }
        self
    }
}

#[test]
fn two_intervals_of_like_rate_and_heavy_loss_are_a_policer_at_their_mean() {
    let mut flow = Flow::new();
    // The first loss only begins the first interval: 1 + 3 rounds, then 4.
    flow.rounds(4, Rate::mbit(10), 30);
    assert!(
        matches!(
            flow.policer,
            Policer::Sampling {
                previous: Some(_),
                ..
            }
        ),
        "{:?}",
        flow.policer
    );
    flow.rounds(4, Rate::kbit(10_900), 30);
    assert_eq!(flow.policer.rate(), Some(Rate::kbit(10_450)));
}

#[test]
fn rates_an_eighth_apart_are_not_alike() {
    let mut flow = Flow::new();
    flow.rounds(4, Rate::mbit(10), 30)
        .rounds(4, Rate::kbit(11_300), 30);
    assert_eq!(flow.policer.rate(), None);
    flow.rounds(4, Rate::kbit(11_200), 30);
    assert_eq!(
        flow.policer.rate(),
        Some(Rate::kbit(11_250)),
        "but the second and the third are"
    );
}

#[test]
fn slow_rates_may_differ_by_four_kilobits() {
    let mut flow = Flow::new();
    flow.rounds(4, Rate::kbit(16), 30)
        .rounds(4, Rate::kbit(20), 30);
    assert_eq!(flow.policer.rate(), Some(Rate::kbit(18)));
}

#[test]
fn loss_below_a_fifth_is_no_policer() {
    let mut flow = Flow::new();
    flow.rounds(100, Rate::mbit(10), 19);
    assert_eq!(flow.policer.rate(), None);
    flow.rounds(40, Rate::mbit(10), 20);
    assert_eq!(flow.policer.rate(), Some(Rate::mbit(10)));
}

#[test]
fn an_interval_that_lasts_too_long_or_that_the_application_limits_counts_for_nothing() {
    let mut flow = Flow::new();
    flow.rounds(4, Rate::mbit(10), 30)
        .rounds(17, Rate::mbit(10), 0);
    assert_eq!(flow.policer, Policer::Unsuspected);
    flow.rounds(4, Rate::mbit(10), 30);
    flow.step(Rate::mbit(10), 30, true);
    assert_eq!(flow.policer, Policer::Unsuspected);
}

#[test]
fn an_interval_may_last_sixteen_rounds() {
    let mut flow = Flow::new();
    flow.rounds(1, Rate::mbit(10), 30)
        .rounds(15, Rate::mbit(10), 0);
    assert!(matches!(flow.policer, Policer::Sampling { rounds: 16, .. }));
    flow.rounds(1, Rate::mbit(10), 0);
    assert_eq!(flow.policer, Policer::Unsuspected);
}

#[test]
fn it_is_obeyed_for_48_rounds() {
    let mut flow = Flow::new();
    flow.rounds(8, Rate::mbit(10), 30)
        .rounds(47, Rate::mbit(10), 30);
    assert_eq!(flow.policer.rate(), Some(Rate::mbit(10)));
    assert!(flow.step(Rate::mbit(10), 30, false));
    assert_eq!(flow.policer, Policer::Unsuspected);
}
