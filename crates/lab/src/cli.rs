//! The command line of `lab`.

use std::process::ExitCode;

use clap::Parser;

/// Experiments of the source papers: run, judged, drawn and written down
#[derive(Debug, Parser)]
#[command(name = "lab", version)]
struct Cli {}

/// Does what the arguments of the process say.
pub fn main() -> ExitCode {
    let Cli {} = Cli::parse();
    ExitCode::SUCCESS
}
