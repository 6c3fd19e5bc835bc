//! [`Applications`]: any number of applications on one host. An event goes to the application that
//! owns the socket; a heap holds the deadlines.
//!
//! ```
//! use std::time::Duration;
//! use tautline_sim::app::{Flow, PingConfig, Applications, SinkConfig, UploadConfig};
//! use tautline_base::Bytes;
//!
//! # fn main() -> Result<(), tautline_sim::ConfigError> {
//! let server = "10.7.0.2".parse().expect("an address");
//! let mut client = Applications::new(Duration::from_millis(100));
//! client.upload(UploadConfig {
//!     bytes: Some(Bytes::mib(1)),
//!     ..UploadConfig::new(Flow::numbered("upload", 1), (server, 5001).into())
//! })?;
//! client.ping(PingConfig { interval: Duration::from_millis(10), ..PingConfig::new("ping", server) })?;
//! let mut sink = Applications::new(Duration::from_millis(100));
//! sink.sink(SinkConfig::new(Flow::numbered("upload", 1), 5001))?;
//! # Ok(())
//! # }
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use tautline_base::{Instant, SocketId};
use tautline_stack::{Event, TcpInfo};

use super::owners::Owners;
use super::traffic::END_OF_TIME;
use super::{AppError, Application, Context, Flow, Meter, SocketApi, When};
use crate::config_error::ConfigError;

/// Bytes moved between application and host in one call.
pub(super) const CHUNK: usize = 1 << 16;

/// The applications of one host, and their measurements. Servers and sinks are always done; the set
/// is done when all others are.
pub struct Applications<'a> {
    slots: Vec<Slot<'a>>,
    meter: Meter,
    owners: Owners,
    /// Deadlines and the applications they are of. Only those that `Slot::armed` repeats count.
    deadlines: BinaryHeap<Reverse<(Instant, usize)>>,
    due: Vec<usize>,
    buffer: Box<[u8]>,
    /// Number of applications that are not done.
    busy: usize,
    started: bool,
    strict: bool,
    /// Echo requests that may be outstanding at once.
    pub(super) echo_requests: usize,
    failure: Option<AppError>,
}

struct Slot<'a> {
    application: Box<dyn Application + 'a>,
    when: When,
    phase: Phase,
    busy: bool,
    armed: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Pending,
    Running,
    /// Past [`When::stop`], completing work in progress.
    Stopping,
    Failed,
}

/// A method of [`Application`] to call.
enum Call {
    Start,
    Stop,
    Deadline,
    Event(Event, u32),
}

impl<'a> Applications<'a> {
    /// An empty set. Received bytes are counted per `interval`.
    pub fn new(interval: Duration) -> Self {
        Self {
            slots: Vec::new(),
            meter: Meter::new(interval),
            owners: Owners::default(),
            deadlines: BinaryHeap::new(),
            due: Vec::new(),
            buffer: vec![0; CHUNK].into(),
            busy: 0,
            started: false,
            strict: false,
            echo_requests: 0,
            failure: None,
        }
    }

    /// Makes any failure that of the whole set, which ends a simulation. By default failures are
    /// only recorded in the [`Meter`].
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Adds an application that measures `flow`.
    ///
    /// # Errors
    /// If there are 65 536 already: each has an ICMP echo identifier of its own.
    pub fn add(
        &mut self,
        flow: Flow,
        when: When,
        application: impl Application + 'a,
    ) -> Result<&mut Self, ConfigError> {
        let number = self.slots.len();
        let fits = u16::try_from(number).is_ok();
        ConfigError::check(
            fits,
            "applications",
            number + 1,
            "at most 65536 on one host",
        )?;
        let busy = !application.is_done();
        self.busy += usize::from(busy);
        self.slots.push(Slot {
            application: Box::new(application),
            when,
            phase: Phase::Pending,
            busy,
            armed: None,
        });
        self.meter.add(flow);
        if self.started {
            self.arm(number);
        }
        Ok(self)
    }

    /// The measurements of all flows.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Most echo requests that wait for a reply at once, for
    /// [`HostConfig::echo_requests`](tautline_stack::HostConfig::echo_requests): a host that remembers
    /// fewer loses the replies of a long round trip.
    pub fn echo_requests(&self) -> usize {
        self.echo_requests
    }

