//! `lab run`: runs rows, prints their tables and verdicts, writes their results.

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use clap::Args;

use super::progress::Progress;
use super::table::{Table, estimate, number};
use super::{ExitStatus, Failure, Library, report};
use crate::cell::Backend;
use crate::execute::{ExecuteError, Execution, execute, known};
use crate::output::beside::SideFiles;
use crate::output::report::{RowReport, runs};
use crate::output_dir::{OutputDir, write};
use crate::plan::{PlanOptions, Point, plan};
use crate::recording::Run;
use crate::result::{Judgment, RowResult, Score, ShapeResult};
use crate::row::judge_points;
use crate::scenario::{Form, Scenario};
use crate::select::select;

/// Arguments of `lab run`.
#[derive(Args, Debug)]
pub(super) struct RunArgs {
    /// Rows, or scenario files
    #[arg(required_unless_present = "all")]
    ids: Vec<String>,
    /// Every row that needs no Linux peer and no wall clock; with --path veth, every row for the
    /// wire
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Only these cells of the row: a cell (L100M_TSQ), a value (L100M), an axis with a value
    /// (tsq=TSQ), or several, separated by commas, that must all match. `lab show` lists them.
    /// Cached results of the others still count
    #[arg(long, value_name = "CELL", conflicts_with = "all")]
    cell: Vec<String>,
    /// Runs of each cell [default: as in the scenario]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    repetitions: Option<u16>,
    /// One run of each cell, with the times of the scenario's table `quick`
    #[arg(long, conflicts_with = "repetitions")]
    quick: bool,
    /// Congestion controller of the flow `candidate`: `lab run rfc9743 --cc bbr`
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    cc: Option<String>,
    /// Writes a line for each shape into this file: the row, the shape's number, and whether it holds
    #[arg(long, value_name = "FILE")]
    verdicts: Option<PathBuf>,
    /// Base of all seeds
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Directory of results
    #[arg(long, value_name = "DIR", default_value = "lab-out")]
    out: PathBuf,
    /// Virtual time, or this machine's own network in namespaces (needs root; see docs/lab.md)
    #[arg(long, value_enum, default_value_t)]
    path: Backend,
    /// Threads; default one for each processor. With the wire backend always one: runs would share
    /// the processors
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Also write samples as CSV
    #[arg(long)]
    csv: bool,
    /// Also write every packet as pcapng, with one interface for each point it passes
    #[arg(long)]
    pcapng: bool,
    /// Ignore cached results
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    library: Library,
}

