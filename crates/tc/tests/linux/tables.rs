//! The tables in `docs/validation`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use crate::cells::{Input, Setup, Way};
use crate::compare::Verdict;
use crate::record::Departure;
use crate::replay::Nudges;
use crate::run::{Figures, Run};
use crate::ties;

/// Runs of the kernel and of ours, each with a seed of its own.
const SEEDS: u32 = 10;
/// How far counts and delays may lie apart, as shares.
const COUNTS_APART: f64 = 0.03;
const DELAYS_APART: f64 = 0.05;

/// A table of setups that are compared packet by packet: a row for a setup and profile, a column
/// for a trace.
pub(crate) fn exact<'a>(folder: &Path, setups: impl Iterator<Item = &'a Setup>) -> String {
    let setups: Vec<&Setup> = setups.filter(|setup| setup.way == Way::Exact).collect();
    let mut text = String::new();
    for acks in [false, true] {
        let is_acks = |input: &&Input| matches!(input, Input::Acks(_)) == acks;
        let inputs: BTreeSet<Input> = setups
            .iter()
            .flat_map(|setup| setup.inputs.iter().filter(is_acks))
            .copied()
            .collect();
        if inputs.is_empty() {
            continue;
        }
        let names: Vec<String> = inputs
            .iter()
            .map(|input| input.name().replace("acks-", ""))
            .collect();
        writeln!(
            text,
            "\n| setup | {} | apart at most |\n|---|{}---|",
            names.join(" | "),
            "---|".repeat(names.len())
        )
        .expect("a string");
        for setup in setups
            .iter()
            .filter(|setup| setup.inputs.iter().any(|input| is_acks(&input)))
        {
            let rows = if setup.has_profile() {
                [Some(true), Some(false)]
            } else {
                [Some(true), None]
            };
            for linux in rows.into_iter().flatten() {
                let mut apart = 0;
                let cells: Vec<String> = inputs
                    .iter()
                    .map(|&input| {
                        let run = setup
                            .inputs
                            .contains(&input)
                            .then(|| Run::new(folder, setup, input, 1))
                            .flatten();
                        run.map_or_else(String::new, |run| {
                            let verdict = run.verdict(&run.ours(setup, linux, 1));
                            apart = apart.max(verdict.apart[2]);
                            let ties = if linux {
                                decided(&run, setup, &verdict)
                            } else {
                                String::new()
                            };
                            // Two flows in one of the kernel's queues are no fault of ours.
                            let collide = if run.record.collides() {
                                " (flows collide)"
                            } else {
                                ""
                            };
                            shares(&verdict, linux) + &ties + collide
                        })
                    })
                    .collect();
                let profile = if linux { "" } else { ", default" };
                writeln!(
                    text,
                    "| {}{profile} | {} | {} |",
                    setup.name,
                    cells.join(" | "),
                    micros(apart)
                )
                .expect("a string");
            }
        }
    }
    text
}

/// The verdict on a cell that differs from the kernel once ties are decided as the kernel did.
fn decided(run: &Run, setup: &Setup, verdict: &Verdict) -> String {
    if [verdict.fate, verdict.order, verdict.on_time] == [1.0; 3] {
        return String::new();
    }
    let (nudges, _) = ties::decide(run, setup, true, 1);
    let ties = if nudges.len() == 1 { "tie" } else { "ties" };
    let verdict = run.verdict(&run.nudged(setup, true, 1, &nudges));
    format!(
        "; {} {ties} decided: {}",
        nudges.len(),
        shares(&verdict, false)
    )
}

/// Same fate, same order, same time, in percent.
fn shares(verdict: &Verdict, judged: bool) -> String {
    let percent = |share: f64| match share {
        1.0 => "100".to_string(),
        _ => format!("{:.2}", (share * 1e4).floor() / 1e2),
    };
    let failed = if judged && !verdict.holds() {
        " **no**"
    } else {
        ""
    };
    match [verdict.fate, verdict.order, verdict.on_time] {
        [1.0, 1.0, 1.0] => "100".into(),
        shares => shares.map(percent).join(" ") + failed,
    }
}

fn micros(nanos: u64) -> String {
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{} µs", nanos / 1_000),
        _ => format!("{} ms", nanos / 1_000_000),
    }
}

/// One measure over all seeds: mean of the kernel, its 5 and 95 % points, mean of ours.
struct Measure {
    kernel: [f64; 3],
    ours: f64,
    holds: bool,
}

impl Measure {
    fn new(kernel: &[f64], ours: &[f64], share: f64, is_count: bool) -> Self {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let mut sorted = kernel.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        // Between the seeds on either side, as usual.
        let at = |rank: f64| {
            let place = rank * (sorted.len() - 1) as f64;
            let (low, part) = (place.floor() as usize, place.fract());
            sorted[low] + part * (sorted[(low + 1).min(sorted.len() - 1)] - sorted[low])
        };
        let (theirs, mine) = (mean(kernel), mean(ours));
        let few = if is_count && theirs < 50.0 {
            2.0 * theirs.max(1.0).sqrt()
        } else {
            0.0
        };
        let tolerance = (share * theirs).max(at(0.95) - at(0.05)).max(few);
        Self {
            kernel: [theirs, at(0.05), at(0.95)],
            ours: mine,
            holds: (theirs - mine).abs() <= tolerance,
        }
    }

