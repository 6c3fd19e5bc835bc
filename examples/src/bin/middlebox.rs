//! Forwards between two interfaces through qdiscs: `tautline middlebox` under a name of its own.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use tautline_cli::args::parse;
use tautline_cli::command::middlebox::MiddleboxArgs;
use tautline_cli::failure::exit_code;

fn main() -> ExitCode {
    exit_code("middlebox", parse::<MiddleboxArgs>().run())
}
