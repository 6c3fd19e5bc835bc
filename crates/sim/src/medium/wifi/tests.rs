//! Tests of a Wi-Fi cell: time on the air by hand, aggregates and their limits, failures, turns.

use std::time::Duration;

use rand_pcg::Pcg32;
use tautline_base::{Bytes, Instant, Rate};

use super::*;
use crate::medium::Medium;
use crate::medium::bench::Bench;
use crate::nic::{Coalesce, NicConfig};
use crate::probability::Probability;

/// A cell with rings of the default length.
fn cell(config: WifiConfig, stations: &[Option<Phy>]) -> Bench {
    let wifi = Wifi::new(config, stations, Pcg32::new(7, 7)).expect("valid");
    let nic = NicConfig {
        coalesce: Coalesce::OFF,
        ..NicConfig::default()
    };
    Bench::new(wifi, nic)
}

impl Bench {
    fn wifi(&self) -> &Wifi {
        let Medium::Wifi(wifi) = &self.medium else {
            unreachable!("it was made of one")
        };
        wifi
    }

    fn sizes(&self, nic: usize) -> Vec<(usize, u64)> {
        let sizes = self
            .wifi()
            .nic_stats(nic)
            .expect("it exists")
            .sizes
            .iter()
            .copied()
            .enumerate();
        sizes.filter(|(_, count)| *count > 0).collect()
    }
}

/// Without chance: AIFS 43 µs and a backoff of 67.5 µs before each transmission.
fn calm(config: WifiConfig) -> WifiConfig {
    let access = Access {
        backoff: Backoff::Mean,
        ..Access::default()
    };
    WifiConfig { access, ..config }
}

fn close(rate: Rate, mbit: f64) -> bool {
    let measured = rate.as_bits_per_sec() as f64 / 1e6;
    (measured / mbit - 1.0).abs() < 0.005
}

/// A full frame of 1514 bytes is 1560 in an aggregate: 1500 + 26 + 8 + 4 + 16, a delimiter of 4,
/// padded. 802.11n at 144.4 Mbit/s: 520 bits in 3.6 µs; 42 frames fit 65 535 bytes: 1009 symbols,
/// 3632.4 µs, so 3636, and 40 of preamble. SIFS and Block ACK are 48. So 3834.5 µs carry 42 × 1514
/// bytes: 132.66 Mbit/s.
#[test]
fn throughput_of_full_aggregates_is_the_one_computed_by_hand() {
    let mut bench = cell(calm(WifiConfig::n()), &[None]);
    let rates = bench.saturate(&[0], (1514, 0), Duration::from_secs(1));
    assert!(close(rates[0], 132.66), "{}", rates[0]);
    assert_eq!(bench.sizes(0), [(42, bench.wifi().stats().transmissions)]);
}

/// The same without aggregation: 1554 bytes, 24 symbols, 88 µs and 40; SIFS and ACK 44; 110.5
/// before: 282.5 µs for each.
#[test]
fn without_aggregation_the_overhead_is_for_each_frame() {
    let config = WifiConfig {
        aggregate: Aggregate::OFF,
        ..WifiConfig::n()
    };
    let mut bench = cell(calm(config), &[None]);
    let rates = bench.saturate(&[0], (1514, 0), Duration::from_secs(1));
    assert!(close(rates[0], 1514.0 * 8.0 / 282.5), "{}", rates[0]);
}

/// The ring occupancy when the channel is won determines the aggregate: a transmission of `n`
/// frames takes 110.5 + 40 + 48 µs (44 if `n` is 1) and 24 symbols for each frame, about.
#[test]
fn throughput_rises_with_the_frames_that_are_ready() {
    let mut before = 0.0;
    for frames in [1, 2, 4, 8, 16, 32] {
        let config = WifiConfig {
            aggregate: Aggregate {
                frames,
                ..Aggregate::N
            },
            ..WifiConfig::n()
        };
        let mut bench = cell(calm(config.clone()), &[None]);
        let measured = bench.saturate(&[0], (1514, 0), Duration::from_millis(500))[0]
            .as_bits_per_sec() as f64
            / 1e6;
        let bytes = Bytes::new(config.subframe(Bytes::new(1514)).get() * frames as u64);
        let cycle =
            Duration::from_nanos(110_500) + config.phy.duration(bytes) + config.response(frames);
        let expected = frames as f64 * 1514.0 * 8.0 / cycle.as_secs_f64() / 1e6;
        assert!(
            (measured / expected - 1.0).abs() < 0.01,
            "{frames}: {measured} against {expected}"
        );
        assert!(measured > before);
        before = measured;
    }
    assert!(before > 120.0);
}

