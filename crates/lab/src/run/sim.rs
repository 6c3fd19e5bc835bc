//! [`run`]: a point in virtual time: builds the network, and samples it while it runs.

mod live;
mod segments;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use tautline_base::Instant;
use tautline_sim::topology::{HostNode, Topology, TopologyError};
use tautline_sim::{Applications, Network, PortId, Record, SimError};

use super::RunError;
use super::sampler::Sampler;
use super::topology::topology;
use super::traffic::{HostTraffic, traffic};
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
    let HostTraffic {
        apps,
        read_by,
        measured,
    } = traffic(document, point.seed, address)?;
    let mut sampler = Sampler::new(Instant::ZERO, times.sample.0);
    let recorder = recorder(&topology);
    if measured.is_empty() {
        let network = build(point.seed, &topology, apps, recorder)?;
        let recorder = run_to_end(network, times, &read_by, &mut sampler)?;
        return Ok((sampler.finish(point, times), recorder));
    }
    let names: Vec<_> = measured.values().cloned().collect();
    let segments = Segments::new(measured);
    let seen = Rc::clone(&segments.seen);
    let network = build(point.seed, &topology, apps, (recorder, segments))?;
    let (recorder, _) = run_to_end(network, times, &read_by, &mut sampler)?;
    for name in &names {
        sampler.discard_one_way(name);
    }
    seen.borrow()
        .iter()
        .for_each(|(name, sample)| sampler.one_way(name, *sample));
    Ok((sampler.finish(point, times), recorder))
}

/// Runs the network, whose hosts read the payload of the flows `read_by`, to the end. Returns its
/// recorder.
fn run_to_end<R: Record>(
    mut network: Network<'static, R>,
    times: &Times,
    read_by: &[BTreeSet<String>],
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
    for (end, read) in network.endpoints().iter().zip(read_by) {
        sampler.applications(&end.apps, read, &end.host, Instant::ZERO + at);
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
    use crate::quantity::Quantity;
    use crate::scenario::{Scenario, ScenarioDir};
    use crate::summary::Summary;

    /// The first point of the scenario in `text`, run.
    fn run_text(text: &str) -> Run {
        let home = tempfile::tempdir().expect("a directory");
        std::fs::write(home.path().join("it.toml"), text).expect("written");
        let directory = ScenarioDir::Directory(home.path().into());
        let scenario = Scenario::load(&directory, "it.toml").expect("a scenario");
        let points = plan(&scenario, PlanOptions::default()).expect("a plan");
        run(&points[0]).expect("it runs")
    }

    #[test]
    fn a_connection_that_was_closed_is_counted() {
        // A megabyte over a link that loses packets is long through when the run ends.
        let run = run_text(
            r#"
            id = "closed"
            title = "A connection that ends before the run"
            run = { duration = "10s", warm_up = "0s" }
            host = [{ name = "client" }, { name = "server" }]
            link = [{ between = ["client", "server"], rate = "10mbit", loss = "2%" }]
            flow = [{ name = "upload", kind = "tcp", from = "client", to = "server", size = "1mib" }]"#,
        );
        assert!(run.counters["retransmits"] > 5.0, "{:?}", run.counters);
    }

    #[test]
    fn flows_that_receive_nothing_count_in_the_index_of_fairness() {
        let run = run_text(
            r#"
            id = "starved"
            title = "Two of three flows reach nobody"
            run = { duration = "3s", warm_up = "1s" }
            host = [{ name = "a" }, { name = "b" }, { name = "c" }, { name = "server" }]
            router = [{ name = "router" }]
            link = [
                { between = ["a", "router"] },
                { between = ["b", "router"], loss = "100%" },
                { between = ["c", "router"], loss = "100%" },
                { between = ["router", "server"] },
            ]
            flow = [{ name = "talk", kind = "udp", from = ["a", "b", "c"], to = "server", rate = "1mbit", size = "1000b" }]"#,
        );
        let summary = Summary::of(&run);
        let fairness = summary.get("goodput.talk.fairness").expect("a number");
        assert!((fairness - 1.0 / 3.0).abs() < 1e-9, "{fairness}");
        let total = summary.get("goodput.total").expect("a number");
        assert!((0.95..1.05).contains(&total), "{total} Mbit/s");
    }

    /// The server of pages reads requests: they are no goodput.
    #[test]
    fn goodput_is_what_the_receiving_end_reads() {
        let run = run_text(
            r#"
            id = "pages"
            title = "Pages of one object"
            run = { duration = "3s", warm_up = "0s" }
            host = [{ name = "client" }, { name = "server" }]
            link = [{ between = ["client", "server"] }]
            flow = [{ name = "web", kind = "web", from = "client", to = "server", objects = 1, size = "1000b", every = "100ms" }]"#,
        );
        let goodput = run.get(Quantity::Goodput, "web").expect("pages");
        assert!(goodput.points.is_sorted_by(|one, next| one.0 < next.0));
    }

    /// Twice what the link carries fills its queue by a second each second.
    #[test]
    fn round_trips_of_many_seconds_are_measured() {
        let run = run_text(
            r#"
            id = "bloated"
            title = "A ping behind a flood"
            run = { duration = "25s", warm_up = "0s", ping_timeout = "15s" }
            host = [{ name = "client" }, { name = "server" }]
            router = [{ name = "router" }]
            link = [
                { between = ["client", "router"] },
                { between = ["router", "server"], rate = "1mbit", qdisc = "pfifo limit 100000" },
            ]
            flow = [
                { name = "flood", kind = "udp", from = "client", to = "server", rate = "2mbit", size = "1000b" },
                { name = "ping", kind = "ping", from = "client", to = "server", every = "20ms" },
            ]"#,
        );
        let longest = Summary::of(&run).get("ping.max").expect("replies");
        assert!((12_000.0..14_000.0).contains(&longest), "{longest} ms");
        assert_eq!(run.counters["ping_lost"], 0.0);
    }
}
