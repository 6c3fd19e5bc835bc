//! [`Network`]: two hosts, each with a NIC, over the two directions of one link, in virtual time.
//!
//! Time jumps to the earliest thing that is due anywhere: a departure, an arrival, an interrupt, a host's wake, an application's
//! call. What is due then happens in a fixed order (NICs, links, hosts), so a run depends on nothing but its inputs.
//!
//! The engine is a driver like any other and keeps the driver's contract: inputs, one poll, then wait until the wake or the next
//! input. Applications hear events before and after the poll; what they do is input for another one.

use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use tautline_base::{HeapFrame, Instant, Packet, Reason, Wake};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;
use tautline_stack::Host;

use crate::app::App;
use crate::link::Link;
use crate::nic::SimNic;
use crate::record::{LinkTap, Record, Tap};

/// Steps without time passing after which a simulation is taken to spin. A host handles 64 packets a poll, a ring holds a few
/// thousand.
const SPIN_LIMIT: u32 = 100_000;

/// The host of a simulation: behind any discipline and any limit, its events on record.
pub type SimHost<Q, R> = Host<Q, SimNic, Tap<R>, Box<dyn Limit>>;

/// One host and the program on it.
pub struct End<Q, R, A> {
    /// The stack; its NIC is its device.
    pub host: SimHost<Q, R>,
    /// The program.
    pub app: A,
    wake: Option<Wake>,
}

/// Two hosts and a link.
pub struct Network<Q, R, A> {
    seed: u64,
    now: Instant,
    steps_at_now: u32,
    ends: [End<Q, R, A>; 2],
    /// `links[0]` leads from host 0 to host 1, `links[1]` back.
    links: [Link; 2],
    recorder: Rc<RefCell<R>>,
    wakes: BTreeMap<Reason, u64>,
    polls: u64,
}