/// 802.11ac at 433.3 Mbit/s: 64 frames are 99 840 bytes, 513 symbols, 1846.8 µs, so 1848, and 40;
/// with 110.5 and 48: 2046.5 µs.
#[test]
fn an_ac_aggregate_ends_at_the_block_ack_window_or_at_the_time_limit() {
    let mut bench = cell(calm(WifiConfig::ac()), &[None]);
    let rates = bench.saturate(&[1], (1514, 0), Duration::from_secs(1));
    assert!(
        close(rates[1], 64.0 * 1514.0 * 8.0 / 2046.5),
        "{}",
        rates[1]
    );
    // 16 symbols a frame of 1560 bytes on 65 Mbit/s would be 48 × 4 µs: 5 ms hold 25.
    let slow = Phy {
        streams: 1,
        guard: Guard::Long,
        ..Phy::N_2X2_20
    };
    let time = Duration::from_millis(5);
    let config = WifiConfig {
        phy: slow,
        aggregate: Aggregate {
            time,
            ..Aggregate::AC
        },
        ..WifiConfig::n()
    };
    let mut bench = cell(calm(config), &[None]);
    bench.saturate(&[0], (1514, 0), Duration::from_millis(200));
    let [(frames, _)] = bench.sizes(0)[..] else {
        panic!("all of one size: {:?}", bench.sizes(0))
    };
    assert!(slow.duration(Bytes::new(1560 * frames as u64)) <= time);
    assert!(slow.duration(Bytes::new(1560 * (frames as u64 + 1))) > time);
    assert_eq!(frames, 25);
}

#[test]
fn a_first_frame_always_goes() {
    let aggregate = Aggregate {
        bytes: Bytes::new(1),
        time: Duration::from_nanos(1),
        ..Aggregate::N
    };
    let mut bench = cell(
        WifiConfig {
            aggregate,
            ..WifiConfig::n()
        },
        &[None],
    );
    bench.put(0, 3, 1514);
    while bench.step().is_some() {}
    assert_eq!(
        (bench.sizes(0), bench.bytes(0, 0)),
        (vec![(1, 3)], 3 * 1514)
    );
}

#[test]
fn a_quiet_cell_plans_nothing_and_a_latecomer_waits_for_nobody() {
    let mut bench = cell(calm(WifiConfig::n()), &[None]);
    assert_eq!(bench.step(), None);
    bench.now = Instant::from_secs(5);
    bench.put(0, 1, 114);
    bench.step();
    // 154 bytes: 24.1 bits of 520: 3 symbols, 10.8 µs, so 12; 40 of preamble, 44 for the ACK.
    assert_eq!(
        bench.medium.next_event(&bench.nics[..]),
        Some(Instant::from_secs(5) + Duration::from_micros(96))
    );
    bench.step();
    assert_eq!((bench.bytes(0, 0), bench.step()), (114, None));
    assert_eq!(bench.pool.outstanding(), 0);
}

/// Two saturated directions collide in 5.5 % of their transmissions (Bianchi); each has half of
/// them.
#[test]
fn contenders_collide_and_share() {
    let mut bench = cell(WifiConfig::n(), &[None]);
    let rates = bench.saturate(&[0, 1], (1514, 0), Duration::from_secs(4));
    let (up, down) = (
        rates[0].as_bits_per_sec() as f64,
        rates[1].as_bits_per_sec() as f64,
    );
    assert!((0.9..1.1).contains(&(up / down)), "{up} and {down}");
    let WifiStats {
        transmissions,
        collisions,
        ..
    } = *bench.wifi().stats();
    let share = collisions as f64 / transmissions as f64;
    assert!((0.050..0.061).contains(&share), "{share}");
    let mut calm = cell(calm(WifiConfig::n()), &[None]);
    let calm_rates = calm.saturate(&[0, 1], (1514, 0), Duration::from_secs(4));
    assert_eq!(calm.wifi().stats().collisions, 0);
    assert!(
        calm_rates[0].as_bits_per_sec() as f64 > up,
        "collisions cost"
    );
}

