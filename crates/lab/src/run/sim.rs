//! [`run`]: a point in virtual time: builds the network, lets it run from sample to sample, and
//! writes down what it looks like.

mod live;
mod segments;

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use tautline_base::Instant;
use tautline_sim::topology::{HostNode, Topology, TopologyError};
use tautline_sim::{Applications, Network, PortId, Record};

use super::RunError;
use super::traffic::traffic;
use super::watch::Sampler;
use super::world::topology;
use crate::plan::Point;
use crate::recording::Run;
use crate::scenario::document::Times;
use segments::Segments;

pub(crate) use live::watch;

type World<R> = Network<'static, R>;

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
    let (programs, watched) = traffic(document, point.seed, address)?;
    let mut watch = Sampler::new(Instant::ZERO, times.sample.0);
    let recorder = recorder(&topology);
    let recorder = if watched.is_empty() {
        run_to_end(point.seed, &topology, programs, recorder, times, &mut watch)?
    } else {
        let names: Vec<_> = watched.values().cloned().collect();
        let segments = Segments::new(watched);
        let seen = Rc::clone(&segments.seen);
        let (recorder, _) = run_to_end(
            point.seed,
            &topology,
            programs,
            (recorder, segments),
            times,
            &mut watch,
        )?;
        for name in &names {
            watch.discard_one_way(name);
        }
        seen.borrow()
            .iter()
            .for_each(|(name, sample)| watch.one_way(name, *sample));
        recorder
    };
    Ok((watch.finish(point, times), recorder))
}

/// Builds the network and lets its time pass; gives the recorder back.
fn run_to_end<R: Record>(
    seed: u64,
    topology: &Topology,
    programs: Vec<Applications<'static>>,
    recorder: R,
    times: &Times,
    watch: &mut Sampler,
) -> Result<R, RunError> {
    let mut network = build(seed, topology, programs, recorder)?;
    let (duration, sample) = (times.duration.0, times.sample.0);
    let mut at = Duration::ZERO;
    while at + sample <= duration {
        at += sample;
        network.run_before(Instant::ZERO + at)?;
        sample_all(watch, &network, Instant::ZERO + at);
    }
    network.run_before(Instant::ZERO + duration)?;
    for end in network.endpoints() {
        watch.applications(&end.apps, &end.host, Instant::ZERO + at);
    }
    Ok(network.into_parts().1)
}

fn build<R: Record>(
    seed: u64,
    topology: &Topology,
    programs: Vec<Applications<'static>>,
    recorder: R,
) -> Result<World<R>, TopologyError> {
    let mut programs = programs.into_iter();
    let next = |_: &HostNode, _| programs.next().expect("there is one for each host");
    topology.build(seed, recorder, next)
}

/// Samples all ports and connections.
fn sample_all<R: Record>(watch: &mut Sampler, network: &World<R>, now: Instant) {
    for port in network.ports() {
        let name = network.port_name(port);
        watch.port(&name, network.sample(port), now);
        if let PortId::Link(number) = port {
            watch.discipline(&name, &network.link(number).report(), now);
        }
    }
    for end in network.endpoints() {
        watch.connections(&end.apps, &end.host, now);
    }
}
