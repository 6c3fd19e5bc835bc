//! A host on the wire: our stack over a device, driven by an event loop, with the same programs as
//! in virtual time.

use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use tautline_base::{Bytes, Device, Instant, Packet, Pool};
use tautline_bql::{Limit, Port, Ring};
use tautline_qdisc::{Backlog, Stats};
use tautline_rt::{Application, Ended, EventLoop, Idle, Next};
use tautline_sim::{Applications, PortSample};
use tautline_stack::{Cidr, Event, Host, HostConfig, Tracer};
use tautline_tc::{DynQdisc, Inspect};

use super::namespaces::Namespaces;
use super::open::{Nic, Wire};
use super::{INTERRUPTED, Node, Ready, address, beginning, links_of};
use crate::run::traffic::traffic;
use crate::run::watch::Sampler;
use crate::run::world;
use crate::scenario::document;

/// The qdisc of a host: any, counted.
type Queue<F> = Stats<Box<dyn DynQdisc<Packet<F>>>>;
type WireHost<T> = Host<Queue<<Nic as Device>::Frame>, Nic, T, Box<dyn Limit>>;

/// Hosts that open connections begin that much later than those that only listen.
const HEAD_START: Duration = Duration::from_millis(50);

/// Runs the host `node` from the start time received on `when` to the end of the run and returns
/// its samples. `tracer` supplies the packet tracer.
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
    let number = document
        .host
        .iter()
        .position(|host| host.name == name)
        .ok_or("no such host")?;
    let at = |error: &dyn std::fmt::Display| format!("host {name}: {error}");
    let mut host = open(node, number, tracer(name), namespaces)?;
    let (mut all, _) =
        traffic(document, seed, |name| address(document, name)).map_err(|error| at(&error))?;
    let programs = all.swap_remove(number);
    let event_loop = EventLoop::new(clock, Idle::Sleep).map_err(|error| at(&error))?;
    // The receiver is gone if another node failed.
    let _ = say_ready.send(Ok(event_loop.stopper()));
    let times = document.run.as_ref().ok_or("nothing to run")?;
    let (duration, sample) = (times.duration.0, times.sample.0);
    let Some(origin) = beginning(when) else {
        return Ok(Sampler::new(Instant::ZERO, sample));
    };
    let sends = |flow: &document::Flow| flow.from.0.iter().any(|from| from == name);
    let head_start = document.flow.iter().any(sends);
    let watch = Sampler::new(origin, sample);
    let mut live = Live {
        name,
        programs,
        watch,
        origin,
        begins: if head_start {
            origin + HEAD_START
        } else {
            origin
        },
        end: origin + duration,
        sample,
        next_sample: origin + sample,
        begun: false,
    };
    let ended = event_loop
        .run(&mut host, &mut live)
        .map_err(|error| at(&error))?;
    conclude(ended, live, &mut host, duration)
}

/// Adds the measurements of the applications after the run.
fn conclude<T: Tracer>(
    ended: Ended,
    live: Live<'_>,
    host: &mut WireHost<T>,
    duration: Duration,
) -> Result<Sampler, String> {
    let at = |error: &dyn std::fmt::Display| format!("host {}: {error}", live.name);
    match ended {
        Ended::Application => {}
        Ended::Stopped => return Err(INTERRUPTED.to_owned()),
        Ended::DeviceFailed => return Err(at(&Wire::failure(host.device_mut()))),
    }
    if let Some(failure) = live.programs.failure() {
        return Err(at(failure));
    }
    let Live {
        programs,
        mut watch,
        origin,
        sample,
        ..
    } = live;
    let samples = u32::try_from(duration.as_nanos() / sample.as_nanos()).unwrap_or(u32::MAX);
    watch.applications(&programs, host, origin + sample * samples);
    Ok(watch)
}

/// Opens the device of host `number` and builds the host on it.
fn open<T: Tracer>(
    node: &Node<'_>,
    number: usize,
    tracer: T,
    namespaces: &Namespaces,
) -> Result<WireHost<T>, String> {
    let Node {
        document,
        seed,
        name,
        ..
    } = *node;
    let own = address(document, name).ok_or("too many hosts for the wire")?;
    let (link, _) = links_of(document, name)
        .next()
        .ok_or("a host without a cable")?;
    let at = |error: &dyn std::fmt::Display| format!("host {name}: {error}");
    let node = world::host(&document.host[number]);
    let queue = Stats::new(node.qdisc.build().map_err(|error| at(&error))?);
    let packets = queue.report().packet_limit();
    let (device, frames) = <Nic as Wire>::open(namespaces, name, link, Some(own), packets)
        .map_err(|error| at(&error))?;
    let limit = node.ring_limit.build().map_err(|error| at(&error))?;
    let config = HostConfig::new(
        [2, 0, 0, 0, 1, number as u8 + 1],
        seed.wrapping_add(number as u64),
    )
    .address(Cidr::new(own, 24));
    let port = Port::new(queue, Ring::new(device, limit));
    Ok(Host::new(config, port, Pool::new(frames), tracer))
}

/// The programs of a host in real time, sampled periodically.
struct Live<'a> {
    name: &'a str,
    programs: Applications<'static>,
    watch: Sampler,
    origin: Instant,
    /// When its programs begin.
    begins: Instant,
    end: Instant,
    sample: Duration,
    next_sample: Instant,
    begun: bool,
}

impl<T: Tracer> Application<WireHost<T>> for Live<'_> {
    fn on_event(&mut self, host: &mut WireHost<T>, event: Event, now: Instant) {
        self.programs.on_event(host, event, now);
    }

    fn turn(&mut self, host: &mut WireHost<T>, now: Instant) -> Next {
        if now >= self.begins {
            if !std::mem::replace(&mut self.begun, true) {
                // All processes share the time axis.
                self.programs.start(host, self.origin);
            }
            self.programs.on_deadline(host, now);
        }
        while self.next_sample <= now && self.next_sample <= self.end {
            self.watch.port(self.name, sample(host), self.next_sample);
            self.watch
                .connections(&self.programs, host, self.next_sample);
            self.next_sample += self.sample;
        }
        if now >= self.end || self.programs.failure().is_some() {
            return Next::Done;
        }
        let call = if self.begun {
            self.programs.deadline()
        } else {
            Some(self.begins)
        };
        Next::At(
            [Some(self.next_sample), Some(self.end), call]
                .into_iter()
                .flatten()
                .min()
                .unwrap_or(self.end),
        )
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
