//! [`Sampler`]: records a run in virtual or real time: ports and connections sample by sample,
//! applications at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use tautline_base::{Bytes, Instant, Rate};
use tautline_sim::app::{Measured, Sample, SocketApi};
use tautline_sim::{Applications, PortSample};
use tautline_stack::TcpInfo;
use tautline_tc::{Report, Value};

use crate::plan::Point;
use crate::quantity::Quantity;
use crate::recording::{Run, Series};
use crate::scenario::document::Times;

/// Samples and counters collected so far.
#[derive(Debug)]
pub(super) struct Sampler {
    /// When the run began: zero on the time axis.
    origin: Instant,
    /// Time between samples.
    sample: Duration,
    /// Each port's state at the last sample.
    before: BTreeMap<String, PortSample>,
    points: BTreeMap<(Quantity, String), Vec<(f64, f64)>>,
    counters: BTreeMap<String, f64>,
}

impl Sampler {
    /// An empty recording of a run that begins at `origin`.
    pub(super) fn new(origin: Instant, sample: Duration) -> Self {
        Self {
            origin,
            sample,
            before: BTreeMap::new(),
            points: BTreeMap::new(),
            counters: BTreeMap::new(),
        }
    }

    /// The port called `name` looks so at `now`.
    pub(super) fn port(&mut self, name: &str, look: PortSample, now: Instant) {
        let at = self.seconds(now);
        let before = self.before.insert(name.to_owned(), look);
        let (drops, marks, sent, full) = before.map_or((0, 0, Bytes::ZERO, 0), |look| {
            (look.drops, look.marks, look.sent, look.ring_full)
        });
        let mut note = |quantity, value| self.note(quantity, name, at, value);
        note(Quantity::Backlog, look.backlog.packets as f64);
        note(Quantity::BacklogBytes, look.backlog.bytes.get() as f64);
        note(Quantity::Ring, look.ring.packets as f64);
        note(Quantity::RingBytes, look.ring.bytes.get() as f64);
        if look.limit < Bytes::MAX {
            note(Quantity::RingLimit, look.limit.get() as f64);
        }
        note(Quantity::Drops, look.drops.saturating_sub(drops) as f64);
        note(Quantity::Marks, look.marks.saturating_sub(marks) as f64);
        note(Quantity::Sent, look.sent.saturating_sub(sent).get() as f64);
        note(Quantity::Sojourn, millis(look.sojourn));
        note(
            Quantity::RingFull,
            look.ring_full.saturating_sub(full) as f64,
        );
    }

    /// Adds a sample of the qdisc's own report.
    pub(super) fn discipline(&mut self, name: &str, report: &Report, now: Instant) {
        if report.kind != "pie" {
            return;
        }
        let at = self.seconds(now);
        for (counter, value) in &report.counters {
            match (*counter, value) {
                // In bytes per second; 0 if it paces by timestamps.
                ("avg_dq_rate", Value::Count(rate)) if *rate > 0 => {
                    self.note(Quantity::DepartureRate, name, at, *rate as f64 * 8e-6);
                }
                ("prob", Value::Share(probability)) => {
                    self.note(Quantity::DropProbability, name, at, *probability)
                }
                _ => {}
            }
        }
    }

    /// The connections of `programs` on `host` look so at `now`.
    pub(super) fn connections(
        &mut self,
        programs: &Applications<'_>,
        host: &dyn SocketApi,
        now: Instant,
    ) {
        let at = self.seconds(now);
        for (flow, info) in programs.connections(host) {
            // Only the sending end has state to report.
            if info.bytes_sent > 0 {
                let name = flow.to_string();
                of_connection(&info, |quantity, value| {
                    self.note(quantity, &name, at, value)
                });
            }
        }
    }

    /// Adds the measurements of a host's applications until `until`, and all counters.
    pub(super) fn applications(
        &mut self,
        programs: &Applications<'_>,
        host: &dyn SocketApi,
        until: Instant,
    ) {
        for measured in programs.meter().flows() {
            self.of_application(measured, until);
            self.count("ping_lost", measured.lost);
            self.count("refused", measured.refused);
        }
        for (_, info) in programs.connections(host) {
            self.count("retransmits", info.retransmits);
            self.count("timeouts", info.timeouts);
            self.count("fast_recoveries", info.fast_recoveries);
            self.count("local_drops", info.local_drops);
            self.count("tsq_throttles", info.tsq_throttles);
        }
    }

