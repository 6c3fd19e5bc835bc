//! `tautline`: one program for a network's queues; its commands are [`tautline_cli::command`].
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use tautline_cli::args::parse_from;
use tautline_cli::command::Tautline;
use tautline_cli::command::link::{comcast, mahimahi};
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
    let name = name.and_then(|name| name.to_str()).unwrap_or_default();
    let others = &words[words.len().min(1)..];
    let link = mahimahi::translated(name, others).or_else(|| comcast::translated(name, others));
    if let Some(link) = link {
        let why = link.map_or_else(|why| why, become_link);
        eprintln!("{name}: {why}");
        return ExitCode::from(2);
    } else if let Some((_, command)) = NAMES.iter().find(|(known, _)| *known == name) {
        words.insert(1, command.into());
    }
    parse_from::<Tautline>(words.into_iter()).run()
}

/// Replaces this process by `tautline` with these words, which a link reads again in its namespaces.
/// Returns why that failed.
fn become_link(words: Vec<OsString>) -> String {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error.to_string(),
    };
    Command::new(program).args(words).exec().to_string()
}
