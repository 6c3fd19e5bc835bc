//! [`FlentTest`]: a run as a data file of [Flent](https://flent.org), which its GUI and command
//! line plot and compare.
//!
//! The format is version 4: gzip around JSON with metadata, one shared axis of times, `results` on
//! that axis for statistics, and `raw_values` with every sample for plots. Flent knows series only
//! by the names that the test's own definition has, so a file names one of Flent's tests and
//! [`layout`](self) says which series that one has.
//!
//! Times: Flent's flows start [`LEAD_IN`] seconds into a file and end as long before its end, and
//! its statistics leave that time out. So the measured time of a run is put exactly there: what
//! Flent computes over is what the lab computes over. Second 0 of every file is the same fixed
//! date, for nothing in a run happened at any date.

mod clock;
mod file;
mod layout;

use std::collections::BTreeMap;
use std::io::{self, Write};

use flate2::{Compression, GzBuilder};

use crate::cell::Backend;
use crate::quantity::Quantity;
use crate::recording::{Run, Series};
use crate::scenario::document::FlentTest;

use clock::Clock;
use file::{File, Sheet};
use layout::Layout;

/// Seconds before the measured time and after it: Flent's default `--delay`.
pub(crate) const LEAD_IN: f64 = 5.0;

/// Why a run cannot be written as a data file of the test.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlentError {
    /// Unknown to Flent, or not supported here.
    #[error("flent.test = {test:?} is none of {known}")]
    UnknownTest {
        /// The configured test.
        test: String,
        /// The supported tests.
        known: String,
    },
    /// The test has another number of flows.
    #[error(
        "{test} has {wanted} {kind}, the run has {has}: take tcp_nup or tcp_ndown, or say which under [flent] series"
    )]
    Flows {
        /// The test.
        test: String,
        /// "uploads" or "downloads".
        kind: &'static str,
        /// Number in the test.
        wanted: usize,
        /// Number in the run.
        has: usize,
    },
    /// The file could not be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A number could not be written.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl FlentTest {
    /// The name that Flent would give the file of `run`.
    pub fn file_name(&self, run: &Run) -> String {
        let title: String = title(run)
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '-' {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        format!(
            "{}-2020-01-01T000000.000000.{title:.200}.flent.gz",
            self.test
        )
    }

    /// Writes `run` to `out`: equal runs as equal bytes.
    ///
    /// # Errors
    /// [`FlentError`], before anything is written unless writing itself fails.
    pub fn write(&self, run: &Run, out: impl Write) -> Result<(), FlentError> {
        let file = self.file(run)?;
        let mut gzip = GzBuilder::new().mtime(0).write(out, Compression::default());
        serde_json::to_writer(&mut gzip, &file)?;
        gzip.finish()?.flush()?;
        Ok(())
    }

    fn file(&self, run: &Run) -> Result<File<'_>, FlentError> {
        let clock = Clock::of(run);
        let mut sheet = Sheet::new(clock);
        let mut parameters = BTreeMap::new();
        if self.test == "qdisc-stats" {
            if let Some(port) = self.ports_of(run).first() {
                sheet.lone_queue(run, port);
            }
        } else {
            let layout = Layout::of(&self.test).ok_or_else(|| FlentError::UnknownTest {
                test: self.test.clone(),
                known: Layout::known(),
            })?;
            for (name, of) in self.flows(run, &layout, &mut parameters)? {
                sheet.flow(run, name, &of);
            }
            for (name, of) in layout.pings().into_iter().zip(self.pings_of(run)) {
                sheet.ping(run, name, &of);
            }
            let ports = self.ports_of(run);
            let hosts: Vec<String> = ports.iter().map(|port| host(port)).collect();
            for (port, host) in ports.iter().zip(&hosts) {
                sheet.queue(run, port, host);
            }
            if !ports.is_empty() {
                parameters.insert("qdisc_stats_hosts", hosts.join(","));
                parameters.insert("qdisc_stats_interfaces", ports.join(","));
            }
        }
        let backend = match run.path {
            Backend::Sim => "in virtual time",
            Backend::Veth => "over veth",
        };
        let note = format!(
            "tautline lab, {} {}, seed {}, {backend}; measured time begins at second {LEAD_IN}",
            run.scenario, run.cell, run.seed
        );
        Ok(sheet.finish(&self.test, note, parameters))
    }

    /// Flent's name and ours of each flow.
    fn flows(
        &self,
        run: &Run,
        layout: &Layout,
        parameters: &mut BTreeMap<&'static str, String>,
    ) -> Result<Vec<(String, String)>, FlentError> {
        if !self.series.is_empty() {
            return Ok(self
                .series
                .iter()
                .map(|(name, of)| (name.clone(), of.clone()))
                .collect());
        }
        let is_down = |series: &&Series| series.of.starts_with("down");
        // A ping has goodput too, but no window.
        let all = |down| {
            run.of(Quantity::Cwnd)
                .filter(|s| is_down(s) == down)
                .map(|s| s.of.clone())
                .collect()
        };
        let named = |flow: &Option<String>, down| {
            flow.as_ref()
                .map_or_else(|| all(down), |name| instances(run, Quantity::Cwnd, name))
        };
        let (uploads, downloads) = (named(&self.upload, false), named(&self.download, true));
        let mut flows = Vec::new();
        for (kind, parameter, names, series) in [
            ("uploads", "upload_streams", uploads, layout.uploads()),
            (
                "downloads",
                "download_streams",
                downloads,
                layout.downloads(),
            ),
        ] {
            let has = names.len();
            let Some(theirs) = series.names(has) else {
                return Err(FlentError::Flows {
                    test: self.test.clone(),
                    kind,
                    wanted: series.count(),
                    has,
                });
            };
            if series.is_any() {
                parameters.insert(parameter, has.to_string());
            }
            flows.extend(theirs.into_iter().zip(in_order(names)));
        }
        Ok(flows)
    }

    fn pings_of(&self, run: &Run) -> Vec<String> {
        let all = || {
            run.of(Quantity::Ping)
                .map(|series| series.of.clone())
                .collect()
        };
        in_order(
            self.ping
                .as_ref()
                .map_or_else(all, |name| instances(run, Quantity::Ping, name)),
        )
    }

    fn ports_of(&self, run: &Run) -> Vec<String> {
        if self.ports.is_empty() {
            run.of(Quantity::Backlog)
                .map(|series| series.of.clone())
                .collect()
        } else {
            self.ports.clone()
        }
    }
}

/// The title of a run in Flent's lists: "001-F4 L100M_TSQ 17".
fn title(run: &Run) -> String {
    format!("{} {} {}", run.scenario, run.cell, run.seed)
}

/// Every instance of a flow; also one by its own name.
fn instances(run: &Run, quantity: Quantity, name: &str) -> Vec<String> {
    run.of(quantity)
        .filter(|series| series.of == name || series.group() == name)
        .map(|series| series.of.clone())
        .collect()
}

/// `upload-10` after `upload-9`.
fn in_order(mut names: Vec<String>) -> Vec<String> {
    let key = |name: &String| {
        let (group, number) = name.split_once('-').unwrap_or((name, "0"));
        (group.to_owned(), number.parse::<u64>().unwrap_or(0))
    };
    names.sort_by_cached_key(key);
    names
}

/// A port's name as a host of Flent's, whose lists are joined by commas.
fn host(port: &str) -> String {
    port.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '-'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
