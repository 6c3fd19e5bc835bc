//! [`Network`]: hosts, each with a NIC, and routers, joined to a tree by the two directions of each
//! link, in virtual time.
//!
//! Time jumps to the earliest thing that is due anywhere: a departure, an arrival, an interrupt, a
//! host's wake, an application's call. What is due then happens in a fixed order (media, NICs,
//! links, hosts, each by number), so a run depends on nothing but its inputs. An `agenda` knows who
//! is due; nobody else is looked at.
//!
//! The engine is a driver like any other and keeps the driver's contract: inputs, one poll, then
//! wait until the wake or the next input. Applications hear events before and after the poll; what
//! they do is input for another one.
//!
//! | module | holds |
//! |---|---|
//! | [`topology`] | [`Topology`]: a network as data, by names |
//! | `forwarding` | which link leads where |
//! | `cell` | [`Cell`](topology::Cell): shared air as data; where the cards of a medium are |
//! | `agenda` | when each part has something to do |
//! | `look` | [`Look`]: what stands where, by the names of [`Port`](PortId)s |
//! | `pair` | two hosts and the cable between them |
//! | `stall` | [`Stall`]: a simulation that does not come to its end |

mod agenda;
mod cell;
mod forwarding;
mod look;
mod pair;
mod stall;
pub mod topology;

use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tautline_base::{Frame, HeapFrame, Instant, Packet, Reason, Wake};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;
use tautline_stack::Host;

use crate::app::App;
use crate::link::{Link, earliest};
use crate::medium::{CardsMut, Medium};
use crate::nic::{Departing, SimNic};
use crate::record::{LinkTap, Record, Tap};

use agenda::Agenda;
use cell::{OnAir, Places, PlacesMut};
pub use forwarding::Node;
use forwarding::Wiring;
use look::Names;
pub use look::{HostQdisc, Look, PortId};
pub use stall::{Stall, StallKind};
pub use topology::Topology;

/// Steps without time passing after which a simulation is taken to spin. A host handles 64 packets
/// a poll, a ring holds a few thousand.
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

/// Hosts and routers, and the links that join them.
pub struct Network<Q, R, A> {
    seed: u64,
    now: Instant,
    steps_at_now: u32,
    ends: Vec<End<Q, R, A>>,
    links: Vec<Link>,
    media: Vec<OnAir>,
    wiring: Wiring,
    names: Names,
    agenda: Agenda,
    /// The medium that each host's card is on, and each link's.
    on_air: [Vec<Option<usize>>; 2],
    /// Parts that somebody outside may have changed: what the agenda says of them is not true.
    touched: Vec<Part>,
    /// Media on which something may have changed in this step.
    stirred: Vec<usize>,
    recorder: Rc<RefCell<R>>,
    /// How often a host was served for each reason there was.
    wakes: Vec<(Reason, u64)>,
    polls: u64,
}

/// A part of a network that has something to do now and then. Those that are due at the same time
/// are served in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Medium(usize),
    Nic(usize),
    Link(usize),
    Host(usize),
}