    /// Discards what the application of the flow called `name` measured of one-way delays.
    pub(super) fn discard_one_way(&mut self, name: &str) {
        self.points.remove(&(Quantity::OneWay, name.to_owned()));
    }

    /// Data of the flow called `name` was in flight.
    pub(super) fn one_way(&mut self, name: &str, sample: Sample) {
        self.note(
            Quantity::OneWay,
            name,
            self.seconds(sample.at + sample.took),
            millis(sample.took),
        );
    }

    /// Merges the samples of another part of the same run.
    #[cfg(target_os = "linux")]
    pub(super) fn join(&mut self, other: Self) {
        self.before.extend(other.before);
        self.points.extend(other.points);
        for (name, by) in other.counters {
            *self.counters.entry(name).or_default() += by;
        }
    }

    /// Something is counted.
    pub(super) fn count(&mut self, name: &str, by: u64) {
        *self.counters.entry(name.to_owned()).or_default() += by as f64;
    }

    /// The run of `point`: all series, in order of quantity and name, and all that was counted.
    pub(super) fn finish(mut self, point: &Point, times: &Times) -> Run {
        let packets = self.before.values().map(|look| look.sent_packets).sum();
        self.count("packets", packets);
        let of = |((quantity, of), points)| Series {
            quantity,
            of,
            points,
        };
        Run {
            scenario: point.scenario.clone(),
            point: point.id.clone(),
            cell: point.cell.clone(),
            seed: point.seed,
            path: point.path,
            begin: times.warm_up.0.as_secs_f64(),
            end: times.duration.0.as_secs_f64(),
            series: self
                .points
                .into_iter()
                .map(of)
                .filter(|series| !series.points.is_empty())
                .collect(),
            counters: self.counters,
        }
    }

    fn of_application(&mut self, measured: &Measured, until: Instant) {
        let (name, sample) = (measured.flow.to_string(), self.sample);
        // The replies to pings are no goodput.
        if measured.received.bytes > 0 && measured.round_trips.is_empty() {
            let mbit = |bytes: Bytes| bytes.get() as f64 * 8e-6 / sample.as_secs_f64();
            let bins = measured
                .received_by_interval(until)
                .map(|(begin, bytes)| (begin + sample, bytes));
            for (end, bytes) in bins.filter(|(end, _)| *end <= until) {
                self.note(Quantity::Goodput, &name, self.seconds(end), mbit(bytes));
            }
        }
        for sample in &measured.round_trips {
            self.note(
                Quantity::Ping,
                &name,
                self.seconds(sample.at),
                millis(sample.took),
            );
        }
        for sample in &measured.one_way {
            self.one_way(&name, *sample);
        }
        for sample in &measured.completions {
            self.note(
                Quantity::Fetch,
                &name,
                self.seconds(sample.at + sample.took),
                millis(sample.took),
            );
        }
    }

    fn note(&mut self, quantity: Quantity, of: &str, at: f64, value: f64) {
        match self.points.get_mut(&(quantity, of.to_owned())) {
            Some(known) => known.push((at, value)),
            None => {
                self.points
                    .insert((quantity, of.to_owned()), vec![(at, value)]);
            }
        }
    }

    fn seconds(&self, at: Instant) -> f64 {
        (at - self.origin).as_secs_f64()
    }
}

/// Notes a sender's state.
fn of_connection(info: &TcpInfo, mut note: impl FnMut(Quantity, f64)) {
    if info.latest_rtt > Duration::ZERO {
        note(Quantity::Rtt, millis(info.latest_rtt));
        note(Quantity::SmoothedRtt, millis(info.srtt));
    }
    note(
        Quantity::Cwnd,
        info.cwnd.get() as f64 / info.mss.get().max(1) as f64,
    );
    if info.pacing_rate < Rate::MAX {
        note(
            Quantity::PacingRate,
            info.pacing_rate.as_bytes_per_sec() as f64 * 8e-6,
        );
    }
    note(Quantity::TsqCharge, info.tsq_charged.get() as f64);
    if let Some(limit) = info.tsq_limit {
        note(Quantity::TsqLimit, limit.get() as f64);
    }
}

fn millis(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}
