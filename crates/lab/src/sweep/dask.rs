//! [`run`]: lines run on a Dask cluster, by a client in Python that comes with the program.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, fs, thread};

use super::Entry;

/// The client.
const CLIENT: &str = include_str!("dask.py");
/// Path of a virtual environment with Dask, relative to the build directory.
const VENV: &str = "dask-venv/bin/python";
/// Printed by a Python that has what the client needs.
const PROBE: &str = "import distributed; print(distributed.__version__)";

/// Runs `entries` on the cluster whose scheduler is at `address`; `report_done` gets the line of each that
/// is finished.
///
/// # Errors
/// If there is no Python with Dask or no cluster, or tasks failed repeatedly. Results reported
/// before remain valid.
pub(crate) fn run(
    entries: &[Entry],
    address: &str,
    mut report_done: impl FnMut(&str),
) -> Result<(), String> {
    let lab = env::current_exe().map_err(|error| format!("this program has no path: {error}"))?;
    let mut child = Command::new(python()?)
        .args(["-c", CLIENT, address])
        .arg(lab)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("Python does not start: {error}"))?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    thread::scope(|scope| {
        // Writes and reads at once, because both pipes may fill up.
        scope.spawn(move || {
            let Some(mut input) = input else { return };
            for entry in entries {
                // A client that exited has printed the reason.
                if writeln!(input, "{}", entry.text).is_err() {
                    return;
                }
            }
        });
        for line in output
            .into_iter()
            .flat_map(|output| BufReader::new(output).lines())
            .map_while(Result::ok)
        {
            report_done(&line);
        }
    });
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.success() {
        Ok(())
    } else {
        Err(format!(
            "Dask did not run all points ({status}); run the same again for the rest"
        ))
    }
}

/// A Python that has Dask: that of the path, or of the virtual environment below the directory of
/// builds.
fn python() -> Result<PathBuf, String> {
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    // A program that is started from another directory must have a whole path.
    let venv = fs::canonicalize(&target).unwrap_or(target).join(VENV);
    let has = |python: &PathBuf| {
        Command::new(python)
            .args(["-c", PROBE])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    [PathBuf::from("python3"), venv].into_iter().find(has).ok_or_else(|| {
        "--dask needs Python 3 with Dask distributed, and neither python3 nor target/dask-venv has it: \
         python3 -m venv target/dask-venv && target/dask-venv/bin/pip install distributed"
            .to_owned()
    })
}
