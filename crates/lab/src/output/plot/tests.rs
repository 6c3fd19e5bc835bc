use std::{env, fs, path::PathBuf};

use proptest::prelude::*;

use super::axis::Axis;
use super::quantile::sorted;
use super::*;
use crate::scenario::document::BoxSpan;
use crate::summary::percentile as quantile;

/// Compares with the file of that name; `SNAPSHOTS=write` writes it instead, to inspect the new
/// figure.
fn assert_snapshot(name: &str, svg: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("src/output/plot/snapshots")
        .join(name);
    if env::var_os("SNAPSHOTS").is_some() {
        fs::create_dir_all(file.parent().expect("a folder")).expect("written");
        return fs::write(&file, svg).expect("written");
    }
    let stored = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        stored == svg,
        "{} differs: look at the figure with SNAPSHOTS=write, and keep it if it is right",
        file.display()
    );
}

/// Samples that look like measurements: a saw-tooth between `base` and `base + swing`.
fn teeth(period: usize, base: f64, swing: f64) -> Vec<f64> {
    (0..200)
        .map(|i| base + swing * (i % period) as f64 / period as f64)
        .collect()
}

/// Of two measurements that agree to the digit both are seen.
#[test]
fn a_curve_that_is_equal_to_another_does_not_hide_it() {
    let curve = |name: &str, color, last| Curve {
        name: name.to_owned(),
        color,
        points: vec![(0.0, 1.0), (5.0, 3.0), (10.0, last)],
    };
    let lines = |last| {
        let figure = Curves {
            colors: 2,
            panels: vec![CurvesPanel {
                y: Measure::new("Backlog", "packets"),
                curves: vec![curve("CoDel", 0, 2.0), curve("PIE", 1, last)],
            }],
            ..Curves::default()
        };
        figure.svg().expect("drawn").matches("<polyline").count()
    };
    assert!(lines(2.0) > lines(2.5) + 10, "{} lines", lines(2.0));
}

fn a_box(samples: &[f64]) -> Option<Mark> {
    Quantiles::of(samples, BoxSpan::TenToNinety).map(Mark::Box)
}

fn boxes() -> Grouped {
    let cell = |base: f64| {
        vec![
            a_box(&teeth(7, base, 1.0)),
            a_box(&teeth(31, base * 50.0, 90.0)),
        ]
    };
    Grouped {
        title: "TCP round trip & bottleneck".to_owned(),
        measure: Measure::new("TCP round trip", "ms"),
        x: "bottleneck".to_owned(),
        legend: BoxSpan::TenToNinety.legend().to_owned(),
        groups: vec!["TSQ".to_owned(), "NoTSQ <off>".to_owned()],
        panels: vec![GroupedPanel {
            title: String::new(),
            categories: vec![
                ("L10M".to_owned(), cell(1.0)),
                ("L100M".to_owned(), cell(2.0)),
                ("R10M".to_owned(), vec![None, None]),
            ],
        }],
    }
}

fn bars() -> Grouped {
    let bar = |mean: f64| {
        Some(Mark::Bar {
            mean,
            low: mean * 0.9,
            high: mean * 1.1,
        })
    };
    let panel = |title: &str, by: f64| GroupedPanel {
        title: title.to_owned(),
        categories: [128, 256, 512]
            .map(|ring| {
                (
                    ring.to_string(),
                    vec![bar(by * f64::from(ring) / 64.0), bar(1.2)],
                )
            })
            .to_vec(),
    };
    Grouped {
        title: "Ping by length of the ring".to_owned(),
        measure: Measure::new("Ping", "ms"),
        x: "ring".to_owned(),
        groups: vec!["no BQL".to_owned(), "BQL".to_owned()],
        panels: vec![panel("host", 0.2), panel("router", 1.0)],
        ..Grouped::default()
    }
}

fn series() -> Curves {
    let curve = |name: &str, color, period, swing| {
        let points = teeth(period, 10.0, swing)
            .into_iter()
            .enumerate()
            .map(|(i, value)| (i as f64 * 0.1, value))
            .collect();
        Curve {
            name: name.to_owned(),
            color,
            points,
        }
    };
    let panel = |name, unit, swing| CurvesPanel {
        y: Measure::new(name, unit),
        curves: vec![
            curve("CUBIC", 0, 60, swing),
            curve("BBR", 1, 100, swing / 4.0),
        ],
    };
    Curves {
        title: "CUBIC and BBR".to_owned(),
        x: Measure::new("Time", "s"),
        range: Some((0.0, 20.0)),
        colors: 2,
        panels: vec![panel("Goodput", "Mbit/s", 80.0), panel("Ping", "ms", 40.0)],
        ..Curves::default()
    }
}

