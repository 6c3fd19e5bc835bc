//! [`run`]: a point in virtual time: builds the network, and samples it while it runs.

mod live;
mod segments;

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use tautline_base::Instant;
use tautline_sim::topology::{HostNode, Topology, TopologyError};
use tautline_sim::{Applications, Network, PortId, Record, SimError};

use super::RunError;
use super::sampler::Sampler;
use super::topology::topology;
use super::traffic::traffic;
use crate::plan::Point;
use crate::recording::Run;
use crate::scenario::document::Times;
use segments::Segments;

pub(crate) use live::watch;

/// Runs `point`.
///
/// # Errors
/// If a part refuses its parameters, or an application fails.
pub(crate) fn run(point: &Point) -> Result<Run, RunError> {
    record(point, |_| ()).map(|(run, ())| run)
}

/// Runs `point` with a recorder, made for its topology, of every packet.
///
/// # Errors
/// As [`run`].
pub(crate) fn record<R: Record>(
    point: &Point,
    recorder: impl FnOnce(&Topology) -> R,
) -> Result<(Run, R), RunError> {
    let document = &point.document;
    let Some(times) = &document.run else {
        return Err(RunError::Elsewhere);
    };
    let topology = topology(document);
    let address = |name: &str| topology.address(name).map(IpAddr::from);
    let (apps, measured) = traffic(document, point.seed, address)?;
    let mut sampler = Sampler::new(Instant::ZERO, times.sample.0);
    let recorder = recorder(&topology);
    if measured.is_empty() {
        let network = build(point.seed, &topology, apps, recorder)?;
        let recorder = run_to_end(network, times, &mut sampler)?;
        return Ok((sampler.finish(point, times), recorder));
    }
    let names: Vec<_> = measured.values().cloned().collect();
    let segments = Segments::new(measured);
    let seen = Rc::clone(&segments.seen);
    let network = build(point.seed, &topology, apps, (recorder, segments))?;
    let (recorder, _) = run_to_end(network, times, &mut sampler)?;
    for name in &names {
        sampler.discard_one_way(name);
    }
    seen.borrow()
        .iter()
        .for_each(|(name, sample)| sampler.one_way(name, *sample));
    Ok((sampler.finish(point, times), recorder))
}

/// Runs the network to the end, and returns its recorder.
fn run_to_end<R: Record>(
    mut network: Network<'static, R>,
    times: &Times,
    sampler: &mut Sampler,
) -> Result<R, SimError> {
    let (duration, interval) = (times.duration.0, times.sample.0);
    let mut at = Duration::ZERO;
    while at + interval <= duration {
        at += interval;
        network.run_before(Instant::ZERO + at)?;
        sample_all(sampler, &network, Instant::ZERO + at);
    }
    network.run_before(Instant::ZERO + duration)?;
    for end in network.endpoints() {
        sampler.applications(&end.apps, &end.host, Instant::ZERO + at);
    }
    Ok(network.into_parts().1)
}

fn build<R: Record>(
    seed: u64,
    topology: &Topology,
    apps: Vec<Applications<'static>>,
    recorder: R,
) -> Result<Network<'static, R>, TopologyError> {
    let mut apps = apps.into_iter();
    let next = |_: &HostNode, _| apps.next().expect("there is one for each host");
    topology.build(seed, recorder, next)
}

/// Samples all ports and connections.
fn sample_all<R: Record>(sampler: &mut Sampler, network: &Network<'static, R>, now: Instant) {
    for port in network.ports() {
        let name = network.port_name(port);
        sampler.port(&name, network.sample(port), now);
        if let PortId::Link(number) = port {
            sampler.qdisc(&name, &network.link(number).report(), now);
        }
    }
    for end in network.endpoints() {
        sampler.connections(&end.apps, &end.host, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{PlanOptions, plan};
    use crate::scenario::{Scenario, ScenarioDir};

    /// A megabyte over a link that loses packets is long through when the run ends.
    const CLOSED: &str = r#"
        id = "closed"
        title = "A connection that ends before the run"
        run = { duration = "10s", warm_up = "0s" }
        host = [{ name = "client" }, { name = "server" }]
        link = [{ between = ["client", "server"], rate = "10mbit", loss = "2%" }]
        flow = [{ name = "upload", kind = "tcp", from = "client", to = "server", size = "1mib" }]"#;

    #[test]
    fn a_connection_that_was_closed_is_counted() {
        let home = tempfile::tempdir().expect("a directory");
        std::fs::write(home.path().join("closed.toml"), CLOSED).expect("written");
        let directory = ScenarioDir::Directory(home.path().into());
        let scenario = Scenario::load(&directory, "closed.toml").expect("a scenario");
        let point = plan(&scenario, PlanOptions::default()).remove(0);
        let run = run(&point).expect("it runs");
        assert!(run.counters["retransmits"] > 5.0, "{:?}", run.counters);
    }
}
