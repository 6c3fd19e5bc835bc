//! DCTCP against numbers worked out from RFC 8257 §3.3 and §3.4.

use std::time::Duration;

use crate::support::{Flow, MSS, ack, config, segments, signal};
use tautline_base::{Bytes, Instant};
use tautline_cc::{Ack, CongestionState, Controller, Dctcp, Ecn, Recovery, Reno, Signal};

const MS: Duration = Duration::from_millis(1);
const NOW: Instant = Instant::from_secs(1);

fn alpha(controller: &impl Controller) -> f64 {
    controller.model().alpha.expect("it keeps one")
}

/// A window of `segments` in congestion avoidance after `rounds` without a mark.
fn settled(segments: u64, rounds: u32) -> Flow<Dctcp> {
    let mut flow = Flow::new(Dctcp::new(&config(2 * segments)), MS);
    flow.signal(Signal::Loss);
    flow.rounds(rounds);
    flow
}

#[test]
fn without_marks_the_share_falls_by_a_sixteenth_per_window() {
    let mut flow = settled(100, 0);
    let mut shares = vec![alpha(&flow.controller) * 1024.0];
    for _ in 0..5 {
        flow.round();
        shares.push(alpha(&flow.controller) * 1024.0);
    }
    assert_eq!(shares, [1024.0, 960.0, 900.0, 844.0, 792.0, 743.0]);
}

#[test]
fn the_first_mark_halves_and_a_tenth_costs_four_of_a_hundred() {
    let mut first = Dctcp::new(&config(100));
    first.on_congestion(&signal(NOW, Signal::Ce));
    assert_eq!(
        (segments(&first), first.verdict().ssthresh),
        (50.0, MSS * 50)
    );

    // 38 windows without a mark: from 1024 down to just above a tenth.
    let mut flow = settled(100, 0);
    while alpha(&flow.controller) > 105.0 / 1024.0 {
        flow.round();
    }
    let window = segments(&flow.controller);
    let share = (alpha(&flow.controller) * 1024.0) as u64;
    assert!((95..=105).contains(&share), "{share}");
    flow.signal(Signal::Ce);
    assert_eq!(
        window.floor() - segments(&flow.controller).floor(),
        (window as u64 * share / 2048) as f64
    );
}

#[test]
fn at_a_steady_share_it_settles_at_the_law_of_the_rfc() {
    // One mark in every window, as a shallow step threshold gives: the share of marks tends to 1 /
    // window, and the window loses half a segment of every segment it wins.
    let mut flow = settled(50, 0);
    for _ in 0..200 {
        let end = flow.now;
        flow.marked_round(25);
        flow.controller.on_congestion(&signal(end, Signal::Ce));
    }
    let share = alpha(&flow.controller);
    let window = segments(&flow.controller);
    // What a round wins, one segment, is what it loses: alpha × window / 2.
    assert!(
        (share * window / 2.0 - 1.0).abs() < 1.0,
        "{share} of {window}"
    );
}

#[test]
fn a_loss_halves_whatever_the_share_is() {
    let mut flow = settled(100, 60);
    assert!(alpha(&flow.controller) < 0.03);
    let window = segments(&flow.controller);
    flow.lose();
    assert_eq!(segments(&flow.controller), window / 2.0);
    flow.controller.on_undo(flow.now);
    assert_eq!(segments(&flow.controller), window);
}

#[test]
fn a_loss_while_a_mark_is_answered_still_halves_and_only_once() {
    let mut flow = settled(100, 60);
    flow.signal(Signal::Ce);
    let window = segments(&flow.controller);
    let lossy = Ack {
        state: CongestionState::Cwr,
        lost: MSS,
        ..ack(flow.now, MS)
    };
    flow.controller.on_ack(&lossy);
    assert_eq!(segments(&flow.controller), window / 2.0);
    flow.controller.on_ack(&lossy);
    assert_eq!(segments(&flow.controller), window / 2.0);
}

/// Where every segment is marked, the acknowledgment that ends one reduction begins the next, and
/// the transport is never without one: each is half the window, also after a loss.
#[test]
fn at_full_marks_each_window_after_a_loss_is_halved() {
    let mut dctcp = Dctcp::new(&config(320));
    dctcp.on_congestion(&signal(NOW, Signal::Loss));
    let mut windows = Vec::new();
    for _ in 0..4 {
        dctcp.on_congestion(&signal(NOW, Signal::Ce));
        dctcp.on_ack(&Ack {
            state: CongestionState::Cwr,
            marked: MSS,
            ..ack(NOW, MS)
        });
        windows.push(segments(&dctcp));
    }
    assert_eq!(windows, [80.0, 40.0, 20.0, 10.0]);
}

#[test]
fn without_marks_it_is_reno() {
    let mut dctcp = Flow::new(Dctcp::new(&config(10)), 10 * MS);
    let mut reno = Flow::new(Reno::new(&config(10)), 10 * MS);
    for i in 1..100 {
        assert_eq!(dctcp.controller.verdict(), reno.controller.verdict());
        dctcp.round();
        reno.round();
        if i % 7 == 0 {
            let signal = if i % 3 == 0 {
                Signal::Timeout
            } else {
                Signal::Loss
            };
            dctcp.signal(signal);
            reno.signal(signal);
        }
    }
}

#[test]
fn it_wants_exact_echoes_and_prr() {
    let dctcp = Dctcp::new(&config(10));
    assert_eq!((dctcp.ecn(), dctcp.recovery()), (Ecn::Dctcp, Recovery::Prr));
    assert_eq!(Reno::new(&config(10)).ecn(), Ecn::Classic);
    let mut unmarked = dctcp;
    unmarked.on_ack(&Ack {
        marked: Bytes::MAX,
        ..ack(NOW, MS)
    });
    assert_eq!(
        alpha(&unmarked),
        1.0,
        "more marked than acknowledged is all of it"
    );
}
