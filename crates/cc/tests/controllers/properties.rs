//! Invariants of every controller under any sequence of events, however absurd.

use std::time::Duration;

use crate::support::MSS;
use proptest::prelude::*;
use tautline_base::{Bytes, Instant, Rate};
use tautline_cc::{
    Ack, Algorithm, Config, Congestion, CongestionState, Controller, Idle, Loss, NewestDelivered,
    RateSample, Sampler, Signal, Verdict,
};

/// The rate sample of an acknowledgment, as absurd as the rest.
#[derive(Clone, Debug)]
struct Sample {
    delivered: u64,
    /// Of what was delivered in all, how much had been when the segment was sent.
    prior_delivered: u64,
    interval: u64,
    lost: u64,
    marked: u64,
    app_limited: bool,
    delayed: bool,
    departs_in: u64,
}

#[derive(Clone, Debug)]
enum Event {
    Ack {
        acked: u64,
        in_flight: u64,
        rtt: Option<u64>,
        cwnd_limited: bool,
        round_start: bool,
        phase: CongestionState,
        sample: Sample,
    },
    Lost {
        bytes: u64,
        sent_in_flight: u64,
        lost_since: u64,
    },
    Congestion {
        signal: Signal,
        in_flight: u64,
    },
    Undo,
    Idle(u64),
    /// The clock moves, perhaps backwards.
    Clock(i64),
}

/// Microseconds from nothing to 100 s and beyond.
fn rtt() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        1..1_000_000_u64,
        Just(100_000_000),
        Just(u64::MAX / 1_000)
    ]
}

fn sample() -> impl Strategy<Value = Sample> {
    let amount = || prop_oneof![8 => 0..200_000_u64, 1 => Just(0), 1 => any::<u64>()];
    let amounts = (amount(), amount(), rtt(), amount(), amount(), rtt());
    (amounts, any::<bool>(), any::<bool>()).prop_map(|(amounts, app_limited, delayed)| {
        let (delivered, prior_delivered, interval, lost, marked, departs_in) = amounts;
        Sample {
            delivered,
            prior_delivered,
            interval,
            lost,
            marked,
            app_limited,
            delayed,
            departs_in,
        }
    })
}

fn event() -> impl Strategy<Value = Event> {
    let amount = || prop_oneof![8 => 0..200_000_u64, 1 => Just(1_448_000_000), 1 => any::<u64>()];
    let phases = [
        (7, CongestionState::Open),
        (1, CongestionState::Cwr),
        (1, CongestionState::Recovery),
        (1, CongestionState::Loss),
    ];
    let phase = prop::strategy::Union::new_weighted(
        phases.map(|(weight, phase)| (weight, Just(phase))).to_vec(),
    );
    let flags = (any::<bool>(), any::<bool>(), phase, sample());
    let signal = prop_oneof![
        Just(Signal::Loss),
        Just(Signal::Timeout),
        Just(Signal::Ce),
        Just(Signal::LocalDrop)
    ];
    prop_oneof![
        10 => (amount(), amount(), prop::option::of(rtt()), flags).prop_map(|(acked, in_flight, rtt, flags)| {
            let (cwnd_limited, round_start, phase, sample) = flags;
            Event::Ack { acked, in_flight, rtt, cwnd_limited, round_start, phase, sample }
        }),
        2 => (amount(), amount(), amount())
            .prop_map(|(bytes, sent_in_flight, lost_since)| Event::Lost { bytes, sent_in_flight, lost_since }),
        2 => (signal, amount()).prop_map(|(signal, in_flight)| Event::Congestion { signal, in_flight }),
        1 => Just(Event::Undo),
        1 => rtt().prop_map(Event::Idle),
        3 => prop_oneof![0..100_000_i64, any::<i64>()].prop_map(Event::Clock),
    ]
}

