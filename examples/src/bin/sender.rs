//! Sends a file, or generated data, to a TCP receiver: `tautline send` under a name of its own.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use tautline_cli::args::parse;
use tautline_cli::command::send::SendArgs;
use tautline_cli::failure::exit_code;

fn main() -> ExitCode {
    exit_code("sender", parse::<SendArgs>().run())
}
