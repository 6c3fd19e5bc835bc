//! BBR version 1 and BBR-n: worked numbers, and what must hold on any path.

use std::time::Duration;

use crate::path::Path;
use crate::support::{MSS, ack, idle, signal};
use proptest::prelude::*;
use tautline_base::{Bytes, Instant, Rate};
use tautline_cc::bbr::{Gain, Params};
use tautline_cc::{Ack, Bbr, Config, CongestionState, Controller, RateSample, Signal, Verdict};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn config() -> Config {
    Config {
        seed: 7,
        ..Config::new(MSS)
    }
}

fn linux() -> Bbr {
    Bbr::new(&config())
}

/// The path of the worked example: 100 Mbit/s, 40 ms, a product of 500 segments of 1000 bytes.
fn worked_path() -> Path<Bbr> {
    Path::new(linux(), Rate::mbit(100), 40 * MS)
}

/// A path of 20 Mbit/s and 40 ms, a product of 100 segments.
fn short_path() -> Path<Bbr> {
    Path::new(linux(), Rate::mbit(20), 40 * MS)
}

/// A flow in PROBE_BW on that path, its queue drained.
fn settled() -> Path<Bbr> {
    let mut path = short_path();
    path.run(2 * SECOND, |_, _| {});
    assert_eq!(path.controller.model().state, "PROBE_BW");
    path
}

fn bandwidth(controller: &impl Controller) -> Rate {
    controller.model().bandwidth.unwrap_or(Rate::ZERO)
}

fn mbit(rate: Rate) -> f64 {
    rate.as_bits_per_sec() as f64 / 1e6
}

/// `ack` with a rate sample of `rate`, sent when `prior_delivered` had been delivered.
fn sampled(ack: Ack, rate: Rate, prior_delivered: Bytes, app_limited: bool) -> Ack {
    let sample = RateSample {
        delivered: rate * (10 * MS),
        interval: 10 * MS,
        rate,
        app_limited,
        prior_delivered,
        sent_in_flight: MSS,
        lost: Bytes::ZERO,
    };
    Ack {
        rate: Some(sample),
        ..ack
    }
}

#[test]
fn the_first_rate_is_the_window_over_a_round_trip_or_a_millisecond() {
    let mut bbr = Bbr::new(&Config::new(Bytes::new(1448)));
    assert!(
        (mbit(bbr.verdict().pacing_rate) - 331.06).abs() < 0.01,
        "{}",
        bbr.verdict().pacing_rate
    );
    bbr.on_ack(&Ack {
        acked: Bytes::ZERO,
        ..ack(Instant::from_secs(1), 40 * MS)
    });
    assert!(
        (mbit(bbr.verdict().pacing_rate) - 8.276).abs() < 0.001,
        "{}",
        bbr.verdict().pacing_rate
    );
    assert_eq!(bbr.verdict().cwnd, Bytes::new(14_480));
}

/// Linux `bbr_set_cwnd` counts packets: a message of 37 bytes makes room for another segment, and
/// the SYN before it for none. Else the window grows by what was delivered.
#[test]
fn a_short_segment_counts_as_a_packet_in_linux() {
    for (count_packets, segments, bytes) in [(true, 11, 0), (false, 10, 38)] {
        let params = Params {
            count_packets,
            ..Params::default()
        };
        let mut bbr = Bbr::with(params, &config()).expect("parameters in range");
        for (acked, delivered) in [(1, 1), (37, 38)] {
            bbr.on_ack(&Ack {
                acked: Bytes::new(acked),
                delivered: Bytes::new(delivered),
                ..ack(Instant::from_millis(delivered), 40 * MS)
            });
        }
        let expected = MSS * segments + Bytes::new(bytes);
        assert_eq!(bbr.verdict().cwnd, expected, "{count_packets}");
    }
}

