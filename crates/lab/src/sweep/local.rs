//! [`run`]: lines run on this machine's processors, each on one.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use super::manifest::{self, Entry};
use super::{LineError, Outcome};
use crate::execute::on_threads;

/// Runs `entries` of the manifest that errors call `file`; `report_done` gets the line of each as soon as
/// it is finished, on any thread.
pub(crate) fn run(
    entries: &[Entry],
    file: &str,
    jobs: NonZeroUsize,
    report_done: impl Fn(Result<String, LineError>) + Sync,
) {
    on_threads(entries.len(), jobs, |number| {
        let entry = &entries[number];
        let failed = |message| LineError {
            file: file.to_owned(),
            line: entry.line,
            message,
        };
        report_done(line(&entry.text).map_err(failed));
        ControlFlow::Continue(())
    });
}

/// The result of the point in `text`.
fn line(text: &str) -> Result<String, String> {
    let planned = manifest::read(text)?;
    let outcome =
        Outcome::of(&planned).map_err(|error| format!("point {}: {error}", planned.point.id))?;
    serde_json::to_string(&outcome).map_err(|error| error.to_string())
}
