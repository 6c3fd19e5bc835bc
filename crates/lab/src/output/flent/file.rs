//! The parts of a data file, and [`Sheet`], which fills them from a run.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::quantity::Quantity;
use crate::recording::{Run, Series};

use super::LEAD_IN;
use super::clock::{Clock, EPOCH_TEXT};

/// Version of the format, and of Flent whose definitions the series follow.
const FORMAT: u32 = 4;
const FLENT_VERSION: &str = "2.3.0";

#[derive(Serialize)]
pub(super) struct File<'a> {
    version: u32,
    metadata: Metadata<'a>,
    x_values: Vec<f64>,
    results: BTreeMap<String, Vec<Option<f64>>>,
    raw_values: BTreeMap<String, Vec<Raw>>,
}

#[derive(Serialize)]
#[serde(rename_all = "UPPERCASE")]
struct Metadata<'a> {
    name: &'a str,
    title: &'a str,
    time: &'static str,
    t0: &'static str,
    host: &'static str,
    hosts: [&'static str; 1],
    local_host: &'static str,
    length: u64,
    total_length: u64,
    step_size: f64,
    ip_version: u8,
    flent_version: &'static str,
    note: String,
    test_parameters: BTreeMap<&'static str, String>,
    series_meta: BTreeMap<String, SeriesMeta>,
}

#[derive(Serialize)]
#[serde(rename_all = "UPPERCASE")]
struct SeriesMeta {
    units: &'static str,
    mean_value: Option<f64>,
}

/// One sample, at `t` seconds since 1970.
#[derive(Serialize)]
#[serde(untagged)]
enum Raw {
    /// Of a flow: Mbit/s over the last `dur` seconds, packets, ms.
    Tcp {
        t: f64,
        val: f64,
        dur: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        tcp_cwnd: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tcp_rtt: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tcp_pacing_rate: Option<f64>,
        /// Flent takes the sender's estimate; here it is what the receiver got, the thing
        /// estimated.
        tcp_delivery_rate: f64,
    },
    /// Of a ping: ms.
    Ping { t: f64, val: f64, seq: usize },
    /// Of a queue: packets, bytes, ms; dropped, marked and sent since the last sample.
    Queue {
        t: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        backlog_pkts: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        backlog_bytes: Option<f64>,
        dropped: f64,
        ecn_mark: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        sent_bytes: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        delay: Option<f64>,
    },
    /// Of anything else.
    Plain { t: f64, val: f64 },
}

/// The series of the file, as they are filled in.
pub(super) struct Sheet {
    clock: Clock,
    results: BTreeMap<String, Vec<Option<f64>>>,
    raw: BTreeMap<String, Vec<Raw>>,
    meta: BTreeMap<String, SeriesMeta>,
}

