//! Our TCP beside that of Linux 6.1, through the same bottleneck.
//!
//! `scripts/validate-tcp` has the kernel send in simulated time (`validation/linux/tcp.py`), lets
//! ours do the same in virtual time, and prints the table of `docs/validation/tcp.md`. A few of the
//! kernel's figures lie in `data/`, so that this test needs no kernel.

mod cell;
mod figures;
mod iperf;
mod ours;
mod tables;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::{env, fs};

use figures::Recordings;
use tautline_cc::{Factory, Row, Traced};
use tautline_sim::{Capture, CaptureConfig, Record};
use tautline_stack::{PacketEvent, What};

/// Whether ours still does what the kernel did, as far as that lies in `data/`.
#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "minutes without optimisation; the tests of the release build have it"
)]
fn the_kernel_is_followed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/linux/data/tcp.csv");
    let recordings =
        Recordings::parse(&fs::read_to_string(path).expect("the recordings lie beside this test"));
    let rows = tables::compare(&recordings);
    assert!(rows.len() >= 16, "only {} cells are recorded", rows.len());
    let failed: Vec<_> = rows
        .iter()
        .filter(|row| !row.holds())
        .map(ToString::to_string)
        .collect();
    assert!(failed.is_empty(), "{}\n{}", tables::HEAD, failed.join("\n"));
}

/// Writes the table of every recorded cell whose name begins with `ONLY`.
#[test]
#[ignore = "part of scripts/validate-tcp"]
fn table() {
    let path = env::var("TAUTLINE_RECORDINGS")
        .expect("TAUTLINE_RECORDINGS names a file; run scripts/validate-tcp");
    let mut recordings =
        Recordings::parse(&fs::read_to_string(path).expect("the file can be read"));
    recordings.keep(&env::var("ONLY").unwrap_or_default());
    let rows = tables::compare(&recordings);
    println!("{}", tables::HEAD);
    rows.iter().for_each(|row| println!("{row}"));
    println!(
        "\n{} of {} cells hold.",
        rows.iter().filter(|row| row.holds()).count(),
        rows.len()
    );
}

/// Steps of our controllers in the cell that `ONLY` names, step by step.
#[test]
#[ignore = "by hand, to find a difference"]
fn trace() {
    let cell = env::var("ONLY").expect("ONLY names a cell, e.g. bbr-1-codel-10-100-30");
    println!("{}", Row::HEAD);
    let print = |row: &Row| println!("{row}");
    let wrap = |inner: Factory| {
        Factory::new(move |config| Box::new(Traced::new(inner.build(config), print)))
    };
    println!(
        "{:?}",
        ours::run_with(&cell.parse().expect("a cell"), 1, wrap, ()).figures
    );
}

/// Writes the headers of what our client sends and receives in the cells that `ONLY` names, with seed `SEED`.
#[test]
#[ignore = "part of scripts/validate-tcp"]
fn capture() {
    let folder = env::var("TAUTLINE_CAPTURES").expect("TAUTLINE_CAPTURES names a folder");
    let seed = env::var("SEED").map_or(1, |seed| seed.parse().expect("a number"));
    for cell in env::var("ONLY")
        .expect("ONLY names cells")
        .split_whitespace()
    {
        let file = Path::new(&folder).join(format!("{cell}.ours.pcapng"));
        let file = File::create(file).expect("the folder can be written to");
        let config = CaptureConfig {
            snaplen: HEADERS,
            ..CaptureConfig::default()
        };
        let capture = Capture::new(BufWriter::new(file), config).expect("the file can be written");
        let run = ours::run_with(
            &cell.parse().expect("a cell"),
            seed,
            |same| same,
            Client(capture),
        );
        let written = run.recorder.0.finish();
        written.expect("the file can be written");
        println!("{:?}", run.figures);
    }
}

/// Bytes kept of a packet.
const HEADERS: u32 = 100;

/// Records what the client passes to its qdisc, and what it receives.
struct Client<W: Write>(Capture<W>);

impl<W: Write> Record for Client<W> {
    fn on_host(&mut self, host: usize, event: &PacketEvent, frame: &[u8]) {
        if host == 0 && matches!(event.what, What::Queued | What::Received) {
            self.0.on_host(host, event, frame);
        }
    }
}

/// Writes the window of the first flow and the backlog over time of the cells that `ONLY` names,
/// for `validation/linux/plots.py`.
#[test]
#[ignore = "part of scripts/validate-tcp"]
fn series() {
    let folder = env::var("TAUTLINE_SERIES").expect("TAUTLINE_SERIES names a folder");
    for cell in env::var("ONLY")
        .expect("ONLY names cells")
        .split_whitespace()
    {
        let run = ours::run_with(&cell.parse().expect("a cell"), 1, |same| same, ());
        let rows: String = run
            .samples
            .iter()
            .map(|sample| format!("{:.1},{},{}\n", sample.at, sample.window, sample.backlog))
            .collect();
        fs::write(Path::new(&folder).join(format!("{cell}.ours.csv")), rows)
            .expect("the folder can be written to");
    }
}