impl<Q, R, A> Network<Q, R, A>
where
    Q: Qdisc<Packet<HeapFrame>>,
    R: Record,
    A: App<SimHost<Q, R>>,
{
    /// Puts hosts, which `build` makes, and `links` where `wiring` says.
    fn join<E>(
        seed: u64,
        mut wiring: Wiring,
        names: Names,
        mut links: Vec<Link>,
        media: Vec<OnAir>,
        recorder: R,
        mut build: impl FnMut(usize, Tap<R>) -> Result<(SimHost<Q, R>, A), E>,
    ) -> Result<Self, E> {
        let recorder = Rc::new(RefCell::new(recorder));
        let mut ends = Vec::with_capacity(wiring.hosts());
        for number in 0..wiring.hosts() {
            let (mut host, app) = build(number, Tap::new(number, &recorder))?;
            if !R::ENABLED {
                host.device_mut().leave_unwritten();
            }
            wiring.register(host.config().mac, number);
            ends.push(End {
                host,
                app,
                wake: None,
            });
        }
        for OnAir { medium, cards } in &media {
            let mut places = PlacesMut {
                cards,
                ends: &mut ends,
                links: &mut links,
            };
            (0..cards.len()).for_each(|number| medium.join(number, places.card_mut(number)));
        }
        let agenda = Agenda::new(media.len() + 2 * ends.len() + links.len());
        let air_of = |card| media.iter().position(|air| air.cards.contains(&card));
        let on_air = [
            (0..ends.len())
                .map(|host| air_of(PortId::Host(host)))
                .collect(),
            (0..links.len())
                .map(|link| air_of(PortId::Link(link)))
                .collect(),
        ];
        let (now, touched, stirred, wakes) = (Instant::ZERO, Vec::new(), Vec::new(), Vec::new());
        let mut network = Self {
            seed,
            now,
            steps_at_now: 0,
            ends,
            links,
            media,
            wiring,
            names,
            agenda,
            on_air,
            touched,
            stirred,
            recorder,
            wakes,
            polls: 0,
        };
        for number in 0..network.ends.len() {
            let End { host, app, .. } = &mut network.ends[number];
            app.start(host, now);
            network.serve(number);
        }
        for link in 0..network.links.len() {
            network.plan(Part::Link(link));
        }
        network.plan_stirred();
        Ok(network)
    }

    /// Runs until `done` says so after a step, or until all programs are done if it never does.
    /// `done` may look at everything.
    ///
    /// # Errors
    /// If a program fails, nothing more can happen, time stands still, or `limit` of virtual time
    /// has passed.
    pub fn run_until(
        &mut self,
        limit: Duration,
        mut done: impl FnMut(&Self) -> bool,
    ) -> Result<(), Stall> {
        let deadline = self.now + limit;
        while !done(self) && !self.ends.iter().all(|end| end.app.is_done()) {
            self.check()?;
            match self.next_event() {
                Some(at) if at > deadline => return Err(self.stall(StallKind::Deadline)),
                Some(at) => self.step_to(at)?,
                None => return Err(self.stall(StallKind::Quiet)),
            }
        }
        Ok(())
    }

    /// Lets everything happen that is due before `until`.
    ///
    /// # Errors
    /// If a program fails, or time stands still. That nothing is planned any more is none.
    pub fn run_before(&mut self, until: Instant) -> Result<(), Stall> {
        while let Some(at) = self.next_event().filter(|at| *at < until) {
            self.step_to(at)?;
        }
        self.check()
    }

    /// A frame from elsewhere enters the link that leaves host `number` at `now`, which must not be
    /// after the next event.
    pub fn inject(&mut self, number: usize, frame: &[u8], now: Instant) {
        let link = self.wiring.uplink(number);
        let Self {
            links, recorder, ..
        } = self;
        links[link].enter(
            frame,
            now,
            &mut LinkTap {
                link,
                recorder: &mut *recorder.borrow_mut(),
            },
        );
        self.disturb(Part::Link(link));
    }

    /// Whether all programs can go on.
    ///
    /// # Errors
    /// If one has failed.
    pub fn check(&self) -> Result<(), Stall> {
        match self.ends.iter().position(|end| end.app.failure().is_some()) {
            Some(host) => Err(self.stall(StallKind::Failed { host })),
            None => Ok(()),
        }
    }

    /// Runs until nothing is planned any more: connections have left TIME-WAIT, every frame is at
    /// rest.
    ///
    /// # Errors
    /// If time stands still, or `limit` of virtual time has passed.
    pub fn run_dry(&mut self, limit: Duration) -> Result<(), Stall> {
        let deadline = self.now + limit;
        while let Some(at) = self.next_event() {
            if at > deadline {
                return Err(self.stall(StallKind::Deadline));
            }
            self.step_to(at)?;
        }
        Ok(())
    }

    /// Jumps to the next event and lets everything happen that is due.
    ///
    /// # Errors
    /// If there is none, or if time stands still.
    pub fn step(&mut self) -> Result<Instant, Stall> {
        let Some(at) = self.next_event() else {
            return Err(self.stall(StallKind::Quiet));
        };
        self.step_to(at)?;
        Ok(self.now)
    }

    /// Lets everything happen that is due at `at`, which is the next event.
    fn step_to(&mut self, at: Instant) -> Result<(), Stall> {
        self.steps_at_now = if at > self.now {
            0
        } else {
            self.steps_at_now + 1
        };
        if self.steps_at_now > SPIN_LIMIT {
            return Err(self.stall(StallKind::Spinning));
        }
        self.now = self.now.max(at);
        while let Some(part) = self.touched.pop() {
            self.plan(part);
        }
        self.plan_stirred();
        let mut from = 0;
        while let Some(place) = self.agenda.due(from, self.now) {
            match self.part(place) {
                Part::Medium(number) => self.grant(number),
                Part::Nic(number) => self.send_off(number),
                Part::Link(number) => self.carry(number),
                Part::Host(number) => self.answer(number),
            }
            from = place + 1;
        }
        self.plan_stirred();
        Ok(())
    }

    /// When the next thing happens: never before the present.
    pub fn next_event(&self) -> Option<Instant> {
        let mut next = self.agenda.next();
        for part in &self.touched {
            next = earliest(next, self.due_at(*part));
        }
        next.map(|at| at.max(self.now))
    }

    /// Frames on the way anywhere: in hosts, NICs and links. Zero when all is quiet; anything else
    /// then is a leak.
    pub fn outstanding(&self) -> usize {
        let ends = self
            .ends
            .iter()
            .map(|end| end.host.outstanding() + end.host.port().ring().device().outstanding());
        ends.sum::<usize>() + self.links.iter().map(Link::outstanding).sum::<usize>()
    }

    /// Medium `number` concludes and grants transmissions.
    fn grant(&mut self, number: usize) {
        let Self {
            now,
            ends,
            links,
            media,
            ..
        } = self;
        let OnAir { medium, cards } = &mut media[number];
        medium.advance(*now, &mut PlacesMut { cards, ends, links });
        for card in 0..self.media[number].cards.len() {
            match self.media[number].cards[card] {
                PortId::Link(link) => self.plan(Part::Link(link)),
                PortId::Host(host) => {
                    self.plan(Part::Nic(host));
                    self.plan(Part::Host(host));
                }
            }
        }
        self.plan(Part::Medium(number));
    }

    /// What has departed from the NIC of host `number` enters its link.
    fn send_off(&mut self, number: usize) {
        let link = self.wiring.uplink(number);
        let Self {
            now,
            ends,
            links,
            recorder,
            ..
        } = self;
        let mut recorder = recorder.borrow_mut();
        let tap = &mut LinkTap {
            link,
            recorder: &mut *recorder,
        };
        let nic = ends[number].host.device_mut();
        let mut departed = false;
        nic.send_off(*now, |frame, at| {
            departed = true;
            match frame {
                // A recorder knows a packet by its memory until it has completed.
                Departing::Packet(packet) if !R::ENABLED && is_ordinary(packet) => {
                    links[link].take_in(packet, at, tap)
                }
                mut frame => links[link].enter(frame.complete(), at, tap),
            }
        });
        drop(recorder);
        self.plan_nic(number);
        if departed {
            self.plan_link(link);
            self.plan_host(number);
        }
    }

    /// Link `number` does what is due; what has come to its end enters a NIC, or the next links.
    fn carry(&mut self, number: usize) {
        let Self {
            now,
            ends,
            links,
            wiring,
            recorder,
            touched,
            ..
        } = self;
        let mut recording = recorder.borrow_mut();
        let recorder = &mut *recording;
        let mut host_touched = None;
        links[number].serialise(
            *now,
            &mut LinkTap {
                link: number,
                recorder,
            },
        );
        while let Some(mut packet) = links[number].arrived(
            *now,
            &mut LinkTap {
                link: number,
                recorder,
            },
        ) {
            match wiring.head(number) {
                Node::Host(host) => {
                    ends[host].host.device_mut().take_in(&mut packet);
                    host_touched = Some(host);
                }
                Node::Router(router) => {
                    let mut ways = wiring.ways(router, number, packet.bytes()).peekable();
                    while let Some(link) = ways.next() {
                        let tap = &mut LinkTap { link, recorder };
                        match ways.peek() {
                            Some(_) => {
                                packet.complete();
                                links[link].enter(packet.bytes(), *now, tap);
                            }
                            None => links[link].take_in(&mut packet, *now, tap),
                        }
                        if touched.last() != Some(&Part::Link(link)) {
                            touched.push(Part::Link(link));
                        }
                    }
                }
            }
            links[number].settle(packet);
        }
        drop(recording);
        self.plan_link(number);
        if let Some(host) = host_touched {
            self.plan_host(host);
        }
        while let Some(part) = self.touched.pop() {
            self.plan(part);
        }
    }

    /// Serves host `number`, which is due, and counts why.
    fn answer(&mut self, number: usize) {
        let End { host, app, wake } = &mut self.ends[number];
        let nic = host.device_mut();
        nic.announce_due(self.now);
        let (interrupt, arrived) = (nic.take_interrupt(), nic.rx_waiting() > 0);
        let called = app.call_at().is_some_and(|at| at <= self.now);
        let wake = wake.filter(|wake| wake.at <= self.now).map(|wake| wake.why);
        let inputs = [
            arrived.then_some(Reason::Link),
            interrupt.then_some(Reason::Reap),
            called.then_some(Reason::Application),
        ];
        if let Some(reason) = inputs.into_iter().chain([wake]).flatten().next() {
            match self.wakes.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += 1,
                None => self.wakes.push((reason, 1)),
            }
            self.serve(number);
        } else {
            self.plan_host(number);
        }
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
                break;
            }
        }
        self.plan_nic(number);
        self.plan_host(number);
    }

    /// Writes down when `part` is due, and the medium that its card is on, which may have something
    /// to take.
    fn plan(&mut self, part: Part) {
        match part {
            Part::Medium(_) => self.agenda.set(self.place(part), self.due_at(part)),
            Part::Nic(number) => self.plan_nic(number),
            Part::Link(number) => self.plan_link(number),
            Part::Host(number) => self.plan_host(number),
        }
    }

    #[inline]
    fn plan_nic(&mut self, number: usize) {
        self.agenda
            .set(self.place(Part::Nic(number)), self.nic_due_at(number));
        self.plan_medium_of(Part::Nic(number));
    }

    #[inline]
    fn plan_link(&mut self, number: usize) {
        self.agenda.set(
            self.place(Part::Link(number)),
            self.links[number].next_event(),
        );
        self.plan_medium_of(Part::Link(number));
    }

    #[inline]
    fn plan_host(&mut self, number: usize) {
        self.agenda
            .set(self.place(Part::Host(number)), self.host_due_at(number));
    }

    /// A medium looks at all its cards, and comes before them: once a step is enough.
    #[inline]
    fn plan_medium_of(&mut self, part: Part) {
        if !self.media.is_empty()
            && let Some(medium) = self.medium_of(part)
            && !self.stirred.contains(&medium)
        {
            self.stirred.push(medium);
        }
    }

    fn plan_stirred(&mut self) {
        while let Some(medium) = self.stirred.pop() {
            self.plan(Part::Medium(medium));
        }
    }

    /// When `part` has something to do; a moment in the past means at once.
    fn due_at(&self, part: Part) -> Option<Instant> {
        match part {
            Part::Medium(number) => {
                let Self {
                    ends, links, media, ..
                } = self;
                let OnAir { medium, cards } = &media[number];
                medium.next_event(&Places { cards, ends, links })
            }
            Part::Nic(number) => self.nic_due_at(number),
            Part::Link(number) => self.links[number].next_event(),
            Part::Host(number) => self.host_due_at(number),
        }
    }

    #[inline]
    fn nic_due_at(&self, number: usize) -> Option<Instant> {
        self.ends[number].host.port().ring().device().departs_at()
    }

    #[inline]
    fn host_due_at(&self, number: usize) -> Option<Instant> {
        let End { host, app, wake } = &self.ends[number];
        let nic = host.port().ring().device();
        let input = (nic.interrupting() || nic.rx_waiting() > 0).then_some(self.now);
        input.or_else(|| {
            earliest(
                earliest(nic.announces_at(), wake.map(|wake| wake.at)),
                app.call_at(),
            )
        })
    }

    fn stall(&self, kind: StallKind) -> Stall {
        let why = match kind {
            StallKind::Failed { host } => self.ends[host].app.failure().map(ToString::to_string),
            _ => None,
        };
        Stall {
            kind,
            seed: self.seed,
            at: self.now,
            outstanding: self.outstanding(),
            why,
        }
    }
}