/// Two windows' worth of segments leave per round trip and twice as much is measured in each.
#[test]
fn startup_doubles_the_bandwidth_in_every_round_until_the_pipe_is_full() {
    let mut path = worked_path();
    let (mut round_end, mut rounds) = (Bytes::ZERO, Vec::new());
    path.run(SECOND, |path, ack| {
        let starting = path.controller.model().state == "STARTUP";
        // The first sample of a round is the first that no pause between two windows lengthens.
        if starting
            && ack
                .rate
                .is_some_and(|rate| rate.prior_delivered >= round_end)
        {
            round_end = ack.delivered;
            rounds.push(mbit(bandwidth(&path.controller)));
        }
    });
    println!(
        "{rounds:?}, queue {} segments",
        path.queue_peak.get() / MSS.get()
    );
    // The window of ten, log2(500 / 10) = 5.6 doublings, and two rounds without growth; the third
    // ends STARTUP. The very first acknowledgment measures nothing but itself.
    assert_eq!(rounds.len() - 1, 9, "{rounds:?}");
    for (measured, ideal) in rounds[1..]
        .iter()
        .zip([2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0, 100.0, 100.0])
    {
        assert!((0.7 * ideal..1.01 * ideal).contains(measured), "{rounds:?}");
    }
    assert!(
        (97.0..=100.5).contains(rounds.last().expect("there were rounds")),
        "{rounds:?}"
    );
    // 1.89 products, and room for three bursts of a millisecond at 286 Mbit/s.
    assert!(
        path.queue_peak <= MSS * (945 + 3 * 36),
        "{} in the queue",
        path.queue_peak
    );
    assert!(
        path.queue_peak >= MSS * 500,
        "{} in the queue: STARTUP was cut short",
        path.queue_peak
    );
}

#[test]
fn drain_empties_the_queue_within_three_round_trips() {
    let mut path = worked_path();
    let (mut began, mut ended, mut after) = (None, None, Bytes::MAX);
    path.run(SECOND, |path, ack| match path.controller.model().state {
        "DRAIN" => {
            began.get_or_insert(ack.now);
        }
        "PROBE_BW" if ended.is_none() => {
            ended = Some(ack.now);
            after = path.in_flight;
        }
        _ => {}
    });
    let time = ended.expect("DRAIN ended") - began.expect("DRAIN began");
    // 1.885 products and three bursts above one, at 1 − 0.344 of the bandwidth: 2.9 and 0.3 round
    // trips of 40 ms.
    assert!((20..=130).contains(&time.as_millis()), "{time:?}");
    assert!(after <= MSS * 530, "{after} in flight after it");
}

#[test]
fn the_bandwidth_is_used_and_no_queue_stands() {
    let mut path = settled();
    let (before, mut longest, mut sum, mut count) =
        (path.delivered(), Duration::ZERO, Duration::ZERO, 0);
    path.run(5 * SECOND, |_, ack| {
        let rtt = ack.rtt.expect("every segment is sent once");
        longest = longest.max(rtt);
        sum += rtt;
        count += 1;
    });
    let goodput = Rate::from_amount(path.delivered() - before, 5 * SECOND);
    assert!(goodput > Rate::kbit(19_400), "{goodput}");
    // A probe puts a quarter of a product and three bursts into the queue, for one round trip of
    // eight.
    assert!(longest < 56 * MS, "{longest:?}");
    assert!(sum / count < 45 * MS, "{:?}", sum / count);
}

#[test]
fn a_cycle_probes_drains_and_cruises() {
    let mut path = settled();
    let mut gains = Vec::new();
    path.run(SECOND, |path, _| {
        let gain = path
            .controller
            .model()
            .pacing_gain
            .expect("it always has one");
        if gains.last() != Some(&gain) {
            gains.push(gain);
        }
    });
    let probe = gains
        .iter()
        .position(|gain| *gain == 1.25)
        .expect("a second holds three cycles");
    assert_eq!(gains[probe..probe + 4], [1.25, 0.75, 1.0, 1.25]);
}

#[test]
fn flows_with_other_seeds_begin_with_other_phases() {
    let gains = |seed| {
        let mut path = Path::new(
            Bbr::new(&Config { seed, ..config() }),
            Rate::mbit(20),
            40 * MS,
        );
        let mut at = None;
        path.run(2 * SECOND, |path, ack| {
            if path.controller.model().pacing_gain == Some(1.25) {
                at.get_or_insert(ack.now);
            }
        });
        at
    };
    let first: std::collections::BTreeSet<_> = (0..12).map(gains).collect();
    assert!(first.len() >= 4, "{first:?}");
    assert_eq!(gains(3), gains(3));
}

