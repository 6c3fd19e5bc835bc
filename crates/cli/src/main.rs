//! `tautline`: one program for a network's queues; its commands are [`tautline_cli::command`].
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use tautline_cli::args::parse_from;
use tautline_cli::command::Tautline;
use tautline_cli::log;

/// Names that a link of this program may have, and the commands they stand for.
const NAMES: [(&str, &str); 4] = [
    ("iperf3", "iperf3"),
    ("netperf", "netperf"),
    ("netserver", "netserver"),
    ("tautline-extcap", "extcap"),
];

fn main() -> ExitCode {
    log::start();
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let name = words.first().and_then(|word| Path::new(word).file_name());
    let command = NAMES
        .iter()
        .find(|(known, _)| name.is_some_and(|name| name == *known));
    if let Some((_, command)) = command {
        words.insert(1, command.into());
    }
    parse_from::<Tautline>(words.into_iter()).run()
}
