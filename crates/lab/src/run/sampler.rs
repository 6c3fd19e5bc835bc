//! [`Sampler`]: records a run in virtual or real time: ports and connections sample by sample,
//! applications at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tautline_base::{Bytes, Instant, Rate};
use tautline_sim::app::{Measured, Sample, SocketApi, TcpCounts};
use tautline_sim::{Applications, PortSample};
use tautline_stack::TcpInfo;
use tautline_tc::{Report, Value};

use crate::plan::Point;
use crate::quantity::{COUNTERS, Quantity};
use crate::recording::{Run, Series};
use crate::scenario::document::Times;

/// Samples and counters collected so far.
#[derive(Debug)]
pub(super) struct Sampler {
    /// When the run began: zero on the time axis.
    origin: Instant,
    /// Time between samples.
    interval: Duration,
    /// Each port's state at the last sample.
    before: BTreeMap<String, PortSample>,
    /// Durations of PIE's measurements at the last sample, counted by powers of two.
    cycles_before: BTreeMap<String, Vec<u64>>,
    points: BTreeMap<(Quantity, String), Vec<(f64, f64)>>,
    counters: BTreeMap<String, f64>,
}

impl Sampler {
    /// An empty recording of a run that begins at `origin`.
    pub(super) fn new(origin: Instant, interval: Duration) -> Self {
        Self {
            origin,
            interval,
            before: BTreeMap::new(),
            cycles_before: BTreeMap::new(),
            points: BTreeMap::new(),
            counters: BTreeMap::new(),
        }
    }

    /// Adds a sample of the port called `name`.
    pub(super) fn port(&mut self, name: &str, sample: PortSample, now: Instant) {
        let at = self.seconds(now);
        let before = self.before.insert(name.to_owned(), sample);
        let (drops, marks, sent, tx) = before
            .map(|before| (before.drops, before.marks, before.sent, before.tx))
            .unwrap_or_default();
        let mut note = |quantity, value| self.note(quantity, name, at, value);
        note(Quantity::Backlog, sample.backlog.packets as f64);
        note(Quantity::BacklogBytes, sample.backlog.bytes.get() as f64);
        note(Quantity::Ring, sample.ring.packets as f64);
        note(Quantity::RingBytes, sample.ring.bytes.get() as f64);
        if sample.limit < Bytes::MAX {
            note(Quantity::RingLimit, sample.limit.get() as f64);
        }
        note(Quantity::Drops, sample.drops.saturating_sub(drops) as f64);
        note(Quantity::Marks, sample.marks.saturating_sub(marks) as f64);
        note(
            Quantity::Sent,
            sample.sent.saturating_sub(sent).get() as f64,
        );
        note(Quantity::Sojourn, millis(sample.sojourn));
        note(
            Quantity::RingFull,
            sample.tx.ring_full.saturating_sub(tx.ring_full) as f64,
        );
        let bulks = sample.tx.bulks.saturating_sub(tx.bulks);
        if bulks > 0 {
            let packets = sample.tx.packets.saturating_sub(tx.packets);
            note(Quantity::Burst, packets as f64 / bulks as f64);
        }
    }

