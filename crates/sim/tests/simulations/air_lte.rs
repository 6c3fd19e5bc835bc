//! LTE: queue limits under RLC keep its buffers short, at the same throughput, and leave the
//! waiting to a qdisc that can tell flows apart (paper 002, §5.2).

use tautline_base::{Bytes, Rate};
use tautline_bql::LimitKind;
use tautline_sim::medium::{LteConfig, Medium};
use tautline_sim::topology::Cell;
use tautline_sim::{RingLimit, dyn_rlc};
use tautline_stack::TsqLimit;

use crate::air::{Ends, Scene, Seen, cubic};
use crate::common::ms;

/// A stream each way for each station, behind RLC buffers of 500 KB and 10 ms of wire; TSQ is not
/// what is sampled.
fn scene(stations: &[&str], qdisc: &'static str, limit: RingLimit) -> Scene {
    Scene {
        cell: Cell::lte("base", stations, LteConfig::default()),
        ends: Ends {
            qdisc,
            limit,
            ring: 2048,
            ring_bytes: Bytes::new(500_000),
        },
        delay: ms(10),
        tcp: cubic(TsqLimit::Off, 120),
        up: 1,
        down: 1,
        length: ms(8000),
    }
}

fn show(name: &str, scene: &Scene) -> Seen {
    let (seen, (down, up)) = scene.run_then(|network| match network.medium(0) {
        Some(Medium::Lte(lte)) => (*lte.downlink(), *lte.uplink()),
        other => panic!("no LTE: {other:?}"),
    });
    println!(
        "{name:<28} up {} down {} ping {:?} padding {} {}",
        seen.up,
        seen.down,
        seen.median(),
        up.padding,
        down.padding
    );
    seen
}

/// Nothing holds back but the buffer: a few packets of a burst find room before it.
const BLIND: &str = "pfifo limit 64";

#[test]
fn queue_limits_and_fq_codel_halve_the_delay_of_one_station() {
    let off = show(
        "no flow control",
        &scene(&["a"], BLIND, LimitKind::Unlimited.into()),
    );
    let codel = show(
        "FQ-CoDel, no limit",
        &scene(&["a"], "fq_codel", LimitKind::Unlimited.into()),
    );
    let bql = show(
        "FQ-CoDel, DQL",
        &scene(&["a"], "fq_codel", RingLimit::default()),
    );
    let dyn_rlc = show(
        "FQ-CoDel, DynRLC",
        &scene(&["a"], "fq_codel", dyn_rlc::Config::default().into()),
    );
    assert!(
        bql.median() < off.median() / 2,
        "{:?} against {:?}",
        bql.median(),
        off.median()
    );
    assert!(
        bql.median() < codel.median() / 2,
        "it is the limit, not the discipline: {:?}",
        codel.median()
    );
    assert!(
        bql.goodput() > off.goodput().percent(85),
        "{} against {}",
        bql.goodput(),
        off.goodput()
    );
    assert!(
        dyn_rlc.median() < off.median() && dyn_rlc.median() > bql.median(),
        "{:?}",
        dyn_rlc.median()
    );
    for direction in [off.up, off.down, bql.up, bql.down] {
        assert!(direction < Rate::bits_per_sec(15_840_000), "{direction}");
    }
}

#[test]
fn and_take_most_of_it_from_ten() {
    let stations = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let off = show(
        "ten, no flow control",
        &scene(&stations, BLIND, LimitKind::Unlimited.into()),
    );
    let bql = show(
        "ten, FQ-CoDel, DQL",
        &scene(&stations, "fq_codel", RingLimit::default()),
    );
    assert!(
        bql.median() < off.median() * 3 / 10,
        "{:?} against {:?}",
        bql.median(),
        off.median()
    );
    assert!(
        bql.goodput() > off.goodput().percent(85),
        "{} against {}",
        bql.goodput(),
        off.goodput()
    );
}

/// Dynamic queue limits count what was sent, not the backlog that needs a grant: where a base
/// station grants nothing twice, they keep too little in the buffer to fill the way of a report and
/// its grant.
#[test]
fn an_uplink_that_counts_its_grants_starves_behind_a_short_buffer() {
    let cell = |counts_outstanding| {
        Cell::lte(
            "base",
            &["a"],
            LteConfig {
                counts_outstanding,
                ..LteConfig::default()
            },
        )
    };
    let [generous, strict] = [false, true].map(|counts| {
        let scene = scene(&["a"], "fq_codel", RingLimit::default());
        show(
            &format!("grants count: {counts}"),
            &Scene {
                cell: cell(counts),
                down: 0,
                length: ms(4000),
                ..scene
            },
        )
    });
    assert!(
        strict.up < generous.up.percent(50),
        "{} against {}",
        strict.up,
        generous.up
    );
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let scene = Scene {
        length: ms(1000),
        ..scene(&["a", "b"], "fq_codel", RingLimit::default())
    };
    assert_eq!(scene.run().hash, scene.run().hash);
}
