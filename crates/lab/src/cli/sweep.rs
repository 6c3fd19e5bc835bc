//! `lab sweep`: points as lines of a manifest, run wherever there are processors, and put together again.

use std::io::{self, BufRead, BufReader, Read};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::progress::Progress;
use super::{Ended, Failure, Library};
use crate::execute::{Execution, execute, read};
use crate::output::Tree;
use crate::plan::{Ask, Point, plan};
use crate::run::{Cell, Path};
use crate::summary::Summary;
use crate::sweep::{Line, Shard};

/// Arguments of `lab sweep`.
#[derive(Args, Debug)]
pub(super) struct Sweep {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Print the manifest: a self-contained point on each line
    Plan {
        /// Rows, or scenario files
        #[arg(required = true)]
        ids: Vec<String>,
        /// Runs of each cell; default what the scenario says
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
        repetitions: Option<u16>,
        /// All seeds come from it
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
        #[command(flatten)]
        library: Library,
    },
    /// Run the points of a manifest; print the numbers of each as a line of JSON
    Run {
        /// The manifest; - is the standard input
        manifest: PathBuf,
        /// Only every n-th point, from the i-th on: i/n
        #[arg(long, value_name = "I/N", default_value = "1/1")]
        shard: Shard,
        /// Directory of results
        #[arg(long, value_name = "DIR", default_value = "lab-out")]
        out: PathBuf,
        /// Threads; default one for each processor
        #[arg(long, value_name = "N")]
        jobs: Option<NonZeroUsize>,
        /// Run again what has been run before
        #[arg(long)]
        fresh: bool,
    },
    /// Print the numbers of all points of a manifest, run anywhere, as one CSV table
    Merge {
        /// The manifest; - is the standard input
        manifest: PathBuf,
        /// Directories of results
        #[arg(long, value_name = "DIR", default_value = "lab-out")]
        out: Vec<PathBuf>,
    },
}

/// What is told of a point that is done.
#[derive(Serialize)]
struct Told<'a> {
    id: &'a str,
    scenario: &'a str,
    cell: &'a Cell,
    seed: u64,
    numbers: &'a Summary,
}

impl Sweep {
    pub(super) fn sweep(&self) -> Result<Ended, Failure> {
        match &self.step {
            Step::Plan { ids, repetitions, seed, library } => {
                let catalogue = library.open()?;
                let ask = Ask { seed: *seed, repetitions: repetitions.map(usize::from), path: Path::Sim };
                for id in ids {
                    for point in plan(&catalogue.load(id)?, ask) {
                        say!("{}", serde_json::to_string(&Line::of(&point)?)?);
                    }
                }
            }
            Step::Run { manifest, shard, out, jobs, fresh } => {
                let points = points(manifest)?.into_iter().enumerate();
                let points: Vec<_> = points.filter(|(number, _)| shard.has(*number)).map(|(_, point)| point).collect();
                let jobs = jobs.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
                let (tree, progress) = (Tree::new(out), Progress::new(points.len()));
                let how = Execution { tree: &tree, jobs, fresh: *fresh, pcapng: false };
                let ran = execute(&points, &how, |_| Ok(()), |done| progress.tell(done));
                progress.end();
                for (point, ran) in points.iter().zip(ran?) {
                    let Point { id, scenario, cell, seed, .. } = point;
                    let told = Told { id, scenario, cell, seed: *seed, numbers: &ran.summary };
                    say!("{}", serde_json::to_string(&told)?);
                }
            }
            Step::Merge { manifest, out } => return merge(&points(manifest)?, out),
        }
        Ok(Ended::Well)
    }
}

/// Prints every number of every point.
fn merge(points: &[Point], out: &[PathBuf]) -> Result<Ended, Failure> {
    let mut missing = 0;
    say!("id,scenario,cell,seed,number,value");
    for point in points {
        let files = out.iter().map(|out| Tree::new(out).run(&point.scenario, point.path, &point.cell, point.seed, "json"));
        let run = files.filter_map(|file| read(&file)).find(|run| run.point == point.id);
        let Some(run) = run else {
            missing += 1;
            eprintln!("missing: {} {} seed {}", point.scenario, point.cell, point.seed);
            continue;
        };
        for (number, value) in Summary::of(&run).0 {
            say!("{},{},{},{},{number},{value}", point.id, point.scenario, point.cell, point.seed);
        }
    }
    if missing > 0 {
        return Err(format!("{missing} of {} points have not been run: `lab sweep run` goes on", points.len()).into());
    }
    Ok(Ended::Well)
}

/// The points of a manifest.
fn points(manifest: &std::path::Path) -> Result<Vec<Point>, Failure> {
    let named = |error: io::Error| format!("{}: {error}", manifest.display());
    let input: Box<dyn Read> = match manifest.to_str() {
        Some("-") => Box::new(io::stdin()),
        _ => Box::new(std::fs::File::open(manifest).map_err(named)?),
    };
    let mut points = Vec::new();
    for (number, line) in BufReader::new(input).lines().enumerate() {
        let line = line.map_err(named)?;
        if line.trim().is_empty() {
            continue;
        }
        let place = || format!("{}:{}", manifest.display(), number + 1);
        let line: Line =
            serde_json::from_str(&line).map_err(|error| format!("{}: not a line of `lab sweep plan`: {error}", place()))?;
        points.push(line.point().map_err(|error| format!("{}: {error}", place()))?);
    }
    Ok(points)
}
