//! The command line of `lab`.
//!
//! | module | holds |
//! |---|---|
//! | `list`, `show`, `run`, `watch`, `report`, `sweep`, `compare` | one command each |
//! | `table` | columns of text |
//! | `progress` | how far a run is |

/// Prints a line on standard output. A closed pipe, as in `lab list | head`, is not an error; any other
/// error ends the command with it.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        if let Err(error) = $crate::cli::piped(writeln!(std::io::stdout(), $($words)*)) {
            let _first = $crate::cli::UNPRINTED.set(error);
        }
    }};
}

mod compare;
mod list;
mod progress;
mod report;
mod run;
mod show;
mod sweep;
mod table;
mod watch;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::{Args, Parser, Subcommand};

use crate::catalogue::Catalogue;
use crate::scenario::{ScenarioDir, ScenarioError};

/// Runs, checks and plots the experiments of the source papers
#[derive(Debug, Parser)]
#[command(name = "lab", version, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str =
    "Exit codes: 0 every shape holds; 1 a shape does not hold; 2 the command line or a file is wrong, or a run failed; 3 shapes are not
judged because their cells were not run, and the others hold.
Scenario files are explained in docs/lab.md.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists every row and its requirements
    List(Library),
    /// Shows the parameters of a row and the paper's claim
    Show(show::Show),
    /// Runs rows; prints their tables and whether each shape holds
    Run(run::RunArgs),
    /// Shows a run in virtual time on the terminal, slowed down or sped up: queues, rings, tokens, sojourn times
    Watch(watch::Watch),
    /// Writes the report of all results in a directory, and the gallery of figures
    Report(report::Report),
    /// Runs many points on many machines
    Sweep(sweep::Sweep),
    /// Compares two results: output directories, rows, or cells
    Compare(compare::Compare),
}

/// Source of the scenarios.
#[derive(Args, Clone, Debug)]
struct Library {
    /// Directory of scenario files [default: the built-in ones]
    #[arg(long, value_name = "DIR")]
    scenarios: Option<PathBuf>,
}

impl Library {
    fn open(&self) -> Result<Catalogue, ScenarioError> {
        Catalogue::read(
            self.scenarios
                .clone()
                .map_or(ScenarioDir::Shipped, ScenarioDir::Directory),
        )
    }
}

/// Exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExitStatus {
    /// Every shape holds; also the status of commands that judge no shapes.
    Holds,
    /// A shape does not hold.
    DoesNotHold,
    /// Some shapes could not be checked: their cells were not run. The others hold.
    NotAllJudged,
}

type Failure = Box<dyn std::error::Error>;

/// Why a line could not be printed.
static UNPRINTED: OnceLock<io::Error> = OnceLock::new();

impl Cli {
    /// Runs the command and prints its outcome.
    pub fn run(self) -> ExitCode {
        let outcome = match self.command {
            Command::List(library) => list::list(&library),
            Command::Show(show) => show.show(),
            Command::Run(run) => run.run(),
            Command::Watch(watch) => watch.watch(),
            Command::Report(report) => report.report(),
            Command::Sweep(sweep) => sweep.sweep(),
            Command::Compare(compare) => compare.compare(),
        };
        let outcome = outcome.and_then(|status| match UNPRINTED.get() {
            None => Ok(status),
            Some(error) => Err(format!("standard output: {error}").into()),
        });
        match outcome {
            Ok(ExitStatus::Holds) => ExitCode::SUCCESS,
            Ok(ExitStatus::DoesNotHold) => ExitCode::from(1),
            Ok(ExitStatus::NotAllJudged) => ExitCode::from(3),
            Err(failure) => {
                eprintln!("lab: {failure}");
                ExitCode::from(2)
            }
        }
    }
}

/// A closed pipe is not an error.
fn piped(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