impl<Q, R, A> Network<Q, R, A> {
    /// The present.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// All hosts and their programs, by number.
    pub fn ends(&self) -> &[End<Q, R, A>] {
        &self.ends
    }

    /// Host `number` and its program.
    pub fn end(&self, number: usize) -> &End<Q, R, A> {
        &self.ends[number]
    }

    /// Host `number` and its program. Whoever calls the host must [`touch`](Self::touch) it
    /// afterwards.
    pub fn end_mut(&mut self, number: usize) -> &mut End<Q, R, A> {
        self.disturb(Part::Nic(number));
        self.disturb(Part::Host(number));
        &mut self.ends[number]
    }

    /// Host `number` was called from outside: it is polled at once.
    pub fn touch(&mut self, number: usize) {
        self.end_mut(number).wake = Some(Wake::new(self.now, Reason::Application));
    }

    /// All links: from the first end of the first cable to its second, back, and so on.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Link `number`. Where two hosts are all there is, it is the one that leaves host `number`.
    pub fn link(&self, number: usize) -> &Link {
        &self.links[number]
    }

    /// Link `number`, to be changed.
    pub fn link_mut(&mut self, number: usize) -> &mut Link {
        self.disturb(Part::Link(number));
        &mut self.links[number]
    }

    /// Medium `number`, in the order of [`Topology::cells`], for what it counted.
    pub fn medium(&self, number: usize) -> Option<&Medium> {
        self.media.get(number).map(|air| &air.medium)
    }

