//! Exchanges, packet by packet: scripts written from the RFCs, played against a host in virtual
//! time. Each is a text file under `scripts/`; what scripts can say, and which there are, is in the
//! `README.md` beside this file.
//!
//! `EXCHANGE=rfc5961 cargo test -p tautline-stack --test exchanges -- --nocapture` plays those
//! whose path holds `rfc5961`.

mod config;
mod deferral;
mod device;
mod facts;
mod index;
mod number;
mod runner;
mod script;
mod segment;
mod wire;

use std::path::{Path, PathBuf};

use runner::{Failure, Runner, length};
use script::Script;

/// The directory of this test.
fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exchanges")
}

/// Every script: its path below `scripts/` and its text, in order.
fn scripts() -> Vec<(String, String)> {
    let root = home().join("scripts");
    let mut found = Vec::new();
    for folder in std::fs::read_dir(&root).expect("the directory of scripts") {
        let folder = folder.expect("readable").path();
        for file in std::fs::read_dir(&folder).expect("a directory of scripts") {
            let path = file.expect("readable").path();
            let name = path
                .strip_prefix(&root)
                .expect("below it")
                .to_string_lossy()
                .into_owned();
            assert!(name.ends_with(".script"), "{name} is no script");
            found.push((name, std::fs::read_to_string(&path).expect("text")));
        }
    }
    found.sort();
    found
}

/// Plays one script: how long it lasted, or what went wrong.
fn play(name: &str, text: &str, is_large: bool) -> Result<std::time::Duration, String> {
    let place = |line: usize| format!("crates/stack/tests/exchanges/scripts/{name}:{line}");
    let script =
        Script::parse(text).map_err(|(line, why)| format!("{}\n       {why}", place(line)))?;
    match Runner::run(&script, is_large) {
        Ok(()) => Ok(length(&script)),
        Err(Failure { line, why, trace }) => {
            let source = text.lines().nth(line - 1).unwrap_or("").trim();
            Err(format!(
                "{}: {source}\n       {why}\n  the exchange so far:\n    {}",
                place(line),
                trace.join("\n    ")
            ))
        }
    }
}

/// With packets of several segments a single one that limited transmit admits waits for the next
/// acknowledgment, in case that admits a larger packet, as in Linux's `tcp_tso_should_defer`.
const DEFERRED: [&str; 2] = [
    "rfc3042/limited_transmit.script",
    "rfc9937/example_one_lost_of_ten.script",
];

#[test]
fn every_exchange_goes_as_written() {
    let wanted = std::env::var("EXCHANGE").unwrap_or_default();
    let (mut failures, mut played) = (Vec::new(), 0);
    for (name, text) in scripts().iter().filter(|(name, _)| name.contains(&wanted)) {
        played += 1;
        // The peer sees the same segments if the device cuts them.
        let differs = DEFERRED.contains(&name.as_str());
        for is_large in [false, true] {
            match play(name, text, is_large) {
                Ok(_) if is_large && differs => failures.push((name.clone(), is_large)),
                Ok(length) => println!("  ok   {name}, large {is_large} ({length:?})"),
                Err(_) if is_large && differs => {}
                Err(why) => {
                    println!("  FAIL large {is_large}: {why}");
                    failures.push((name.clone(), is_large));
                }
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {played} exchanges went otherwise: {failures:#?}",
        failures.len()
    );
    assert!(played > 0, "no script's path holds {wanted:?}");
}