    /// State of every connection of [`sockets`](Self::sockets) on `host`.
    pub fn connections<'b>(
        &'b self,
        host: &'b dyn SocketApi,
    ) -> impl Iterator<Item = (&'b Flow, TcpInfo)> {
        self.sockets()
            .filter_map(|(flow, socket)| Some((flow, host.info(socket)?)))
    }

    /// Every open connection that an application reports, with its flow.
    pub fn sockets(&self) -> impl Iterator<Item = (&Flow, SocketId)> {
        let slots = self.slots.iter().zip(self.meter.flows());
        slots.flat_map(|(slot, measured)| {
            let sockets = slot.application.connections().iter();
            sockets.map(|socket| (&measured.flow, *socket))
        })
    }

    /// Starts the clock of all applications. Later calls have no effect.
    pub fn start(&mut self, host: &mut dyn SocketApi, now: Instant) {
        if self.started {
            return;
        }
        self.started = true;
        self.meter.begin(now);
        (0..self.slots.len()).for_each(|number| self.arm(number));
        self.on_deadline(host, now);
    }

    /// Delivers `event` of `host`.
    pub fn on_event(&mut self, host: &mut dyn SocketApi, event: Event, now: Instant) {
        let owner = match event {
            Event::Accepted {
                listener: socket, ..
            }
            | Event::Requested {
                listener: socket, ..
            }
            | Event::Connected(socket)
            | Event::Readable(socket)
            | Event::Writable(socket)
            | Event::Closed { socket, .. } => self.owners.get(socket),
            Event::Pong { identifier, .. } | Event::PingFailed { identifier, .. } => {
                Some((identifier.into(), 0))
            }
            _ => None,
        };
        match owner.filter(|(number, _)| *number < self.slots.len()) {
            Some((number, token)) => self.call(number, Call::Event(event, token), host, now),
            // The application that listened has ended: close what nobody will accept.
            None => {
                if let Event::Accepted { socket, .. } = event {
                    host.close(socket, now);
                }
            }
        }
    }

    /// Calls each application whose deadline has passed, once.
    pub fn on_deadline(&mut self, host: &mut dyn SocketApi, now: Instant) {
        let mut due = std::mem::take(&mut self.due);
        while let Some(&Reverse((at, number))) = self.deadlines.peek()
            && at <= now
        {
            self.deadlines.pop();
            if self.slots[number].armed == Some(at) {
                self.slots[number].armed = None;
                due.push(number);
            }
        }
        for number in due.drain(..) {
            self.advance(number, host, now);
        }
        self.due = due;
        self.pop_outdated();
    }

    /// The earliest deadline of any application.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadlines.peek().map(|Reverse((at, _))| *at)
    }

    /// True if every application is done.
    pub fn is_done(&self) -> bool {
        self.busy == 0
    }

    /// The first failure of a [strict](Self::strict) set.
    pub fn failure(&self) -> Option<&AppError> {
        self.failure.as_ref()
    }

    /// Starts, stops or calls application `number`, as its deadlines say.
    fn advance(&mut self, number: usize, host: &mut dyn SocketApi, now: Instant) {
        let Slot { when, phase, .. } = self.slots[number];
        let began = self.meter.began();
        if phase == Phase::Pending && began + when.start <= now {
            self.slots[number].phase = Phase::Running;
            self.call(number, Call::Start, host, now);
        }
        let over = when.stop.is_some_and(|stop| began + stop <= now);
        if over && self.slots[number].phase == Phase::Running {
            self.slots[number].phase = Phase::Stopping;
            self.call(number, Call::Stop, host, now);
        }
        let deadline = self.slots[number].application.deadline();
        if deadline.is_some_and(|at| at <= now) {
            self.call(number, Call::Deadline, host, now);
        }
        self.arm(number);
    }

    fn call(&mut self, number: usize, call: Call, host: &mut dyn SocketApi, now: Instant) {
        let slot = &mut self.slots[number];
        if matches!(slot.phase, Phase::Pending | Phase::Failed) {
            return;
        }
        let cx = &mut Context {
            now,
            host,
            measured: self.meter.of(number),
            buffer: &mut self.buffer,
            owners: &mut self.owners,
            number,
        };
        let outcome = match call {
            Call::Start => slot.application.start(cx),
            Call::Stop => slot.application.stop(cx),
            Call::Deadline => slot.application.on_deadline(cx),
            Call::Event(event, token) => slot.application.on_event(cx, event, token),
        };
        if let Err(error) = outcome {
            cx.fail(error);
            slot.phase = Phase::Failed;
            while let Some(socket) = cx.owners.any_of(number) {
                cx.close(socket);
            }
        }
        self.note_failure(number);
        self.arm(number);
        self.pop_outdated();
    }

    fn note_failure(&mut self, number: usize) {
        let measured = self.meter.of(number);
        if self.strict
            && self.failure.is_none()
            && let Some(failure) = measured.failures.first()
        {
            self.failure = Some(AppError::Of {
                flow: measured.flow.clone(),
                why: Arc::clone(&failure.why),
            });
        }
    }

    /// Updates the deadline of application `number` and whether it is busy.
    fn arm(&mut self, number: usize) {
        let began = self.meter.began();
        let slot = &mut self.slots[number];
        let busy = slot.phase != Phase::Failed && !slot.application.is_done();
        self.busy = self.busy + usize::from(busy) - usize::from(slot.busy);
        slot.busy = busy;
        let at = match slot.phase {
            Phase::Pending => Some(began + slot.when.start),
            Phase::Running => {
                let stop = slot.when.stop.map(|stop| began + stop);
                slot.application.deadline().into_iter().chain(stop).min()
            }
            Phase::Stopping => slot.application.deadline(),
            Phase::Failed => None,
        };
        let at = at.filter(|at| *at < END_OF_TIME);
        if at != slot.armed {
            slot.armed = at;
            self.deadlines.extend(at.map(|at| Reverse((at, number))));
        }
    }

    /// Removes deadlines that were replaced from the top of the heap.
    fn pop_outdated(&mut self) {
        while let Some(Reverse((at, number))) = self.deadlines.peek()
            && self.slots[*number].armed != Some(*at)
        {
            self.deadlines.pop();
        }
    }
}

#[cfg(test)]
mod tests;