#[test]
fn a_pause_every_ten_seconds_measures_the_round_trip_anew() {
    let mut path = settled();
    let (mut pauses, mut state, mut least) = (Vec::new(), "", Bytes::MAX);
    let before = path.delivered();
    path.run(41 * SECOND, |path, ack| {
        let now = path.controller.model().state;
        if now == "PROBE_RTT" {
            least = least.min(path.in_flight);
            if state != now {
                pauses.push((ack.now, ack.now));
            }
            pauses.last_mut().expect("it was pushed").1 = ack.now;
        }
        state = now;
    });
    assert_eq!(pauses.len(), 4, "{pauses:?}");
    for pair in pauses.windows(2) {
        assert!(pair[1].0 - pair[0].0 >= 10 * SECOND, "{pauses:?}");
    }
    for (began, ended) in pauses {
        // Until the flight has shrunk, and then for 200 ms.
        assert!(
            (200..300).contains(&(ended - began).as_millis()),
            "{:?}",
            ended - began
        );
    }
    assert!(least <= MSS * 4, "{least} in flight");
    let goodput = Rate::from_amount(path.delivered() - before, 41 * SECOND);
    assert!(
        goodput > Rate::mbit(19),
        "{goodput}: a pause costs a quarter of a second in ten"
    );
}

#[test]
fn after_a_pause_the_window_is_what_it_was() {
    let mut path = settled();
    let (mut before, mut after) = (None, None);
    path.run(12 * SECOND, |path, ack| {
        let pausing = path.controller.model().state == "PROBE_RTT";
        match (pausing, before) {
            (false, None) if ack.now - Instant::from_secs(1000) > 9 * SECOND => {}
            (true, None) => before = Some(path.controller.verdict().cwnd),
            (false, Some(_)) => {
                after.get_or_insert_with(|| path.controller.verdict().cwnd);
            }
            _ => {}
        }
    });
    assert_eq!(before, Some(MSS * 4));
    assert!(after.expect("the pause ended") > MSS * 200, "{after:?}");
}

#[test]
fn one_lost_segment_in_a_hundred_costs_next_to_nothing() {
    let mut path = short_path();
    path.lose_every = 100;
    path.run(3 * SECOND, |_, _| {});
    let before = path.delivered();
    path.run(5 * SECOND, |_, _| {});
    let goodput = Rate::from_amount(path.delivered() - before, 5 * SECOND);
    assert!(goodput > Rate::kbit(19_000), "{goodput}");
    assert!(
        mbit(bandwidth(&path.controller)) > 19.2,
        "{}",
        bandwidth(&path.controller)
    );
}

/// The flight of a round trip is lost but for what proves it; recovery sends what is delivered, and
/// then the window returns.
#[test]
fn recovery_conserves_packets_for_a_round_trip_and_then_returns_to_the_window() {
    let mut path = settled();
    let (now, whole) = (path.now, path.controller.verdict().cwnd);
    let delivered = path.delivered();
    let bbr = &mut path.controller;
    bbr.on_congestion(&signal(now, Signal::Loss));
    let mut told = Ack {
        acked: MSS,
        in_flight: MSS * 100,
        prior_in_flight: MSS * 101,
        delivered: delivered + MSS,
        state: CongestionState::Recovery,
        ..ack(now, 40 * MS)
    };
    told = sampled(told, Rate::mbit(20), delivered - MSS * 100, false);
    bbr.on_ack(&told);
    assert_eq!(bbr.verdict().cwnd, MSS * 101, "in flight and delivered");
    told = Ack {
        acked: MSS * 3,
        lost: MSS * 40,
        in_flight: MSS * 58,
        delivered: delivered + MSS * 4,
        ..told
    };
    bbr.on_ack(&told);
    assert_eq!(bbr.verdict().cwnd, MSS * 61);
    // What was sent after the recovery began is delivered: the model decides again.
    let next = sampled(
        Ack {
            lost: Bytes::ZERO,
            ..told
        },
        Rate::mbit(20),
        delivered + MSS,
        false,
    );
    bbr.on_ack(&Ack {
        acked: MSS * 2,
        delivered: delivered + MSS * 6,
        ..next
    });
    assert_eq!(bbr.verdict().cwnd, MSS * 63, "grows by what is delivered");
    bbr.on_ack(&Ack {
        state: CongestionState::Open,
        acked: MSS,
        ..next
    });
    assert!(
        bbr.verdict().cwnd + MSS * 2 >= whole,
        "{} and not {whole}",
        bbr.verdict().cwnd
    );
}

