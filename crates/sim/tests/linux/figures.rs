//! [`Figures`]: what is compared of one run; [`Recordings`]: what the kernel did.

use std::collections::BTreeMap;
use std::time::Duration;

/// Results of one run. Echoes, backlog and reductions leave the first [`SKIP`] out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    /// Payload in Mbit/s.
    pub(crate) goodput: f64,
    /// Median round trip of an echo message in ms.
    pub(crate) rtt_median: f64,
    /// The round trip that 95 % of them do not exceed, in ms.
    pub(crate) rtt_95: f64,
    /// Median bytes in the queue.
    pub(crate) backlog: f64,
    /// Packets the queue dropped.
    pub(crate) drops: f64,
    /// Mean seconds between reductions of the first flow's window; 0 for fewer than three.
    pub(crate) period: f64,
}

/// Warm-up, not measured.
pub(crate) const SKIP: Duration = Duration::from_secs(2);

/// The kernel's figures by cell, one for each seed.
pub(crate) struct Recordings(pub(crate) BTreeMap<String, Vec<Figures>>);

impl Recordings {
    /// Reads what `validation/linux/tcp.py` wrote.
    pub(crate) fn parse(text: &str) -> Self {
        let mut cells: BTreeMap<String, Vec<Figures>> = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let (cell, rest) = line.split_once(',').expect("a cell's name and figures");
            let numbers: Vec<f64> = rest
                .split(',')
                .map(|number| number.parse().expect("a number"))
                .collect();
            let [
                _seed,
                goodput,
                rtt_median,
                rtt_95,
                backlog,
                drops,
                _marks,
                period,
                _retransmits,
            ] = numbers[..]
            else {
                panic!("{line} has other columns: record it again");
            };
            let figures = Figures {
                goodput,
                rtt_median,
                rtt_95,
                backlog,
                drops,
                period,
            };
            cells.entry(cell.into()).or_default().push(figures);
        }
        Self(cells)
    }

    /// Forgets cells whose names do not begin so.
    pub(crate) fn keep(&mut self, prefix: &str) {
        self.0.retain(|cell, _| cell.starts_with(prefix));
    }
}

/// The value that `percent` of `values` do not exceed.
pub(crate) fn share(mut values: Vec<f64>, percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get((percent * values.len() / 100).min(values.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}

/// Mean seconds between falls of a window by more than an eighth, from one look each tenth of a
/// second.
pub(crate) fn period(windows: &[u64]) -> f64 {
    let skip = SKIP.as_secs() as usize * 10;
    let falls: Vec<_> = (1..windows.len())
        .filter(|&i| i > skip && windows[i] < windows[i - 1] * 7 / 8)
        .collect();
    match falls[..] {
        [first, _, .., last] => (last - first) as f64 / 10.0 / (falls.len() - 1) as f64,
        _ => 0.0,
    }
}
