//! [`run`]: a point in virtual time: builds the network, lets it run from sample to sample, and writes down what it looks like.

use std::net::IpAddr;
use std::time::Duration;

use tautline_base::Instant;
use tautline_sim::topology::TopologyError;
use tautline_sim::{ConfigError, HostQdisc, Network, Programs, Stall};

use super::Run;
use super::traffic::traffic;
use super::watch::Watch;
use super::world::topology;
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
    /// This machine's network is not, or cannot be, what is asked.
    #[error("on the wire: {0}")]
    Wire(String),
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
    let mut watch = Watch::new(Instant::ZERO, sample);
    let mut at = Duration::ZERO;
    while at + sample <= duration {
        at += sample;
        network.run_before(Instant::ZERO + at)?;
        look(&mut watch, &network, Instant::ZERO + at);
    }
    network.run_before(Instant::ZERO + duration)?;
    for end in network.ends() {
        watch.applications(&end.app, &end.host, Instant::ZERO + at);
    }
    let (series, counters) = watch.finish();
    Ok(Run {
        scenario: point.scenario.clone(),
        point: point.id.clone(),
        cell: point.cell.clone(),
        seed: point.seed,
        path: point.path,
        begin: times.warm_up.0.as_secs_f64(),
        end: duration.as_secs_f64(),
        series,
        counters,
    })
}

/// What everything holds at `now`.
fn look(watch: &mut Watch, network: &World, now: Instant) {
    for port in network.ports() {
        watch.port(&network.port_name(port), network.look(port), now);
    }
    for end in network.ends() {
        watch.connections(&end.app, &end.host, now);
    }
}
