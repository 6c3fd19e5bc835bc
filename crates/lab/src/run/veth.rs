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

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tautline_base::Instant;
use tautline_rt::{Clock, Stopper, stop_on_signals};
use tautline_stack::{NoTrace, Tracer};

use self::kernel_ping::KernelPing;
use self::namespaces::Namespaces;
use self::recorder::Recorder;
use super::RunError;
use super::watch::Sampler;
use crate::plan::Point;
use crate::recording::Run;
use crate::run::capture::CaptureError;
use crate::scenario::Document;
use crate::scenario::document::{Back, FlowKind, Link};

/// Longest delay of a cable that is passed over: less than what a row's shapers make.
const SHORT: Duration = Duration::from_millis(1);
/// Time between the readiness of every node and the beginning of the run.
const START: Duration = Duration::from_millis(200);

/// Parameters of a node's thread.
struct Node<'a> {
    document: &'a Document,
    seed: u64,
    name: &'a str,
    clock: Clock,
}

/// Sent by a node once its devices are open.
type Ready = Result<Stopper, String>;

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
    let (say_ready, ready) = mpsc::channel();
    let (nodes, mut begin) = (document.host.len() + document.router.len(), Vec::new());
    let outcome = thread::scope(|scope| {
        let mut threads = Vec::new();
        let hosts = document.host.iter().map(|host| (&host.name, true));
        let routers = document.router.iter().map(|router| (&router.name, false));
        for (name, is_host) in hosts.chain(routers) {
            let (begins, when) = mpsc::channel();
            begin.push(begins);
            let (say_ready, namespaces, tracer) = (say_ready.clone(), &namespaces, &tracer);
            let node = Node {
                document,
                seed: point.seed,
                name,
                clock,
            };
            threads
                .push(scope.spawn(move || {
                    run_node(&node, is_host, tracer, namespaces, &say_ready, &when)
                }));
        }
        let stoppers = (0..nodes)
            .map(|_| ready.recv().map_err(|_| GONE.to_owned())?)
            .collect::<Result<Vec<_>, _>>();
        let started = stoppers.and_then(|stoppers| start(stoppers, clock));
        // Without a beginning the nodes end at once.
        let pings = started.as_ref().ok().map(|origin| {
            // A node that is gone has reported why.
            for begin in begin.drain(..) {
                begin.send(*origin).ok();
            }
            kernel_ping(document, &namespaces, times.duration.0)
        });
        begin.clear();
        let watches: Vec<_> = threads
            .into_iter()
            .map(|node| node.join().unwrap_or_else(|_| Err(GONE.to_owned())))
            .collect();
        let mut watch = Sampler::new(started?, times.sample.0);
        for seen in watches {
            watch.join(seen?);
        }
        if let Some(ping) = pings.transpose()?.flatten() {
            ping.finish(&mut watch)?;
        }
        Ok(watch)
    });
    Ok(outcome.map_err(run_error)?.finish(point, times))
}

fn run_error(why: String) -> RunError {
    if why == INTERRUPTED {
        RunError::Interrupted
    } else {
        RunError::Wire(why)
    }
}

/// Runs a host or a router and reports an error on `say_ready` too.
fn run_node<T: Tracer>(
    node: &Node<'_>,
    is_host: bool,
    tracer: impl Fn(&str) -> T,
    namespaces: &Namespaces,
    say_ready: &mpsc::Sender<Ready>,
    when: &mpsc::Receiver<Instant>,
) -> Result<Sampler, String> {
    let outcome = namespaces.enter(node.name).and_then(|()| match is_host {
        true => host::run(node, tracer, namespaces, say_ready, when),
        false => router::run(node, tracer, namespaces, say_ready, when),
    });
    // Only the first failure before all are ready is reported; afterward the channel is closed.
    let _ = outcome
        .as_ref()
        .is_err_and(|why| say_ready.send(Err(why.clone())).is_ok());
    outcome
}

/// Stops the nodes on signals; returns the start time of the run.
fn start(stoppers: Vec<Stopper>, clock: Clock) -> Result<Instant, String> {
    for stopper in stoppers {
        stop_on_signals(stopper).map_err(|error| format!("signals cannot be handled: {error}"))?;
    }
    Ok(clock.now() + START)
}

/// Error for a thread that panicked.
const GONE: &str = "a node of the network ended without saying why";
/// Error of a node that a signal stopped.
const INTERRUPTED: &str = "interrupted";

/// Whether the wire can be what `document` says.
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
        if delay.is_some_and(|delay| delay > SHORT) {
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

/// Waits for the beginning. `None`: there will be none.
fn beginning(when: &mpsc::Receiver<Instant>) -> Option<Instant> {
    when.recv().ok()
}
