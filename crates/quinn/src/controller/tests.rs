use std::collections::VecDeque;

use super::sent::MOST;
use super::*;
use crate::ControllerConfig;
use tautline_base::Rate;
use tautline_cc::Algorithm;

const MTU: u64 = 1200;
const RTT: u64 = 20;
const ALGORITHMS: [Algorithm; 10] = [
    Algorithm::Reno,
    Algorithm::Cubic,
    Algorithm::CubicSearch,
    Algorithm::CubicLinux,
    Algorithm::Bbr,
    Algorithm::BbrnAqm,
    Algorithm::Bbrn2023,
    Algorithm::BbrnFirst,
    Algorithm::Bbr3,
    Algorithm::Bbr3Linux,
];

/// An adapter, the clock's origin, and what a path would hold: packets sent and not yet
/// acknowledged.
struct Path {
    adapter: Adapter,
    epoch: StdInstant,
    in_flight: u64,
}

impl Path {
    #[expect(
        clippy::disallowed_methods,
        reason = "quinn's clock is std's, which has no other way to an instant"
    )]
    fn new(algorithm: Algorithm) -> Self {
        let epoch = StdInstant::now();
        let adapter = Adapter::new(algorithm.factory(), Config::new(Bytes::new(MTU)), epoch);
        Self {
            adapter,
            epoch,
            in_flight: 0,
        }
    }

    fn at(&self, ms: u64) -> StdInstant {
        self.epoch + Duration::from_millis(ms)
    }

    fn send(&mut self, ms: u64, packets: u64) {
        self.adapter.on_sent(self.at(ms), packets * MTU, 0);
        self.in_flight += packets * MTU;
    }

    fn ack(&mut self, ms: u64, sent: u64, packets: u64, app_limited: bool) {
        for _ in 0..packets {
            let rtt = Duration::from_millis(RTT);
            self.adapter.acked(
                Instant::from_millis(ms),
                Instant::from_millis(sent),
                Bytes::new(MTU),
                rtt,
            );
        }
        self.in_flight -= packets * MTU;
        self.adapter
            .on_end_acks(self.at(ms), self.in_flight, app_limited, None);
    }

    fn lose(&mut self, ms: u64, sent: u64, packets: u64, persistent: bool) {
        self.in_flight -= packets * MTU;
        self.adapter
            .on_congestion_event(self.at(ms), self.at(sent), persistent, packets * MTU);
    }

    fn packets(&self) -> u64 {
        self.adapter.window() / MTU
    }
}

#[test]
fn acknowledgments_open_the_window_and_a_limit_of_the_application_does_not() {
    for (app_limited, packets) in [(false, 20), (true, 10)] {
        let mut path = Path::new(Algorithm::Reno);
        path.send(1, 10);
        path.ack(21, 1, 10, app_limited);
        assert_eq!(path.packets(), packets);
    }
}

#[test]
fn a_loss_halves_once_per_round_trip() {
    let mut path = Path::new(Algorithm::Reno);
    path.send(1, 10);
    path.ack(21, 1, 10, false);
    path.send(21, 20);
    path.lose(41, 21, 2, false);
    assert_eq!(path.packets(), 10);
    path.send(42, 1);
    path.lose(43, 21, 1, false);
    assert_eq!(path.packets(), 10, "sent before the reduction");
    path.ack(44, 21, 10, false);
    assert_eq!(path.packets(), 10, "no growth until the reduction was felt");
    path.lose(70, 42, 1, false);
    assert_eq!(path.packets(), 5, "sent after it");
}

#[test]
fn growth_goes_on_when_something_sent_after_the_loss_is_acknowledged() {
    let mut path = Path::new(Algorithm::Reno);
    path.send(1, 10);
    path.lose(21, 1, 1, false);
    assert_eq!(path.packets(), 5);
    path.send(22, 5);
    path.ack(42, 22, 5, false);
    assert_eq!(
        path.packets(),
        6,
        "a window was acknowledged in congestion avoidance"
    );
}

#[test]
fn marks_cut_as_losses_do_and_lose_nothing() {
    let mut path = Path::new(Algorithm::Cubic);
    path.send(1, 10);
    path.lose(21, 1, 0, false);
    assert_eq!(path.packets(), 7);
    assert_eq!(path.adapter.lost, Bytes::ZERO);
}

#[test]
fn persistent_congestion_leaves_two_packets_even_in_the_round_of_a_loss() {
    let mut path = Path::new(Algorithm::Cubic);
    path.send(1, 10);
    path.lose(21, 1, 1, false);
    path.lose(22, 1, 9, true);
    assert_eq!(path.adapter.window(), 2 * MTU);
    path.adapter.on_mtu_update(1452);
    assert_eq!(
        path.adapter.window(),
        2 * 1452,
        "quinn needs room for more than one datagram"
    );
}

/// RFC 9002 §7.6.2.
#[test]
fn persistent_congestion_leaves_two_packets_whatever_was_sent_since() {
    for algorithm in ALGORITHMS {
        let mut path = Path::new(algorithm);
        path.send(1, 10);
        path.send(500, 40);
        path.lose(600, 1, 10, true);
        assert_eq!(path.adapter.window(), 2 * MTU, "{algorithm}");
    }
}

/// quinn sends a burst at one instant, and the peer acknowledges it piece by piece: eight samples in
/// which the round trip grows by half make HyStart++ careful.
#[test]
fn every_acknowledgment_of_a_burst_is_a_sample_of_the_round_trip() {
    let mut path = Path::new(Algorithm::Cubic);
    for (sent, acked, packets) in [(1, 21, 10), (22, 52, 8)] {
        path.send(sent, packets);
        for _ in 0..packets {
            path.ack(acked, sent, 1, false);
        }
    }
    let model = path.adapter.controller.get_mut().unwrap().model();
    assert_eq!(model.state, "conservative-slow-start");
}

