//! Prague against draft-briscoe-iccrg-prague-congestion-control and the constants of `tcp_prague.c`.

use std::time::Duration;

use crate::support::{Flow, MSS, ack, config, segments, signal};
use tautline_base::{Bytes, Instant, Rate};
use tautline_cc::{Ack, CongestionState, Controller, Ecn, Prague, Recovery, Signal};

const MS: Duration = Duration::from_millis(1);
const NOW: Instant = Instant::from_secs(1);

fn alpha(controller: &impl Controller) -> f64 {
    controller.model().alpha.expect("it keeps one")
}

/// A window of `segments` in congestion avoidance, without a mark so far.
fn avoiding(segments: u64, rtt: Duration) -> Flow<Prague> {
    let mut flow = Flow::new(Prague::new(&config(2 * segments)), rtt);
    flow.signal(Signal::Loss);
    flow
}

#[test]
fn the_share_stands_at_one_until_the_first_mark_which_halves() {
    let mut flow = avoiding(100, 40 * MS);
    flow.rounds(10);
    assert_eq!(alpha(&flow.controller), 1.0);
    let window = segments(&flow.controller);
    flow.controller.on_ack(&Ack {
        marked: MSS,
        ..ack(flow.now, flow.rtt)
    });
    assert!((segments(&flow.controller) - window / 2.0).abs() < 0.002);
    flow.rounds(100);
    assert!(
        alpha(&flow.controller) < 0.003,
        "{}",
        alpha(&flow.controller)
    );
}

#[test]
fn one_reduction_per_round_trip_and_growth_goes_on_meanwhile() {
    let mut flow = avoiding(100, 40 * MS);
    flow.rounds(2);
    let before = segments(&flow.controller);
    flow.marked_round(10);
    // Ten marks: one half. The other ninety acknowledgments opened it by 90 of the 51 or so it
    // then had.
    let after = segments(&flow.controller);
    assert!(
        (after - before / 2.0 - 1.8).abs() < 0.2,
        "{before} → {after}"
    );
}

#[test]
fn marked_bytes_do_not_open_the_window() {
    let mut flow = avoiding(100, 40 * MS);
    flow.rounds(1);
    flow.controller.on_ack(&Ack {
        marked: MSS,
        ..ack(flow.now, flow.rtt)
    });
    let after = flow.controller.verdict().cwnd;
    let in_flight = MSS * 50;
    for _ in 0..20 {
        flow.controller.on_ack(&Ack {
            marked: MSS,
            in_flight,
            ..ack(flow.now, flow.rtt)
        });
    }
    assert_eq!(flow.controller.verdict().cwnd, after);
}

#[test]
fn growth_does_not_stop_while_the_transport_answers_a_mark() {
    let mut prague = avoiding(10, 40 * MS).controller;
    assert_eq!(
        prague.recovery(),
        Recovery::Prr,
        "the loss that made this window"
    );
    prague.on_ack(&ack(NOW, 40 * MS));
    assert_eq!(prague.recovery(), Recovery::Controller);
    let before = prague.verdict().cwnd;
    prague.on_ack(&Ack {
        state: CongestionState::Cwr,
        ..ack(NOW, 40 * MS)
    });
    assert!(prague.verdict().cwnd > before);
}

/// The answer to a mark may begin with the acknowledgment that ends the repair of a loss: the window
/// grows on as in any other, and it is the law's again, not PRR's.
#[test]
fn growth_does_not_wait_for_a_pause_between_the_repair_of_a_loss_and_the_answer_to_a_mark() {
    let mut prague = avoiding(100, 40 * MS).controller;
    let in_state = |state| Ack {
        state,
        ..ack(NOW, 40 * MS)
    };
    prague.on_ack(&in_state(CongestionState::Recovery));
    assert_eq!(prague.recovery(), Recovery::Prr);
    prague.on_congestion(&signal(NOW, Signal::Ce));
    prague.on_ack(&in_state(CongestionState::Cwr));
    assert_eq!(prague.recovery(), Recovery::Controller);
    let before = segments(&prague);
    for _ in 0..50 {
        prague.on_ack(&in_state(CongestionState::Cwr));
    }
    assert!((segments(&prague) - before - 1.0).abs() < 0.02);
}

#[test]
fn young_it_grows_by_a_segment_per_round_trip_and_old_as_if_the_path_were_25_ms_long() {
    let mut flow = avoiding(20, 5 * MS);
    let growth = |flow: &mut Flow<Prague>, rounds: u32| {
        let before = segments(&flow.controller);
        flow.rounds(rounds);
        (segments(&flow.controller) - before) / f64::from(rounds)
    };
    assert!((growth(&mut flow, 100) - 1.0).abs() < 0.05);
    flow.rounds(500);
    assert_eq!(flow.controller.model().state, "rtt-independent");
    // (5 / 25)²
    let old = growth(&mut flow, 200);
    assert!(
        (old / 0.04 - 1.0).abs() < 0.05,
        "{old} segments per round trip"
    );
    // A segment per 25 ms and 25 ms: the same per second as a path of 25 ms has.
    flow.rtt = 50 * MS;
    assert!(
        (growth(&mut flow, 20) - 1.0).abs() < 0.05,
        "a long path stays what it is"
    );
}

