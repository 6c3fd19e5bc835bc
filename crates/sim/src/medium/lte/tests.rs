//! Tests of an LTE cell: rates by hand, packets cut to fit, the way of a grant, shares.

use tautline_base::{Bytes, Rate};

use super::*;
use crate::medium::Medium;
use crate::medium::bench::Bench;
use crate::nic::{Coalesce, NicConfig};

/// A cell with RLC buffers of 500 KB.
fn cell(config: LteConfig, stations: &[Option<Mcs>]) -> Bench {
    let nic = NicConfig {
        coalesce: Coalesce::OFF,
        ring_bytes: Bytes::new(500_000),
        tx_ring: 1024,
        ..NicConfig::default()
    };
    Bench::new(Lte::new(config, stations).expect("valid"), nic)
}

/// A full frame, and its Ethernet header.
const FULL: (u32, u64) = (1514, 14);

impl Bench {
    fn lte(&self) -> &Lte {
        let Medium::Lte(lte) = &self.medium else {
            unreachable!("it was made of one")
        };
        lte
    }
}

fn mbit(rate: Rate) -> f64 {
    rate.as_bits_per_sec() as f64 / 1e6
}

/// A block of 25 resource blocks holds 1980 bytes, 1975 beside its headers; a packet of 1500 takes
/// 1504 of them. So downlink 1975 / 1504 × 1500 bytes a millisecond: 15.76 Mbit/s.
#[test]
fn a_saturated_direction_has_the_rate_computed_by_hand() {
    for nic in [0, 1] {
        let mut bench = cell(LteConfig::default(), &[None]);
        let rate = mbit(bench.saturate(&[nic], FULL, Duration::from_secs(2))[nic]);
        let expected = 1975.0 / 1504.0 * 1500.0 * 8.0 / 1000.0;
        assert!(
            (rate / expected - 1.0).abs() < 0.005,
            "nic {nic}: {rate} against {expected}"
        );
    }
}

/// A packet of 1500 bytes fits a block; the second is cut: 471 bytes of it go with the first, 1033
/// follow.
#[test]
fn packets_are_cut_to_fill_blocks() {
    let mut bench = cell(LteConfig::default(), &[None]);
    bench.put(1, 2, 1514);
    bench.run_dry();
    assert_eq!(bench.departed, [(1000, 1, 1514), (2000, 1, 1514)]);
    assert_eq!(bench.lte().downlink().transport_blocks, 2);
    // 3008 bytes of 1975 + 14 blocks' worth: 1038 bytes of need are 14 resource blocks, 1108 bytes.
    assert_eq!(bench.lte().downlink().resource_blocks, 25 + 14);
    assert_eq!(bench.lte().downlink().padding, 1108 - 5 - 1033);
}

/// A packet on a coding of 680 bits per TTI, 85 bytes: 1504 bytes need 19 blocks of 80.
#[test]
fn a_packet_may_take_many_blocks() {
    let mcs = Mcs { down: 0, up: 0 };
    let mut bench = cell(
        LteConfig {
            mcs,
            ..LteConfig::default()
        },
        &[None],
    );
    bench.put(1, 1, 1514);
    bench.run_dry();
    assert_eq!(bench.departed, [(19_000, 1, 1514)]);
}

/// Up: waits for the TTI's boundary (0.7 ms), is reported there, heard 1 ms later, granted 4 ms
/// after that, sent in 1 ms.
#[test]
fn uplink_a_report_and_a_grant_come_first() {
    let mut bench = cell(LteConfig::default(), &[None]);
    bench.now = Instant::from_micros(300);
    bench.put(0, 1, 1514);
    bench.run_dry();
    assert_eq!(bench.departed, [(1000 + 1000 + 4000 + 1000, 0, 1514)]);
    // Reports that come seldom keep a second packet waiting for the next, 10 ms after the first.
    let config = LteConfig {
        report_every: Duration::from_millis(10),
        ..LteConfig::default()
    };
    let mut bench = cell(config, &[None]);
    bench.put(0, 1, 1514);
    bench.step();
    bench.put(0, 1, 1514);
    bench.run_dry();
    assert_eq!(bench.departed, [(6000, 0, 1514), (16_000, 0, 1514)]);
}

#[test]
fn a_grant_is_given_twice_for_the_same_bytes_unless_it_counts() {
    let padding = [true, false].map(|counts_outstanding| {
        let mut bench = cell(
            LteConfig {
                counts_outstanding,
                ..LteConfig::default()
            },
            &[None],
        );
        bench.put(0, 100, 1514);
        bench.run_dry();
        let LteStats { bytes, padding, .. } = *bench.lte().uplink();
        padding as f64 / bytes as f64
    });
    assert!(padding[0] < 0.01 && padding[1] > 0.03, "{padding:?}");
}

/// Ten stations have a tenth each, in both directions at once; what one does not want the others
/// get.
#[test]
fn stations_share_evenly() {
    let mut bench = cell(LteConfig::default(), &[None; 10]);
    let all: Vec<_> = (0..20).collect();
    let rates = bench.saturate(&all, FULL, Duration::from_secs(2));
    for rate in &rates {
        assert!((1.4..1.6).contains(&mbit(*rate)), "{rates:?}");
    }
    let mut bench = cell(LteConfig::default(), &[None; 10]);
    let rates = bench.saturate(&[1, 3], FULL, Duration::from_secs(2));
    assert!(
        (7.5..8.0).contains(&mbit(rates[1])) && (7.5..8.0).contains(&mbit(rates[3])),
        "{rates:?}"
    );
}

#[test]
fn a_quiet_cell_plans_nothing_and_time_may_jump() {
    let mut bench = cell(LteConfig::default(), &[None]);
    assert_eq!(bench.step(), None);
    bench.put(0, 50, 1514);
    bench.put(1, 50, 1514);
    for now in [0, 1, u64::MAX / 2, 5, u64::MAX, u64::MAX] {
        bench
            .medium
            .advance(Instant::from_nanos(now), &mut bench.nics[..]);
    }
}