#[test]
fn an_acknowledgment_of_something_older_is_no_sample() {
    let mut path = Path::new(Algorithm::Bbr);
    path.send(1, 2);
    path.send(10, 1);
    path.ack(30, 10, 1, false);
    path.ack(90, 1, 1, false);
    assert_eq!(path.adapter.srtt, Duration::from_millis(20));
    assert_eq!(path.adapter.min_rtt, Some(Duration::from_millis(20)));
}

#[test]
fn a_copy_for_another_path_goes_on_from_the_window() {
    for algorithm in ALGORITHMS {
        let mut path = Path::new(algorithm);
        path.send(1, 10);
        path.ack(21, 1, 10, false);
        path.send(21, 10);
        path.lose(41, 21, 1, false);
        let copy = path.adapter.clone_box();
        assert_eq!(copy.window(), path.adapter.window(), "{algorithm}");
        assert_eq!(copy.initial_window(), 10 * MTU);
        assert!(
            copy.into_any()
                .downcast::<Adapter>()
                .unwrap()
                .sent
                .find(Instant::from_millis(21))
                .is_none()
        );
    }
}

#[test]
fn the_delivery_rate_reaches_bbr() {
    let mut path = Path::new(Algorithm::Bbr);
    path.send(1, 10);
    for ms in 1..200 {
        // Ten packets per round trip of 20 ms: 600 kB/s.
        if ms % 2 == 1 && ms >= 21 {
            path.ack(ms, if ms < 41 { 1 } else { ms - RTT }, 1, false);
            path.send(ms, 1);
        }
    }
    let model = path.adapter.controller.get_mut().unwrap().model();
    assert_eq!(model.bandwidth, Some(Rate::bytes_per_sec(600_000)));
    assert_eq!(model.min_rtt, Some(Duration::from_millis(RTT)));
}

/// Flight in packets after three seconds at a bottleneck of a packet per millisecond, 20 ms away:
/// 20 packets fill it.
fn flight_at_a_bottleneck(algorithm: Algorithm) -> u64 {
    let mut path = Path::new(algorithm);
    let mut queue = VecDeque::new();
    let mut free_at = 0;
    for ms in 1..3000 {
        while queue.front().is_some_and(|&(_, acked_at)| acked_at <= ms) {
            let (sent, _) = queue.pop_front().unwrap();
            path.ack(ms, sent, 1, false);
        }
        while path.in_flight + MTU < path.adapter.window() {
            path.send(ms, 1);
            free_at = ms.max(free_at) + 1;
            queue.push_back((ms, free_at + RTT - 1));
        }
    }
    path.in_flight / MTU
}

#[test]
fn bbr_drains_what_its_start_queued() {
    // The path holds 20 packets; by its window alone BBR never leaves the drain, with 65 in flight.
    let flight = flight_at_a_bottleneck(Algorithm::Bbr);
    assert!((15..=30).contains(&flight), "{flight} packets in flight");
}

#[test]
fn idling_shrinks_the_window() {
    let mut path = Path::new(Algorithm::Cubic);
    path.send(1, 10);
    path.ack(21, 1, 10, false);
    assert_eq!(path.packets(), 20);
    path.send(10_000, 1);
    assert_eq!(path.packets(), 10);
}

#[test]
fn what_was_sent_long_ago_is_forgotten_and_what_is_never_acknowledged_is_bounded() {
    let mut path = Path::new(Algorithm::Cubic);
    path.send(1, 1);
    path.send(30, 1);
    path.ack(50, 30, 1, false);
    assert!(
        path.adapter.sent.find(Instant::from_millis(1)).is_none(),
        "older than two round trips"
    );
    for ms in 0..2 * MOST as u64 {
        path.send(100 + ms, 1);
    }
    assert!(
        path.adapter
            .sent
            .find(Instant::from_millis(99 + MOST as u64))
            .is_none()
    );
    assert!(
        path.adapter
            .sent
            .find(Instant::from_millis(100 + MOST as u64))
            .is_some()
    );
}

#[test]
fn a_burst_is_one_record_and_its_flight_counts_all_of_it() {
    let mut path = Path::new(Algorithm::Cubic);
    path.send(5, 10);
    path.send(5, 3);
    assert_eq!(
        path.adapter
            .sent
            .find(Instant::from_millis(7))
            .unwrap()
            .in_flight,
        Bytes::new(13 * MTU)
    );
}

#[test]
fn times_and_sizes_that_cannot_be_are_survived() {
    for algorithm in ALGORITHMS {
        let mut path = Path::new(algorithm);
        let times = [0, 7, 3, u64::from(u32::MAX), 1];
        for (i, ms) in times.into_iter().cycle().take(100).enumerate() {
            let (now, bytes) = (path.at(ms), [0, 1, u64::MAX][i % 3]);
            path.adapter.on_sent(now, bytes, 0);
            path.adapter.acked(
                Instant::from_millis(ms),
                Instant::from_millis(9),
                Bytes::new(bytes),
                Duration::ZERO,
            );
            path.adapter.on_end_acks(now, bytes, i % 2 == 0, None);
            path.adapter
                .on_congestion_event(now, path.epoch, i % 5 == 0, bytes);
            path.adapter.on_mtu_update(0);
        }
        assert!(path.adapter.metrics().pacing_rate.is_some());
    }
}

#[test]
fn controllers_that_need_the_share_of_marks_are_refused() {
    for algorithm in Algorithm::ALL {
        assert_eq!(
            ControllerConfig::new(algorithm).is_ok(),
            ALGORITHMS.contains(&algorithm),
            "{algorithm}"
        );
    }
}