impl RunArgs {
    pub(super) fn run(&self) -> Result<ExitStatus, Failure> {
        let catalogue = self.library.open()?;
        let asked: Vec<&str> = if self.all {
            catalogue.ids().collect()
        } else {
            self.ids.iter().map(String::as_str).collect()
        };
        let form = Form {
            quick: self.quick,
            candidate: self.cc.as_deref(),
        };
        // Every file is read before anything runs: a mistake in the last shows at once.
        let scenarios = asked
            .into_iter()
            .map(|id| catalogue.load_in(id, form))
            .collect::<Result<Vec<_>, _>>()?;
        let (here, elsewhere): (Vec<_>, Vec<_>) = distinct(scenarios)?
            .into_iter()
            .partition(|scenario| scenario.header().elsewhere.is_none());
        let here = self.for_backend(here)?;
        let tree = OutputDir::new(&self.out);
        if !here.is_empty() {
            tree.prepare()?;
        }
        let rows = self.rows(&here, &tree)?;
        for row in &rows {
            print(row);
        }
        for scenario in &elsewhere {
            let header = scenario.header();
            if let Some(other) = &header.elsewhere {
                say!(
                    "{}  {}\n  not run here: it needs {}: {}\n",
                    header.id,
                    header.title,
                    other.needs,
                    other.command
                );
            }
        }
        if !rows.is_empty() {
            report::refresh(&tree)?;
        }
        if let Some(file) = &self.verdicts {
            let lines: String = rows.iter().map(verdicts).collect();
            fs::write(file, lines).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        Ok(conclude(&rows))
    }

    /// The `scenarios` that support the requested backend.
    fn for_backend(&self, scenarios: Vec<Scenario>) -> Result<Vec<Scenario>, Failure> {
        if self.path == Backend::Sim {
            return Ok(scenarios);
        }
        let (wire, other): (Vec<_>, Vec<_>) = scenarios
            .into_iter()
            .partition(|scenario| scenario.header().wire);
        match other.first() {
            Some(scenario) if !self.all => {
                let id = &scenario.header().id;
                Err(format!("{id} is not for the wire: its file does not say `wire = true`, `lab list` marks those that do")
                    .into())
            }
            _ => Ok(wire),
        }
    }

    /// The points of each row.
    fn plans(&self, scenarios: &[Scenario], ask: PlanOptions) -> Result<Vec<RowPlan>, Failure> {
        let parts = scenarios.iter().map(|scenario| {
            let chosen = if self.cell.is_empty() {
                None
            } else {
                Some(select(scenario, &self.cell)?)
            };
            let wanted = |point: &Point| {
                chosen
                    .as_ref()
                    .is_none_or(|chosen| chosen.contains(&point.number))
            };
            let (wanted, other) = plan(scenario, ask)?.into_iter().partition(wanted);
            Ok(RowPlan { wanted, other })
        });
        parts.collect()
    }

    /// Runs the points of all rows, and judges and draws each row.
    fn rows(&self, scenarios: &[Scenario], tree: &OutputDir) -> Result<Vec<RowResult>, Failure> {
        let repetitions = self.repetitions.map(usize::from);
        let ask = PlanOptions {
            seed: self.seed,
            repetitions: if self.quick { Some(1) } else { repetitions },
            path: self.path,
        };
        let plans = self.plans(scenarios, ask)?;
        let points: Vec<Point> = plans
            .iter()
            .flat_map(|plan| plan.wanted.iter().cloned())
            .collect();
        let progress = Progress::new(points.len());
        let how = Execution {
            tree,
            jobs: self.jobs(),
            fresh: self.fresh,
            pcapng: self.pcapng,
        };
        let also = |run: &Run| {
            let header = scenarios
                .iter()
                .map(Scenario::header)
                .find(|header| header.id == run.scenario);
            let beside = SideFiles {
                flent: header.and_then(|header| header.flent.as_ref()),
                csv: self.csv,
            };
            let written = beside.write(tree, run);
            written.map_err(|(file, error)| ExecuteError::Write {
                file: file.display().to_string(),
                error,
            })
        };
        let ran = execute(&points, &how, also, |done| progress.report_done(done));
        progress.end();
        let mut ran = ran?.into_iter();
        let mut rows = Vec::new();
        for (scenario, RowPlan { wanted, other }) in scenarios.iter().zip(plans) {
            let count = wanted.len();
            let own = wanted.into_iter().zip(ran.by_ref().take(count));
            let (points, own): (Vec<_>, Vec<_>) = own.chain(known(&other, tree)).unzip();
            let row = RowResult {
                options: self.options(),
                ..judge_points(scenario, ask.path, &points, &own)
            };
            write_row(&row, tree)?;
            rows.push(row);
        }
        Ok(rows)
    }

    /// The options that change what is run, as the command line has them.
    fn options(&self) -> Vec<String> {
        let quick = self.quick.then(|| "--quick".to_owned());
        let repetitions = self
            .repetitions
            .map(|count| format!("--repetitions {count}"));
        let congestion = self.cc.as_ref().map(|name| format!("--cc {name}"));
        [quick, repetitions, congestion]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Threads: on the wire, runs would share the processors.
    fn jobs(&self) -> NonZeroUsize {
        let jobs = self.jobs.or_else(|| thread::available_parallelism().ok());
        jobs.filter(|_| self.path == Backend::Sim)
            .unwrap_or(NonZeroUsize::MIN)
    }
}

/// Writes `result.json` and the figures of a row.
fn write_row(row: &RowResult, tree: &OutputDir) -> Result<(), Failure> {
    let file = tree.result(&row.scenario, row.path);
    write(&file, &serde_json::to_vec_pretty(row)?)
        .map_err(|error| format!("{}: {error}", file.display()))?;
    RowReport::new(row.clone(), &runs(tree, row)?)?.write_figures(tree)?;
    Ok(())
}

/// Each of `scenarios` once, by whichever of its names it was asked for again.
///
/// # Errors
/// If two files have one id: their results would be in the same directory.
fn distinct(scenarios: Vec<Scenario>) -> Result<Vec<Scenario>, Failure> {
    let mut distinct: Vec<Scenario> = Vec::new();
    for scenario in scenarios {
        let id = &scenario.header().id;
        match distinct.iter().find(|known| known.header().id == *id) {
            None => distinct.push(scenario),
            Some(known) if known.file == scenario.file => {}
            Some(known) => {
                let (one, other) = (&known.file, &scenario.file);
                return Err(format!("{one} and {other} both have the id {id}: change one").into());
            }
        }
    }
    Ok(distinct)
}

/// The points of a row: those to run now, and the others, of which earlier results count.
struct RowPlan {
    wanted: Vec<Point>,
    other: Vec<Point>,
}

/// "001-F4 2 holds: what the shape says", a line for each shape.
fn verdicts(row: &RowResult) -> String {
    let line = |(number, verdict): (usize, &ShapeResult)| {
        let word = match verdict.judged {
            Judgment::Holds => "holds",
            Judgment::DoesNotHold => "does not hold",
            Judgment::NotRun(_) => "not judged",
            Judgment::Error(_) => "error",
        };
        let says = &verdict.expected.says;
        format!("{} {} {word}: {says}\n", row.scenario, number + 1)
    };
    row.shapes.iter().enumerate().map(line).collect()
}

/// Prints the row's table and its verdicts.
fn print(row: &RowResult) {
    say!("{}  {}", row.scenario, row.title);
    if !row.claim.is_empty() {
        say!("{}", row.claim.trim());
    }
    say!();
    let mut table = Table::new(row.axes.len(), row.axes.iter().chain(&row.table).cloned());
    for cell in row.cells.iter().filter(|cell| cell.was_run()) {
        let numbers = row
            .table
            .iter()
            .map(|name| estimate(cell.numbers.get(name)));
        table.row(cell.cell.values().map(str::to_owned).chain(numbers));
    }
    say!("{table}");
    if row.cells.iter().any(|cell| !cell.was_run()) {
        say!("not run: {}\n", row.not_run().join(", "));
    }
    for anova in &row.anova {
        let at: Vec<_> = anova.at.iter().map(|(_, value)| value.as_str()).collect();
        let [f, f_crit] = [anova.f, anova.f_crit].map(number);
        say!(
            "{} over {} {}: F {f}, F-crit {f_crit}, p {:.2e}",
            anova.metric,
            anova.over,
            at.join(" "),
            anova.p
        );
    }
    for verdict in &row.shapes {
        let word = match &verdict.judged {
            Judgment::Holds => "holds".to_owned(),
            Judgment::DoesNotHold => "DOES NOT HOLD".to_owned(),
            Judgment::NotRun(cells) => format!("not judged: cells not run: {}", cells.join(", ")),
            Judgment::Error(why) => format!(
                "ERROR at {}:{}: {why}",
                verdict.expected.file, verdict.expected.line
            ),
        };
        say!("{word}: {}", verdict.expected.says);
        say!(
            "    {}",
            verdict.expected.check.trim().replace('\n', "\n    ")
        );
        for seen in &verdict.seen {
            let (ours, paper) = (estimate(Some(&seen.value)), seen.beside_paper());
            say!(
                "    {} = {ours}{}{paper}",
                seen.name,
                if paper.is_empty() { "" } else { "; " }
            );
        }
    }
    say!();
}

/// Prints how many shapes hold, and names the others.
fn conclude(rows: &[RowResult]) -> ExitStatus {
    let all = || {
        rows.iter()
            .flat_map(|row| row.shapes.iter().map(move |verdict| (row, verdict)))
    };
    let score: Score = rows.iter().map(RowResult::score).sum();
    say!("{} of {} shapes hold", score.holds, score.all);
    for (row, verdict) in all()
        .filter(|(_, verdict)| matches!(verdict.judged, Judgment::DoesNotHold | Judgment::Error(_)))
    {
        say!("  not {}: {}", row.scenario, verdict.expected.says);
    }
    for (row, verdict) in all().filter(|(_, verdict)| matches!(verdict.judged, Judgment::NotRun(_)))
    {
        say!("  not judged {}: {}", row.scenario, verdict.expected.says);
    }
    match score {
        Score {
            holds,
            not_judged,
            all,
        } if holds + not_judged < all => ExitStatus::DoesNotHold,
        Score { not_judged: 0, .. } => ExitStatus::Holds,
        _ => ExitStatus::NotAllJudged,
    }
}