#[test]
fn a_timeout_leaves_room_for_one_segment_and_the_window_returns_after_it() {
    let mut path = settled();
    let whole = path.controller.verdict().cwnd;
    let bbr = &mut path.controller;
    bbr.on_congestion(&signal(path.now, Signal::Timeout));
    assert_eq!(bbr.verdict().cwnd, MSS);
    bbr.on_ack(&Ack {
        state: CongestionState::Loss,
        ..ack(path.now, 40 * MS)
    });
    assert_eq!(
        bbr.verdict().cwnd,
        MSS * 4,
        "the smallest window it works with"
    );
    bbr.on_ack(&ack(path.now, 40 * MS));
    assert!(
        bbr.verdict().cwnd + MSS * 2 >= whole,
        "{} and not {whole}",
        bbr.verdict().cwnd
    );
}

#[test]
fn an_undone_loss_gives_the_window_back_with_the_next_acknowledgment() {
    let mut path = settled();
    let whole = path.controller.verdict().cwnd;
    let bbr = &mut path.controller;
    bbr.on_congestion(&signal(path.now, Signal::Loss));
    bbr.on_ack(&Ack {
        state: CongestionState::Recovery,
        in_flight: MSS * 5,
        ..ack(path.now, 40 * MS)
    });
    assert_eq!(bbr.verdict().cwnd, MSS * 6);
    bbr.on_undo(path.now);
    bbr.on_ack(&ack(path.now, 40 * MS));
    assert!(
        bbr.verdict().cwnd + MSS * 2 >= whole,
        "{} and not {whole}",
        bbr.verdict().cwnd
    );
    assert_eq!(bbr.model().state, "PROBE_BW");
}

/// `bbr_undo_cwnd`: a bandwidth that did not grow is counted anew after a spurious loss.
#[test]
fn an_undone_loss_restarts_the_search_for_the_full_pipe() {
    let rounds_in_startup = |spurious: bool| {
        let mut bbr = linux();
        let rounds = (1..20_u64).find(|&round| {
            let now = Instant::from_millis(40 * round);
            if spurious && round == 4 {
                bbr.on_congestion(&signal(now, Signal::Loss));
                bbr.on_undo(now);
            }
            let sent = MSS * 10 * (round - 1);
            let ack = Ack {
                acked: MSS * 10,
                delivered: MSS * 10 * round,
                ..ack(now, 40 * MS)
            };
            bbr.on_ack(&sampled(ack, Rate::mbit(2), sent, false));
            bbr.model().state != "STARTUP"
        });
        rounds.expect("a pipe that is full")
    };
    assert_eq!([false, true].map(rounds_in_startup), [4, 7]);
}

#[test]
fn marks_and_local_drops_change_nothing() {
    let mut path = settled();
    let before = path.controller.verdict();
    for kind in [Signal::Ce, Signal::LocalDrop] {
        path.controller.on_congestion(&signal(path.now, kind));
        assert_eq!(path.controller.verdict(), before);
    }
}

#[test]
fn after_a_pause_of_the_application_it_paces_at_the_bandwidth() {
    let mut path = settled();
    while path.controller.model().pacing_gain != Some(1.25) {
        path.run(MS, |_, _| {});
    }
    let (now, bw) = (path.now, bandwidth(&path.controller));
    assert!(path.controller.verdict().pacing_rate > bw.percent(120));
    let cwnd = path.controller.verdict().cwnd;
    path.controller.on_idle(&idle(now, 60 * SECOND, SECOND));
    assert_eq!(path.controller.verdict().pacing_rate, bw.percent(99));
    assert_eq!(path.controller.verdict().cwnd, cwnd);
}

