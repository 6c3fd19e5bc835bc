//! [`execute`]: runs points on several threads, each point on one; what has been run before is read
//! again.
//!
//! A run is written beside its place and then moved there, so that whatever interrupts leaves whole
//! files only, and the next time goes on where this one stopped.

use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::output_dir::{OutputDir, write};
use crate::plan::Point;
use crate::recording::Run;
use crate::run::capture::{CaptureError, record};
use crate::run::{RunError, run};
use crate::summary::PointResult;

/// How to run.
#[derive(Clone, Debug)]
pub(crate) struct Execution<'a> {
    /// Where runs are written.
    pub tree: &'a OutputDir,
    /// Threads.
    pub jobs: NonZeroUsize,
    /// Runs again what has been run before.
    pub fresh: bool,
    /// Writes every packet into a pcapng file beside each run.
    pub pcapng: bool,
}

/// Why there is nothing of a point.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecuteError {
    /// It could not be run.
    #[error("{scenario} {cell}, seed {seed}: {error}")]
    Run {
        /// Of which scenario.
        scenario: String,
        /// Which cell.
        cell: String,
        /// Which seed.
        seed: u64,
        /// Why.
        error: Box<RunError>,
    },
    /// It could not be written.
    #[error("{file}: {error}")]
    Write {
        /// The file.
        file: String,
        /// Why.
        error: io::Error,
    },
}

/// A point that is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done<'a> {
    /// Which.
    pub point: &'a Point,
    /// How long it took; `None` when it had been run before.
    pub took: Option<Duration>,
}

/// Runs `points` and returns their results in the same order. Calls `also` for each run, new or
/// cached, to write further files, and `report_done` for each completed point; both from any thread.
///
/// # Errors
/// The first in order of the points. The others are run all the same, unless it was interrupted.
pub(crate) fn execute(
    points: &[Point],
    how: &Execution<'_>,
    also: impl Fn(&Run) -> Result<(), ExecuteError> + Sync,
    report_done: impl Fn(Done<'_>) + Sync,
) -> Result<Vec<PointResult>, ExecuteError> {
    let done: Mutex<Vec<(usize, Result<PointResult, ExecuteError>)>> = Mutex::new(Vec::new());
    on_threads(points.len(), how.jobs, |number| {
        let ran = one(&points[number], how, &also, &report_done);
        // Whoever interrupts one run does not want the next.
        let interrupted = matches!(&ran, Err(ExecuteError::Run { error, .. }) if matches!(**error, RunError::Interrupted));
        done.lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push((number, ran));
        if interrupted {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    let mut done = done
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, ran)| ran).collect()
}

/// Does `work` for each number below `count`, in order, on `jobs` threads: each takes the next when
/// it is done, until one breaks off.
pub(crate) fn on_threads(
    count: usize,
    jobs: NonZeroUsize,
    work: impl Fn(usize) -> ControlFlow<()> + Sync,
) {
    let next = AtomicUsize::new(0);
    let all = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            if work(number).is_break() {
                next.store(count, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs.get().min(count) {
            scope.spawn(all);
        }
    });
}

fn one(
    point: &Point,
    how: &Execution<'_>,
    also: &impl Fn(&Run) -> Result<(), ExecuteError>,
    report_done: &impl Fn(Done<'_>),
) -> Result<PointResult, ExecuteError> {
    let file = how
        .tree
        .run(&point.scenario, point.path, &point.cell, point.seed, "json");
    let capture = Some(file.with_extension("pcapng")).filter(|_| how.pcapng);
    let captured = capture.as_ref().is_none_or(|capture| capture.is_file());
    if let Some(run) = read(&file).filter(|run| !how.fresh && captured && run.point == point.id) {
        also(&run)?;
        report_done(Done { point, took: None });
        return Ok(PointResult::of(&run, &point.document));
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "how long a run took is told to whoever waits, and stands in no file"
    )]
    let began = Instant::now();
    let refused = |error| ExecuteError::Run {
        scenario: point.scenario.clone(),
        cell: point.cell.to_string(),
        seed: point.seed,
        error: Box::new(error),
    };
    let run = match capture {
        Some(capture) => record(point, &capture).map_err(|error| match error {
            CaptureError::Run(error) => refused(error),
            CaptureError::Write(error) => failed(&capture, error),
        })?,
        None => run(point).map_err(refused)?,
    };
    also(&run)?;
    let json = serde_json::to_vec(&run).map_err(|error| failed(&file, error.into()))?;
    write(&file, &json).map_err(|error| failed(&file, error))?;
    report_done(Done {
        point,
        took: Some(began.elapsed()),
    });
    Ok(PointResult::of(&run, &point.document))
}

/// Results of earlier runs among `points`. A cell counts only if all its points have been run.
pub(crate) fn known(points: &[Point], tree: &OutputDir) -> Vec<(Point, PointResult)> {
    let cells = points.chunk_by(|one, next| one.number == next.number);
    let whole = cells.filter_map(|cell| {
        let ran = |point: &Point| {
            let run =
                read(&tree.run(&point.scenario, point.path, &point.cell, point.seed, "json"))?;
            (run.point == point.id).then(|| (point.clone(), PointResult::of(&run, &point.document)))
        };
        cell.iter().map(ran).collect::<Option<Vec<_>>>()
    });
    whole.flatten().collect()
}

/// The run in `file`, if there is a whole one.
pub(crate) fn read(file: &Path) -> Option<Run> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

fn failed(file: &Path, error: io::Error) -> ExecuteError {
    ExecuteError::Write {
        file: file.display().to_string(),
        error,
    }
}
