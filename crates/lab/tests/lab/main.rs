//! The program as its users have it: what it writes, says and returns.

mod commands;
mod determinism;
#[path = "../home/mod.rs"]
mod home;
mod sweep;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use home::home;
use tempfile::TempDir;

/// Two uploads over a local bottleneck of 5 Mbit/s for three seconds, with and without TCP Small
/// Queues.
const SMALL: &str = r#"
id = "S-1"
title = "A small one"
paper = "000"
claim = "TCP Small Queues keep the sender's queue short."
table = ["goodput.total", "ping.p50"]

[run]
duration = "3s"
warm_up = "1s"
repetitions = 2
sample = "50ms"

[[host]]
name = "client"
qdisc = "qdisc root handle 1: htb default 1; class parent 1: classid 1:1 htb rate 5mbit; qdisc parent 1:1 pfifo limit 200"

[[host]]
name = "server"

[[router]]
name = "router"

[[link]]
between = ["client", "router"]
rate = "100mbit"
delay = "1ms"

[[link]]
between = ["router", "server"]
rate = "100mbit"
delay = "1ms"

[[flow]]
name = "upload"
kind = "tcp"
from = "client"
to = "server"
count = 2
spread = "50ms"

[[flow]]
name = "ping"
kind = "ping"
from = "client"
to = "server"
every = "20ms"

[[axis]]
name = "tsq"

[[axis.value]]
name = "TSQ"
set = { "tcp.tsq" = "1ms" }

[[axis.value]]
name = "NoTSQ"
set = { "tcp.tsq" = "off" }

[[shape]]
says = "the queue is short with TSQ"
check = 'cell["NoTSQ"].ping.p50 > 3 * cell["TSQ"].ping.p50'

[[shape]]
says = "the bottleneck is full"
check = '["TSQ", "NoTSQ"].all(t, cell[t].goodput.total > 4.5 && cell[t].goodput.total < 5)'

[[anova]]
metric = "ping.mean"
over = "tsq"
"#;

/// A directory with a scenario in `scenarios/small.toml`.
fn directory(scenario: &str) -> TempDir {
    home(&[("scenarios/small.toml", scenario)])
}

/// Runs `lab` in `directory` with these words, and with its scenarios.
fn lab(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
    command.current_dir(directory).args(words);
    if words.first().is_some_and(|command| *command != "compare") {
        command.args(["--scenarios", "scenarios"]);
    }
    command.output().expect("lab starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Content of every file below `directory`, by relative path.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut files, mut open) = (BTreeMap::new(), vec![directory.to_path_buf()]);
    while let Some(next) = open.pop() {
        for entry in
            fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display()))
        {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path
                    .strip_prefix(directory)
                    .expect("it is below")
                    .to_path_buf();
                files.insert(name, fs::read(&path).expect("a file"));
            }
        }
    }
    files
}
