//! The part of the kernel's recordings that lies in `data/`: the beginning of two traces for each
//! setup, numbers only.
//!
//! First line: the kernel's clock at the start. Second: how long after its time in the trace each
//! packet came, in nanoseconds. Then a line for each departure: the packet, nanoseconds since the
//! departure before, its TOS byte.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cells::{Input, SETUPS, Setup};
use crate::compare::{ALIKE, SAME_TIME_NS};
use crate::record::{Departure, Record};
use crate::run::Run;
use crate::trace::Arrival;

/// Packets of each trace.
const PACKETS: usize = 600;
/// Nothing is judged that happens so shortly before the end that the next packet may have changed
/// it.
const MARGIN_NS: i64 = 5_000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/linux/data")
}

/// The cells of which a part is carried along: two of each setup, so that all traces are among
/// them.
fn cells() -> impl Iterator<Item = (&'static Setup, Input)> {
    SETUPS
        .iter()
        .enumerate()
        .filter(|(_, setup)| setup.is_exact())
        .flat_map(|(place, setup)| {
            let inputs = setup.inputs;
            let places = [place, place + 3].into_iter().take(inputs.len());
            places.map(move |place| (setup, inputs[place % inputs.len()]))
        })
}

/// Writes them all, from the recordings in `recordings`.
pub(crate) fn write(recordings: &Path) {
    fs::create_dir_all(folder()).expect("the sources are writable");
    for (setup, input) in cells() {
        let Some(run) = Run::new(recordings, setup, input, 1) else {
            continue;
        };
        let late = run.record.arrivals.iter().zip(&run.trace).take(PACKETS);
        let late: Vec<String> = late
            .map(|(at, nominal)| (at - nominal.at).to_string())
            .collect();
        let mut text = format!("{}\n{}\n", run.record.start, late.join(" "));
        let end = run.record.arrivals[PACKETS] as i64 - MARGIN_NS;
        let mut last = 0;
        for Departure { id, at, tos } in run
            .record
            .departures
            .iter()
            .filter(|packet| packet.at < end)
        {
            writeln!(text, "{id} {} {tos}", at - last).expect("a string grows");
            last = *at;
        }
        if let Err(error) = check(setup, input, &text) {
            println!("left out: {} {error}", setup.cell(input));
            continue;
        }
        fs::write(folder().join(setup.cell(input) + ".txt"), text)
            .expect("the sources are writable");
    }
}

/// How many there are, after each was checked.
pub(crate) fn check_all() -> usize {
    let mut checked = 0;
    for (setup, input) in cells() {
        let path = folder().join(setup.cell(input) + ".txt");
        let Ok(text) = fs::read_to_string(path) else {
            continue;
        };
        check(setup, input, &text).unwrap_or_else(|error| panic!("{}: {error}", setup.cell(input)));
        checked += 1;
    }
    checked
}

fn check(setup: &Setup, input: Input, text: &str) -> Result<(), String> {
    let trace = input.trace(setup.millis());
    let (run, end) = read(text, &trace).ok_or("cannot be read")?;
    let all = run.ours(setup, true, 1);
    let mine: Vec<&Departure> = all.iter().filter(|packet| packet.at < end).collect();
    let theirs = &run.record.departures;
    let same = theirs.iter().zip(&mine).filter(|(theirs, mine)| {
        (theirs.id, theirs.tos) == (mine.id, mine.tos)
            && theirs.at.abs_diff(mine.at) <= SAME_TIME_NS
    });
    let share = same.count() as f64 / theirs.len().max(mine.len()).max(1) as f64;
    if share >= ALIKE {
        Ok(())
    } else {
        Err(format!(
            "{:.2} % of {} departures are the kernel's",
            100.0 * share,
            theirs.len()
        ))
    }
}

/// A run that ends early, and when it ends.
fn read(text: &str, trace: &[Arrival]) -> Option<(Run, i64)> {
    let mut lines = text.lines();
    let start = lines.next()?.parse().ok()?;
    let late = lines
        .next()?
        .split(' ')
        .map(|late| late.parse::<u64>().ok());
    let arrivals: Vec<u64> = trace
        .iter()
        .zip(late)
        .map(|(nominal, late)| Some(nominal.at + late?))
        .collect::<Option<_>>()?;
    let mut at = 0;
    let departures = lines.map(|line| {
        let mut fields = line.split(' ').map(|field| field.parse::<i64>().ok());
        let id = fields.next()??.try_into().ok()?;
        at += fields.next()??;
        Some(Departure {
            id,
            at,
            tos: fields.next()??.try_into().ok()?,
        })
    });
    let departures = departures.collect::<Option<_>>()?;
    let end = trace[arrivals.len()].at as i64 - MARGIN_NS;
    let trace = trace[..arrivals.len()].to_vec();
    Some((
        Run {
            trace,
            record: Record {
                start,
                arrivals,
                departures,
                ..Record::default()
            },
        },
        end,
    ))
}
