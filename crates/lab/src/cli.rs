//! The command line of `lab`.
//!
//! | module | holds |
//! |---|---|
//! | `list`, `show`, `run`, `watch`, `report`, `sweep`, `compare` | one command each |
//! | `table` | columns of text |
//! | `progress` | how far a run is |

/// Prints a line. Nobody listens any more when `lab list | head` has seen enough: that is no
/// failure of ours.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _closed = writeln!(std::io::stdout(), $($words)*);
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

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::catalogue::Catalogue;
use crate::scenario::{ScenarioDir, ScenarioError};

/// Experiments of the source papers: run, judged, drawn and written down
#[derive(Debug, Parser)]
#[command(name = "lab", version, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str =
    "Exit codes: 0 every shape holds; 1 a shape does not hold; 2 the command line or a file is wrong, or a run failed; 3 shapes are not
judged, for their cells were not run, and the others hold.
Scenario files are explained in docs/lab.md.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Every row, and what it needs
    List(Library),
    /// The parameters of a row, and what its paper found
    Show(show::Show),
    /// Run rows: their tables, and whether each shape holds
    Run(run::RunArgs),
    /// A run in virtual time on the terminal, as fast as one likes to look: queues, rings, tokens,
    /// sojourn times
    Watch(watch::Watch),
    /// The report over all results of a directory; the gallery of figures
    Report(report::Report),
    /// Many points on many machines
    Sweep(sweep::Sweep),
    /// Two results side by side: output directories, rows, or cells
    Compare(compare::Compare),
}

/// Where scenarios come from.
#[derive(Args, Clone, Debug)]
struct Library {
    /// Directory of scenario files; default those that come with the program
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

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExitStatus {
    /// All is as expected.
    Well,
    /// A shape does not hold.
    Otherwise,
    /// Some shapes could not be checked: their cells were not run. The others hold.
    Partly,
}

type Failure = Box<dyn std::error::Error>;

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
        match outcome {
            Ok(ExitStatus::Well) => ExitCode::SUCCESS,
            Ok(ExitStatus::Otherwise) => ExitCode::from(1),
            Ok(ExitStatus::Partly) => ExitCode::from(3),
            Err(failure) => {
                eprintln!("lab: {failure}");
                ExitCode::from(2)
            }
        }
    }
}
