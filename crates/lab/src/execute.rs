//! [`execute`]: runs points on several threads; results of earlier runs are read from their files.
//!
//! A run is written to a temporary file and renamed, so that an interruption leaves only complete
//! files and the next execution continues from there.

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

/// Settings of [`execute`].
#[derive(Clone, Debug)]
pub(crate) struct Execution<'a> {
    /// Output directory.
    pub tree: &'a OutputDir,
    /// Number of threads.
    pub jobs: NonZeroUsize,
    /// Ignores results of earlier runs.
    pub fresh: bool,
    /// Writes every packet into a pcapng file beside each run.
    pub pcapng: bool,
}

/// Why a point has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecuteError {
    /// The run failed.
    #[error("{scenario} {cell}, seed {seed}: {error}")]
    Run {
        /// Name of the scenario.
        scenario: String,
        /// Cell of the scenario's matrix.
        cell: String,
        /// Seed of the run.
        seed: u64,
        /// Why.
        error: Box<RunError>,
    },
    /// An output file could not be written.
    #[error("{file}: {error}")]
    Write {
        /// The file.
        file: String,
        /// Why.
        error: io::Error,
    },
}

/// A completed point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done<'a> {
    /// The point.
    pub point: &'a Point,
    /// Run time; `None` if the result was cached.
    pub took: Option<Duration>,
}

/// Runs `points` and returns their results in the same order. Calls `also` for each run, new or
/// cached, to write further files, and `report_done` for each completed point; both from any thread.
///
/// # Errors
/// The first error in the order of the points. The other points still run, unless one was
/// interrupted.
pub(crate) fn execute(
    points: &[Point],
    how: &Execution<'_>,
    also: impl Fn(&Run) -> Result<(), ExecuteError> + Sync,
    report_done: impl Fn(Done<'_>) + Sync,
) -> Result<Vec<PointResult>, ExecuteError> {
    let done: Mutex<Vec<(usize, Result<PointResult, ExecuteError>)>> = Mutex::new(Vec::new());
    on_threads(points.len(), how.jobs, |number| {
        let ran = one(&points[number], how, &also, &report_done);
        // An interruption ends the whole execution.
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

/// Calls `work` for each number below `count` on `jobs` threads, each of which takes the next
/// number when it is free, until one breaks.
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
        reason = "the run time is shown as progress, never written to a file"
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

/// Cached results of `points`. A cell counts only if all its points have been run.
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

/// The run in `file`, if it is complete.
pub(crate) fn read(file: &Path) -> Option<Run> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

fn failed(file: &Path, error: io::Error) -> ExecuteError {
    ExecuteError::Write {
        file: file.display().to_string(),
        error,
    }
}