    /// What was recorded so far.
    pub fn recorder(&self) -> Ref<'_, R> {
        self.recorder.borrow()
    }

    /// How often a host was served, by the first reason there was: [`Reason::Link`] for arrivals,
    /// [`Reason::Reap`] for completion interrupts, else the reason of its own wake.
    pub fn wakes(&self) -> BTreeMap<Reason, u64> {
        self.wakes.iter().copied().collect()
    }

    /// Polls of all hosts.
    pub fn polls(&self) -> u64 {
        self.polls
    }

    /// Where the agenda has `part`.
    fn place(&self, part: Part) -> usize {
        let (media, hosts) = (self.media.len(), self.ends.len());
        match part {
            Part::Medium(number) => number,
            Part::Nic(number) => media + number,
            Part::Link(number) => media + hosts + number,
            Part::Host(number) => media + hosts + self.links.len() + number,
        }
    }

    /// What the agenda has at `place`.
    fn part(&self, place: usize) -> Part {
        let Some(place) = place.checked_sub(self.media.len()) else {
            return Part::Medium(place);
        };
        let (hosts, links) = (self.ends.len(), self.links.len());
        match place {
            nic if nic < hosts => Part::Nic(nic),
            link if link < hosts + links => Part::Link(link - hosts),
            host => Part::Host(host - hosts - links),
        }
    }

    /// The medium that the card of `part` is on.
    fn medium_of(&self, part: Part) -> Option<usize> {
        match part {
            Part::Nic(number) => self.on_air[0][number],
            Part::Link(number) => self.on_air[1][number],
            Part::Medium(_) | Part::Host(_) => None,
        }
    }

    /// `part` may change behind our back: it is looked at again before anything else.
    fn disturb(&mut self, part: Part) {
        for part in [Some(part), self.medium_of(part).map(Part::Medium)]
            .into_iter()
            .flatten()
        {
            self.agenda.set(self.place(part), None);
            self.touched.push(part);
        }
    }

    /// Takes the network apart.
    pub fn into_parts(self) -> (Vec<A>, R) {
        let Self { ends, recorder, .. } = self;
        let apps = ends.into_iter().map(|End { app, .. }| app).collect();
        let recorder = Rc::into_inner(recorder)
            .expect("the taps went with the hosts")
            .into_inner();
        (apps, recorder)
    }
}

/// True when the packet's memory is like that of a link's.
fn is_ordinary(packet: &Packet<HeapFrame>) -> bool {
    packet.frame().bytes().len() == HeapFrame::LEN
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