#[test]
fn a_stale_round_trip_is_no_reason_to_pause_right_after_idling() {
    let mut path = settled();
    path.ready = 0;
    path.run(60 * SECOND, |_, _| {});
    path.ready = u64::MAX;
    path.run(5 * SECOND, |path, _| {
        assert_ne!(path.controller.model().state, "PROBE_RTT", "{}", path.now)
    });
}

#[test]
fn samples_that_the_application_limits_never_lower_the_bandwidth() {
    let mut path = settled();
    let full = bandwidth(&path.controller);
    for _ in 0..1000 {
        path.ready = 2;
        // Fifty seconds with four pauses of the controller's own.
        path.run(50 * MS, |_, _| {});
        assert_eq!(bandwidth(&path.controller), full);
    }
}

#[test]
fn samples_of_its_own_pause_do_not_lower_the_bandwidth() {
    // So short a path that the pause lasts for more rounds than the filter remembers.
    let mut path = Path::new(linux(), Rate::mbit(100), 5 * MS);
    path.run(2 * SECOND, |_, _| {});
    let mut paused = false;
    path.run(12 * SECOND, |path, _| {
        let state = path.controller.model().state;
        paused |= state == "PROBE_RTT";
        assert!(
            mbit(bandwidth(&path.controller)) > 95.0,
            "{state} at {}",
            path.now
        )
    });
    assert!(paused, "no pause was seen");
}

#[test]
fn a_policer_is_found_and_obeyed() {
    let mut bbr = linux();
    let (mut now, mut delivered) = (Instant::from_secs(1), Bytes::ZERO);
    let mut rounds = |bbr: &mut Bbr, count: u32, rate: Rate| {
        for _ in 0..count {
            now += 100 * MS;
            let (prior, lost) = (delivered, rate * (30 * MS));
            delivered += rate * (100 * MS);
            bbr.on_lost(&tautline_cc::Loss {
                now,
                bytes: lost,
                sent_in_flight: MSS,
                lost_since: lost,
                prior_delivered: prior,
                app_limited: false,
            });
            let told = Ack {
                delivered,
                lost,
                state: CongestionState::Recovery,
                ..ack(now, 100 * MS)
            };
            // The bucket lets a burst through now and then, which the filter believes.
            bbr.on_ack(&sampled(told, Rate::mbit(80), prior, false));
        }
    };
    rounds(&mut bbr, 4, Rate::mbit(10));
    assert_eq!(bandwidth(&bbr), Rate::mbit(80));
    rounds(&mut bbr, 4, Rate::kbit(10_900));
    assert_eq!(bandwidth(&bbr), Rate::kbit(10_450));
    rounds(&mut bbr, 20, Rate::kbit(10_900));
    let model = bbr.model();
    assert_eq!(
        (model.state, model.pacing_gain),
        ("PROBE_BW", Some(1.0)),
        "it does not probe into the policer"
    );
    assert_eq!(bbr.verdict().pacing_rate, Rate::kbit(10_450).percent(99));
    let mut obeyed = 20;
    while bandwidth(&bbr) != Rate::mbit(80) {
        rounds(&mut bbr, 1, Rate::kbit(10_900));
        obeyed += 1;
    }
    assert_eq!(obeyed, 48, "then it tries again");
}

#[test]
fn bunched_acknowledgments_open_the_window() {
    let mut path = settled();
    let (now, cwnd) = (path.now, path.controller.verdict().cwnd);
    let delivered = path.delivered();
    let told = Ack {
        acked: MSS * 200,
        delivered: delivered + MSS * 200,
        in_flight: MSS * 100,
        ..ack(now + 5 * MS, 40 * MS)
    };
    path.controller
        .on_ack(&sampled(told, Rate::mbit(20), delivered - MSS * 100, false));
    let opened = path.controller.verdict().cwnd.saturating_sub(cwnd);
    assert!((MSS * 150..=MSS * 200).contains(&opened), "{opened}");
}