impl Sheet {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            results: BTreeMap::new(),
            raw: BTreeMap::new(),
            meta: BTreeMap::new(),
        }
    }

    /// The file of `test` with all series that were put in.
    pub(super) fn finish<'a>(
        self,
        test: &'a str,
        note: String,
        parameters: BTreeMap<&'static str, String>,
    ) -> File<'a> {
        let clock = self.clock;
        let metadata = Metadata {
            name: test,
            title: "",
            time: EPOCH_TEXT,
            t0: EPOCH_TEXT,
            host: "server",
            hosts: ["server"],
            local_host: "client",
            length: clock.length,
            total_length: clock.length + 2 * LEAD_IN as u64,
            step_size: clock.step,
            ip_version: 4,
            flent_version: FLENT_VERSION,
            note,
            test_parameters: parameters,
            series_meta: self.meta,
        };
        File {
            version: FORMAT,
            metadata,
            x_values: clock.axis(),
            results: self.results,
            raw_values: self.raw,
        }
    }

    fn put(
        &mut self,
        run: &Run,
        name: String,
        units: &'static str,
        series: &Series,
        raw: Vec<Raw>,
    ) {
        let (sum, count) = run
            .measured(series)
            .filter(|(_, v)| v.is_finite())
            .fold((0.0, 0.0), |(s, n), (_, v)| (s + v, n + 1.0));
        let mean_value = (count > 0.0)
            .then(|| sum / count)
            .filter(|mean: &f64| mean.is_finite());
        self.results
            .insert(name.clone(), self.clock.slots(&series.points));
        self.raw.insert(name.clone(), raw);
        self.meta.insert(name, SeriesMeta { units, mean_value });
    }

    pub(super) fn flow(&mut self, run: &Run, name: String, of: &str) {
        let Some(goodput) = run.get(Quantity::Goodput, of) else {
            return;
        };
        let latest = |quantity, at| run.get(quantity, of).and_then(|series| latest(series, at));
        let sample = |&(at, val): &(f64, f64)| {
            let t = self.clock.stamp(at).filter(|_| val.is_finite())?;
            Some(Raw::Tcp {
                t,
                val,
                dur: self.clock.step,
                tcp_cwnd: latest(Quantity::Cwnd, at),
                tcp_rtt: latest(Quantity::Rtt, at),
                tcp_pacing_rate: latest(Quantity::PacingRate, at),
                tcp_delivery_rate: val,
            })
        };
        let raw = goodput.points.iter().filter_map(sample).collect();
        self.put(run, name, "Mbits/s", goodput, raw);
    }

    pub(super) fn ping(&mut self, run: &Run, name: &str, of: &str) {
        let Some(ping) = run.get(Quantity::Ping, of) else {
            return;
        };
        let sample = |(seq, &(at, val)): (usize, &(f64, f64))| {
            Some(Raw::Ping {
                t: self.clock.stamp(at).filter(|_| val.is_finite())?,
                val,
                seq,
            })
        };
        let raw = ping.points.iter().enumerate().filter_map(sample).collect();
        self.put(run, name.to_owned(), "ms", ping, raw);
    }

    /// Statistics of a queue, which any test may have beside its own series.
    pub(super) fn queue(&mut self, run: &Run, port: &str, host: &str) {
        let latest = |quantity, at| {
            run.get(quantity, port)
                .and_then(|series| latest(series, at))
        };
        let backlog = run
            .get(Quantity::Backlog, port)
            .map_or(&[] as &[_], |series| &series.points);
        let sample = |&(at, _): &(f64, f64)| {
            Some(Raw::Queue {
                t: self.clock.stamp(at)?,
                backlog_pkts: latest(Quantity::Backlog, at),
                backlog_bytes: latest(Quantity::BacklogBytes, at),
                dropped: latest(Quantity::Drops, at).unwrap_or(0.0),
                ecn_mark: latest(Quantity::Marks, at).unwrap_or(0.0),
                sent_bytes: latest(Quantity::Sent, at),
                delay: latest(Quantity::Sojourn, at),
            })
        };
        let raw = backlog.iter().filter_map(sample).collect();
        let name = format!("qdisc_stats_{host}");
        self.results
            .insert(name.clone(), vec![None; self.clock.axis().len()]);
        self.raw.insert(name.clone(), raw);
        for (quantity, key) in [(Quantity::Drops, "dropped"), (Quantity::Marks, "ecn_mark")] {
            if let Some(series) = run.get(quantity, port) {
                self.plain(run, format!("{name}::{key}"), "packets", series);
            }
        }
    }

    /// The test `qdisc-stats`: one queue and nothing else.
    pub(super) fn lone_queue(&mut self, run: &Run, port: &str) {
        for (quantity, key, units) in [
            (Quantity::Backlog, "backlog_pkts", "packets"),
            (Quantity::BacklogBytes, "backlog_bytes", "bytes"),
            (Quantity::Drops, "dropped", "packets"),
            (Quantity::Marks, "ecn_mark", "packets"),
            (Quantity::Sojourn, "delay", "ms"),
        ] {
            if let Some(series) = run.get(quantity, port) {
                self.plain(run, format!("qdisc-stats::{key}"), units, series);
            }
        }
    }

    fn plain(&mut self, run: &Run, name: String, units: &'static str, series: &Series) {
        let sample = |&(at, val): &(f64, f64)| {
            Some(Raw::Plain {
                t: self.clock.stamp(at).filter(|_| val.is_finite())?,
                val,
            })
        };
        let raw = series.points.iter().filter_map(sample).collect();
        self.put(run, name, units, series, raw);
    }
}

/// The value at `at`, or the latest before it.
fn latest(series: &Series, at: f64) -> Option<f64> {
    // Times that were sampled together may differ in the last digit.
    let after = series
        .points
        .partition_point(|(time, _)| *time <= at + 1e-9);
    series
        .points
        .get(after.checked_sub(1)?)
        .map(|(_, value)| *value)
        .filter(|value| value.is_finite())
}
