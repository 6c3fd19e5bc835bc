//! [`Progress`]: how far a run is: a bar on a terminal, a line for each point elsewhere. On
//! standard error.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

use crate::execute::Done;

/// Progress of a run.
pub(super) enum Progress {
    Bar(ProgressBar),
    Lines { total: usize, done: AtomicUsize },
}

impl Progress {
    pub(super) fn new(total: usize) -> Self {
        if !stderr().is_terminal() {
            return Self::Lines {
                total,
                done: AtomicUsize::new(0),
            };
        }
        let bar = ProgressBar::new(total as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}  {eta} left") {
            bar.set_style(style);
        }
        Self::Bar(bar)
    }

    pub(super) fn report_done(&self, done: Done<'_>) {
        let what = format!(
            "{} {} seed {}",
            done.point.scenario, done.point.cell, done.point.seed
        );
        match self {
            Self::Bar(bar) => {
                bar.set_message(what);
                bar.inc(1);
            }
            Self::Lines { total, done: count } => {
                let count = count.fetch_add(1, Ordering::Relaxed) + 1;
                match done.took {
                    Some(took) => {
                        eprintln!("[{count}/{total}] {what}: {:.1} s", took.as_secs_f64())
                    }
                    None => eprintln!("[{count}/{total}] {what}: run before"),
                }
            }
        }
    }

    pub(super) fn end(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
