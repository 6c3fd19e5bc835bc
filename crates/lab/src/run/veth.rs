//! [`run`]: a point on this machine's own network, in real time: a network namespace for each node,
//! a veth pair for each cable, our stack over AF_XDP or TAP in each host, and a bump in the wire
//! ([`Bridge`](tautline_rt::bridge::Bridge)) for each router.
//!
//! The rates and delays of cables, and the rings and interrupts of NICs, are those of this machine,
//! not of the file. Shapers and queues are ours and the same as in virtual time. So a row suits
//! veth if its bottleneck is a shaper; a cable with more than a millisecond of delay, or with loss,
//! is refused.
//!
//! Nothing of the machine's own is touched: everything is in namespaces whose names hold the
//! process number, and they go when the run ends, however it ends.

mod host;
mod kernel_ping;
mod namespaces;
mod open;
mod recorder;
mod router;
mod sample_times;

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use tautline_base::Instant;
use tautline_rt::{Clock, Stopper, stop_on_signals};
use tautline_stack::{NoTrace, Tracer};

use self::kernel_ping::KernelPing;
use self::namespaces::Namespaces;
use self::recorder::Recorder;
use super::RunError;
use super::sampler::Sampler;
use crate::plan::Point;
use crate::recording::Run;
use crate::run::capture::CaptureError;
use crate::scenario::Document;
use crate::scenario::document::{Back, FlowKind, Link, Times};

/// Longest delay of a cable that is ignored: less than the delays that a row's shapers make.
const MAX_DELAY: Duration = Duration::from_millis(1);
/// Time between the readiness of every node and the start of the run.
const START_DELAY: Duration = Duration::from_millis(200);

/// A node, and what its thread works with.
struct Node<'a> {
    document: &'a Document,
    times: &'a Times,
    seed: u64,
    name: &'a str,
    clock: Clock,
    namespaces: &'a Namespaces,
    /// Takes how to stop the node once its devices are open, or why they are not.
    ready: Sender<Result<Stopper, String>>,
    /// Brings the start of the run; it hangs up if another node failed.
    start: Receiver<Instant>,
}

impl Node<'_> {
    fn is_host(&self) -> bool {
        self.document.host.iter().any(|host| host.name == self.name)
    }

    /// Reports that the devices are open, and waits for the start of the run. `None`: another node
    /// failed.
    fn await_start(&self, stopper: Stopper) -> Option<Instant> {
        // The receiver is gone if another node failed.
        let _ = self.ready.send(Ok(stopper));
        self.start.recv().ok()
    }
}

/// Runs `point`.
///
/// # Errors
/// If this is not root, a namespace or a device cannot be made, veth pairs cannot represent the
/// network, or the run was interrupted.
pub(crate) fn run(point: &Point) -> Result<Run, RunError> {
    run_traced(point, Clock::start(), |_| NoTrace)
}

/// Runs `point` and writes the packets that each node sees to `file`, which is created only on
/// success.
///
/// # Errors
/// As [`run`], and if the file cannot be written.
pub(crate) fn record(point: &Point, file: &Path) -> Result<Run, CaptureError> {
    let clock = Clock::start();
    let recorder = Recorder::begin(file, places(&point.document), clock)?;
    let run = run_traced(point, clock, |place| recorder.line(place))?;
    recorder.finish()?;
    Ok(run)
}

/// Hosts, and the ports of routers.
fn places(document: &Document) -> Vec<String> {
    let hosts = document.host.iter().map(|host| host.name.clone());
    let ports = document.router.iter().flat_map(|router| {
        let links = links_of(document, &router.name);
        links.map(|(_, link)| router::port_name(&router.name, link))
    });
    hosts.chain(ports).collect()
}

/// Runs `point` with the packet tracers that `tracer` returns for each place.
fn run_traced<T: Tracer + Send>(
    point: &Point,
    clock: Clock,
    tracer: impl Fn(&str) -> T + Sync,
) -> Result<Run, RunError> {
    let document: &Document = &point.document;
    let Some(times) = &document.run else {
        return Err(RunError::Elsewhere);
    };
    check(document)?;
    let namespaces = Namespaces::new(document).map_err(RunError::Wire)?;
    let outcome = thread::scope(|scope| {
        let (ready, all_ready) = channel();
        let (mut threads, mut starts) = (Vec::new(), Vec::new());
        for name in nodes(document) {
            let (start, awaited) = channel();
            starts.push(start);
            let node = Node {
                document,
                times,
                seed: point.seed,
                name,
                clock,
                namespaces: &namespaces,
                ready: ready.clone(),
                start: awaited,
            };
            let tracer = &tracer;
            threads.push(scope.spawn(move || run_node(&node, tracer)));
        }
        let stoppers = starts
            .iter()
            .map(|_| all_ready.recv().map_err(|_| GONE.to_owned())?)
            .collect::<Result<Vec<_>, _>>();
        let origin = stoppers.and_then(|stoppers| start_time(stoppers, clock));
        let ping = origin.as_ref().ok().map(|origin| {
            // A node that is gone has reported why.
            for start in &starts {
                start.send(*origin).ok();
            }
            kernel_ping(document, &namespaces, times.duration.0)
        });
        // Nodes that were not started end at once.
        drop(starts);
        let samplers: Vec<_> = threads
            .into_iter()
            .map(|node| node.join().unwrap_or_else(|_| Err(GONE.to_owned())))
            .collect();
        let mut all = Sampler::new(origin?, times.sample.0);
        for sampler in samplers {
            all.join(sampler?);
        }
        if let Some(ping) = ping.transpose()?.flatten() {
            ping.finish(&mut all)?;
        }
        Ok(all)
    });
    Ok(outcome.map_err(run_error)?.finish(point, times))
}

