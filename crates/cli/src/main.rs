//! `tautline`: one program for a network's queues; its commands are [`tautline_cli::command`].
#![forbid(unsafe_code)]

use std::process::ExitCode;

use tautline_cli::args::parse;
use tautline_cli::command::Tautline;

fn main() -> ExitCode {
    parse::<Tautline>().run()
}