#[test]
fn old_it_yields_once_per_25_ms() {
    let cuts = |rounds| {
        let mut flow = avoiding(100, 5 * MS);
        flow.rounds(rounds);
        let mut cuts = 0;
        for _ in 0..50 {
            let before = segments(&flow.controller);
            flow.controller.on_ack(&Ack {
                marked: MSS,
                in_flight: MSS,
                ..ack(flow.now, flow.rtt)
            });
            cuts += u32::from(segments(&flow.controller) < before);
            flow.round();
        }
        cuts
    };
    let (young, old) = (cuts(10), cuts(600));
    assert!(young > 20, "{young}");
    assert!((7..=11).contains(&old), "{old} in 250 ms");
}

#[test]
fn it_is_paced_without_surplus_and_without_bursts() {
    let mut flow = avoiding(1000, 40 * MS);
    flow.controller.on_ack(&ack(flow.now, flow.rtt));
    let verdict = flow.controller.verdict();
    assert_eq!(
        verdict.pacing_rate,
        Rate::from_amount(verdict.cwnd, flow.rtt)
    );
    assert!(
        verdict.burst <= verdict.pacing_rate * Duration::from_micros(250),
        "{verdict:?}"
    );
    let mut young = Prague::new(&config(10));
    young.on_ack(&ack(NOW, 40 * MS));
    let verdict = young.verdict();
    assert_eq!(
        verdict.pacing_rate,
        Rate::from_amount(verdict.cwnd * 2, 40 * MS),
        "slow start may double"
    );
    assert_eq!(verdict.burst, MSS, "less than a segment is a segment");
}

#[test]
fn the_share_has_twenty_bits() {
    let mut flow = avoiding(1000, 40 * MS);
    flow.marked_round(1);
    // One mark in twenty windows of a thousand or so: a share that ten bits cannot hold.
    for _ in 0..20 {
        flow.marked_round(1);
        flow.rounds(19);
    }
    let share = alpha(&flow.controller);
    assert!(share > 0.0 && share < 1.0 / 1024.0, "{share}");
}

#[test]
fn a_loss_halves_also_while_marks_are_answered() {
    let mut flow = avoiding(100, 40 * MS);
    flow.rounds(1);
    flow.controller.on_ack(&Ack {
        marked: MSS,
        ..ack(flow.now, flow.rtt)
    });
    let window = segments(&flow.controller);
    let lossy = Ack {
        state: CongestionState::Cwr,
        lost: MSS,
        in_flight: MSS,
        ..ack(flow.now, flow.rtt)
    };
    flow.controller.on_ack(&lossy);
    flow.controller.on_ack(&lossy);
    assert_eq!(segments(&flow.controller), window / 2.0);
    assert_eq!(flow.controller.recovery(), Recovery::Prr);
}

/// `tcp_enter_cwr`: in Recovery and in Loss a mark begins no reduction, and its share counts.
#[test]
fn a_mark_during_the_repair_of_a_loss_does_not_reduce_again() {
    for (signal, state) in [
        (Signal::Loss, CongestionState::Recovery),
        (Signal::Timeout, CongestionState::Loss),
    ] {
        let mut flow = avoiding(100, 40 * MS);
        flow.rounds(60);
        flow.signal(signal);
        let window = flow.controller.verdict().cwnd;
        let marked = Ack {
            acked: Bytes::ZERO,
            marked: MSS,
            state,
            ..ack(flow.now, flow.rtt)
        };
        flow.controller.on_ack(&marked);
        assert_eq!(flow.controller.verdict().cwnd, window, "{state:?}");
        if signal == Signal::Loss {
            flow.controller.on_ack(&Ack {
                state: CongestionState::Open,
                ..marked
            });
            assert!(flow.controller.verdict().cwnd < window, "after the repair");
        }
    }
}

#[test]
fn a_signal_without_amounts_is_answered_by_the_next_acknowledgment() {
    let mut prague = Prague::new(&config(20));
    prague.on_congestion(&signal(NOW, Signal::Ce));
    prague.on_ack(&Ack {
        acked: Bytes::ZERO,
        ..ack(NOW, 40 * MS)
    });
    assert_eq!((segments(&prague), prague.ecn()), (10.0, Ecn::L4s));
}

/// Issue 16.13: after a timeout the window is one segment, less than the least a mark cuts to.
#[test]
fn a_mark_after_a_timeout_does_not_open_the_window() {
    let mut prague = Prague::new(&config(20));
    prague.on_congestion(&signal(NOW, Signal::Timeout));
    assert_eq!(prague.verdict().cwnd, MSS);
    prague.on_ack(&Ack {
        acked: Bytes::ZERO,
        marked: Bytes::new(1),
        cwnd_limited: false,
        state: CongestionState::Loss,
        ..ack(NOW, 40 * MS)
    });
    assert_eq!(prague.verdict().cwnd, MSS);
}
