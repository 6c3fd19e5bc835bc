//! A router on the wire: a bump between two cables, each way through the qdisc and the limit
//! of the file.

use std::os::fd::{AsFd, BorrowedFd};

use tautline_base::Instant;
use tautline_qdisc::Stats;
use tautline_rt::bridge::{Bridge, Side};
use tautline_rt::{Ended, EventLoop, Forwarder, Idle, Progress};
use tautline_stack::Tracer;
use tautline_tc::Inspect;

use super::host::sample_port;
use super::namespaces::Namespaces;
use super::open::{Nic, Wire};
use super::sample_times::SampleTimes;
use super::{INTERRUPTED, Node, links_of};
use crate::run::sampler::Sampler;
use crate::run::topology;
use crate::scenario::document::{Back, Link, Port};

/// Runs the router `node` to the end of the run and returns its samples. `tracer` supplies each
/// port's packet tracer.
pub(super) fn run<T: Tracer>(
    node: &Node<'_>,
    tracer: impl Fn(&str) -> T,
) -> Result<Sampler, String> {
    let name = node.name;
    let mut sides = links_of(node.document, name)
        .map(|(number, link)| open(name, number, link, &tracer, node.namespaces));
    let (Some(left), Some(right)) = (sides.next(), sides.next()) else {
        return Err(in_router(name, &"two cables are wanted"));
    };
    let ((left_name, left), (right_name, right)) = (left?, right?);
    let event_loop =
        EventLoop::new(node.clock, Idle::Sleep).map_err(|error| in_router(name, &error))?;
    let Some(origin) = node.await_start(event_loop.stopper()) else {
        return Ok(Sampler::new(Instant::ZERO, node.times.sample.0));
    };
    let mut live = Live {
        names: [left_name, right_name],
        bridge: Bridge::new(left, right, node.seed),
        sampler: Sampler::new(origin, node.times.sample.0),
        samples: SampleTimes::new(origin, node.times),
        end: origin + node.times.duration.0,
    };
    match event_loop
        .run_forwarder(&mut live)
        .map_err(|error| in_router(name, &error))?
    {
        Ended::Application => Ok(live.sampler),
        Ended::Stopped => Err(INTERRUPTED.to_owned()),
        Ended::DeviceFailed => Err(in_router(name, &"a device receives no more")),
    }
}

/// An error of the router called `name`.
fn in_router(name: &str, error: &dyn std::fmt::Display) -> String {
    format!("router {name}: {error}")
}

/// Opens the port of `router` at `link`, which has that number; returns its name with it.
fn open<T: Tracer>(
    router: &str,
    number: usize,
    link: &Link,
    tracer: impl Fn(&str) -> T,
    namespaces: &Namespaces,
) -> Result<(String, Side<Nic, T>), String> {
    let port = egress(router, link);
    let queue = Stats::new(
        topology::qdisc(port)
            .build()
            .map_err(|error| in_router(router, &error))?,
    );
    let packets = queue.report().packet_limit();
    let (device, frames) = <Nic as Wire>::open(namespaces, router, number, None, packets)
        .map_err(|error| in_router(router, &error))?;
    let limit = topology::ring_limit(port)
        .build()
        .map_err(|error| in_router(router, &error))?;
    let name = port_name(router, link);
    let tracer = tracer(&name);
    Ok((name, Side::new(device, frames, queue, limit).traced(tracer)))
}

/// Name of the port of `router` at `link`: `router>server`.
pub(super) fn port_name(router: &str, link: &Link) -> String {
    let (from, to) = &link.between;
    format!("{router}>{}", if from == router { to } else { from })
}

/// The egress port of `router` to `link`.
fn egress<'a>(router: &str, link: &'a Link) -> Port<'a> {
    if link.between.0 == router {
        link.port()
    } else {
        link.back.as_ref().map_or_else(Port::default, Back::port)
    }
}

/// A bridge in real time, sampled periodically.
struct Live<T: Tracer> {
    /// Port names to the left and right.
    names: [String; 2],
    bridge: Bridge<Nic, Nic, T>,
    sampler: Sampler,
    samples: SampleTimes,
    end: Instant,
}

impl<T: Tracer> Forwarder for Live<T> {
    fn turn(&mut self, now: Instant) -> Progress {
        let more = self.bridge.turn(now);
        while let Some(at) = self.samples.take_due(now) {
            let Bridge { left, right, .. } = &self.bridge;
            for (name, side) in self.names.iter().zip([left, right]) {
                self.sampler.port(name, sample_port(side.port()), at);
            }
        }
        if now >= self.end {
            return Progress::Done;
        }
        if more {
            return Progress::Again;
        }
        let wake = self.bridge.wake(now).map(|wake| wake.at);
        Progress::Wait(
            wake.into_iter()
                .chain([self.samples.next(), self.end])
                .min(),
        )
    }

    fn devices(&self) -> [BorrowedFd<'_>; 2] {
        let Bridge { left, right, .. } = &self.bridge;
        [left, right].map(|side| side.port().ring().device().as_fd())
    }
}
