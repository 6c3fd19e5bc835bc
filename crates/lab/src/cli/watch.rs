//! `lab watch`: shows a run in virtual time on the terminal, in slow motion if asked.

use std::ops::ControlFlow;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use clap::Args;
use tautline_live::{Screen, View};

use super::{ExitStatus, Failure, Library};
use crate::plan::{PlanOptions, plan};
use crate::run::sim;
use crate::select::select;

/// Interval between redraws.
const REDRAW: Duration = Duration::from_millis(100);

/// Arguments of `lab watch`.
#[derive(Args, Debug)]
pub(super) struct Watch {
    /// Row, or a scenario file
    id: String,
    /// Cell, as for `lab run` [default: the first]
    #[arg(long, value_name = "CELL")]
    cell: Vec<String>,
    /// Base of the seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Virtual seconds per second: 0.1 is slow motion
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    #[command(flatten)]
    library: Library,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if (1e-4..=1e4).contains(&speed) {
        Ok(speed)
    } else {
        Err("from 0.0001 to 10000".to_owned())
    }
}

impl Watch {
    pub(super) fn watch(&self) -> Result<ExitStatus, Failure> {
        let scenario = self.library.open()?.load(&self.id)?;
        let header = scenario.header();
        if let Some(other) = &header.elsewhere {
            return Err(format!(
                "{} is not run here; it needs {}: {}",
                header.id, other.needs, other.command
            )
            .into());
        }
        let cell = select(&scenario, &self.cell)?.first().copied().unwrap_or(0);
        let points = plan(
            &scenario,
            PlanOptions {
                seed: self.seed,
                repetitions: Some(1),
                ..PlanOptions::default()
            },
        )?;
        let point = points
            .iter()
            .find(|point| point.number == cell)
            .ok_or("there is nothing to run")?;
        let (quit, quits) = channel();
        let title = format!("{} {} seed {}", point.scenario, point.cell, point.seed);
        let screen = Screen::open(View::new(title), move || {
            // At the end the receiver is gone.
            let _ = quit.send(());
        })?;
        let screen = screen.ok_or(
            "lab watch needs a terminal; `lab run --csv` writes the same samples to files",
        )?;
        #[expect(
            clippy::disallowed_methods,
            reason = "the terminal follows the wall clock, the run does not"
        )]
        let begun = Instant::now();
        let mut over = false;
        sim::watch(point, REDRAW.mul_f64(self.speed), |snapshot| {
            let due = snapshot.at.div_f64(self.speed);
            screen.show(snapshot);
            let wait = due.saturating_sub(begun.elapsed());
            over = quits.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
            if over {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if !over {
            // The last frame stays on screen until a key is pressed.
            let _ = quits.recv();
        }
        Ok(ExitStatus::Holds)
    }
}
