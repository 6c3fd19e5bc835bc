//! Receives one TCP stream: `tautline receive` under a name of its own.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use tautline_cli::args::parse;
use tautline_cli::command::receive::ReceiveArgs;
use tautline_cli::failure::exit_code;

fn main() -> ExitCode {
    exit_code("receiver", parse::<ReceiveArgs>().run())
}
