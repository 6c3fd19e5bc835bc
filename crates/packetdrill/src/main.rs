//! `packetdrill`: plays every script below the given files and folders and counts per folder.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tautline_packetdrill::{Failure, Rules, Script, run};

/// Plays packetdrill scripts against tautline's TCP in virtual time.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Scripts (`.pkt`), or folders of them.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// How far from its time a segment may leave, in microseconds.
    #[arg(long, default_value_t = 4000)]
    tolerance_usecs: u64,
    /// Compare the PSH flag, too.
    #[arg(long)]
    compare_push: bool,
    /// A segment that leaves before a script's end and that no line expects is a failure.
    #[arg(long)]
    complete: bool,
    /// Play over IPv6.
    #[arg(long)]
    ipv6: bool,
    /// Say why each script was skipped.
    #[arg(long)]
    show_skipped: bool,
}

/// Counts of one folder.
#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let rules = Rules {
        tolerance: Duration::from_micros(args.tolerance_usecs),
        compare_push: args.compare_push,
        complete: args.complete,
        ipv6: args.ipv6,
        ..Rules::default()
    };
    let mut scripts = Vec::new();
    for path in &args.paths {
        if let Err(error) = collect(path, &mut scripts) {
            eprintln!("packetdrill: {}: {error}", path.display());
            return ExitCode::from(2);
        }
    }
    let mut folders: BTreeMap<PathBuf, Counts> = BTreeMap::new();
    for path in &scripts {
        let folder = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
        let counts = folders.entry(folder).or_default();
        match play(path, &rules) {
            Ok(()) => counts.passed += 1,
            Err(failure @ Failure::Differs { .. }) => {
                counts.failed += 1;
                println!("FAIL {}: {failure}", path.display());
            }
            Err(failure) => {
                counts.skipped += 1;
                if args.show_skipped {
                    println!("skip {}: {failure}", path.display());
                }
            }
        }
    }
    for (folder, counts) in &folders {
        let Counts {
            passed,
            failed,
            skipped,
        } = counts;
        println!(
            "{}: {passed} passed, {failed} failed, {skipped} skipped",
            folder.display()
        );
    }
    let sum = |count: fn(&Counts) -> usize| folders.values().map(count).sum::<usize>();
    let failed = sum(|counts| counts.failed);
    println!(
        "{} passed, {failed} failed, {} skipped",
        sum(|c| c.passed),
        sum(|c| c.skipped)
    );
    ExitCode::from(u8::from(failed > 0))
}

fn play(path: &Path, rules: &Rules) -> Result<(), Failure> {
    let unreadable = |error: std::io::Error| Failure::Unsupported {
        line: 0,
        why: error.to_string(),
    };
    let text = fs::read_to_string(path).map_err(unreadable)?;
    run(&Script::parse(&text)?, rules)
}

/// Adds the scripts at or below `path`, in order.
fn collect(path: &Path, scripts: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        fs::metadata(path)?;
        scripts.push(path.to_owned());
        return Ok(());
    }
    let mut entries = fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?;
    entries.sort();
    for entry in entries {
        if entry.is_dir()
            || entry
                .extension()
                .is_some_and(|extension| extension == "pkt")
        {
            collect(&entry, scripts)?;
        }
    }
    Ok(())
}
