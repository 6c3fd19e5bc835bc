//! `lab sweep`: many points planned as lines, run anywhere, joined to a table.

use std::error::Error;
use std::io::{self, BufWriter, Read as _, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{env, fs, thread};

use clap::{Args, Subcommand};

use super::{ExitStatus, Failure, Library, piped};
use crate::cell::Backend;
use crate::plan::{PlanOptions, plan};
use crate::sweep::table::Results;
use crate::sweep::{Manifest, ResultDir, Shard, dask, local, manifest, results};

/// Arguments of `lab sweep`.
#[derive(Args, Debug)]
pub(super) struct Sweep {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Writes the points of a scenario's cells and seeds to standard output, a line each
    Plan(PlanArgs),
    /// Runs points; writes the numbers of each to standard output, a line each
    Run(RunArgs),
    /// Joins results to a table in CSV, on standard output
    Merge(MergeArgs),
}

#[derive(Args, Debug)]
struct PlanArgs {
    /// Rows, or scenario files
    #[arg(required = true)]
    ids: Vec<String>,
    /// Another axis: a dotted key and its values. It is named after the last part of the key, or
    /// NAME
    #[arg(long, value_name = "[NAME:]KEY=VALUE,...")]
    set: Vec<String>,
    /// Runs of each cell [default: as in the scenario]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    repetitions: Option<u16>,
    /// Base of all seeds
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Virtual time, or this machine's own network in namespaces
    #[arg(long, value_enum, default_value_t)]
    path: Backend,
    #[command(flatten)]
    library: Library,
}

#[derive(Args, Debug)]
struct RunArgs {
    /// Output of `lab sweep plan`; `-` is standard input
    points: PathBuf,
    /// Threads; default one for each processor. With the wire backend always one
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Directory of results, written line by line. Points found there are not run again
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only every N-th point, from the I-th on, I from 1. Default: from the environment of a Slurm job array or an
    /// indexed Kubernetes Job
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Run on the Dask cluster with this scheduler: tcp://host:8786. Needs Python 3 with
    /// `distributed`
    #[arg(long, value_name = "ADDRESS", conflicts_with = "jobs")]
    dask: Option<String>,
}

#[derive(Args, Debug)]
struct MergeArgs {
    /// Directories or files of results
    #[arg(required = true)]
    results: Vec<PathBuf>,
    /// The manifest: fails if any of its points has no result
    #[arg(long, value_name = "FILE")]
    points: Option<PathBuf>,
    /// Means with their confidence intervals, a line for each number of each cell, in place of a
    /// line for each point
    #[arg(long)]
    cells: bool,
    /// Only these numbers, e.g. goodput.total,ping.p50
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    numbers: Vec<String>,
}

impl Sweep {
    pub(super) fn sweep(&self) -> Result<ExitStatus, Failure> {
        match &self.command {
            Command::Plan(plan) => plan.plan(),
            Command::Run(run) => run.run(),
            Command::Merge(merge) => merge.merge(),
        }
    }
}

impl PlanArgs {
    fn plan(&self) -> Result<ExitStatus, Failure> {
        let catalogue = self.library.open()?;
        let ask = PlanOptions {
            seed: self.seed,
            repetitions: self.repetitions.map(usize::from),
            path: self.path,
        };
        let mut points = Vec::new();
        for id in &self.ids {
            let scenario = catalogue.grid(id, &self.set)?;
            let header = scenario.header();
            if let Some(other) = &header.elsewhere {
                let id = &header.id;
                return Err(format!(
                    "{id} has nothing to run here; it needs {}: {}",
                    other.needs, other.command
                )
                .into());
            }
            if self.path == Backend::Veth && !header.wire {
                return Err(format!(
                    "{} is not for the wire: its file does not say `wire = true`",
                    header.id
                )
                .into());
            }
            points.extend(plan(&scenario, ask)?);
        }
        piped(manifest::write(
            &points,
            BufWriter::new(io::stdout().lock()),
        ))?;
        eprintln!("{} points", points.len());
        Ok(ExitStatus::Holds)
    }
}

impl RunArgs {
    fn run(&self) -> Result<ExitStatus, Failure> {
        let shard = match self.shard {
            Some(shard) => shard,
            None => Shard::of_environment(|name| env::var(name).ok())?,
        };
        let Manifest { file, mut entries } = open(&self.points, shard)?;
        let all = entries.len();
        let dir = self
            .out
            .as_deref()
            .map(|out| ResultDir::open(out, shard))
            .transpose()?;
        entries.retain(|entry| {
            !dir.as_ref()
                .is_some_and(|dir| dir.finished.contains(&entry.result))
        });
        let wire = entries.iter().any(|entry| entry.path == Backend::Veth);
        let jobs = self.jobs.or_else(|| thread::available_parallelism().ok());
        let jobs = jobs.filter(|_| !wire).unwrap_or(NonZeroUsize::MIN);
        let reported = Mutex::new(Reported {
            dir,
            done: 0,
            failed: 0,
            unwritten: None,
        });
        let report_done = |line: &str| {
            reported
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .report_done(line)
        };
        let clustered = match &self.dask {
            Some(_) if wire => {
                Err("points on the wire run on this machine: leave --dask out".to_owned())
            }
            Some(_) if entries.is_empty() => Ok(()),
            Some(address) => dask::run(&entries, address, report_done),
            None => {
                local::run(&entries, &file, jobs, |line| match line {
                    Ok(line) => report_done(&line),
                    Err(error) => {
                        eprintln!("lab: {error}");
                        reported
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .failed += 1;
                    }
                });
                Ok(())
            }
        };
        let reported = reported
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        self.conclude(reported, all, all - entries.len(), clustered)
    }

    fn conclude(
        &self,
        reported: Reported,
        all: usize,
        before: usize,
        clustered: Result<(), String>,
    ) -> Result<ExitStatus, Failure> {
        let Reported {
            done,
            failed,
            unwritten,
            ..
        } = reported;
        if let Some(error) = unwritten {
            return Err(format!(
                "{}: {error}",
                self.out
                    .as_deref()
                    .unwrap_or_else(|| Path::new(""))
                    .display()
            )
            .into());
        }
        eprintln!("{all} points: {} run before, {done} run now", before);
        clustered?;
        match failed {
            0 => Ok(ExitStatus::Holds),
            failed => Err(format!("{failed} points failed").into()),
        }
    }
}

/// Points reported so far.
struct Reported {
    dir: Option<ResultDir>,
    done: usize,
    failed: usize,
    unwritten: Option<io::Error>,
}

impl Reported {
    /// A point is finished: `line` is written to the file first, so that readers of standard output
    /// never see a lost result.
    fn report_done(&mut self, line: &str) {
        self.done += 1;
        let written = self
            .dir
            .as_mut()
            .map_or(Ok(()), |dir| dir.add(line))
            .and_then(|()| {
                let mut out = io::stdout().lock();
                piped(writeln!(out, "{line}").and_then(|()| out.flush()))
            });
        if let Err(error) = written {
            self.unwritten.get_or_insert(error);
        }
    }
}

impl MergeArgs {
    fn merge(&self) -> Result<ExitStatus, Failure> {
        let mut read = Vec::new();
        for path in &self.results {
            let failed = |path: &Path, error: io::Error| -> Box<dyn Error> {
                format!("{}: {error}", path.display()).into()
            };
            for file in results::files(path).map_err(|error| failed(path, error))? {
                let text = fs::read_to_string(&file).map_err(|error| failed(&file, error))?;
                let name = file.display().to_string();
                read.push((name.clone(), results::read(&text, &name)?));
            }
        }
        let mut results = Results::join(read)?;
        if let Some(points) = &self.points {
            let Manifest { file, entries } = open(points, Shard::WHOLE)?;
            let known = results.results();
            let missing: Vec<_> = entries
                .iter()
                .filter(|entry| !known.contains(&entry.result))
                .collect();
            if let Some(first) = missing.first() {
                let (missing, all, line) = (missing.len(), entries.len(), first.line);
                return Err(format!(
                    "{file}:{line}: {missing} of {all} points have no result, this is the first"
                )
                .into());
            }
        }
        if !self.numbers.is_empty() {
            results.keep(&self.numbers)?;
        }
        let out = io::stdout().lock();
        let written = if self.cells {
            results.cells(out)
        } else {
            results.points(out)
        };
        piped(written.map_err(io::Error::from))?;
        Ok(ExitStatus::Holds)
    }
}

/// The lines of the manifest `points` that are `shard`'s.
fn open(points: &Path, shard: Shard) -> Result<Manifest, Failure> {
    let (file, text) = if points == Path::new("-") {
        let mut text = String::new();
        (
            "standard input".to_owned(),
            io::stdin().lock().read_to_string(&mut text).map(|_| text),
        )
    } else {
        (points.display().to_string(), fs::read_to_string(points))
    };
    Ok(Manifest::read(
        &text.map_err(|error| format!("{file}: {error}"))?,
        &file,
        shard,
    )?)
}
