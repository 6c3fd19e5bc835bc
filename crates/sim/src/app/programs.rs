//! [`Programs`]: any number of applications on one host. An event goes to the application whose
//! socket it is about; the earliest of all times at which one wants to be called is at the top of a
//! heap.
//!
//! ```
//! use std::time::Duration;
//! use tautline_sim::app::{Flow, PingConfig, Programs, SinkConfig, UploadConfig};
//! use tautline_base::Bytes;
//!
//! # fn main() -> Result<(), tautline_sim::ConfigError> {
//! let server = "10.7.0.2".parse().expect("an address");
//! let mut client = Programs::new(Duration::from_millis(100));
//! client.upload(UploadConfig {
//!     bytes: Some(Bytes::mib(1)),
//!     ..UploadConfig::new(Flow::numbered("upload", 1), (server, 5001).into())
//! })?;
//! client.ping(PingConfig { interval: Duration::from_millis(10), ..PingConfig::new("ping", server) })?;
//! let mut sink = Programs::new(Duration::from_millis(100));
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
use super::{App, AppError, Application, Flow, HostCalls, Meter, Program, Scene, When};
use crate::config_error::ConfigError;

/// Bytes moved between application and host in one call.
pub(super) const CHUNK: usize = 1 << 16;

/// Applications of one host, and what they measured. What serves others (a sink, a server) is
/// always done; the whole is done when all others are.
pub struct Programs {
    slots: Vec<Slot>,
    meter: Meter,
    owners: Owners,
    /// When which application is to be called. Only the entry that its slot knows of counts.
    calls: BinaryHeap<Reverse<(Instant, usize)>>,
    due: Vec<usize>,
    buffer: Box<[u8]>,
    /// Applications that are not done.
    busy: usize,
    started: bool,
    strict: bool,
    failure: Option<AppError>,
}

struct Slot {
    application: Box<dyn Application>,
    when: When,
    stage: Stage,
    busy: bool,
    armed: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Before its time.
    Waiting,
    Working,
    /// Its time is over; it brings things to an end.
    Stopped,
    /// It failed.
    Ended,
}

/// What an application is called for.
enum Call {
    Start,
    Stop,
    Time,
    Event(Event, u32),
}

impl Programs {
    /// No applications yet. What they receive is told by `interval`.
    pub fn new(interval: Duration) -> Self {
        Self {
            slots: Vec::new(),
            meter: Meter::new(interval),
            owners: Owners::default(),
            calls: BinaryHeap::new(),
            due: Vec::new(),
            buffer: vec![0; CHUNK].into(),
            busy: 0,
            started: false,
            strict: false,
            failure: None,
        }
    }

    /// The failure of one application is that of the whole. Otherwise it is told in the [`Meter`],
    /// and the others go on.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Adds an application that measures `flow`.
    ///
    /// # Errors
    /// If there are 65 536 already: each has an identifier for its pings.
    pub fn add(
        &mut self,
        flow: Flow,
        when: When,
        application: impl Application + 'static,
    ) -> Result<&mut Self, ConfigError> {
        let number = self.slots.len();
        ConfigError::check(
            u16::try_from(number).is_ok(),
            "applications",
            number + 1,
            "at most 65536 on one host",
        )?;
        let busy = !application.is_done();
        self.busy += usize::from(busy);
        self.slots.push(Slot {
            application: Box::new(application),
            when,
            stage: Stage::Waiting,
            busy,
            armed: None,
        });
        self.meter.add(flow);
        if self.started {
            self.arm(number);
        }
        Ok(self)
    }