/// Each frame fails with 10 %: it is repeated in order, throughput falls by a little more than
/// that, and next to nothing is lost after eight tries.
#[test]
fn errors_are_repeated_and_given_up_after_the_last_try() {
    let error = Probability::percent(10.0).expect("valid");
    let mut bench = cell(
        calm(WifiConfig {
            error,
            ..WifiConfig::n()
        }),
        &[None],
    );
    let rate = bench.saturate(&[0], (1514, 0), Duration::from_secs(2))[0];
    let megabits = rate.as_bits_per_sec() as f64 / 1e6;
    assert!((0.75..0.91).contains(&(megabits / 132.66)), "{megabits}");
    let stats = bench.wifi().nic_stats(0).expect("it exists");
    assert!(stats.failed > 1000 && stats.lost == 0, "{stats:?}");

    let hopeless = WifiConfig {
        error: Probability::ALWAYS,
        retries: 2,
        ..WifiConfig::n()
    };
    let mut bench = cell(hopeless, &[None]);
    bench.put(0, 5, 1514);
    while bench.step().is_some() {}
    let stats = bench.wifi().nic_stats(0).expect("it exists");
    assert_eq!(
        (stats.lost, stats.failed, stats.sizes[5]),
        (5, 10, 3),
        "three tries"
    );
    assert_eq!((bench.bytes(0, 0), bench.pool.outstanding()), (0, 0));
}

/// A station of 6.5 Mbit/s beside one of 144.4, a frame at a time: by turns the fast one has 172 µs
/// of the air where the slow one has 479 symbols of 4 µs and 80 more, "the anomaly"; by air time
/// each has half.
#[test]
fn the_access_point_shares_by_turns_or_by_air_time() {
    let slow = Phy {
        streams: 1,
        mcs: 0,
        guard: Guard::Long,
        ..Phy::N_2X2_20
    };
    let shares = [StationScheduler::RoundRobin, StationScheduler::Airtime].map(|scheduler| {
        let mut bench = cell(
            calm(WifiConfig {
                scheduler,
                aggregate: Aggregate::OFF,
                ..WifiConfig::n()
            }),
            &[None, Some(slow)],
        );
        let rates = bench.saturate(&[1, 3], (1514, 0), Duration::from_secs(2));
        let airtime = [1, 3].map(|nic| {
            bench
                .wifi()
                .nic_stats(nic)
                .expect("it exists")
                .airtime
                .as_secs_f64()
        });
        (airtime[0] / (airtime[0] + airtime[1]), rates[1])
    });
    assert!(
        shares[1].1 > shares[0].1.percent(400),
        "the fast station gains: {shares:?}"
    );
    assert!((0.48..0.52).contains(&shares[1].0), "{shares:?}");
    assert!(
        (shares[0].0 - 172.0 / (172.0 + 1996.0)).abs() < 0.005,
        "{shares:?}"
    );
}

#[test]
fn nonsense_is_refused() {
    let n = WifiConfig::n;
    for bad in [
        WifiConfig {
            aggregate: Aggregate {
                frames: 65,
                ..Aggregate::N
            },
            ..n()
        },
        WifiConfig {
            aggregate: Aggregate {
                frames: 0,
                ..Aggregate::N
            },
            ..n()
        },
        WifiConfig {
            access: Access {
                sifs: Duration::ZERO,
                ..Access::default()
            },
            ..n()
        },
        WifiConfig {
            access: Access {
                cw_min: 2000,
                ..Access::default()
            },
            ..n()
        },
        WifiConfig {
            control_rate: Rate::gbit(1),
            ..n()
        },
        WifiConfig {
            phy: Phy {
                mcs: 9,
                ..Phy::N_2X2_20
            },
            ..n()
        },
    ] {
        assert!(
            Wifi::new(bad.clone(), &[None], Pcg32::new(1, 1)).is_err(),
            "{bad:?}"
        );
    }
    assert!(
        Wifi::new(
            n(),
            &[Some(Phy {
                streams: 0,
                ..Phy::N_2X2_20
            })],
            Pcg32::new(1, 1)
        )
        .is_err()
    );
}