#[test]
fn a_controller_that_takes_over_starts_from_the_window_and_the_rate() {
    let mut bbr = linux();
    let before = Verdict {
        cwnd: MSS * 300,
        ssthresh: MSS * 200,
        pacing_rate: Rate::mbit(50),
        burst: MSS * 6,
    };
    bbr.adopt(&before);
    assert_eq!(
        (bbr.verdict().cwnd, bbr.verdict().pacing_rate),
        (MSS * 300, Rate::mbit(50))
    );
    assert_eq!(bbr.model().state, "STARTUP");
    // In the middle of a transfer, behind a queue: the lowest round trip seen so far counts.
    let delivered = MSS * 100_000;
    let told = Ack {
        delivered,
        min_rtt: 20 * MS,
        in_flight: MSS * 299,
        ..ack(Instant::from_secs(9), 60 * MS)
    };
    bbr.on_ack(&sampled(told, Rate::mbit(40), delivered - MSS * 300, false));
    assert_eq!(bbr.model().min_rtt, Some(20 * MS));
    assert!(
        bbr.verdict().pacing_rate > Rate::mbit(100),
        "the window in a round trip, times the gain of STARTUP"
    );
}

#[test]
fn bbrn_climbs_to_its_window_where_bbr_keeps_the_queue_short() {
    let mean_rtt = |params: Params| {
        let mut path = Path::new(
            Bbr::with(params, &config()).expect("known numbers"),
            Rate::mbit(20),
            40 * MS,
        );
        path.run(4 * SECOND, |_, _| {});
        let (mut sum, mut count) = (Duration::ZERO, 0);
        path.run(5 * SECOND, |_, ack| {
            sum += ack.rtt.expect("every segment is sent once");
            count += 1;
        });
        (sum / count).as_secs_f64() * 1e3
    };
    let (linux, aqm, bold) = (
        mean_rtt(Params::default()),
        mean_rtt(Params::bbrn_aqm()),
        mean_rtt(Params::bbrn_2023()),
    );
    println!("bbr {linux:.1} ms, bbrn-aqm {aqm:.1} ms, bbrn-2023 {bold:.1} ms");
    assert!(linux < 45.0, "{linux}");
    // Two products in flight are a round trip of queue.
    assert!(aqm > 60.0 && bold > 60.0, "{aqm} {bold}");
}

#[test]
fn only_the_first_patch_never_leaves_startup() {
    let state = |params: Params| {
        let mut path = Path::new(
            Bbr::with(params, &config()).expect("known numbers"),
            Rate::mbit(20),
            40 * MS,
        );
        path.run(20 * SECOND, |_, _| {});
        path.controller.model().state
    };
    for params in [Params::bbrn_aqm(), Params::bbrn_2023()] {
        assert_ne!(state(params), "STARTUP", "{}", params.name);
    }
    let endless = Params {
        min_rtt_window: 3600 * SECOND,
        ..Params::bbrn_first()
    };
    assert_eq!(state(endless), "STARTUP");
    assert!(
        Bbr::with(
            Params {
                endless_startup: false,
                ..Params::bbrn_first()
            },
            &config()
        )
        .is_err()
    );
}

