//! `tautline`: one program for a network's queues; its commands are [`tautline_cli::command`].
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use tautline_cli::args::parse_from;
use tautline_cli::command::Tautline;

/// Commands that a link of this program may be named after.
const NAMES: [&str; 3] = ["iperf3", "netperf", "netserver"];

fn main() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let name = words.first().and_then(|word| Path::new(word).file_name());
    if let Some(name) = name.filter(|name| NAMES.iter().any(|known| known == name)) {
        words.insert(1, name.to_owned());
    }
    parse_from::<Tautline>(words.into_iter()).run()
}