fn distributions() -> Curves {
    let curve = |color, base, swing| Curve {
        name: String::new(),
        color,
        points: cumulative(&teeth(50, base, swing)),
    };
    Curves {
        title: "Ping".to_owned(),
        x: Measure::new("Ping", "ms"),
        names: Names::Above(vec!["CAKE".to_owned(), "FQ".to_owned()]),
        colors: 2,
        panels: vec![CurvesPanel {
            y: Measure::new("Share of samples", ""),
            curves: vec![curve(0, 5.0, 8.0), curve(1, 9.0, 30.0)],
        }],
        ..Curves::default()
    }
}

fn trade() -> Trade {
    let spot = |k: f64, gain: f64| {
        let (x, y) = (3.0 + 2.0 * k, 90.0 * gain * k / (k + 1.0));
        Spot {
            name: format!("{k} ms"),
            x: [x, x * 0.95, x * 1.05],
            y: [y, y * 0.98, y * 1.02],
        }
    };
    let group = |name: &str, gain| {
        (
            name.to_owned(),
            [1.0, 2.0, 4.0, 8.0].map(|k| spot(k, gain)).to_vec(),
        )
    };
    Trade {
        title: "Throughput against latency".to_owned(),
        x: Measure::new("Ping", "ms"),
        y: Measure::new("Goodput", "Mbit/s"),
        groups: vec![group("1.2", 1.0), group("1.4", 1.2)],
    }
}

#[test]
fn figures_are_as_they_were_when_last_looked_at() {
    assert_snapshot("box.svg", &boxes().svg().expect("drawn"));
    assert_snapshot("bars.svg", &bars().svg().expect("drawn"));
    assert_snapshot("series.svg", &series().svg().expect("drawn"));
    assert_snapshot("cdf.svg", &distributions().svg().expect("drawn"));
    assert_snapshot("trade.svg", &trade().svg().expect("drawn"));
}

#[test]
fn text_is_escaped() {
    let svg = boxes().svg().expect("drawn");
    assert!(
        svg.contains("TCP round trip &amp; bottleneck")
            && svg.contains("NoTSQ &lt;off&gt;")
            && !svg.contains("<off>")
    );
}

#[test]
fn a_figure_without_samples_says_so() {
    let empty = [
        Grouped::default().svg(),
        Grouped {
            panels: vec![GroupedPanel::default()],
            ..Grouped::default()
        }
        .svg(),
        Curves::default().svg(),
        Curves {
            panels: vec![CurvesPanel {
                curves: vec![Curve::default()],
                ..CurvesPanel::default()
            }],
            ..Curves::default()
        }
        .svg(),
        Trade::default().svg(),
    ];
    for svg in empty {
        assert!(svg.expect("drawn").contains("no samples"));
    }
}

#[test]
fn quantiles_interpolate_between_neighbors() {
    let samples: Vec<f64> = (1..=11).map(f64::from).collect();
    let box_of = |span| Quantiles::of(&samples, span).expect("samples");
    let ten = box_of(BoxSpan::TenToNinety);
    assert_eq!((ten.low, ten.median, ten.high), (2.0, 6.0, 10.0));
    assert!(
        (ten.whisker_low - 1.1).abs() < 1e-12 && (ten.whisker_high - 10.9).abs() < 1e-12,
        "{ten:?}"
    );
    let quarter = box_of(BoxSpan::Quartiles);
    assert_eq!(
        (
            quarter.whisker_low,
            quarter.low,
            quarter.high,
            quarter.whisker_high
        ),
        (1.5, 3.5, 8.5, 10.5)
    );
    assert_eq!(
        Quantiles::of(&[f64::NAN, f64::INFINITY], BoxSpan::Quartiles),
        None
    );
    assert_eq!(quantile(&sorted(&[4.0]), 0.9), Some(4.0));
}

