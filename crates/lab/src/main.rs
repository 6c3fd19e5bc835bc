//! `lab`: runs the experiments of the source papers, each with one command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    tautline_lab::main()
}