    /// Adds a sample of the report of a qdisc.
    pub(super) fn qdisc(&mut self, name: &str, report: &Report, now: Instant) {
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
                ("dq_cycles", Value::List(counts)) => self.cycles(name, at, counts),
                _ => {}
            }
        }
    }

    /// Adds PIE's measurements since the last sample. Bucket *b* of `counts` is of those that took
    /// from 2ᵇ⁻¹ ns to below 2ᵇ.
    fn cycles(&mut self, name: &str, at: f64, counts: &[u64]) {
        let before = self.cycles_before.insert(name.to_owned(), counts.to_vec());
        let before = before.unwrap_or_default();
        for (bucket, count) in counts.iter().enumerate() {
            let known = before.get(bucket).copied().unwrap_or(0);
            let middle = (bucket as f64 - 0.5).exp2() * 1e-6;
            for _ in known..*count {
                self.note(Quantity::Cycle, name, at, middle);
            }
        }
    }

    /// Adds a sample of the connections of `apps` on `host`.
    pub(super) fn connections(
        &mut self,
        apps: &Applications<'_>,
        host: &dyn SocketApi,
        now: Instant,
    ) {
        let at = self.seconds(now);
        for (flow, info) in apps.connections(host) {
            // Only the sending end has state to report.
            if info.bytes_sent > 0 {
                let name = flow.to_string();
                of_connection(&info, |quantity, value| {
                    self.note(quantity, &name, at, value)
                });
            }
        }
    }

    /// Adds the measurements of a host's applications until `until`, and all counters. The host
    /// reads the payload of the flows `read`.
    pub(super) fn applications(
        &mut self,
        apps: &Applications<'_>,
        read: &BTreeSet<String>,
        host: &dyn SocketApi,
        until: Instant,
    ) {
        for measured in apps.meter().flows() {
            self.of_application(measured, read, until);
            self.count("ping_lost", measured.lost);
            self.count("refused", measured.refused);
            self.count_tcp(measured.closed);
        }
        let mut open = TcpCounts::default();
        apps.connections(host).for_each(|(_, info)| open.add(&info));
        self.count_tcp(open);
    }

    fn count_tcp(&mut self, counts: TcpCounts) {
        self.count("retransmits", counts.retransmits);
        self.count("timeouts", counts.timeouts);
        self.count("fast_recoveries", counts.fast_recoveries);
        self.count("local_drops", counts.local_drops);
        self.count("tsq_throttles", counts.tsq_throttles);
    }

    /// Discards what the application of the flow called `name` measured of one-way delays.
    pub(super) fn discard_one_way(&mut self, name: &str) {
        self.points.remove(&(Quantity::OneWay, name.to_owned()));
    }

    /// Adds a one-way delay of the flow called `name`.
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

    /// Adds `by` to the counter called `name`, one of [`COUNTERS`].
    pub(super) fn count(&mut self, name: &str, by: u64) {
        debug_assert!(COUNTERS.contains(&name), "`{name}` can be named by no file");
        *self.counters.entry(name.to_owned()).or_default() += by as f64;
    }

    /// The run of `point`: all series, in order of quantity and name, and all that was counted.
    pub(super) fn finish(mut self, point: &Point, times: &Times) -> Run {
        let packets = self.before.values().map(|sample| sample.sent_packets).sum();
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

    fn of_application(&mut self, measured: &Measured, read: &BTreeSet<String>, until: Instant) {
        let (name, interval) = (measured.flow.to_string(), self.interval);
        // A flow that receives nothing has a goodput of 0.
        if read.contains(&name) {
            let mbit = |bytes: Bytes| bytes.get() as f64 * 8e-6 / interval.as_secs_f64();
            let bins = measured
                .received_by_interval(until)
                .map(|(begin, bytes)| (begin + interval, bytes));
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

#[cfg(test)]
mod tests {
    use tautline_base::Backlog;
    use tautline_bql::TxStats;

    use super::*;

    fn points(sampler: &Sampler, quantity: Quantity) -> Vec<(f64, f64)> {
        sampler.points[&(quantity, "a>b".to_owned())].clone()
    }

    #[test]
    fn a_burst_is_the_mean_of_those_since_the_last_sample() {
        let sample = |packets, bulks| PortSample {
            backlog: Backlog::default(),
            ring: Backlog::default(),
            limit: Bytes::MAX,
            drops: 0,
            marks: 0,
            sojourn: Duration::ZERO,
            sent_packets: 0,
            sent: Bytes::ZERO,
            tx: TxStats {
                packets,
                bulks,
                ..TxStats::default()
            },
        };
        let mut sampler = Sampler::new(Instant::ZERO, Duration::from_secs(1));
        for (at, (packets, bulks)) in [(40, 2), (40, 2), (70, 5)].into_iter().enumerate() {
            let now = Instant::from_secs(at as u64);
            sampler.port("a>b", sample(packets, bulks), now);
        }
        assert_eq!(
            points(&sampler, Quantity::Burst),
            [(0.0, 20.0), (2.0, 10.0)],
            "none where nothing was handed over"
        );
    }

    #[test]
    fn each_of_pies_measurements_is_a_point_once() {
        let report = |counts: &[u64]| Report {
            kind: "pie",
            counters: vec![("dq_cycles", Value::List(counts.to_vec()))],
            ..Report::default()
        };
        let mut sampler = Sampler::new(Instant::ZERO, Duration::from_secs(1));
        let mut add = |at, counts: &[u64]| {
            sampler.qdisc("a>b", &report(counts), Instant::from_secs(at));
        };
        add(1, &[0, 1]);
        add(2, &[0, 1]);
        add(3, &[0, 2, 0, 1]);
        // In the middle of 1 to 2 ns, and of 4 to 8 ns.
        let middles = [2f64.sqrt() * 1e-6, 32f64.sqrt() * 1e-6];
        let near = |(at, value): (f64, f64)| (at, (value * 1e12).round());
        let expected = [(1.0, middles[0]), (3.0, middles[0]), (3.0, middles[1])].map(near);
        let seen: Vec<_> = points(&sampler, Quantity::Cycle)
            .into_iter()
            .map(near)
            .collect();
        assert_eq!(seen, expected);
    }
}