#[test]
fn an_axis_is_logarithmic_beyond_two_decades() {
    let labels = |values: &[f64]| -> Vec<String> {
        Axis::over(values.iter().copied(), None, true, 5)
            .ticks()
            .map(|(_, label)| label)
            .collect()
    };
    assert_eq!(labels(&[1.0, 99.0]), ["0", "20", "40", "60", "80", "100"]);
    assert_eq!(labels(&[1.0, 500.0]), ["1", "10", "100", "1000"]);
    assert_eq!(labels(&[0.0, 0.5, 3.0]), ["0", "1", "2", "3"]);
    assert_eq!(labels(&[0.0, 150_000.0]), ["0", "50k", "100k", "150k"]);
    assert_eq!(
        labels(&[3.0]),
        ["0", "1", "2", "3"],
        "one value has room below it"
    );
    assert_eq!(labels(&[0.0])[0], "-0.6", "and nothing has room around it");
    let forced = Axis::over([20.0, 90.0].into_iter(), Some(true), true, 5);
    assert_eq!(
        forced.ticks().map(|(_, label)| label).collect::<Vec<_>>(),
        ["10", "20", "50", "100"]
    );
    assert!(
        (forced.share(31.622_776_6) - 0.5).abs() < 1e-6,
        "the middle of a decade"
    );
}

#[test]
fn numbers_are_written_short() {
    let cases = [
        (0.0123, "0.0123"),
        (1.25, "1.25"),
        (96.04, "96"),
        (1234.0, "1234"),
        (12_345.0, "12.3k"),
        (2.5e9, "2.5G"),
        (-3.0, "-3"),
    ];
    for (value, written) in cases {
        assert_eq!(short(value), written);
    }
    assert_eq!(short(f64::NAN), "–");
    assert_eq!(short(1e200), "1.00e200");
}

#[test]
fn a_distribution_rises_from_nothing_to_all_of_them() {
    let points = cumulative(&teeth(200, 0.0, 200.0));
    assert_eq!((points[0].1, points[points.len() - 1].1), (0.0, 1.0));
    assert!(points.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1));
    assert_eq!(cumulative(&[f64::NAN]), []);
    assert!(cumulative(&vec![1.0; 100_000]).len() <= 402);
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        Just(0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::MAX),
        Just(f64::MIN),
        Just(f64::MIN_POSITIVE),
        Just(1e-320),
        -1e6..1e6f64,
    ]
}

fn log() -> impl Strategy<Value = Option<bool>> {
    prop_oneof![Just(None), Just(Some(true)), Just(Some(false))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any input gives a figure of bounded size with finite coordinates.
    #[test]
    fn any_numbers_are_drawn(values in prop::collection::vec(number(), 0..40), log in log(), name in ".{0,40}") {
        let measure = Measure { log, ..Measure::new(name.clone(), "ms") };
        let bar = |v: &f64| Some(Mark::Bar { mean: *v, low: -*v, high: *v * 2.0 });
        let categories = vec![(name.clone(), vec![a_box(&values)]), (String::new(), values.iter().map(bar).collect())];
        let panel = GroupedPanel { title: name.clone(), categories };
        let grouped = Grouped { title: name.clone(), measure: measure.clone(), panels: vec![panel], ..Grouped::default() };
        let points: Vec<(f64, f64)> = values.iter().zip(values.iter().rev()).map(|(x, y)| (*x, *y)).collect();
        let curve = Curve { name: name.clone(), color: values.len(), points: points.clone() };
        let panel = CurvesPanel { y: measure.clone(), curves: vec![curve, Curve { points: cumulative(&values), ..Curve::default() }] };
        let range = values.first().map(|end| (0.0, *end));
        let curves = Curves { x: measure.clone(), range, panels: vec![panel], ..Curves::default() };
        let spots = points.iter().map(|(x, y)| Spot { name: name.clone(), x: [*x; 3], y: [*y, *x, *y] }).collect();
        let trade = Trade { title: name.clone(), x: measure.clone(), y: measure, groups: vec![(name, spots)] };
        for svg in [grouped.svg(), curves.svg(), trade.svg()] {
            let svg = svg.expect("drawn");
            prop_assert!(svg.len() < 200_000);
        }
    }

    #[test]
    fn shares_of_an_axis_rise_with_values(values in prop::collection::vec(number(), 1..20), log in log()) {
        let axis = Axis::over(values.iter().copied(), log, true, 5);
        let sorted = sorted(&values);
        let shares: Vec<f64> = sorted.iter().map(|value| axis.share(*value)).collect();
        prop_assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
        prop_assert!(shares.is_sorted());
        let ticks: Vec<_> = axis.ticks().collect();
        prop_assert!(ticks.len() <= 40 && ticks.iter().all(|(share, _)| (-1e-9..=1.0 + 1e-9).contains(share)), "{:?}", ticks);
    }
}
