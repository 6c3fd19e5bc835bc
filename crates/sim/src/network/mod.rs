//! [`Network`]: hosts with their NICs, and routers, joined to a tree by the two directions of each
//! link, in virtual time. [`Topology`] builds one.

mod cell;
mod engine;
mod error;
mod media;
mod sample;
mod timers;
pub mod topology;
mod topology_error;
mod wiring;

use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tautline_base::{HeapFrame, Instant, Packet, Reason, Wake};
use tautline_bql::Limit;
use tautline_qdisc::{Ledger, Stats};
use tautline_stack::Host;
use tautline_tc::DynQdisc;

use crate::app::Applications;
use crate::link::Link;
use crate::medium::Medium;
use crate::nic::SimNic;
use crate::record::{LinkTap, Record, Tap};

pub use error::{SimError, SimErrorKind};
use media::{Media, SharedMedium};
pub use sample::{PortId, PortSample};
use timers::{Component, Timers};
pub use topology::Topology;
pub use wiring::Node;
use wiring::Wiring;

/// The qdisc of a simulated host: of any kind, with statistics, its accounts verified after every
/// call.
pub type HostQdisc = Stats<Ledger<Box<dyn DynQdisc<Packet<HeapFrame>>>>>;

/// The stack of a simulated host.
pub type SimHost<R> = Host<HostQdisc, SimNic, Tap<R>, Box<dyn Limit>>;

/// A host and its applications.
pub struct Endpoint<'a, R> {
    /// The stack. Its device is the NIC.
    pub host: SimHost<R>,
    /// The applications.
    pub apps: Applications<'a>,
    wake: Option<Wake>,
}

impl<R: Record> Endpoint<'_, R> {
    #[inline]
    fn nic(&self) -> &SimNic {
        self.host.port().ring().device()
    }
}

/// Hosts and routers, and the links that join them.
pub struct Network<'a, R> {
    seed: u64,
    now: Instant,
    steps_at_now: u32,
    endpoints: Vec<Endpoint<'a, R>>,
    links: Vec<Link>,
    media: Media,
    wiring: Wiring,
    timers: Timers,
    /// Components whose timers are out of date.
    dirty: Vec<Component>,
    recorder: Rc<RefCell<R>>,
    /// Number of host polls, by reason.
    wakes: Vec<(Reason, u64)>,
    polls: u64,
}

impl<'a, R: Record> Network<'a, R> {
    /// Runs until `done` returns true after a step, or until all applications are done.
    ///
    /// # Errors
    /// If an application fails, no event is pending, time does not advance, or `limit` of virtual
    /// time has passed.
    pub fn run_until(
        &mut self,
        limit: Duration,
        mut done: impl FnMut(&Self) -> bool,
    ) -> Result<(), SimError> {
        let deadline = self.now + limit;
        while !done(self) {
            self.check()?;
            if self.endpoints.iter().all(|end| end.apps.is_done()) {
                break;
            }
            match self.next_event() {
                Some(at) if at > deadline => return Err(self.error(SimErrorKind::TimeLimit)),
                Some(at) => self.step_to(at)?,
                None => return Err(self.error(SimErrorKind::Deadlock)),
            }
        }
        Ok(())
    }

    /// Processes all events before `until`. Running out of events is not an error.
    ///
    /// # Errors
    /// If an application fails or time does not advance.
    pub fn run_before(&mut self, until: Instant) -> Result<(), SimError> {
        while let Some(at) = self.next_event().filter(|at| *at < until) {
            self.step_to(at)?;
        }
        self.check()
    }

    /// Runs until no event is pending: all connections have left TIME-WAIT, no frame is in flight.
    ///
    /// # Errors
    /// If time does not advance, or `limit` of virtual time has passed.
    pub fn run_dry(&mut self, limit: Duration) -> Result<(), SimError> {
        let deadline = self.now + limit;
        while let Some(at) = self.next_event() {
            if at > deadline {
                return Err(self.error(SimErrorKind::TimeLimit));
            }
            self.step_to(at)?;
        }
        Ok(())
    }

    /// Processes the next event and everything else due at the same time. Returns the new time.
    ///
    /// # Errors
    /// If no event is pending or time does not advance.
    pub fn step(&mut self) -> Result<Instant, SimError> {
        let Some(at) = self.next_event() else {
            return Err(self.error(SimErrorKind::Deadlock));
        };
        self.step_to(at)?;
        Ok(self.now)
    }

