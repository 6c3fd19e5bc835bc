//! Our qdiscs beside Linux 6.1, packet by packet.
//!
//! `scripts/validate-linux` has the kernel replay the traces made here, in simulated time, and
//! prints the tables in `docs/validation`. A small part of what the kernel did is recorded in
//! `data/`, so that this test needs no kernel.

mod acks;
mod cells;
mod compare;
mod excerpt;
mod frame;
mod large;
mod record;
mod replay;
mod run;
mod tables;
mod ties;
mod trace;

use std::path::PathBuf;
use std::{env, fs};

use cells::{SETUPS, Setup};
use run::Run;

fn folder() -> PathBuf {
    PathBuf::from(
        env::var("TAUTLINE_RECORDINGS")
            .expect("TAUTLINE_RECORDINGS names a folder; run scripts/validate-linux"),
    )
}

/// Writes the job of every cell.
#[test]
#[ignore = "part of scripts/validate-linux"]
fn jobs() {
    let folder = folder();
    for setup in SETUPS {
        for &input in setup.inputs {
            let path = folder.join(setup.cell(input) + ".job");
            let job = setup.job(input);
            // Unchanged jobs keep their recordings.
            if fs::read_to_string(&path).ok().as_deref() != Some(&job) {
                fs::write(&path, job).expect("the folder is writable");
            }
        }
    }
}

/// Whether ours still does what the kernel did, as far as that lies in `data/`.
#[test]
fn the_kernel_is_followed() {
    assert!(
        excerpt::check_all() > 70,
        "the recordings lie beside this test"
    );
}

/// Writes that part.
#[test]
#[ignore = "part of scripts/validate-linux"]
fn renew() {
    excerpt::write(&folder());
}

/// Prints the table of `docs/validation/qdiscs-exact.md`.
#[test]
#[ignore = "part of scripts/validate-linux"]
fn exact_table() {
    let only = env::var("ONLY").unwrap_or_default();
    let setups = SETUPS
        .iter()
        .filter(|setup| setup.name.starts_with(&only) && !setup.is_random());
    println!("{}", tables::exact(&folder(), setups));
}

/// Prints the tables of `docs/validation/qdiscs-statistical.md`.
#[test]
#[ignore = "part of scripts/validate-linux"]
fn statistical_tables() {
    let only = env::var("ONLY").unwrap_or_default();
    let chosen = |setup: &&Setup| setup.name.starts_with(&only);
    let setups = || SETUPS.iter().filter(chosen);
    println!("{}", tables::statistical(&folder(), setups()));
    println!("Packets that netem duplicated, which the table above counts once:\n");
    println!("{}", tables::copies(&folder(), setups()));
}

/// How far ours stays with the kernel if ties are decided as the kernel seems to have decided them;
/// the default profile, which is really different, for comparison.
#[test]
#[ignore = "for whoever looks for a difference"]
fn ties() {
    let only = env::var("ONLY").expect("ONLY names a cell or how some begin, e.g. htb-tree.many");
    let seed = env::var("SEED").map_or(1, |seed| seed.parse().expect("SEED is a number"));
    for setup in SETUPS {
        for &input in setup
            .inputs
            .iter()
            .filter(|&&input| setup.cell(input).starts_with(&only))
        {
            let Some(run) = Run::new(&folder(), setup, input, seed) else {
                continue;
            };
            let profiles = [true, false]
                .into_iter()
                .filter(|&linux| linux || setup.has_profile());
            for linux in profiles {
                let (nudges, together) = ties::decide(&run, setup, linux, seed);
                let (name, all) = (setup.cell(input), run.record.departures.len());
                let profile = if linux { "" } else { ", default" };
                println!(
                    "{name}{profile}: {together} of {all} departures together with {} ties: {nudges:?}",
                    nudges.len()
                );
            }
        }
    }
}

/// The run of one cell, packet by packet.
#[test]
#[ignore = "for whoever looks for a difference"]
fn cell() {
    let wanted = env::var("ONLY").expect("ONLY names a cell, e.g. fq_codel-default.bursts");
    for setup in SETUPS {
        for &input in setup
            .inputs
            .iter()
            .filter(|&&input| setup.cell(input) == wanted)
        {
            let run = Run::new(&folder(), setup, input, 1).expect("recorded");
            let ours = run.ours(setup, true, 1);
            for (theirs, mine) in run.record.departures.iter().zip(&ours) {
                let same = (theirs.id, theirs.tos) == (mine.id, mine.tos);
                println!("{theirs:?} {mine:?} {}", if same { "" } else { "<---" });
            }
            println!("{:#?}\n{}", run.verdict(&ours), run.record.said);
        }
    }
}