    fn cell(&self, digits: usize) -> String {
        let [mean, low, high] = self.kernel;
        let failed = if self.holds { "" } else { " **no**" };
        format!(
            "{mean:.digits$} ({low:.digits$}–{high:.digits$}) / {:.digits$}{failed}",
            self.ours
        )
    }
}

/// A table of setups that draw random numbers: a row for a setup and trace.
pub(crate) fn statistical<'a>(folder: &Path, setups: impl Iterator<Item = &'a Setup>) -> String {
    let mut text = String::from(
        "\n| setup, trace | seeds | lost | marked | median delay, ms | 95 % delay, ms | alike, kernel and ours | alike, kernel and kernel |\n|---|---|---|---|---|---|---|---|\n",
    );
    for setup in setups.filter(|setup| setup.is_random()) {
        for &input in setup.inputs {
            let runs: Vec<Run> = (1..=SEEDS)
                .filter_map(|seed| Run::new(folder, setup, input, seed))
                .collect();
            if runs.len() < 2 {
                continue;
            }
            let replays: Vec<_> = runs
                .iter()
                .zip(1..)
                .map(|(run, seed)| run.ours(setup, true, seed))
                .collect();
            let name = format!("{} {}", setup.name, input.name());
            let (line, holds) = row(&name, &runs, &replays);
            text += &line;
            if !holds && setup.is_exact() {
                let decide = |(run, seed)| ties::decide(run, setup, true, seed).0;
                let nudges: Vec<Nudges> = runs.iter().zip(1..).map(decide).collect();
                let again = runs.iter().zip(1..).zip(&nudges);
                let replays: Vec<_> = again
                    .map(|((run, seed), nudges)| run.nudged(setup, true, seed, nudges))
                    .collect();
                if nudges.iter().any(|nudges| nudges.len() > 0) {
                    text += &row(&(name + ", ties decided"), &runs, &replays).0;
                }
            }
        }
    }
    text
}

/// Copies that netem makes: a row for a trace, mean of the kernel, its 5 and 95 % points, mean of
/// ours.
pub(crate) fn copies<'a>(folder: &Path, setups: impl Iterator<Item = &'a Setup>) -> String {
    let mut text = String::from("\n| setup, trace | seeds | copies |\n|---|---|---|\n");
    for setup in setups.filter(|setup| setup.words.contains("duplicate")) {
        for &input in setup.inputs {
            let runs: Vec<Run> = (1..=SEEDS)
                .filter_map(|seed| Run::new(folder, setup, input, seed))
                .collect();
            if runs.len() < 2 {
                continue;
            }
            let of = |run: &[Departure]| {
                let packets: BTreeSet<u16> = run.iter().map(|packet| packet.id).collect();
                (run.len() - packets.len()) as f64
            };
            let kernel: Vec<f64> = runs.iter().map(|run| of(&run.record.departures)).collect();
            let ours: Vec<f64> = runs
                .iter()
                .zip(1..)
                .map(|(run, seed)| of(&run.ours(setup, true, seed)))
                .collect();
            let cell = Measure::new(&kernel, &ours, COUNTS_APART, true).cell(0);
            writeln!(
                text,
                "| {} {} | {} | {cell} |",
                setup.name,
                input.name(),
                runs.len()
            )
            .expect("a string grows");
        }
    }
    text
}

/// A row of the table of those that draw random numbers, and whether all of it holds.
fn row(name: &str, runs: &[Run], replays: &[Vec<Departure>]) -> (String, bool) {
    let kernel: Vec<Figures> = runs
        .iter()
        .map(|run| run.figures(&run.record.departures))
        .collect();
    let ours: Vec<Figures> = runs
        .iter()
        .zip(replays)
        .map(|(run, ours)| run.figures(ours))
        .collect();
    let measure = |of: fn(&Figures) -> f64, share, is_count| {
        let values = |figures: &[Figures]| figures.iter().map(of).collect::<Vec<f64>>();
        Measure::new(&values(&kernel), &values(&ours), share, is_count)
    };
    let measures = [
        (measure(|figures| figures.lost, COUNTS_APART, true), 0),
        (measure(|figures| figures.marked, COUNTS_APART, true), 0),
        (measure(|figures| figures.median, DELAYS_APART, false), 2),
        (measure(|figures| figures.p95, DELAYS_APART, false), 2),
    ];
    let cells: Vec<String> = measures
        .iter()
        .map(|(measure, digits)| measure.cell(*digits))
        .collect();
    let with_ours: Vec<Verdict> = runs
        .iter()
        .zip(replays)
        .map(|(run, ours)| run.verdict(ours))
        .collect();
    let with_itself: Vec<Verdict> = runs[1..]
        .iter()
        .map(|run| runs[0].verdict(&run.record.departures))
        .collect();
    let alike = [alike(&with_ours), alike(&with_itself)].join(" | ");
    let row = format!(
        "| {name} | {} | {} | {alike} |\n",
        runs.len(),
        cells.join(" | ")
    );
    (row, measures.iter().all(|(measure, _)| measure.holds))
}

/// Mean shares of same fate, order and time, in percent.
fn alike(verdicts: &[Verdict]) -> String {
    let mean = |of: fn(&Verdict) -> f64| {
        100.0 * verdicts.iter().map(of).sum::<f64>() / verdicts.len() as f64
    };
    let shares = [
        mean(|verdict| verdict.fate),
        mean(|verdict| verdict.order),
        mean(|verdict| verdict.on_time),
    ];
    shares.map(|share| format!("{share:.1}")).join(" ")
}
