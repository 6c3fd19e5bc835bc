//! `packetdrill`: plays every script below the given files and folders and counts per folder. A path
//! without a script and a script that cannot be read are errors: a typing mistake must not pass.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{fmt, fs};

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
    /// Say why each script was skipped, for it needs what is not supported here.
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

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

fn main() -> ExitCode {
    match play_all(&Args::parse()) {
        Ok(failed) => ExitCode::from(u8::from(failed > 0)),
        Err(why) => {
            eprintln!("packetdrill: {why}");
            ExitCode::from(2)
        }
    }
}

/// Plays every script and prints the counts. Returns how many failed.
fn play_all(args: &Args) -> Result<usize, String> {
    let rules = Rules {
        tolerance: Duration::from_micros(args.tolerance_usecs),
        compare_push: args.compare_push,
        complete: args.complete,
        ipv6: args.ipv6,
        ..Rules::default()
    };
    let mut folders: BTreeMap<PathBuf, Counts> = BTreeMap::new();
    for path in &scripts(&args.paths)? {
        let text =
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let folder = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
        let counts = folders.entry(folder).or_default();
        let played = Script::parse(&text).map_err(Failure::from);
        match played.and_then(|script| run(&script, &rules)) {
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
        println!("{}: {counts}", folder.display());
    }
    let sum = folders
        .values()
        .fold(Counts::default(), |sum, counts| Counts {
            passed: sum.passed + counts.passed,
            failed: sum.failed + counts.failed,
            skipped: sum.skipped + counts.skipped,
        });
    println!("{sum}");
    Ok(sum.failed)
}

/// The scripts at or below `paths`, of which each has one.
fn scripts(paths: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut scripts = Vec::new();
    for path in paths {
        let before = scripts.len();
        collect(path, &mut scripts).map_err(|error| format!("{}: {error}", path.display()))?;
        if scripts.len() == before {
            return Err(format!("{}: no script (.pkt) is in it", path.display()));
        }
    }
    Ok(scripts)
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
