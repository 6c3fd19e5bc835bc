//! A row as tests want it: two axes, two repetitions, one shape that holds, one that does not, one
//! that cannot be computed.

use std::collections::BTreeMap;

use crate::cell::{Backend, Cell};
use crate::quantity::Quantity;
use crate::recording::{Run, Series};
use crate::result::{Anova, CellResult, Judgment, ObservedNumber, RowResult, ShapeResult};
use crate::scenario::Expected;
use crate::scenario::document::FlentTest;
use crate::summary::{Estimate, Summary};

/// Values of the axes `bottleneck` and `tsq`.
pub(super) const BOTTLENECKS: [&str; 2] = ["L100M", "R100M"];
pub(super) const TSQ: [&str; 2] = ["TSQ", "NoTSQ"];
const SEEDS: [u64; 2] = [1, 2];

fn cell(bottleneck: &str, tsq: &str) -> Cell {
    Cell(vec![
        ("bottleneck".to_owned(), bottleneck.to_owned()),
        ("tsq".to_owned(), tsq.to_owned()),
    ])
}

/// Ping in ms at which a cell stays.
fn level(bottleneck: &str, tsq: &str) -> f64 {
    if tsq == "TSQ" && bottleneck == "L100M" {
        2.0
    } else {
        120.0
    }
}

/// The runs of all cells, sampled each 0.1 s for 6 s, measured from 1 s on.
pub(super) fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for bottleneck in BOTTLENECKS {
        for tsq in TSQ {
            for seed in SEEDS {
                runs.push(run(bottleneck, tsq, seed));
            }
        }
    }
    runs
}

fn run(bottleneck: &str, tsq: &str, seed: u64) -> Run {
    let level = level(bottleneck, tsq);
    let every = |quantity, of: &str, value: &dyn Fn(f64) -> f64| Series {
        quantity,
        of: of.to_owned(),
        points: (1..=60)
            .map(|i| (f64::from(i) / 10.0, value(f64::from(i))))
            .collect(),
    };
    let series = vec![
        every(Quantity::Goodput, "upload-1", &|i| 47.0 + i % 3.0),
        every(Quantity::Goodput, "upload-2", &|i| 48.0 - i % 3.0),
        every(Quantity::Ping, "ping", &|i| {
            level * (0.5 + (i + seed as f64) % 20.0 / 20.0)
        }),
        every(Quantity::Cwnd, "upload-1", &|i| 10.0 + i),
        every(Quantity::Cwnd, "upload-2", &|i| 10.0 + i),
        every(Quantity::Backlog, "client", &|i| level * (i % 20.0) / 10.0),
        every(Quantity::Backlog, "router>server", &|_| 0.0),
    ];
    Run {
        scenario: "001-F4".to_owned(),
        point: "0123".to_owned(),
        cell: cell(bottleneck, tsq),
        seed,
        path: Backend::Sim,
        begin: 1.0,
        end: 6.0,
        series,
        counters: BTreeMap::new(),
    }
}

/// The row of these runs.
pub(super) fn row() -> RowResult {
    RowResult {
        scenario: "001-F4".to_owned(),
        title: "TSQ against NoTSQ <throughput & round trip>".to_owned(),
        paper: "001".to_owned(),
        claim: "With TSQ the round trip collapses on the local bottleneck only; throughput stays at 96 Mbit/s.".to_owned(),
        path: Backend::Sim,
        options: Vec::new(),
        axes: vec!["bottleneck".to_owned(), "tsq".to_owned()],
        table: vec!["goodput.total".to_owned(), "ping.p50".to_owned(), "rtt.p50".to_owned()],
        note: Some("The paper's access point is a computer of 2012; here its delay is 0.1 ms.".to_owned()),
        flent: Some(FlentTest { test: "tcp_2up".to_owned(), ..FlentTest::default() }),
        figures: Vec::new(),
        cells: cells(),
        shapes: shapes(),
        anova: vec![Anova {
            metric: "ping.mean".to_owned(),
            over: "tsq".to_owned(),
            at: vec![("bottleneck".to_owned(), "L100M".to_owned())],
            groups: vec![("TSQ".to_owned(), 1.95), ("NoTSQ".to_owned(), 117.0)],
            f: 1234.5,
            f_crit: 18.51,
            p: 0.00081,
            alpha: 0.05,
        }],
    }
}

fn shapes() -> Vec<ShapeResult> {
    let seen = |name: &str, mean: f64| ObservedNumber {
        name: name.to_owned(),
        value: Estimate {
            mean,
            lo: mean * 0.9,
            hi: mean * 1.1,
            count: 2,
        },
        paper: (mean == 1.95).then_some(1.0),
    };
    let verdict = |says: &str, check: &str, line, judged, seen| ShapeResult {
        expected: Expected {
            says: says.to_owned(),
            check: check.to_owned(),
            paper: BTreeMap::new(),
            file: "001-f4.toml".to_owned(),
            line,
        },
        judged,
        seen,
    };
    vec![
        verdict(
            "with TSQ the round trip collapses on the local bottleneck",
            "cell[\"L100M\"][\"NoTSQ\"].ping.p50 > 10.0 * cell[\"L100M\"][\"TSQ\"].ping.p50",
            40,
            Judgment::Holds,
            vec![
                seen("cell[\"L100M\"][\"NoTSQ\"].ping.p50", 117.0),
                seen("cell[\"L100M\"][\"TSQ\"].ping.p50", 1.95),
            ],
        ),
        verdict(
            "and on the remote one",
            "cell.R100M.NoTSQ.ping.p50 > cell.R100M.TSQ.ping.p50",
            44,
            Judgment::DoesNotHold,
            vec![
                seen("cell.R100M.NoTSQ.ping.p50", 117.0),
                seen("cell.R100M.TSQ.ping.p50", 117.0),
            ],
        ),
        verdict(
            "and of page fetches",
            "cell.R100M.TSQ.fetch.p50 < 1.0",
            48,
            Judgment::Error("no `fetch`".to_owned()),
            vec![],
        ),
    ]
}

fn cells() -> Vec<CellResult> {
    let runs = runs();
    let result = |bottleneck, tsq| {
        let cell = cell(bottleneck, tsq);
        let summaries: Vec<Summary> = runs
            .iter()
            .filter(|run| run.cell == cell)
            .map(Summary::of)
            .collect();
        let names = summaries[0].0.keys();
        let number = |name: &String| {
            let values: Vec<f64> = summaries
                .iter()
                .filter_map(|summary| summary.get(name))
                .collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            (
                name.clone(),
                Estimate {
                    mean,
                    lo: mean * 0.95,
                    hi: mean * 1.05,
                    count: values.len(),
                },
            )
        };
        CellResult {
            numbers: names.map(number).collect(),
            cell,
            seeds: SEEDS.to_vec(),
        }
    };
    BOTTLENECKS
        .iter()
        .flat_map(|b| TSQ.iter().map(move |t| (b, t)))
        .map(|(b, t)| result(b, t))
        .collect()
}
