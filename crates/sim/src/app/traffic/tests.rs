use super::*;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// All that is due before `end`, asked whenever it says.
fn departures(traffic: &Traffic, begin: Instant, end: Instant) -> Vec<Instant> {
    let mut departures = Departures::new(traffic.clone(), begin);
    let mut all = Vec::new();
    while let Some(now) = departures.deadline().filter(|at| *at < end) {
        while let Some((due, number)) = departures.take(now) {
            assert_eq!(
                (due, number),
                (now, all.len() as u64),
                "asked when it said, it is not late"
            );
            all.push(due);
        }
    }
    all
}

#[test]
fn a_megabit_of_1000_bytes_is_one_every_8_ms() {
    let all = departures(&Traffic::new(Rate::mbit(1)), at(500), at(10_500));
    assert_eq!(
        (all.len(), all[0], all[1], all[1249]),
        (1250, at(500), at(508), at(10_492))
    );
}

#[test]
fn nothing_is_rounded_away() {
    // 1000 bytes at 3 bytes a microsecond: 333.333 µs.
    let all = departures(
        &Traffic::new(Rate::bytes_per_sec(3_000_000)),
        at(0),
        at(10_000),
    );
    assert_eq!(
        (all.len(), all[3], all[29_999]),
        (30_000, at(1), Instant::from_nanos(9_999_666_666))
    );
}

#[test]
fn bursts_share_out_one_clock_of_on() {
    // On for 20 ms, off for 30: messages at 0, 8, 16 of the first 20 ms of on, then at 24, 32 and
    // 40 (the third's beginning).
    let traffic = Traffic::on_off(Rate::mbit(1), Period::Fixed(ms(20)), Period::Fixed(ms(30)));
    let all = departures(&traffic, at(0), at(110));
    assert_eq!(all, [0, 8, 16, 54, 62, 100, 108].map(at));
}

#[test]
fn exponential_bursts_have_their_duty_cycle_and_repeat_by_seed() {
    let (on, off) = (Period::Exponential(ms(50)), Period::Exponential(ms(150)));
    let traffic = Traffic::on_off(Rate::mbit(1), on, off);
    let all = departures(&traffic, at(0), at(1_000_000));
    // A quarter of 125 000. Of 5000 cycles the share of on has a standard deviation of about 1.06 %
    // of itself.
    assert!((30_000..32_500).contains(&all.len()), "{}", all.len());
    assert_eq!(departures(&traffic, at(0), at(1_000_000)), all);
    assert_ne!(
        departures(&Traffic { seed: 2, ..traffic }, at(0), at(10_000)),
        all
    );
}

#[test]
fn a_count_ends_it() {
    let traffic = Traffic {
        count: Some(3),
        ..Traffic::new(Rate::mbit(1))
    };
    assert_eq!(departures(&traffic, at(0), at(1_000)), [0, 8, 16].map(at));
}

#[test]
fn what_a_short_pause_held_back_is_made_up_for_and_a_long_one_forgiven() {
    let mut departures = Departures::new(Traffic::new(Rate::mbit(1)), at(0));
    let mut late = |now| std::iter::from_fn(|| departures.take(now)).count();
    assert_eq!(late(at(800)), 101);
    assert_eq!(late(at(3_600_000)), 1, "only the one that is due now");
    assert_eq!(late(at(3_600_008)), 1);
    assert_eq!(late(at(100)), 0, "time stepped back");
    assert_eq!(late(END_OF_TIME), 0, "time is over");
}

#[test]
fn nonsense_is_refused() {
    let good = Traffic::new(Rate::mbit(1));
    let nothing = Period::Fixed(Duration::ZERO);
    for traffic in [
        Traffic::new(Rate::ZERO),
        Traffic {
            size: Bytes::new(15),
            ..good.clone()
        },
        Traffic {
            size: Bytes::mib(1),
            ..good.clone()
        },
        Traffic::on_off(Rate::mbit(1), nothing, nothing),
    ] {
        assert!(traffic.check().is_err(), "{traffic:?}");
    }
    assert_eq!(good.check(), Ok(()));
    assert_eq!(
        Traffic::on_off(Rate::mbit(1), Period::Exponential(ms(1)), nothing).check(),
        Ok(())
    );
}

#[test]
fn a_stamp_reads_as_it_was_written() {
    let mut message = [0; 20];
    stamp(&mut message, at(7), u64::MAX);
    assert_eq!(read_stamp(&message), Some((at(7), u64::MAX)));
    assert_eq!(read_stamp(&message[..15]), None);
}
