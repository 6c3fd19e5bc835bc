//! The comparison, cell by cell.

use std::fmt;
use std::sync::Mutex;

use crate::figures::{Figures, Recordings, share};
use crate::ours;

pub(crate) const HEAD: &str = "\
| cell | seeds | goodput, Mbit/s | RTT median, ms | RTT 95 %, ms | backlog median, bytes | drops | cwnd, mean of the sum, bytes | |
|---|---|---|---|---|---|---|---|---|";

/// One figure of one cell: the kernel's mean and its 5 to 95 % range over seeds, our mean.
#[derive(Clone, Copy)]
struct Measure {
    kernel: [f64; 3],
    ours: f64,
    holds: bool,
}

/// One cell.
pub(crate) struct Row {
    cell: String,
    seeds: [usize; 2],
    measures: [Measure; 6],
}

impl Row {
    pub(crate) fn holds(&self) -> bool {
        self.measures.iter().all(|measure| measure.holds)
    }
}

/// Two full frames: a median that stands at a number of packets moves by whole ones.
const FRAMES: f64 = 2.0 * 1514.0;

/// Runs every recorded cell, with as many seeds as were recorded, on all processors.
pub(crate) fn compare(recordings: &Recordings) -> Vec<Row> {
    let waiting = Mutex::new(recordings.0.iter().collect::<Vec<_>>());
    let rows = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some((cell, kernel)) = waiting.lock().expect("nobody panics with it").pop()
                    else {
                        return;
                    };
                    let row = row(cell, kernel);
                    rows.lock().expect("nobody panics with it").push(row);
                }
            });
        }
    });
    let mut rows = rows.into_inner().expect("all workers are done");
    rows.sort_by(|a, b| a.cell.cmp(&b.cell));
    rows
}

/// Seeds of ours are cheap: at least three.
fn row(cell: &str, kernel: &[Figures]) -> Row {
    let parsed = cell.parse().unwrap_or_else(|error| panic!("{error}"));
    let seeds = kernel.len().max(3);
    let ours: Vec<_> = (1..=seeds as u64)
        .map(|seed| ours::run(&parsed, seed))
        .collect();
    // Tolerances: the share of the kernel's mean, and an absolute one below which a share means
    // nothing.
    let packet = 1514.0 * 8.0 / parsed.rate().as_bytes_per_sec() as f64 / 8.0 * 1e3;
    let measures = [
        measure(kernel, &ours, |figures| figures.goodput, |mean| mean * 0.02),
        measure(
            kernel,
            &ours,
            |figures| figures.rtt_median,
            |mean| (mean * 0.05).max(packet),
        ),
        measure(
            kernel,
            &ours,
            |figures| figures.rtt_95,
            |mean| (mean * 0.05).max(packet),
        ),
        measure(
            kernel,
            &ours,
            |figures| figures.backlog,
            |mean| (mean * 0.1).max(FRAMES),
        ),
        measure(
            kernel,
            &ours,
            |figures| figures.drops,
            |mean| {
                if mean < 50.0 {
                    2.0 * mean.sqrt()
                } else {
                    mean * 0.1
                }
            },
        ),
        measure(
            kernel,
            &ours,
            |figures| figures.cwnd,
            |mean| (mean * 0.05).max(FRAMES),
        ),
    ];
    Row {
        cell: cell.into(),
        seeds: [kernel.len(), ours.len()],
        measures,
    }
}

fn measure(
    kernel: &[Figures],
    ours: &[Figures],
    what: fn(&Figures) -> f64,
    tolerance: impl Fn(f64) -> f64,
) -> Measure {
    let values = |all: &[Figures]| all.iter().map(what).collect::<Vec<_>>();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let theirs = values(kernel);
    let (middle, low, high) = (mean(&theirs), share(theirs.clone(), 5), share(theirs, 95));
    let ours = mean(&values(ours));
    let allowed = tolerance(middle);
    // The larger of the two tolerances: the stated one, or what the kernel differs by from seed to
    // seed.
    let holds = ours >= (middle - allowed).min(low) && ours <= (middle + allowed).max(high);
    Measure {
        kernel: [middle, low, high],
        ours,
        holds,
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "| {} | {}, {} |",
            self.cell, self.seeds[0], self.seeds[1]
        )?;
        for (measure, digits) in self.measures.iter().zip([2, 2, 2, 0, 0, 0]) {
            let [middle, low, high] = measure.kernel;
            write!(f, " {middle:.digits$}")?;
            if low < high {
                write!(f, " ({low:.digits$}–{high:.digits$})")?;
            }
            write!(
                f,
                " / {:.digits$}{} |",
                measure.ours,
                if measure.holds { "" } else { " **no**" }
            )?;
        }
        f.write_str(if self.holds() { " |" } else { " **no** |" })
    }
}
