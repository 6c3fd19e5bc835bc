//! Wi-Fi: throughput is a matter of how many frames are ready when an aggregate is made, and what
//! is above the driver decides that (papers 001 §IV.B and 003).

use std::time::Duration;

use tautline_base::Bytes;
use tautline_bql::LimitKind;
use tautline_sim::medium::WifiConfig;
use tautline_sim::medium::wifi::{Aggregate, Phy, Width};
use tautline_sim::topology::Cell;
use tautline_stack::TsqLimit;

use crate::air::{Ends, Scene, Seen, cubic, wifi};
use crate::common::ms;

/// One way between access point and server.
const NEAR: Duration = Duration::from_micros(300);
const FAR: Duration = Duration::from_millis(5);

/// Four uploads of one station, as in paper 001; nothing but TSQ between TCP and the ring.
fn scene(config: WifiConfig, tsq: TsqLimit, percent: u32, delay: Duration) -> Scene {
    Scene {
        cell: Cell::wifi("base", &["station"], config),
        ends: Ends {
            qdisc: "pfifo_fast",
            limit: LimitKind::Unlimited.into(),
            ring: 512,
            ring_bytes: Bytes::MAX,
        },
        delay,
        tcp: cubic(tsq, percent),
        up: 4,
        down: 0,
        length: ms(1200),
    }
}

/// Measurements, and frames in the station's mean aggregate.
#[track_caller]
fn show(name: &str, scene: &Scene) -> (Seen, f64) {
    let (seen, size) =
        scene.run_then(|network| wifi(network).nic_stats(0).expect("it is there").mean_size());
    println!(
        "{name:<28} {:>12}  ping {:?}  {size:.1} frames an aggregate",
        seen.up.to_string(),
        seen.median()
    );
    (seen, size)
}

#[test]
fn aggregation_makes_the_throughput() {
    let (on, frames) = show(
        "aggregation on",
        &scene(WifiConfig::n(), TsqLimit::millis(8), 120, NEAR),
    );
    let alone = WifiConfig {
        aggregate: Aggregate::OFF,
        ..WifiConfig::n()
    };
    let (off, one) = show(
        "aggregation off",
        &scene(alone, TsqLimit::millis(8), 120, NEAR),
    );
    assert!(frames > 15.0 && one == 1.0, "{frames} and {one}");
    assert!(on.up > off.up.percent(300), "{} against {}", on.up, off.up);
}

/// The station of paper 001: three antennas, a driver that keeps two aggregates in its hardware
/// (ath9k), Linux 5.10.
fn paper_001(millis: u32, percent: u32, delay: Duration) -> (Seen, f64) {
    let phy = Phy {
        width: Width::Mhz40,
        streams: 3,
        ..Phy::N_2X2_20
    };
    let tsq = format!("linux-5.10,{millis}ms").parse().expect("a limit");
    let config = WifiConfig {
        phy,
        ahead: 2,
        ..WifiConfig::n()
    };
    show(
        &format!("TSQ {millis} ms ratio {percent} delay {delay:?}"),
        &scene(config, tsq, percent, delay),
    )
}

/// Figure 8: up to about 4 ms throughput rises with TSQ, after that only the latency; a higher
/// pacing ratio acts like a longer TSQ, a longer path like a shorter one.
#[test]
fn small_queues_shorten_aggregates() {
    let [one, two, four, eight] = [1, 2, 4, 8].map(|millis| paper_001(millis, 120, NEAR));
    assert!(one.1 * 1.2 < two.1 && two.1 < four.1, "aggregates grow");
    assert!(
        two.0.up > one.0.up.percent(105),
        "{} against {}",
        two.0.up,
        one.0.up
    );
    assert!(
        four.0.up > two.0.up.percent(101),
        "{} against {}",
        four.0.up,
        two.0.up
    );
    assert!(
        eight.0.up < four.0.up.percent(103),
        "{} against {}",
        eight.0.up,
        four.0.up
    );
    assert!(
        eight.0.median() > four.0.median() * 12 / 10,
        "{:?} against {:?}",
        eight.0.median(),
        four.0.median()
    );
    let (eager, far) = (paper_001(2, 140, NEAR), paper_001(2, 120, FAR));
    assert!(
        eager.0.up > two.0.up.percent(101),
        "{} against {}",
        eager.0.up,
        two.0.up
    );
    assert!(
        far.0.up < two.0.up.percent(97),
        "{} against {}",
        far.0.up,
        two.0.up
    );
}

/// Above a ring that takes everything a qdisc sees nothing; above a short one it works.
/// mac80211's own queue does without.
#[test]
fn what_a_discipline_sees_depends_on_the_ring() {
    let over = |ring| {
        let scene = scene(WifiConfig::ac(), TsqLimit::Off, 120, ms(1));
        Scene {
            ends: Ends {
                qdisc: "fq_codel",
                ring,
                ..scene.ends
            },
            length: ms(800),
            ..scene
        }
    };
    let (long, _) = show("fq_codel over ring of 2048", &over(2048));
    let (short, _) = show("fq_codel over ring of 64", &over(64));
    let driver = WifiConfig {
        driver: Some(WifiConfig::MAC80211.parse().expect("valid")),
        ..WifiConfig::ac()
    };
    let inside = over(8192);
    let cell = Cell::wifi("base", &["station"], driver);
    let ends = Ends {
        qdisc: "pfifo",
        ..inside.ends
    };
    let (inside, size) = show(
        "mac80211's fq_codel",
        &Scene {
            cell,
            ends,
            ..inside
        },
    );
    assert!(
        long.median() > short.median() * 3 && long.median() > inside.median() * 3,
        "{:?}",
        long.median()
    );
    assert!(
        inside.up >= long.up.percent(90) && size > 20.0,
        "{} against {}",
        inside.up,
        long.up
    );
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let scene = Scene {
        length: ms(200),
        ..scene(WifiConfig::n(), TsqLimit::millis(4), 120, ms(1))
    };
    assert_eq!(scene.run().hash, scene.run().hash);
}
