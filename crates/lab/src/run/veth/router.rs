//! A router on the wire: a bump between two cables, each way through the qdisc and the limit
//! of the file.

use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use tautline_base::Instant;
use tautline_qdisc::Stats;
use tautline_rt::bridge::{Bridge, Side};
use tautline_rt::{Ended, EventLoop, Forwarder, Idle, Progress};
use tautline_stack::Tracer;
use tautline_tc::Inspect;

use super::host::sample_port;
use super::namespaces::Namespaces;
use super::open::{Nic, Wire};
use super::{INTERRUPTED, Node, Ready, beginning, links_of};
use crate::run::watch::Sampler;
use crate::run::world;
use crate::scenario::document::{Back, Link, Port};

/// Runs the router `node` from the start time received on `when` to the end of the run and returns
/// its samples. `tracer` supplies each port's packet tracer.
pub(super) fn run<T: Tracer>(
    node: &Node<'_>,
    tracer: impl Fn(&str) -> T,
    namespaces: &Namespaces,
    say_ready: &Sender<Ready>,
    when: &Receiver<Instant>,
) -> Result<Sampler, String> {
    let Node {
        document,
        seed,
        name,
        clock,
    } = *node;
    let at = |error: &dyn std::fmt::Display| format!("router {name}: {error}");
    let side = |(number, link)| open(name, number, link, &tracer, namespaces);
    let mut sides = links_of(document, name).map(side);
    let (Some(left), Some(right)) = (sides.next(), sides.next()) else {
        return Err(at(&"two cables are wanted"));
    };
    let ((left_name, left), (right_name, right)) = (left?, right?);
    let event_loop = EventLoop::new(clock, Idle::Sleep).map_err(|error| at(&error))?;
    // The receiver is gone if another node failed.
    let _ = say_ready.send(Ok(event_loop.stopper()));
    let times = document.run.as_ref().ok_or("nothing to run")?;
    let (duration, sample) = (times.duration.0, times.sample.0);
    let Some(origin) = beginning(when) else {
        return Ok(Sampler::new(Instant::ZERO, sample));
    };
    let bridge = Bridge::new(left, right, seed);
    let (watch, names) = (Sampler::new(origin, sample), [left_name, right_name]);
    let mut live = Live {
        names,
        bridge,
        watch,
        end: origin + duration,
        sample,
        next_sample: origin + sample,
    };
    match event_loop
        .run_forwarder(&mut live)
        .map_err(|error| at(&error))?
    {
        Ended::Application => Ok(live.watch),
        Ended::Stopped => Err(INTERRUPTED.to_owned()),
        Ended::DeviceFailed => Err(at(&"a device receives no more")),
    }
}

/// Opens the port of `router` at `link`, which has that number; returns its name with it.
fn open<T: Tracer>(
    router: &str,
    number: usize,
    link: &Link,
    tracer: impl Fn(&str) -> T,
    namespaces: &Namespaces,
) -> Result<(String, Side<Nic, T>), String> {
    let at = |error: &dyn std::fmt::Display| format!("router {router}: {error}");
    let port = way_out(router, link);
    let queue = Stats::new(world::qdisc(port).build().map_err(|error| at(&error))?);
    let packets = queue.report().packet_limit();
    let (device, frames) = <Nic as Wire>::open(namespaces, router, number, None, packets)
        .map_err(|error| at(&error))?;
    let limit = world::ring_limit(port)
        .build()
        .map_err(|error| at(&error))?;
    let name = port_name(router, link);
    let tracer = tracer(&name);
    Ok((name, Side::new(device, frames, queue, limit).traced(tracer)))
}

/// Name of the port of `router` at `link`: `router>server`.
pub(super) fn port_name(router: &str, link: &Link) -> String {
    let (from, to) = &link.between;
    format!("{router}>{}", if from == router { to } else { from })
}

/// The port of `router` at `link`.
fn way_out<'a>(router: &str, link: &'a Link) -> Port<'a> {
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
    watch: Sampler,
    end: Instant,
    sample: Duration,
    next_sample: Instant,
}

impl<T: Tracer> Forwarder for Live<T> {
    fn turn(&mut self, now: Instant) -> Progress {
        let more = self.bridge.turn(now);
        while self.next_sample <= now && self.next_sample <= self.end {
            let Bridge { left, right, .. } = &self.bridge;
            for (name, side) in self.names.iter().zip([left, right]) {
                self.watch
                    .port(name, sample_port(side.port()), self.next_sample);
            }
            self.next_sample += self.sample;
        }
        if now >= self.end {
            return Progress::Done;
        }
        if more {
            return Progress::Again;
        }
        let wake = self.bridge.wake(now).map(|wake| wake.at);
        Progress::Wait(wake.into_iter().chain([self.next_sample, self.end]).min())
    }

    fn devices(&self) -> [BorrowedFd<'_>; 2] {
        let Bridge { left, right, .. } = &self.bridge;
        [left, right].map(|side| side.port().ring().device().as_fd())
    }
}
