//! [`Figures`]: what is compared of one run; [`Recordings`]: what the kernel did.

use std::collections::BTreeMap;
use std::time::Duration;

/// Results of one run. Echoes, backlog and windows leave the first [`SKIP`] out.
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
    /// Mean of the sum of all flows' windows, in bytes.
    pub(crate) cwnd: f64,
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
                cwnd,
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
                cwnd,
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

/// Mean of `windows`, one for each tenth of a second, without the warm-up.
pub(crate) fn mean_window(windows: &[u64]) -> f64 {
    let measured = &windows[(SKIP.as_secs() as usize * 10).min(windows.len())..];
    measured.iter().sum::<u64>() as f64 / measured.len().max(1) as f64
}
