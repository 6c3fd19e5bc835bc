//! [`run`]: a point in virtual time: builds the network, lets it run from sample to sample, and writes down what it looks like.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tautline_base::{Bytes, Instant, Rate};
use tautline_sim::app::Measured;
use tautline_sim::topology::TopologyError;
use tautline_sim::{ConfigError, HostQdisc, Look, Network, PortId, Programs, Stall};
use tautline_stack::TcpInfo;

use super::traffic::traffic;
use super::world::topology;
use super::{Quantity, Run, Series};
use crate::plan::Point;

type World = Network<HostQdisc, (), Programs>;

/// Why a point gave no run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The document has no times: another command runs it.
    #[error("there is nothing to run")]
    Elsewhere,
    /// The network cannot be built.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// An application refused a parameter.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It got stuck.
    #[error(transparent)]
    Stall(#[from] Stall),
}

/// Runs `point`.
///
/// # Errors
/// If a part refuses its parameters, or an application fails.
pub fn run(point: &Point) -> Result<Run, RunError> {
    let document = &point.document;
    let Some(times) = &document.run else { return Err(RunError::Elsewhere) };
    let topology = topology(document);
    let address = |name: &str| topology.address(name).map(IpAddr::from);
    let mut programs = traffic(document, point.seed, address)?.into_iter();
    let mut network: World = topology.build(point.seed, (), |_, _| programs.next().expect("there is one for each host"))?;
    let (duration, sample) = (times.duration.0, times.sample.0);
    let mut watch = Watch::new(&network, sample);
    let mut at = Duration::ZERO;
    while at + sample <= duration {
        at += sample;
        network.run_before(Instant::ZERO + at)?;
        watch.look(&network, Instant::ZERO + at);
    }
    network.run_before(Instant::ZERO + duration)?;
    Ok(Run {
        scenario: point.scenario.clone(),
        point: point.id.clone(),
        cell: point.cell.clone(),
        seed: point.seed,
        path: point.path,
        begin: times.warm_up.0.as_secs_f64(),
        end: duration.as_secs_f64(),
        series: watch.series(&network, Instant::ZERO + at),
        counters: counters(&network),
    })
}

/// What was seen so far.
struct Watch {
    sample: Duration,
    ports: Vec<(PortId, String, Look)>,
    points: BTreeMap<(Quantity, String), Vec<(f64, f64)>>,
}

impl Watch {
    fn new(network: &World, sample: Duration) -> Self {
        let ports = network.ports().map(|port| (port, network.port_name(port), network.look(port)));
        Self { sample, ports: ports.collect(), points: BTreeMap::new() }
    }

    fn look(&mut self, network: &World, now: Instant) {
        let at = now.as_secs_f64();
        let Self { ports, points, .. } = self;
        let mut note = |quantity, of: &str, value: f64| {
            if let Some(known) = points.get_mut(&(quantity, of.to_owned())) {
                known.push((at, value));
            } else {
                points.insert((quantity, of.to_owned()), vec![(at, value)]);
            }
        };
        for (port, name, before) in ports {
            let look = network.look(*port);
            note(Quantity::Backlog, name, look.backlog.packets as f64);
            note(Quantity::BacklogBytes, name, look.backlog.bytes.get() as f64);
            note(Quantity::Ring, name, look.ring.packets as f64);
            note(Quantity::RingBytes, name, look.ring.bytes.get() as f64);
            if look.limit < Bytes::MAX {
                note(Quantity::RingLimit, name, look.limit.get() as f64);
            }
            note(Quantity::Drops, name, look.drops.saturating_sub(before.drops) as f64);
            note(Quantity::Marks, name, look.marks.saturating_sub(before.marks) as f64);
            note(Quantity::Sent, name, look.sent.saturating_sub(before.sent).get() as f64);
            note(Quantity::Sojourn, name, millis(look.sojourn));
            *before = look;
        }
        for end in network.ends() {
            for (flow, info) in end.app.connections(&end.host) {
                // Only the end that sends has anything to tell.
                if info.bytes_sent > 0 {
                    of_connection(&info, |quantity, value| note(quantity, &flow.to_string(), value));
                }
            }
        }
    }

    /// All series, with what the applications measured until `until`.
    fn series(mut self, network: &World, until: Instant) -> Vec<Series> {
        for end in network.ends() {
            for measured in end.app.meter().flows() {
                self.of_application(measured, until);
            }
        }
        let of = |((quantity, of), points)| Series { quantity, of, points };
        self.points.into_iter().map(of).filter(|series| !series.points.is_empty()).collect()
    }

    fn of_application(&mut self, measured: &Measured, until: Instant) {
        let name = measured.flow.to_string();
        let mut add = |quantity, points: Vec<(f64, f64)>| {
            if !points.is_empty() {
                self.points.entry((quantity, name.clone())).or_default().extend(points);
            }
        };
        if measured.received.bytes > 0 {
            let sample = self.sample;
            let mbit = |bytes: Bytes| bytes.get() as f64 * 8e-6 / sample.as_secs_f64();
            let bins = measured.received_by_interval(until).map(|(begin, bytes)| (begin + sample, bytes));
            let whole = bins.filter(|(end, _)| *end <= until);
            add(Quantity::Goodput, whole.map(|(end, bytes)| (end.as_secs_f64(), mbit(bytes))).collect());
        }
        let begun = measured.round_trips.iter().map(|sample| (sample.at.as_secs_f64(), millis(sample.took)));
        add(Quantity::Ping, begun.collect());
        let arrived = measured.one_way.iter().map(|sample| ((sample.at + sample.took).as_secs_f64(), millis(sample.took)));
        add(Quantity::OneWay, arrived.collect());
    }
}

/// What a sender tells of itself.
fn of_connection(info: &TcpInfo, mut note: impl FnMut(Quantity, f64)) {
    if info.latest_rtt > Duration::ZERO {
        note(Quantity::Rtt, millis(info.latest_rtt));
        note(Quantity::SmoothedRtt, millis(info.srtt));
    }
    note(Quantity::Cwnd, info.cwnd.get() as f64 / info.mss.get().max(1) as f64);
    if info.pacing_rate < Rate::MAX {
        note(Quantity::PacingRate, info.pacing_rate.as_bytes_per_sec() as f64 * 8e-6);
    }
    note(Quantity::TsqCharge, info.tsq_charged.get() as f64);
    if let Some(limit) = info.tsq_limit {
        note(Quantity::TsqLimit, limit.get() as f64);
    }
}

/// What is counted over the whole run.
fn counters(network: &World) -> BTreeMap<String, f64> {
    let mut counters = BTreeMap::new();
    let mut count = |name: &str, by: u64| *counters.entry(name.to_owned()).or_default() += by as f64;
    for end in network.ends() {
        for (_, info) in end.app.connections(&end.host) {
            count("retransmits", info.retransmits);
            count("timeouts", info.timeouts);
            count("fast_recoveries", info.fast_recoveries);
            count("local_drops", info.local_drops);
            count("tsq_throttles", info.tsq_throttles);
        }
        for measured in end.app.meter().flows() {
            count("ping_lost", measured.lost);
            count("refused", measured.refused);
        }
    }
    let packets: u64 = network.ports().map(|port| network.look(port).sent_packets).sum();
    count("packets", packets);
    counters
}

fn millis(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}