#[test]
fn mac80211s_own_queue_stands_in_the_driver() {
    let driver = Some(WifiConfig::MAC80211.parse().expect("valid"));
    let mut bench = cell(
        calm(WifiConfig {
            driver,
            ..WifiConfig::n()
        }),
        &[None],
    );
    bench.put(0, 100, 1514);
    while bench.step().is_some() {}
    assert_eq!(
        (bench.bytes(0, 0), bench.pool.outstanding()),
        (100 * 1514, 0)
    );
}

/// Of three frames a driver with room for two drops one; the access point's own driver, which has
/// room, does not.
#[test]
fn a_stations_driver_may_be_another_than_the_access_points() {
    let [driver, station_driver] =
        ["pfifo limit 100", "pfifo limit 2"].map(|words| Some(words.parse().expect("valid")));
    let mut bench = cell(
        calm(WifiConfig {
            driver,
            station_driver,
            ..WifiConfig::n()
        }),
        &[None],
    );
    for nic in [0, 1] {
        bench.put(nic, 3, 1514);
    }
    while bench.step().is_some() {}
    assert_eq!((bench.bytes(0, 0), bench.bytes(1, 0)), (2 * 1514, 3 * 1514));
}

/// Time that jumps to its end is survived.
#[test]
fn time_may_jump() {
    let mut bench = cell(WifiConfig::n(), &[None, None]);
    for nic in 0..4 {
        bench.put(nic, 50, 1514);
    }
    for now in [0, 1, u64::MAX / 2, 5, u64::MAX, u64::MAX] {
        bench
            .medium
            .advance(Instant::from_nanos(now), &mut bench.nics[..]);
    }
}

/// Ten frames that lie ready make one aggregate where it is made when the channel is won. Made
/// ahead, one at a time comes first, for the hardware had room when it came; what follows while
/// that is on the air goes together.
#[test]
fn aggregates_made_ahead_hold_what_was_there_then() {
    let sizes = |ahead| {
        let mut bench = cell(
            calm(WifiConfig {
                ahead,
                ..WifiConfig::n()
            }),
            &[None],
        );
        for _ in 0..10 {
            bench.put(0, 1, 1514);
            bench.medium.advance(bench.now, &mut bench.nics[..]);
        }
        while bench.step().is_some() {}
        assert_eq!(
            (bench.bytes(0, 0), bench.pool.outstanding()),
            (10 * 1514, 0)
        );
        bench.sizes(0)
    };
    assert_eq!(sizes(0), [(10, 1)]);
    assert_eq!(sizes(1), [(1, 1), (9, 1)]);
    assert_eq!(sizes(2), [(1, 2), (8, 1)]);
}

/// Two aggregates ahead share one Block ACK window of 64 frames, and survive failures in order.
#[test]
fn aggregates_made_ahead_share_the_window_and_fail_in_order() {
    let error = Probability::percent(20.0).expect("valid");
    let mut bench = cell(
        WifiConfig {
            ahead: 2,
            error,
            ..WifiConfig::n()
        },
        &[None, None],
    );
    let rates = bench.saturate(&[0, 1, 2, 3], (1514, 0), Duration::from_millis(500));
    assert!(rates.iter().all(|rate| *rate > Rate::mbit(5)), "{rates:?}");
    bench.run_dry();
    let mut calm = cell(
        calm(WifiConfig {
            ahead: 2,
            ..WifiConfig::n()
        }),
        &[None],
    );
    calm.saturate(&[0], (1514, 0), Duration::from_millis(100));
    assert!(
        calm.wifi().nic_stats(0).expect("it exists").mean_size() < 33.0,
        "42 and then 22 of 64"
    );
}
