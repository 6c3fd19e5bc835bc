use tautline_cc::{Algorithm, Sampler};

use super::*;
use crate::config::RackRtt;
use crate::tcp::send::flight::congestion::Congestion;

fn with_losses<T>(sampler: &mut Sampler, act: impl FnOnce(&mut Losses<'_>) -> T) -> T {
    let config = tautline_cc::Config::new(Bytes::new(1000));
    let pacer = tautline_cc::PacerConfig::default();
    let mut congestion = Congestion::new(&Algorithm::Reno.factory(), &config, pacer);
    std::mem::swap(sampler, &mut congestion.sampler);
    let result = act(&mut Losses {
        now: Instant::ZERO,
        congestion: &mut congestion,
    });
    std::mem::swap(sampler, &mut congestion.sampler);
    result
}

/// Bytes newly lost, and when to look again.
fn detect_lost(
    segments: &mut Segments,
    sampler: &mut Sampler,
    now: Instant,
    window: ReorderingWindow,
) -> (Bytes, Option<Instant>) {
    let found = with_losses(sampler, |losses| segments.detect_lost(now, window, losses));
    (found.bytes, found.recheck_at)
}

fn sent(sampler: &mut Sampler, at: Instant) -> SentRate {
    sampler.on_send(at, Bytes::new(1000), false)
}

/// An acknowledgment without timestamps.
fn plain(now: Instant) -> Arrival {
    Arrival {
        now,
        echo: None,
        mss: 1000,
        min_rtt: Duration::ZERO,
        rack_rtt: RackRtt::Newest,
    }
}

fn at(millis: u64) -> Arrival {
    plain(Instant::from_millis(millis))
}

fn window(min_rtt: u64, srtt: u64) -> ReorderingWindow {
    ReorderingWindow {
        min_rtt: Duration::from_millis(min_rtt),
        srtt: Duration::from_millis(srtt),
        in_recovery: false,
        policy: Reordering::Adaptive,
    }
}

/// Four segments of 1000 bytes sent at 0, 1, 2, 3 ms.
fn four(sampler: &mut Sampler) -> Segments {
    let mut segments = Segments::default();
    for i in 0..4 {
        let record = sent(sampler, Instant::from_millis(i));
        let id = segments.push(1 + i * 1000..1001 + i * 1000, false, record);
        segments.left_host(id, 1);
    }
    segments
}

#[test]
fn rack_example_of_the_spec() {
    // By hand after RFC 8985 §6.2: P1 lost; SACK(P2) at 41 ms arms the timer for 52 ms; SACK(P4) at
    // 43 ms makes three, P1 is lost.
    let mut sampler = Sampler::default();
    let mut segments = four(&mut sampler);
    let mut delivery = Delivery::default();
    segments.sack(1001..2001, at(41), &mut sampler, &mut delivery);
    assert_eq!(
        detect_lost(
            &mut segments,
            &mut sampler,
            Instant::from_millis(41),
            window(40, 50)
        ),
        (Bytes::ZERO, Some(Instant::from_millis(52)))
    );
    segments.sack(2001..3001, at(42), &mut sampler, &mut delivery);
    segments.sack(3001..4001, at(43), &mut sampler, &mut delivery);
    assert_eq!(
        detect_lost(
            &mut segments,
            &mut sampler,
            Instant::from_millis(43),
            window(40, 50)
        ),
        (Bytes::new(1000), None)
    );
    assert_eq!(segments.in_flight(), 0);
    assert_eq!(delivery.bytes, Bytes::new(3000));
}

/// One acknowledgment delivers P1, which was sent again at 100 ms, and P2, sent at 1 ms, cumulatively,
/// and P4, sent at 3 ms, selectively. Linux takes P4 in first and P2 last.
#[test]
fn the_round_trip_is_that_of_the_newest_segment_or_of_the_last_taken() {
    for (rack_rtt, millis) in [(RackRtt::Newest, 45), (RackRtt::LastTaken, 144)] {
        let mut sampler = Sampler::default();
        let mut segments = four(&mut sampler);
        with_losses(&mut sampler, |losses| segments.lose_head(losses));
        let again = sent(&mut sampler, Instant::from_millis(100));
        segments.retransmitted(id(0), again, 100);
        let arrival = Arrival {
            rack_rtt,
            ..at(145)
        };
        let mut delivery = segments.acknowledge(2001, arrival, &mut sampler);
        segments.sack(3001..4001, arrival, &mut sampler, &mut delivery);
        assert_eq!(segments.rack.rtt, Duration::from_millis(millis));
        assert_eq!(sacked_runs(&segments), 1);
    }
}

#[test]
fn reordering_widens_the_window() {
    let mut sampler = Sampler::default();
    let mut segments = four(&mut sampler);
    let mut delivery = Delivery::default();
    let now = Instant::from_millis(43);
    segments.sack(3001..4001, plain(now), &mut sampler, &mut delivery);
    segments.sack(2001..3001, plain(now), &mut sampler, &mut delivery);
    segments.sack(1001..2001, plain(now), &mut sampler, &mut delivery);
    let (lost, timer) = detect_lost(&mut segments, &mut sampler, now, window(40, 50));
    assert_eq!(
        lost,
        Bytes::ZERO,
        "segments arrived out of order: three SACKs prove nothing"
    );
    assert_eq!(timer, Some(Instant::from_millis(52)));
}

#[test]
fn a_lost_segment_waits_for_its_copy_to_leave_the_host() {
    let mut sampler = Sampler::default();
    let mut segments = Segments::default();
    let record = sent(&mut sampler, Instant::ZERO);
    let id = segments.push(1..1001, false, record);
    with_losses(&mut sampler, |losses| segments.lose_head(losses));
    assert_eq!(segments.next_lost(), None);
    segments.left_host(id, 1);
    assert_eq!(segments.next_lost(), Some((id, 1..1001, false)));
    segments.retransmitted(id, record, 0);
    assert_eq!(segments.in_flight(), 1000);
    assert_eq!(segments.next_lost(), None);
}

/// The head is sent again at 100 ms; an acknowledgment of its original comes 45 ms later, no
/// sooner than a round trip. If it were taken for the retransmission's, everything sent before 100
/// ms would count as lost.
#[test]
fn an_echo_older_than_the_retransmission_is_of_the_original() {
    for (echo, lost) in [(Some(99), 0), (Some(100), 3000), (None, 3000)] {
        let mut sampler = Sampler::default();
        let mut segments = four(&mut sampler);
        with_losses(&mut sampler, |losses| segments.lose_head(losses));
        let again = sent(&mut sampler, Instant::from_millis(100));
        segments.retransmitted(id(0), again, 100);
        let now = Instant::from_millis(145);
        segments.acknowledge(
            1001,
            Arrival {
                echo,
                min_rtt: Duration::from_millis(40),
                ..plain(now)
            },
            &mut sampler,
        );
        assert_eq!(
            detect_lost(&mut segments, &mut sampler, now, window(40, 50)).0,
            Bytes::new(lost),
            "{echo:?}"
        );
    }
}

#[test]
fn numbers_survive_their_wrap() {
    let mut sampler = Sampler::default();
    let mut segments = Segments {
        first: NUMBER_MASK - 1,
        ..Segments::default()
    };
    for i in 0..4u64 {
        let record = sent(&mut sampler, Instant::from_millis(i));
        let id = segments.push(i..i + 1, false, record);
        assert_eq!(segments.position(id), Some(i as usize));
    }
    segments.acknowledge(3, at(9), &mut sampler);
    assert_eq!(
        (segments.first, segments.len(), segments.in_flight()),
        (1, 1, 1)
    );
}

#[test]
fn partial_coverage_by_sack_delivers_only_whole_segments() {
    let mut sampler = Sampler::default();
    let mut segments = four(&mut sampler);
    let mut delivery = Delivery::default();
    let now = Instant::from_millis(50);
    segments.sack(1500..2500, plain(now), &mut sampler, &mut delivery);
    assert_eq!(delivery.bytes, Bytes::ZERO);
    segments.sack(1001..1600, plain(now), &mut sampler, &mut delivery);
    assert_eq!(delivery.bytes, Bytes::new(1000));
    assert_eq!(sacked_count(segments.holes.as_deref()), 1);
}

/// Each byte of a segment is delivered once, to recovery and to the delivery rate alike, in whatever
/// parts the segment is acknowledged, and whether or not it was reported before.
#[test]
fn a_byte_is_delivered_once() {
    for is_reported in [false, true] {
        let mut sampler = Sampler::default();
        let mut segments = four(&mut sampler);
        let mut delivered = 0;
        if is_reported {
            let mut delivery = Delivery::default();
            segments.sack(1001..2001, at(41), &mut sampler, &mut delivery);
            delivered += delivery.bytes.get();
        }
        for una in [1001, 1400, 1900, 2001, 2500, 4001] {
            let delivery = segments.acknowledge(una, at(50), &mut sampler);
            delivered += delivery.bytes.get();
        }
        assert_eq!(
            (delivered, sampler.delivered()),
            (4000, Bytes::new(4000)),
            "{is_reported}"
        );
        assert_eq!((segments.in_flight(), segments.sacked_bytes()), (0, 0));
    }
}

#[test]
fn a_timeout_condemns_the_head_and_what_rack_has_no_patience_for() {
    let mut sampler = Sampler::default();
    let mut segments = four(&mut sampler);
    // A round trip of 200 ms is known; the head was sent at 0, the last segment at 150 ms.
    segments.rack.rtt = Duration::from_millis(200);
    let late = sent(&mut sampler, Instant::from_millis(150));
    segments.push(4001..5001, false, late);
    with_losses(&mut sampler, |losses| {
        segments.time_out(Instant::from_millis(300), window(40, 50), losses)
    });
    assert_eq!(
        (segments.lost_count, segments.in_flight()),
        (4, 1000),
        "what was sent 150 ms ago may still arrive"
    );
    segments.rack.rtt = Duration::from_secs(1);
    let mut segments = four(&mut sampler);
    segments.rack.rtt = Duration::from_secs(1);
    with_losses(&mut sampler, |losses| {
        segments.time_out(Instant::from_millis(300), window(40, 50), losses)
    });
    assert_eq!(segments.lost_count, 1, "the head in any case");
}

#[test]
fn a_timeout_with_a_sacked_head_trusts_no_sack() {
    let mut sampler = Sampler::default();
    let mut segments = four(&mut sampler);
    segments.sack(1..2001, at(41), &mut sampler, &mut Delivery::default());
    with_losses(&mut sampler, |losses| {
        segments.time_out(Instant::from_millis(300), window(40, 50), losses)
    });
    assert_eq!(
        (
            segments.lost_count,
            segments.in_flight(),
            segments.sacked_bytes()
        ),
        (4, 0, 0)
    );
    assert!(segments.holes.get_or_insert_default().sacked.is_empty());
}

#[test]
fn accounts_agree_with_the_records() {
    let mut sampler = Sampler::default();
    let mut segments = four(&mut sampler);
    with_losses(&mut sampler, |losses| segments.lose_head(losses));
    assert_eq!(
        (segments.again(), segments.any_lost(), segments.in_flight()),
        (0, true, 3000)
    );
    let again = sent(&mut sampler, Instant::from_millis(50));
    segments.retransmitted(id(0), again, 50);
    assert_eq!(
        (segments.again(), segments.any_lost(), segments.in_flight()),
        (1, false, 4000)
    );
    assert!(
        segments.is_retransmitted(1001)
            && !segments.is_retransmitted(2001)
            && !segments.is_retransmitted(9001)
    );
    // A probe of the tail is sent although nothing is lost.
    segments.retransmitted(id(3), again, 50);
    assert_eq!((segments.again(), segments.in_flight()), (2, 4000));
    segments.acknowledge(1501, at(60), &mut sampler);
    assert_eq!((segments.again(), segments.in_flight()), (1, 2500));
    segments.acknowledge(4001, at(60), &mut sampler);
    assert_eq!(
        (segments.again(), segments.in_flight(), segments.any_lost()),
        (0, 0, false)
    );
}

/// Without SACK nobody looks for losses in the list of transmissions.
#[test]
fn the_list_of_transmissions_does_not_grow_for_ever() {
    let mut sampler = Sampler::default();
    let mut segments = Segments::default();
    for i in 0..1000 {
        let record = sent(&mut sampler, Instant::from_millis(i));
        segments.push(i * 1000..(i + 1) * 1000, false, record);
        segments.acknowledge(i * 1000, at(i), &mut sampler);
        assert!(segments.order.list().len() <= 2);
    }
}

#[test]
fn unnamed_arrivals_leave_room_for_a_hole() {
    let mut sampler = Sampler::default();
    let mut segments = four(&mut sampler);
    for (reno_limit, in_flight) in [(true, 3000), (true, 2000), (true, 1000), (false, 1000)] {
        assert_eq!(
            (segments.add_reno_sack(1000), segments.in_flight()),
            (reno_limit, in_flight)
        );
    }
    // The hole is filled by a retransmission: it and one of the unnamed segments are acknowledged.
    segments.acknowledge(2001, at(60), &mut sampler);
    assert_eq!(segments.remove_reno_sacks(2, true), 1000);
    assert_eq!(segments.in_flight(), 1000, "one hole of two segments");
    assert_eq!(segments.remove_reno_sacks(0, false), 1000);
    assert_eq!(segments.in_flight(), 2000);
}

/// Issue 16.4: what comes late, behind a segment that was sent later, shows how long the path takes
/// now. With the round trip of the one before it, the first segment would be lost at 57 ms.
#[test]
fn the_round_trip_follows_every_delivery() {
    let mut sampler = Sampler::default();
    let mut segments = four(&mut sampler);
    let mut delivery = Delivery::default();
    segments.sack(3001..4001, at(50), &mut sampler, &mut delivery);
    let mut late = Delivery::default();
    segments.sack(1001..2001, at(58), &mut sampler, &mut late);
    let now = Instant::from_millis(58);
    let (lost, recheck) = detect_lost(&mut segments, &mut sampler, now, window(40, 40));
    assert_eq!(lost, Bytes::ZERO);
    // Sent at 0 ms, a round trip of 57 ms, a quarter of the lowest one.
    assert_eq!(recheck, Some(Instant::from_millis(57 + 10) + TIMER_SLACK));
}

/// Segments of one departure, acknowledged at once, leave the state that they leave when each has a
/// departure of its own a nanosecond after the one before: all but the times is equal.
#[test]
fn segments_of_one_departure_are_acknowledged_as_others_are() {
    let acknowledged = |spacing: u64, until: u64, sacked: bool| {
        let mut sampler = Sampler::default();
        let mut segments = Segments::default();
        for place in 0..6 {
            let record = sent(&mut sampler, Instant::from_nanos(1_000 + place * spacing));
            let id = segments.push(1 + place * 1000..1001 + place * 1000, false, record);
            segments.left_host(id, 1);
        }
        let mut delivery = Delivery::default();
        if sacked {
            segments.sack(2001..3001, at(39), &mut sampler, &mut delivery);
        }
        let delivery = segments.acknowledge(until, at(40), &mut sampler);
        let next = segments.position(segments.next_id());
        (
            (
                delivery.bytes,
                delivery.packets,
                delivery.original,
                delivery.alone,
            ),
            (segments.una(), segments.in_flight(), segments.len(), next),
            (
                segments.rack.highest,
                segments.rack.newest.map(|(_, end)| end),
            ),
            (
                segments.reordering(),
                segments.sacked_bytes(),
                segments.again(),
            ),
            (segments.number(0), sampler.delivered()),
        )
    };
    for sacked in [false, true] {
        for until in [1, 1001, 1500, 2001, 4001, 6001] {
            assert_eq!(
                acknowledged(0, until, sacked),
                acknowledged(1, until, sacked),
                "up to {until}"
            );
        }
    }
    let (delivered, (_, in_flight, left, _), ..) = acknowledged(0, 4001, false);
    assert_eq!(delivered, (Bytes::new(4000), 4, Some(1001), false));
    assert_eq!((in_flight, left), (2000, 2));
}

/// A block must lie above SND.UNA and end at SND.NXT.
#[test]
fn blocks_outside_of_what_is_outstanding_are_ignored() {
    let mut sampler = Sampler::default();
    let mut segments = four(&mut sampler);
    let mut take = |range: Range<u64>| {
        let blocks = [Some(range), None, None, None];
        let mut delivery = Delivery::default();
        segments.apply_sack(&blocks, at(10), &mut sampler, &mut delivery);
        segments.sacked_bytes()
    };
    for ignored in [3001..4002, 0..1001, 0..5000, 3001..3001] {
        assert_eq!(take(ignored.clone()), 0, "{ignored:?}");
    }
    assert_eq!(take(3001..4001), 1000);
}