/// Applies `event`; the acknowledgment, if it was one.
fn apply(controller: &mut dyn Controller, event: &Event, now: &mut Instant) -> Option<Ack> {
    match *event {
        Event::Ack {
            acked,
            in_flight,
            rtt,
            cwnd_limited,
            round_start,
            phase,
            ref sample,
        } => {
            let rtt = rtt.map(Duration::from_micros);
            let (delivered, interval) = (
                Bytes::new(sample.delivered),
                Duration::from_micros(sample.interval),
            );
            let ack = Ack {
                acked: Bytes::new(acked),
                lost: Bytes::new(sample.lost),
                prior_in_flight: Bytes::new(in_flight) + Bytes::new(acked),
                in_flight: Bytes::new(in_flight),
                rtt,
                srtt: rtt.unwrap_or(Duration::ZERO),
                min_rtt: rtt.unwrap_or(Duration::ZERO),
                delivered,
                rate: (!interval.is_zero()).then(|| RateSample {
                    delivered,
                    interval,
                    rate: Rate::from_amount(delivered, interval),
                    app_limited: sample.app_limited,
                    prior_delivered: Bytes::new(sample.prior_delivered),
                    sent_in_flight: Bytes::new(in_flight),
                    lost: Bytes::new(sample.lost),
                }),
                cwnd_limited,
                round_start,
                state: phase,
                marked: Bytes::new(sample.marked),
                delayed: sample.delayed,
                next_departure: *now + Duration::from_micros(sample.departs_in),
                ..crate::support::ack(*now, Duration::ZERO)
            };
            controller.on_ack(&ack);
            return Some(ack);
        }
        Event::Lost {
            bytes,
            sent_in_flight,
            lost_since,
        } => controller.on_lost(&Loss {
            now: *now,
            bytes: Bytes::new(bytes),
            sent_in_flight: Bytes::new(sent_in_flight),
            lost_since: Bytes::new(lost_since),
            prior_delivered: Bytes::ZERO,
            app_limited: bytes % 5 == 0,
        }),
        Event::Congestion { signal, in_flight } => {
            controller.on_congestion(&Congestion {
                now: *now,
                signal,
                in_flight: Bytes::new(in_flight),
            });
        }
        Event::Undo => controller.on_undo(*now),
        Event::Idle(micros) => controller.on_idle(&Idle {
            now: *now,
            idle: Duration::from_micros(micros),
            rto: Duration::from_millis(300),
            app_limited: micros % 2 == 0,
        }),
        Event::Clock(step) => {
            *now = Instant::from_nanos(now.as_nanos().saturating_add_signed(step))
        }
    }
    None
}

/// Linux keeps `sk_pacing_rate` when `TCP_CONGESTION` changes. A window paced over an assumed round
/// trip would leave as a burst.
#[test]
fn a_controller_that_takes_over_keeps_window_and_rate() {
    let rates = [
        Rate::bytes_per_sec(1),
        Rate::kbit(1),
        Rate::mbit(50),
        Rate::gbit(400),
    ];
    for (algorithm, ssthresh) in Algorithm::ALL
        .into_iter()
        .flat_map(|algorithm| [MSS * 200, Bytes::MAX].map(|ssthresh| (algorithm, ssthresh)))
    {
        for pacing_rate in rates {
            let before = Verdict {
                cwnd: MSS * 300,
                ssthresh,
                pacing_rate,
                burst: MSS * 6,
            };
            let mut controller = algorithm.build(&Config::new(MSS));
            controller.adopt(&before);
            let after = controller.verdict();
            assert_eq!(after.cwnd, before.cwnd, "{algorithm}");
            let (was, is) = (
                pacing_rate.as_bytes_per_sec(),
                after.pacing_rate.as_bytes_per_sec(),
            );
            assert!(
                was.abs_diff(is) <= 1 + was / 1000,
                "{algorithm}: {was} → {is}"
            );
            controller.on_ack(&crate::support::ack(
                Instant::from_secs(1),
                Duration::from_millis(40),
            ));
            let measured = controller.verdict().pacing_rate;
            assert!(measured > Rate::mbit(1), "{algorithm}: {measured}");
        }
    }
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop::sample::select(Algorithm::ALL.to_vec())
}