    /// Puts a frame from elsewhere onto the link that leaves host `number`. `now` must not be after
    /// the next event.
    pub fn inject(&mut self, number: usize, frame: &[u8], now: Instant) {
        let link = self.wiring.uplink(number);
        let recorder = &mut *self.recorder.borrow_mut();
        self.links[link].enter(frame, now, &mut LinkTap { link, recorder });
        self.dirty.push(Component::Link(link));
    }

    /// Verifies that no application has failed.
    ///
    /// # Errors
    /// If one has.
    pub fn check(&self) -> Result<(), SimError> {
        let failed = |end: &Endpoint<'_, R>| end.apps.failure().is_some();
        match self.endpoints.iter().position(failed) {
            Some(host) => Err(self.error(SimErrorKind::Failed { host })),
            None => Ok(()),
        }
    }

    fn error(&self, kind: SimErrorKind) -> SimError {
        let why = match kind {
            SimErrorKind::Failed { host } => self.endpoints[host].apps.failure(),
            _ => None,
        };
        SimError {
            kind,
            seed: self.seed,
            at: self.now,
            outstanding: self.outstanding(),
            why: why.map(ToString::to_string),
        }
    }

    /// Frames in flight: in hosts, NICs and links. Anything but zero after
    /// [`run_dry`](Self::run_dry) is a leak.
    pub fn outstanding(&self) -> usize {
        let hosts = self.endpoints.iter();
        let hosts = hosts.map(|end| end.host.outstanding() + end.nic().outstanding());
        hosts.sum::<usize>() + self.links.iter().map(Link::outstanding).sum::<usize>()
    }
}

impl<'a, R> Network<'a, R> {
    /// The current time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// All hosts with their applications, by number.
    pub fn endpoints(&self) -> &[Endpoint<'a, R>] {
        &self.endpoints
    }

    /// Host `number` and its applications.
    pub fn endpoint(&self, number: usize) -> &Endpoint<'a, R> {
        &self.endpoints[number]
    }

    /// Host `number` and its applications. [`mark_runnable`](Self::mark_runnable) must follow calls
    /// of the host.
    pub fn endpoint_mut(&mut self, number: usize) -> &mut Endpoint<'a, R> {
        self.dirty.push(Component::Nic(number));
        self.dirty.push(Component::Host(number));
        &mut self.endpoints[number]
    }

    /// Polls host `number` at once: it was called from outside.
    pub fn mark_runnable(&mut self, number: usize) {
        self.endpoint_mut(number).wake = Some(Wake::new(self.now, Reason::Application));
    }

    /// All links: from the first end of the first cable to its second, back, and so on.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Link `number`. Between two hosts, it is the one that leaves host `number`.
    pub fn link(&self, number: usize) -> &Link {
        &self.links[number]
    }

    /// Link `number`, to be changed.
    pub fn link_mut(&mut self, number: usize) -> &mut Link {
        self.dirty.push(Component::Link(number));
        &mut self.links[number]
    }

    /// Medium `number`, in the order of [`Topology::cells`].
    pub fn medium(&self, number: usize) -> Option<&Medium> {
        self.media.all.get(number).map(|shared| &shared.medium)
    }

    /// The recorder that all hosts and links share.
    pub fn recorder(&self) -> Ref<'_, R> {
        self.recorder.borrow()
    }

    /// Number of polls of a host, by the first reason: [`Reason::Link`] for arrivals,
    /// [`Reason::Reap`] for completion interrupts, else the reason of the host's own wake.
    pub fn wakes(&self) -> BTreeMap<Reason, u64> {
        self.wakes.iter().copied().collect()
    }

    /// Polls of all hosts.
    pub fn polls(&self) -> u64 {
        self.polls
    }

    /// Takes the network apart.
    pub fn into_parts(self) -> (Vec<Applications<'a>>, R) {
        let Self {
            endpoints,
            recorder,
            ..
        } = self;
        let apps = endpoints.into_iter().map(|end| end.apps).collect();
        let recorder = Rc::into_inner(recorder)
            .expect("the taps went with the hosts")
            .into_inner();
        (apps, recorder)
    }
}