impl<Q, R, A> Network<Q, R, A>
where
    Q: Qdisc<Packet<HeapFrame>>,
    R: Record,
    A: App<SimHost<Q, R>>,
{
    /// Joins two hosts, which `build` makes: it is told each one's number and given its line to `recorder`. Programs start at
    /// time zero. `seed` is only told in errors.
    pub fn new<E>(
        seed: u64,
        links: [Link; 2],
        recorder: R,
        mut build: impl FnMut(usize, Tap<R>) -> Result<(SimHost<Q, R>, A), E>,
    ) -> Result<Self, E> {
        let recorder = Rc::new(RefCell::new(recorder));
        let mut end = |number| -> Result<_, E> {
            let (host, app) = build(number, Tap::new(number, &recorder))?;
            Ok(End { host, app, wake: None })
        };
        let ends = [end(0)?, end(1)?];
        let (now, wakes) = (Instant::ZERO, BTreeMap::new());
        let mut network = Self { seed, now, steps_at_now: 0, ends, links, recorder, wakes, polls: 0 };
        for number in 0..2 {
            let End { host, app, .. } = &mut network.ends[number];
            app.start(host, now);
            network.serve(number);
        }
        Ok(network)
    }

    /// Runs until `done` says so after a step, or until both programs are done if it never does. `done` may look at everything.
    ///
    /// # Errors
    /// If a program fails, nothing more can happen, time stands still, or `limit` of virtual time has passed.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&Self) -> bool) -> Result<(), Stall> {
        let deadline = self.now + limit;
        while !done(self) && !self.ends.iter().all(|end| end.app.is_done()) {
            self.check()?;
            if self.next_event().is_some_and(|at| at > deadline) {
                return Err(self.stall(StallKind::Deadline));
            }
            self.step()?;
        }
        Ok(())
    }

    /// A frame from elsewhere enters the link that leaves host `number` at `now`, which must not be after the next event.
    pub fn inject(&mut self, number: usize, frame: &[u8], now: Instant) {
        let Self { links, recorder, .. } = self;
        let recorder = &mut *recorder.borrow_mut();
        links[number].enter(frame, now, &mut LinkTap { link: number, recorder });
    }

    /// Whether both programs can go on.
    ///
    /// # Errors
    /// If one has failed.
    pub fn check(&self) -> Result<(), Stall> {
        match (0..2).find(|number| self.ends[*number].app.failure().is_some()) {
            Some(host) => Err(self.stall(StallKind::Failed { host })),
            None => Ok(()),
        }
    }

    /// Runs until nothing is planned any more: connections have left TIME-WAIT, every frame is at rest.
    ///
    /// # Errors
    /// If time stands still, or `limit` of virtual time has passed.
    pub fn run_dry(&mut self, limit: Duration) -> Result<(), Stall> {
        let deadline = self.now + limit;
        while let Some(at) = self.next_event() {
            if at > deadline {
                return Err(self.stall(StallKind::Deadline));
            }
            self.step()?;
        }
        Ok(())
    }

    /// Jumps to the next event and lets everything happen that is due.
    ///
    /// # Errors
    /// If there is none, or if time stands still.
    pub fn step(&mut self) -> Result<Instant, Stall> {
        let Some(at) = self.next_event() else { return Err(self.stall(StallKind::Quiet)) };
        self.steps_at_now = if at > self.now { 0 } else { self.steps_at_now + 1 };
        if self.steps_at_now > SPIN_LIMIT {
            return Err(self.stall(StallKind::Spinning));
        }
        self.now = self.now.max(at);
        self.carry();
        for number in 0..2 {
            if let Some(reason) = self.due(number) {
                *self.wakes.entry(reason).or_default() += 1;
                self.serve(number);
            }
        }
        Ok(self.now)
    }

    /// When the next thing happens: never before the present.
    pub fn next_event(&self) -> Option<Instant> {
        let ends = self.ends.iter().flat_map(|End { host, app, wake }| {
            let nic = host.port().ring().device();
            let waiting = (nic.rx_waiting() > 0).then_some(self.now);
            [nic.next_event(), waiting, wake.map(|wake| wake.at), app.call_at()]
        });
        let links = self.links.iter().map(Link::next_event);
        ends.chain(links).flatten().min().map(|at| at.max(self.now))
    }

    /// Frames on the way anywhere: in hosts, NICs and links. Zero when all is quiet; anything else then is a leak.
    pub fn outstanding(&self) -> usize {
        let ends = self.ends.iter().map(|end| end.host.outstanding() + end.host.port().ring().device().outstanding());
        ends.sum::<usize>() + self.links.iter().map(Link::outstanding).sum::<usize>()
    }

    /// NICs hand what has departed to the links, links what has arrived to the NICs.
    fn carry(&mut self) {
        let Self { now, ends, links, recorder, .. } = self;
        let recorder = &mut *recorder.borrow_mut();
        for (number, (end, link)) in ends.iter_mut().zip(&mut *links).enumerate() {
            let tap = &mut LinkTap { link: number, recorder };
            end.host.device_mut().advance(*now, |bytes, at| link.enter(bytes, at, tap));
        }
        for (number, link) in links.iter_mut().enumerate() {
            let nic = ends[1 - number].host.device_mut();
            link.advance(*now, &mut LinkTap { link: number, recorder }, |bytes| nic.arrive(bytes));
        }
    }

    /// Why host `number` must be served now, if it must.
    fn due(&mut self, number: usize) -> Option<Reason> {
        let End { host, app, wake } = &mut self.ends[number];
        let nic = host.device_mut();
        let (interrupt, arrived) = (nic.take_interrupt(), nic.rx_waiting() > 0);
        let called = app.call_at().is_some_and(|at| at <= self.now);
        let wake = wake.filter(|wake| wake.at <= self.now).map(|wake| wake.why);
        let inputs =
            [arrived.then_some(Reason::Link), interrupt.then_some(Reason::Reap), called.then_some(Reason::Application)];
        inputs.into_iter().chain([wake]).flatten().next()
    }

    /// The driver's contract, with a program on top.
    fn serve(&mut self, number: usize) {
        let (now, End { host, app, wake }) = (self.now, &mut self.ends[number]);
        host.receive(now);
        if app.call_at().is_some_and(|at| at <= now) {
            app.on_call(host, now);
        }
        loop {
            hear(host, app, now);
            *wake = host.poll(now);
            self.polls += 1;
            if !hear(host, app, now) {
                return;
            }
        }
    }

    fn stall(&self, kind: StallKind) -> Stall {
        let why = match kind {
            StallKind::Failed { host } => self.ends[host].app.failure().map(ToString::to_string),
            _ => None,
        };
        Stall { kind, seed: self.seed, at: self.now, outstanding: self.outstanding(), why }
    }
}

