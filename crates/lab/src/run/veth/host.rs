//! A host on the wire: our stack over a device, driven by an event loop, with the same applications
//! as in virtual time.

use std::collections::BTreeSet;
use std::time::Duration;

use tautline_base::{Bytes, Device, Instant, Packet, Pool};
use tautline_bql::{Limit, Port, Ring};
use tautline_qdisc::{Backlog, Stats};
use tautline_rt::{Application, Ended, EventLoop, Idle, Next};
use tautline_sim::{Applications, PortSample};
use tautline_stack::{Cidr, Event, Host, HostConfig, Tracer};
use tautline_tc::{DynQdisc, Inspect};

use super::open::{Nic, Wire};
use super::sample_times::SampleTimes;
use super::{INTERRUPTED, Node, address, links_of};
use crate::run::sampler::Sampler;
use crate::run::topology;
use crate::run::traffic::traffic;
use crate::scenario::document;

/// The qdisc of a host: any, counted.
type Queue<F> = Stats<Box<dyn DynQdisc<Packet<F>>>>;
type WireHost<T> = Host<Queue<<Nic as Device>::Frame>, Nic, T, Box<dyn Limit>>;

/// Hosts that open connections start their applications that much later than those that only listen.
const HEAD_START: Duration = Duration::from_millis(50);

/// Runs the host `node` to the end of the run and returns its samples. `tracer` supplies the packet
/// tracer.
pub(super) fn run<T: Tracer>(
    node: &Node<'_>,
    tracer: impl Fn(&str) -> T,
) -> Result<Sampler, String> {
    let Node { document, name, .. } = *node;
    let number = document
        .host
        .iter()
        .position(|host| host.name == name)
        .ok_or("no such host")?;
    let mut all = traffic(document, node.seed, |name| address(document, name))
        .map_err(|error| in_host(name, &error))?;
    let apps = all.apps.swap_remove(number);
    let mut host = open(node, number, apps.echo_requests(), tracer(name))?;
    let event_loop =
        EventLoop::new(node.clock, Idle::Sleep).map_err(|error| in_host(name, &error))?;
    let Some(origin) = node.await_start(event_loop.stopper()) else {
        return Ok(Sampler::new(Instant::ZERO, node.times.sample.0));
    };
    let connects = |flow: &document::Flow| flow.from.0.iter().any(|from| from == name);
    let starts = if document.flow.iter().any(connects) {
        origin + HEAD_START
    } else {
        origin
    };
    let mut live = Live {
        name,
        apps,
        sampler: Sampler::new(origin, node.times.sample.0),
        samples: SampleTimes::new(origin, node.times),
        origin,
        starts,
        started: false,
        end: origin + node.times.duration.0,
    };
    let ended = event_loop
        .run(&mut host, &mut live)
        .map_err(|error| in_host(name, &error))?;
    conclude(ended, live, &all.read_by[number], &mut host)
}

/// An error of the host called `name`.
fn in_host(name: &str, error: &dyn std::fmt::Display) -> String {
    format!("host {name}: {error}")
}

/// Adds the measurements of the applications after the run.
fn conclude<T: Tracer>(
    ended: Ended,
    live: Live<'_>,
    read: &BTreeSet<String>,
    host: &mut WireHost<T>,
) -> Result<Sampler, String> {
    match ended {
        Ended::Application => {}
        Ended::Stopped => return Err(INTERRUPTED.to_owned()),
        Ended::DeviceFailed => {
            return Err(in_host(live.name, &Wire::failure(host.device_mut())));
        }
    }
    if let Some(failure) = live.apps.failure() {
        return Err(in_host(live.name, failure));
    }
    let mut sampler = live.sampler;
    sampler.applications(&live.apps, read, host, live.samples.last());
    Ok(sampler)
}

/// Opens the device of host `number` and builds the host on it, whose applications have that many
/// `echo_requests` outstanding.
fn open<T: Tracer>(
    node: &Node<'_>,
    number: usize,
    echo_requests: usize,
    tracer: T,
) -> Result<WireHost<T>, String> {
    let Node {
        document,
        seed,
        name,
        namespaces,
        ..
    } = *node;
    let own = address(document, name).ok_or("too many hosts for the wire")?;
    let (link, _) = links_of(document, name)
        .next()
        .ok_or("a host without a cable")?;
    let node = topology::host(&document.host[number]);
    let queue = Stats::new(node.qdisc.build().map_err(|error| in_host(name, &error))?);
    let packets = queue.report().packet_limit();
    let (device, frames) = <Nic as Wire>::open(namespaces, name, link, Some(own), packets)
        .map_err(|error| in_host(name, &error))?;
    let limit = node
        .ring_limit
        .build()
        .map_err(|error| in_host(name, &error))?;
    let mut config = HostConfig::new(
        [2, 0, 0, 0, 1, number as u8 + 1],
        seed.wrapping_add(number as u64),
    )
    .address(Cidr::new(own, 24));
    config.echo_requests = config.echo_requests.max(echo_requests);
    let port = Port::new(queue, Ring::new(device, limit));
    Ok(Host::new(config, port, Pool::new(frames), tracer))
}

/// The applications of a host in real time, sampled periodically.
struct Live<'a> {
    name: &'a str,
    apps: Applications<'static>,
    sampler: Sampler,
    samples: SampleTimes,
    origin: Instant,
    /// When the applications start.
    starts: Instant,
    started: bool,
    end: Instant,
}

impl<T: Tracer> Application<WireHost<T>> for Live<'_> {
    fn on_event(&mut self, host: &mut WireHost<T>, event: Event, now: Instant) {
        self.apps.on_event(host, event, now);
    }

    fn turn(&mut self, host: &mut WireHost<T>, now: Instant) -> Next {
        if now >= self.starts {
            if !std::mem::replace(&mut self.started, true) {
                // All hosts share the time axis.
                self.apps.start(host, self.origin);
            }
            self.apps.on_deadline(host, now);
        }
        while let Some(at) = self.samples.take_due(now) {
            self.sampler.port(self.name, sample(host), at);
            self.sampler.connections(&self.apps, host, at);
        }
        if now >= self.end || self.apps.failure().is_some() {
            return Next::Done;
        }
        let deadline = if self.started {
            self.apps.deadline()
        } else {
            Some(self.starts)
        };
        let next = self.samples.next().min(self.end);
        Next::At(deadline.map_or(next, |at| at.min(next)))
    }
}

fn sample<T: Tracer>(host: &WireHost<T>) -> PortSample {
    PortSample {
        drops: host.stats().dropped,
        ..sample_port(host.port())
    }
}

/// Occupancy and counters of a port.
pub(super) fn sample_port(
    port: &Port<Queue<<Nic as Device>::Frame>, Nic, Box<dyn Limit>>,
) -> PortSample {
    let (ring, counts) = (port.ring(), port.qdisc().stats());
    PortSample {
        backlog: port.backlog(),
        ring: Backlog {
            packets: ring.in_flight(),
            bytes: ring.limit().in_flight(),
        },
        limit: ring.limit().limit(),
        drops: counts.drops(),
        marks: counts.dequeued.ce.saturating_sub(counts.enqueued.ce),
        sojourn: counts.sojourn.last,
        sent_packets: counts.dequeued.packets,
        sent: Bytes::new(counts.dequeued.bytes.get()),
        tx: *port.stats(),
    }
}