/// The names of all hosts and routers.
fn nodes(document: &Document) -> impl Iterator<Item = &str> {
    let hosts = document.host.iter().map(|host| host.name.as_str());
    hosts.chain(document.router.iter().map(|router| router.name.as_str()))
}

fn run_error(why: String) -> RunError {
    if why == INTERRUPTED {
        RunError::Interrupted
    } else {
        RunError::Wire(why)
    }
}

/// Runs a host or a router. An error is reported as the node's readiness, too.
fn run_node<T: Tracer>(node: &Node<'_>, tracer: impl Fn(&str) -> T) -> Result<Sampler, String> {
    let outcome = node.namespaces.enter(node.name).and_then(|()| {
        if node.is_host() {
            host::run(node, tracer)
        } else {
            router::run(node, tracer)
        }
    });
    // Only the first failure before all are ready is reported; afterward the channel is closed.
    let _ = outcome
        .as_ref()
        .is_err_and(|why| node.ready.send(Err(why.clone())).is_ok());
    outcome
}

/// Stops the nodes on signals from now on. Returns the start time of the run.
fn start_time(stoppers: Vec<Stopper>, clock: Clock) -> Result<Instant, String> {
    for stopper in stoppers {
        stop_on_signals(stopper).map_err(|error| format!("signals cannot be handled: {error}"))?;
    }
    Ok(clock.now() + START_DELAY)
}

/// Error for a thread that panicked.
const GONE: &str = "a node of the network ended without saying why";
/// Error of a node that a signal stopped.
const INTERRUPTED: &str = "interrupted";

/// Refuses what veth pairs cannot emulate.
fn check(document: &Document) -> Result<(), RunError> {
    let refuse = |why: String| Err(RunError::Wire(why));
    for link in &document.link {
        let name = format!("{}-{}", link.between.0, link.between.1);
        let back = link.back.as_ref();
        let delay = link
            .delay
            .into_iter()
            .chain(back.and_then(|back| back.delay))
            .map(|time| time.0)
            .max();
        if delay.is_some_and(|delay| delay > MAX_DELAY) {
            return refuse(format!(
                "link {name}: a veth pair cannot delay; put `netem delay` into a router's qdisc"
            ));
        }
        let ports = [Some(link.port()), back.map(Back::port)];
        if ports
            .iter()
            .flatten()
            .any(|port| port.access_categories.is_some())
        {
            return refuse(format!(
                "link {name}: a veth pair has no ring for each access category; leave `access_categories` out"
            ));
        }
        let lossy = [link.loss, link.duplicate, link.corrupt, link.reorder]
            .iter()
            .any(Option::is_some);
        let lossy_back = back.is_some_and(|back| {
            [back.loss, back.duplicate, back.corrupt, back.reorder]
                .iter()
                .any(Option::is_some)
        });
        if lossy || lossy_back {
            return refuse(format!(
                "link {name}: a veth pair loses nothing; put `netem loss` into a router's qdisc"
            ));
        }
    }
    for router in &document.router {
        let cables = links_of(document, &router.name).count();
        if cables != 2 {
            return refuse(format!(
                "router {}: on the wire a router is a bump between 2 cables, not {cables}",
                router.name
            ));
        }
    }
    Ok(())
}

/// The cables of `node`, with their numbers.
fn links_of<'a>(document: &'a Document, node: &'a str) -> impl Iterator<Item = (usize, &'a Link)> {
    let links = document.link.iter().enumerate();
    links.filter(move |(_, link)| link.between.0 == node || link.between.1 == node)
}

/// The address of our stack in a host: all are neighbors.
fn address(document: &Document, host: &str) -> Option<IpAddr> {
    let number = document.host.iter().position(|own| own.name == host)?;
    Some(Ipv4Addr::new(10, 7, 0, u8::try_from(number + 1).ok()?).into())
}

/// The kernel in the first pinging host's namespace pings the kernel in the other's: through the
/// routers, whose queues are thus measured by a program that is not ours; past the queue of the
/// host itself.
fn kernel_ping(
    document: &Document,
    namespaces: &Namespaces,
    time: Duration,
) -> Result<Option<KernelPing>, String> {
    let ping = document
        .flow
        .iter()
        .find(|flow| flow.kind == FlowKind::Ping);
    let ends = ping
        .filter(|_| !document.router.is_empty())
        .and_then(|ping| ping.pairs().next());
    let Some((from, to)) = ends else {
        return Ok(None);
    };
    KernelPing::start(namespaces, from, to, time).map(Some)
}