fn params() -> impl Strategy<Value = Params> {
    prop::sample::select(vec![
        Params::default(),
        Params::bbrn_aqm(),
        Params::bbrn_2023(),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn startup_ends_within_the_doublings_and_four_rounds(
        kbit in 500_u64..50_000, millis in 2_u32..200, initial in 4_u64..40
    ) {
        let (rate, rtt) = (Rate::kbit(kbit), MS * millis);
        let config = Config { initial_window: MSS * initial, ..config() };
        let mut path = Path::new(Bbr::new(&config), rate, rtt);
        let (mut round_end, mut rounds) = (Bytes::ZERO, 0);
        path.run(rtt * 30 + SECOND, |path, ack| {
            let starting = path.controller.model().state == "STARTUP";
            if starting && ack.rate.is_some_and(|rate| rate.prior_delivered >= round_end) {
                round_end = ack.delivered;
                rounds += 1;
            }
        });
        prop_assert_ne!(path.controller.model().state, "STARTUP");
        let products = (rate * rtt).get() as f64 / (MSS.get() * initial) as f64;
        let bound = products.log2().max(0.0).ceil() + 4.0;
        // The first acknowledgment begins the first.
        prop_assert!(f64::from(rounds - 1) <= bound, "{rounds} begun, {bound} round trips allowed");
    }

    #[test]
    fn rate_and_window_keep_to_the_model(
        params in params(), kbit in 500_u64..10_000, millis in 2_u32..150, buffer in 20_u64..2000,
        lose_every in prop_oneof![Just(0_u64), 5..500_u64], seed: u64
    ) {
        let config = Config { seed, ..config() };
        let mut path = Path::new(Bbr::with(params, &config).expect("known numbers"), Rate::kbit(kbit), MS * millis);
        path.buffer = MSS * buffer;
        path.lose_every = lose_every;
        let mut failure = None;
        let (mut pauses, mut state) = (Vec::new(), "");
        path.run(12 * SECOND, |path, ack| {
            let (model, verdict) = (path.controller.model(), path.controller.verdict());
            let (Some(bandwidth), Some(rtt)) = (model.bandwidth, model.min_rtt) else { return };
            let lowest = params.cycle.iter().min().copied().unwrap_or(Gain::UNIT);
            let slow = verdict.pacing_rate < lowest.of(bandwidth.percent(98));
            if model.state != "DRAIN" && slow {
                failure = Some(format!("{} at {} paces {}", model.state, ack.now, verdict.pacing_rate));
            }
            let product = (model.cwnd_gain.unwrap_or_default() * (bandwidth * rtt).get() as f64) as u64;
            let bursts = verdict.burst.get() * 3 + MSS.get() * 8;
            let target = product + (bandwidth * (100 * MS)).get() + bursts;
            let full = model.state == "PROBE_BW" && ack.state == CongestionState::Open;
            if full && verdict.cwnd.get() > target.max(MSS.get() * params.min_cwnd) {
                failure = Some(format!("{} at {}: window {} above {target}", model.state, ack.now, verdict.cwnd));
            }
            if model.state == "PROBE_RTT" && state != "PROBE_RTT" {
                pauses.push(ack.now);
            }
            state = model.state;
        });
        prop_assert_eq!(failure, None);
        prop_assert!(pauses.windows(2).all(|pair| pair[1] - pair[0] >= 10 * SECOND), "{:?}", pauses);
    }

    #[test]
    fn losses_and_marks_alone_never_lower_the_bandwidth(
        kinds in prop::collection::vec(
            prop::sample::select(vec![Signal::Loss, Signal::Timeout, Signal::Ce, Signal::LocalDrop]), 1..50)
    ) {
        let mut path = settled();
        let before = bandwidth(&path.controller);
        for kind in kinds {
            path.controller.on_congestion(&signal(path.now, kind));
            prop_assert_eq!(bandwidth(&path.controller), before);
        }
    }

    #[test]
    fn the_bandwidth_is_never_above_the_largest_sample_of_ten_rounds(
        rates in prop::collection::vec((1..100_000_u64, any::<bool>()), 1..100)
    ) {
        let mut bbr = linux();
        let mut delivered = Bytes::ZERO;
        let mut seen: Vec<Rate> = Vec::new();
        for (kbit, app_limited) in rates {
            let (prior, rate) = (delivered, Rate::kbit(kbit));
            delivered += MSS;
            let before = bandwidth(&bbr);
            bbr.on_ack(&sampled(Ack { delivered, ..ack(Instant::from_secs(1), 10 * MS) }, rate, prior, app_limited));
            seen.push(rate);
            let window = &seen[seen.len().saturating_sub(11)..];
            let after = bandwidth(&bbr);
            if app_limited {
                prop_assert_eq!(after, before.max(rate));
            } else {
                prop_assert!(after >= rate);
                prop_assert!(window.contains(&after) || after == before, "{after} of {window:?}");
            }
        }
    }
}
