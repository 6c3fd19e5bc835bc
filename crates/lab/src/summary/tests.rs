use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::cell::{Backend, Cell};

fn run(series: Vec<Series>) -> Run {
    let (scenario, point, counters) = (
        "x".to_owned(),
        String::new(),
        BTreeMap::from([("polls".to_owned(), 7.0)]),
    );
    Run {
        scenario,
        point,
        cell: Cell::default(),
        seed: 1,
        path: Backend::Sim,
        begin: 1.0,
        end: 4.0,
        series,
        counters,
    }
}

fn series(quantity: Quantity, of: &str, values: &[f64]) -> Series {
    let points = values
        .iter()
        .enumerate()
        .map(|(second, value)| (second as f64 + 1.0, *value))
        .collect();
    Series {
        quantity,
        of: of.to_owned(),
        points,
    }
}

#[test]
fn percentiles_lie_between_the_nearest_values() {
    // numpy.percentile([1, 2, 4, 8], [0, 10, 50, 75, 100]) = 1, 1.3, 3, 5, 8.
    let sorted = [1.0, 2.0, 4.0, 8.0];
    for (share, expected) in [(0.0, 1.0), (0.1, 1.3), (0.5, 3.0), (0.75, 5.0), (1.0, 8.0)] {
        let value = percentile(&sorted, share).expect("there are values");
        assert!((value - expected).abs() < 1e-12, "{share}: {value}");
    }
    assert_eq!(
        (percentile(&[], 0.5), percentile(&[3.0], 0.99)),
        (None, Some(3.0))
    );
}

#[test]
fn jain_is_one_for_equals_and_one_nth_for_a_king() {
    assert_eq!(
        (
            jain(&[5.0; 4]),
            jain(&[8.0, 0.0, 0.0, 0.0]),
            jain(&[0.0; 3])
        ),
        (Some(1.0), Some(0.25), None)
    );
}

#[test]
fn what_adds_up_is_summed_at_each_moment_and_the_warm_up_does_not_count() {
    let one = series(Quantity::Goodput, "upload-1", &[900.0, 10.0, 20.0, 30.0]);
    let two = series(Quantity::Goodput, "upload-2", &[900.0, 30.0, 20.0, 10.0]);
    let summary = Summary::of(&run(vec![
        one,
        two,
        series(Quantity::Drops, "client", &[50.0, 1.0, 0.0, 2.0]),
    ]));
    for (name, expected) in [
        ("goodput.total", 40.0),
        ("goodput.upload.max", 40.0),
        ("goodput.count", 3.0),
        ("goodput.upload.fairness", 1.0),
        ("drops.client.total", 3.0),
        ("counters.polls", 7.0),
    ] {
        assert_eq!(summary.get(name), Some(expected), "{name}");
    }
    assert_eq!(
        summary.get("goodput.upload-1.total"),
        None,
        "connections have no numbers of their own"
    );
}

#[test]
fn what_does_not_add_up_is_pooled() {
    let one = series(Quantity::Rtt, "upload-1", &[9.0, 1.0, 2.0, 3.0]);
    let two = series(Quantity::Rtt, "upload-2", &[9.0, 5.0, 6.0, 7.0]);
    let summary = Summary::of(&run(vec![one, two, series(Quantity::Ping, "ping", &[4.0])]));
    assert_eq!(
        (
            summary.get("rtt.count"),
            summary.get("rtt.mean"),
            summary.get("rtt.p50")
        ),
        (Some(6.0), Some(4.0), Some(4.0))
    );
    assert_eq!(
        (summary.get("ping.count"), summary.get("ping.mean")),
        (Some(0.0), None),
        "all of it was warm-up"
    );
}

#[test]
fn single_values_are_kept_for_the_analysis_that_wants_them() {
    let scenario = "id = \"x\"\ntitle = \"x\"\npaper = \"x\"\nclaim = \"x\"\n\
                    anova = [{ metric = \"ping\", over = \"a\" }, { metric = \"ping.mean\", over = \"a\" }]";
    let document: crate::scenario::Document = toml::from_str(scenario).expect("it is right");
    let ran = PointResult::of(
        &run(vec![series(Quantity::Ping, "ping", &[9.0, 1.0, 2.0, 3.0])]),
        &document,
    );
    assert_eq!(
        (ran.observed("ping"), ran.observed("ping.mean")),
        (vec![1.0, 2.0, 3.0], vec![2.0])
    );
    assert_eq!(ran.observed("rtt.mean"), [0.0; 0]);
}

#[test]
fn the_interval_of_confidence_is_students() {
    // t(0.975; 2) = 4.302652729911275; the standard error of 1, 2, 3 is 1/√3.
    let estimate = Estimate::of(&[1.0, 2.0, 3.0]).expect("there are values");
    assert_eq!((estimate.mean, estimate.count), (2.0, 3));
    assert!((estimate.hi - 4.484_137_713_7).abs() < 1e-6, "{estimate:?}");
    assert_eq!(
        Estimate::of(&[5.0]),
        Some(Estimate {
            mean: 5.0,
            lo: 5.0,
            hi: 5.0,
            count: 1
        })
    );
    assert_eq!(Estimate::of(&[]), None);
}

proptest! {
    #[test]
    fn numbers_are_in_order(values in prop::collection::vec(-1e9..1e9f64, 1..100)) {
        let summary = Summary::of(&run(vec![Series {
            quantity: Quantity::Ping,
            of: "ping".to_owned(),
            points: values.iter().map(|value| (2.0, *value)).collect(),
        }]));
        let get = |name: &str| summary.get(&format!("ping.{name}")).expect("there are values");
        let order = ["min", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "max"].map(get);
        prop_assert!(order.is_sorted(), "{:?}", order);
        prop_assert!(get("min") <= get("mean") + 1e-6 && get("mean") <= get("max") + 1e-6);
    }

    #[test]
    fn fairness_is_a_share(shares in prop::collection::vec(0.0..1e6f64, 1..50)) {
        if let Some(fairness) = jain(&shares) {
            prop_assert!(fairness <= 1.0 + 1e-9 && fairness >= 1.0 / shares.len() as f64 - 1e-9);
        }
    }
}