    /// What was measured.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Every connection that is worth a look now, with its flow. `host` is the one they run on.
    pub fn connections<'a>(
        &'a self,
        host: &'a dyn HostCalls,
    ) -> impl Iterator<Item = (&'a Flow, TcpInfo)> {
        self.sockets()
            .filter_map(|(flow, socket)| Some((flow, host.info(socket)?)))
    }

    /// Every connection that is worth a look now, with its flow.
    pub fn sockets(&self) -> impl Iterator<Item = (&Flow, SocketId)> {
        let slots = self.slots.iter().zip(self.meter.flows());
        slots.flat_map(|(slot, measured)| {
            slot.application
                .connections()
                .iter()
                .map(|socket| (&measured.flow, *socket))
        })
    }

    /// Everything begins.
    pub fn begin(&mut self, host: &mut dyn HostCalls, now: Instant) {
        if self.started {
            return;
        }
        self.started = true;
        self.meter.begin(now);
        (0..self.slots.len()).for_each(|number| self.arm(number));
        self.call(host, now);
    }

    /// The host has told of `event`.
    pub fn hear(&mut self, host: &mut dyn HostCalls, event: Event, now: Instant) {
        let owner = match event {
            Event::Accepted {
                listener: socket, ..
            }
            | Event::Connected(socket)
            | Event::Readable(socket)
            | Event::Writable(socket)
            | Event::Closed { socket, .. } => self.owners.get(socket),
            Event::Pong { identifier, .. } | Event::PingFailed { identifier, .. } => {
                Some((identifier.into(), 0))
            }
        };
        match owner.filter(|(number, _)| *number < self.slots.len()) {
            Some((number, token)) => self.tell(number, Call::Event(event, token), host, now),
            // The application that listened is gone: nobody will ever take the connection.
            None => {
                if let Event::Accepted { socket, .. } = event {
                    host.close(socket, now);
                }
            }
        }
    }

    /// Calls each application whose time has come, once.
    pub fn call(&mut self, host: &mut dyn HostCalls, now: Instant) {
        let mut due = std::mem::take(&mut self.due);
        while let Some(Reverse((at, number))) = self
            .calls
            .peek()
            .copied()
            .filter(|Reverse((at, _))| *at <= now)
        {
            self.calls.pop();
            if self.slots[number].armed == Some(at) {
                self.slots[number].armed = None;
                due.push(number);
            }
        }
        for number in due.drain(..) {
            self.tell_time(number, host, now);
        }
        self.due = due;
        self.forget_outdated();
    }

    fn tell_time(&mut self, number: usize, host: &mut dyn HostCalls, now: Instant) {
        let Slot { when, stage, .. } = self.slots[number];
        let began = self.meter.began();
        if stage == Stage::Waiting && began + when.start <= now {
            self.slots[number].stage = Stage::Working;
            self.tell(number, Call::Start, host, now);
        }
        let over = when.stop.is_some_and(|stop| began + stop <= now);
        if over && self.slots[number].stage == Stage::Working {
            self.slots[number].stage = Stage::Stopped;
            self.tell(number, Call::Stop, host, now);
        }
        if self.slots[number]
            .application
            .call_at()
            .is_some_and(|at| at <= now)
        {
            self.tell(number, Call::Time, host, now);
        }
        self.arm(number);
    }

    fn tell(&mut self, number: usize, call: Call, host: &mut dyn HostCalls, now: Instant) {
        let Self {
            slots,
            meter,
            owners,
            buffer,
            ..
        } = self;
        let slot = &mut slots[number];
        if matches!(slot.stage, Stage::Waiting | Stage::Ended) {
            return;
        }
        let scene = &mut Scene {
            now,
            host,
            measured: meter.of(number),
            buffer,
            owners,
            number,
        };
        let outcome = match call {
            Call::Start => slot.application.start(scene),
            Call::Stop => slot.application.stop(scene),
            Call::Time => slot.application.on_call(scene),
            Call::Event(event, token) => slot.application.on_event(scene, event, token),
        };
        if let Err(error) = outcome {
            scene.fail(error);
            slot.stage = Stage::Ended;
            while let Some(socket) = scene.owners.any_of(number) {
                scene.close(socket);
            }
        }
        self.note_failure(number);
        self.arm(number);
        self.forget_outdated();
    }

    /// In a strict run the first failure is everybody's.
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

    /// Notes when `number` is to be called next, and whether it is done.
    fn arm(&mut self, number: usize) {
        let began = self.meter.began();
        let slot = &mut self.slots[number];
        let busy = slot.stage != Stage::Ended && !slot.application.is_done();
        self.busy = self.busy + usize::from(busy) - usize::from(slot.busy);
        slot.busy = busy;
        let at = match slot.stage {
            Stage::Waiting => Some(began + slot.when.start),
            Stage::Working => {
                let stop = slot.when.stop.map(|stop| began + stop);
                slot.application.call_at().into_iter().chain(stop).min()
            }
            Stage::Stopped => slot.application.call_at(),
            Stage::Ended => None,
        };
        let at = at.filter(|at| *at < END_OF_TIME);
        if at != slot.armed {
            slot.armed = at;
            self.calls.extend(at.map(|at| Reverse((at, number))));
        }
    }

    /// The entry at the top always counts.
    fn forget_outdated(&mut self) {
        while let Some(Reverse((at, number))) = self.calls.peek()
            && self.slots[*number].armed != Some(*at)
        {
            self.calls.pop();
        }
    }
}

impl<H: HostCalls> App<H> for Programs {
    fn start(&mut self, host: &mut H, now: Instant) {
        self.begin(host, now);
    }

    fn on_event(&mut self, host: &mut H, event: Event, now: Instant) {
        self.hear(host, event, now);
    }

    fn on_call(&mut self, host: &mut H, now: Instant) {
        self.call(host, now);
    }
}

impl Program for Programs {
    fn call_at(&self) -> Option<Instant> {
        self.calls.peek().map(|Reverse((at, _))| *at)
    }

    fn is_done(&self) -> bool {
        self.busy == 0
    }

    fn failure(&self) -> Option<&AppError> {
        self.failure.as_ref()
    }
}

#[cfg(test)]
mod tests;