/// Those with a window that losses reduce and PRR leads down.
fn window_based() -> impl Strategy<Value = Algorithm> {
    use Algorithm::{Cubic, CubicLinux, Dctcp, Prague, Reno};
    prop::sample::select(vec![Reno, Cubic, CubicLinux, Dctcp, Prague])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn verdicts_stay_within_bounds(
        algorithm in algorithm(), mss in 1..65_536_u64, events in prop::collection::vec(event(), 1..300)
    ) {
        let mss = Bytes::new(mss);
        let mut controller = algorithm.build(&Config::new(mss));
        let mut now = Instant::from_secs(10);
        for event in &events {
            apply(&mut *controller, event, &mut now);
            let verdict = controller.verdict();
            prop_assert!(verdict.cwnd >= mss && verdict.cwnd <= mss * (1 << 24), "{verdict:?}");
            prop_assert!(verdict.ssthresh >= mss * 2, "{verdict:?}");
            let burst = if algorithm == Algorithm::Prague { mss } else { mss * 2 };
            prop_assert!(verdict.burst >= burst, "{verdict:?}");
            prop_assert!(verdict.pacing_rate > Rate::ZERO, "{verdict:?}");
        }
    }

    #[test]
    fn windows_grow_only_when_they_may(algorithm in window_based(), events in prop::collection::vec(event(), 1..300)) {
        let mut controller = algorithm.build(&Config::new(MSS));
        let mut now = Instant::from_secs(10);
        let mut timed_out = false;
        // A mark or a local drop since the last acknowledgment. If it came while a loss was
        // repaired, that acknowledgment tells whether it began an episode.
        let mut signaled = false;
        for event in &events {
            let before = controller.verdict().cwnd;
            if let Event::Congestion { signal, .. } = event {
                timed_out = timed_out || *signal == Signal::Timeout;
                signaled |= matches!(signal, Signal::Ce | Signal::LocalDrop);
            }
            let ack = apply(&mut *controller, event, &mut now);
            let growth = controller.verdict().cwnd.saturating_sub(before);
            if let Some(ack) = ack {
                let recovering = ack.state != CongestionState::Open;
                timed_out &= recovering;
                // One that counts packets carries the rest of the last one.
                let carried = if algorithm == Algorithm::CubicLinux { MSS } else { Bytes::ZERO };
                prop_assert!(growth <= (ack.acked + carried).max(MSS), "{growth} for {}", ack.acked);
                // Prague answers marks itself, and they do not stop its growth. Both answer losses
                // while marks are answered.
                let marked = algorithm == Algorithm::Prague || algorithm == Algorithm::Dctcp && ack.state == CongestionState::Cwr;
                let begins = signaled && ack.state == CongestionState::Cwr;
                signaled = false;
                prop_assert!(marked || begins || controller.verdict().cwnd >= before, "an acknowledgment closed the window");
                let recovering = recovering && !(algorithm == Algorithm::Prague && ack.state == CongestionState::Cwr);
                prop_assert!(growth == Bytes::ZERO || ack.cwnd_limited, "not limited by the window");
                prop_assert!(growth == Bytes::ZERO || !recovering || timed_out, "PRR owns the window");
            }
            if let Event::Idle(_) = event {
                prop_assert_eq!(growth, Bytes::ZERO);
            }
        }
    }

    #[test]
    fn cuts_cut_and_undo_restores(algorithm in window_based(), events in prop::collection::vec(event(), 1..100)) {
        let mut controller = algorithm.build(&Config::new(MSS));
        let mut now = Instant::from_secs(10);
        for event in &events {
            apply(&mut *controller, event, &mut now);
        }
        controller.on_ack(&crate::support::ack(now, Duration::from_millis(10)));
        let prior = controller.verdict();
        controller.on_congestion(&crate::support::signal(now, Signal::Loss));
        let cut = controller.verdict();
        prop_assert!(cut.cwnd <= prior.cwnd.max(MSS * 2));
        prop_assert!(cut.ssthresh <= prior.cwnd.max(MSS * 2));
        controller.on_undo(now);
        prop_assert!(controller.verdict().cwnd >= prior.cwnd);
        prop_assert!(controller.verdict().ssthresh >= prior.ssthresh);
    }

    #[test]
    fn samples_are_never_faster_than_the_flight_was_sent(
        steps in prop::collection::vec((1..5_000_u64, 0..4_usize, 1..3_000_u64, any::<bool>()), 1..200)
    ) {
        let min_rtt = Duration::from_micros(1_000);
        let mut sampler = Sampler::default();
        let mut in_flight = std::collections::VecDeque::new();
        let (mut now, mut total) = (Instant::from_secs(1), Bytes::ZERO);
        for (gap, deliveries, len, app_limited) in steps {
            now += Duration::from_micros(gap);
            let sent = sampler.on_send(now, Bytes::new(len), in_flight.is_empty());
            in_flight.push_back((sent, Bytes::new(len)));
            if app_limited {
                sampler.mark_app_limited(in_flight.iter().map(|&(_, len)| len).sum());
            }
            now += Duration::from_micros(gap);
            let mut newest = NewestDelivered::default();
            for (sent, len) in in_flight.drain(..deliveries.min(in_flight.len())) {
                sampler.on_delivered(&mut newest, &sent, len, now);
                total += len;
            }
            prop_assert_eq!(sampler.delivered(), total);
            if let Some(sample) = sampler.on_ack(newest, now, min_rtt) {
                prop_assert!(sample.interval >= min_rtt);
                prop_assert!(sample.delivered <= total);
                prop_assert_eq!(sample.rate, Rate::from_amount(sample.delivered, sample.interval));
            }
        }
    }
}
