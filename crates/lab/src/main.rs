//! `lab`: runs the experiments of the source papers, each with one command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    tautline_lab::Cli::parse().run()
}