impl<Q, R, A> Network<Q, R, A> {
    /// The present.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Host `number`, 0 or 1, and its program.
    pub fn end(&self, number: usize) -> &End<Q, R, A> {
        &self.ends[number]
    }

    /// Host `number`, 0 or 1, and its program. Whoever calls the host must [`touch`](Self::touch) it afterwards.
    pub fn end_mut(&mut self, number: usize) -> &mut End<Q, R, A> {
        &mut self.ends[number]
    }

    /// Host `number` was called from outside: it is polled at once.
    pub fn touch(&mut self, number: usize) {
        self.ends[number].wake = Some(Wake::new(self.now, Reason::Application));
    }

    /// The direction of the link that leaves host `number`.
    pub fn link(&self, number: usize) -> &Link {
        &self.links[number]
    }

    /// The direction of the link that leaves host `number`.
    pub fn link_mut(&mut self, number: usize) -> &mut Link {
        &mut self.links[number]
    }

    /// What was recorded so far.
    pub fn recorder(&self) -> Ref<'_, R> {
        self.recorder.borrow()
    }

    /// How often a host was served, by the first reason there was: [`Reason::Link`] for arrivals, [`Reason::Reap`] for
    /// completion interrupts, else the reason of its own wake.
    pub fn wakes(&self) -> &BTreeMap<Reason, u64> {
        &self.wakes
    }

    /// Polls of both hosts.
    pub fn polls(&self) -> u64 {
        self.polls
    }

    /// Takes the network apart.
    pub fn into_parts(self) -> ([A; 2], R) {
        let Self { ends, recorder, .. } = self;
        let apps = ends.map(|End { app, .. }| app);
        let recorder = Rc::into_inner(recorder).expect("the taps went with the hosts").into_inner();
        (apps, recorder)
    }
}

/// Gives all events to the program. True if there were any.
fn hear<Q, R, A>(host: &mut SimHost<Q, R>, app: &mut A, now: Instant) -> bool
where
    Q: Qdisc<Packet<HeapFrame>>,
    R: Record,
    A: App<SimHost<Q, R>>,
{
    let mut any = false;
    while let Some(event) = host.next_event() {
        app.on_event(host, event, now);
        any = true;
    }
    any
}

/// A simulation that does not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// What is wrong.
    pub kind: StallKind,
    /// The seed that shows it again.
    pub seed: u64,
    /// When, in virtual time.
    pub at: Instant,
    /// Frames on the way.
    pub outstanding: usize,
    /// What the program said.
    pub why: Option<String>,
}

/// How a simulation got stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallKind {
    /// Nothing is planned, and the programs are not done: somebody forgot a wake.
    Quiet,
    /// Wakes come, but time does not pass.
    Spinning,
    /// The limit of virtual time has passed.
    Deadline,
    /// A program cannot go on.
    Failed {
        /// Whose.
        host: usize,
    },
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, seed, at, outstanding, why } = self;
        match kind {
            StallKind::Quiet => write!(f, "nothing is planned, but the programs are not done")?,
            StallKind::Spinning => write!(f, "hosts wake again and again while time stands still")?,
            StallKind::Deadline => write!(f, "not done within the limit of virtual time")?,
            StallKind::Failed { host } => write!(f, "the program on host {host} failed")?,
        }
        if let Some(why) = why {
            write!(f, ": {why}")?;
        }
        write!(f, " (SEED={seed}, at {at}, {outstanding} frames on the way)")
    }
}

impl std::error::Error for Stall {}
