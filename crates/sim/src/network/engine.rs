//! The engine of a [`Network`]: virtual time jumps to the earliest event of any component, and
//! everything due then happens in a fixed order (media, NICs, links, hosts, each by number), so that
//! a run depends on nothing but its inputs.
//!
//! The engine keeps the contract of any driver of a host: inputs, one poll, then wait until the wake
//! or the next input. Applications receive events before and after the poll; their calls are input
//! for another one.

use std::cell::RefCell;
use std::rc::Rc;

use tautline_base::{Frame, HeapFrame, Instant, Packet, Reason};

use super::media::PortNics;
use super::{
    Component, Endpoint, Media, Network, Node, PortId, SharedMedium, SimError, SimErrorKind,
    Timers, Wiring,
};
use crate::link::{Link, earliest};
use crate::nic::Departing;
use crate::record::{LinkTap, Record};

/// Steps without time advancing that count as a livelock. A host handles 64 packets a poll, a ring
/// holds a few thousand.
const LIVELOCK: u32 = 100_000;

/// The components of a network.
pub(super) struct Parts<'a, R> {
    pub(super) wiring: Wiring,
    pub(super) endpoints: Vec<Endpoint<'a, R>>,
    pub(super) links: Vec<Link>,
    pub(super) media: Vec<SharedMedium>,
}

impl<'a, R: Record> Network<'a, R> {
    /// Connects the components and starts the applications.
    pub(super) fn start(seed: u64, parts: Parts<'a, R>, recorder: Rc<RefCell<R>>) -> Self {
        let Parts {
            mut wiring,
            mut endpoints,
            mut links,
            media,
        } = parts;
        for (number, Endpoint { host, .. }) in endpoints.iter_mut().enumerate() {
            if !R::ENABLED {
                host.device_mut().leave_unwritten();
            }
            wiring.register(host.config().mac, number);
        }
        let media = Media::new(media, &mut endpoints, &mut links);
        let mut network = Self {
            seed,
            now: Instant::ZERO,
            steps_at_now: 0,
            timers: Timers::new(media.all.len(), endpoints.len(), links.len()),
            endpoints,
            links,
            media,
            wiring,
            dirty: Vec::new(),
            recorder,
            wakes: Vec::new(),
            polls: 0,
        };
        for number in 0..network.endpoints.len() {
            let Endpoint { host, apps, .. } = &mut network.endpoints[number];
            apps.start(host, network.now);
            network.poll_host(number);
        }
        for link in 0..network.links.len() {
            network.schedule_link(link);
        }
        network.schedule_media();
        network
    }

    /// The time of the next event, not before the current time.
    pub(super) fn next_event(&mut self) -> Option<Instant> {
        self.schedule_dirty();
        self.schedule_media();
        self.timers.next().map(|at| at.max(self.now))
    }

    /// Processes everything due at `at`, the time of the [next event](Self::next_event).
    pub(super) fn step_to(&mut self, at: Instant) -> Result<(), SimError> {
        self.steps_at_now = if at > self.now {
            0
        } else {
            self.steps_at_now + 1
        };
        if self.steps_at_now > LIVELOCK {
            return Err(self.error(SimErrorKind::Livelock));
        }
        self.now = at;
        let mut from = 0;
        while let Some((component, next)) = self.timers.due(from, self.now) {
            match component {
                Component::Medium(number) => self.run_medium(number),
                Component::Nic(number) => self.run_nic(number),
                Component::Link(number) => self.run_link(number),
                Component::Host(number) => self.run_host(number),
            }
            from = next;
        }
        self.schedule_media();
        Ok(())
    }

    /// Medium `number` ends and begins transmissions.
    fn run_medium(&mut self, number: usize) {
        let Self {
            now,
            endpoints,
            links,
            media,
            ..
        } = self;
        let SharedMedium { medium, nics } = &mut media.all[number];
        let mut ports = PortNics {
            nics,
            endpoints,
            links,
        };
        medium.advance(*now, &mut ports);
        for index in 0..self.media.all[number].nics.len() {
            match self.media.all[number].nics[index] {
                PortId::Link(link) => self.schedule_link(link),
                PortId::Host(host) => {
                    self.schedule_nic(host);
                    self.schedule_host(host);
                }
            }
        }
        self.schedule_medium(number);
    }

    /// Frames that have left the NIC of host `number` enter its link.
    fn run_nic(&mut self, number: usize) {
        let link = self.wiring.uplink(number);
        let mut departed = false;
        {
            let links = &mut self.links;
            let recorder = &mut *self.recorder.borrow_mut();
            let tap = &mut LinkTap { link, recorder };
            let nic = self.endpoints[number].host.device_mut();
            nic.send_off(self.now, |frame, at| {
                departed = true;
                match frame {
                    // A recorder identifies a packet by its memory until it has completed.
                    Departing::Packet(packet) if !R::ENABLED && has_link_frame(packet) => {
                        links[link].enter_packet(packet, at, tap)
                    }
                    mut frame => links[link].enter(frame.complete(), at, tap),
                }
            });
        }
        self.schedule_nic(number);
        if departed {
            self.schedule_link(link);
            self.schedule_host(number);
        }
    }

    /// Advances link `number`. Frames that have arrived enter a NIC or the next links.
    fn run_link(&mut self, number: usize) {
        let Self {
            now,
            endpoints,
            links,
            wiring,
            recorder,
            dirty,
            ..
        } = self;
        let mut recording = recorder.borrow_mut();
        let recorder = &mut *recording;
        let mut receiver = None;
        let link = number;
        links[number].serialize(*now, &mut LinkTap { link, recorder });
        while let Some(mut packet) = links[number].arrived(*now, &mut LinkTap { link, recorder }) {
            match wiring.head(number) {
                Node::Host(host) => {
                    let nic = endpoints[host].host.device_mut();
                    nic.receive_frame(&mut packet, *now);
                    receiver = Some(host);
                }
                Node::Router(router) => {
                    let mut egress = wiring.egress(router, number, packet.bytes()).peekable();
                    while let Some(link) = egress.next() {
                        let tap = &mut LinkTap { link, recorder };
                        if egress.peek().is_some() {
                            packet.complete();
                            links[link].enter(packet.bytes(), *now, tap);
                        } else {
                            links[link].enter_packet(&mut packet, *now, tap);
                        }
                        if dirty.last() != Some(&Component::Link(link)) {
                            dirty.push(Component::Link(link));
                        }
                    }
                }
            }
            links[number].settle(packet);
        }
        drop(recording);
        self.schedule_link(number);
        if let Some(host) = receiver {
            self.schedule_host(host);
        }
        self.schedule_dirty();
    }

    /// Polls host `number` if it has a reason, and counts the reason.
    fn run_host(&mut self, number: usize) {
        let Endpoint { host, apps, wake } = &mut self.endpoints[number];
        let nic = host.device_mut();
        nic.announce_due(self.now);
        let arrived = nic.receives_at().is_some_and(|at| at <= self.now);
        let interrupt = nic.take_interrupt();
        let expired = apps.deadline().is_some_and(|at| at <= self.now);
        let wake = wake.filter(|wake| wake.at <= self.now).map(|wake| wake.why);
        let inputs = [
            arrived.then_some(Reason::Link),
            interrupt.then_some(Reason::Reap),
            expired.then_some(Reason::Application),
        ];
        if let Some(reason) = inputs.into_iter().chain([wake]).flatten().next() {
            match self.wakes.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += 1,
                None => self.wakes.push((reason, 1)),
            }
            self.poll_host(number);
        } else {
            self.schedule_host(number);
        }
    }

    fn poll_host(&mut self, number: usize) {
        let (now, endpoint) = (self.now, &mut self.endpoints[number]);
        // A simulated NIC interrupts again for frames beyond the budget.
        let _ = endpoint.host.receive(now);
        if endpoint.apps.deadline().is_some_and(|at| at <= now) {
            endpoint.apps.on_deadline(&mut endpoint.host, now);
        }
        loop {
            endpoint.dispatch_events(now);
            endpoint.wake = endpoint.host.poll(now);
            self.polls += 1;
            if !endpoint.dispatch_events(now) {
                break;
            }
        }
        self.schedule_nic(number);
        self.schedule_host(number);
    }

    #[inline]
    fn schedule_dirty(&mut self) {
        while let Some(component) = self.dirty.pop() {
            self.schedule(component);
        }
    }

    fn schedule(&mut self, component: Component) {
        match component {
            Component::Medium(number) => self.schedule_medium(number),
            Component::Nic(number) => self.schedule_nic(number),
            Component::Link(number) => self.schedule_link(number),
            Component::Host(number) => self.schedule_host(number),
        }
    }

    fn schedule_media(&mut self) {
        while let Some(medium) = self.media.dirty.pop() {
            self.schedule_medium(medium);
        }
    }

    fn schedule_medium(&mut self, number: usize) {
        let SharedMedium { medium, nics } = &self.media.all[number];
        let (endpoints, links) = (&mut self.endpoints[..], &mut self.links[..]);
        let at = medium.next_event(&PortNics {
            nics,
            endpoints,
            links,
        });
        self.timers.set(Component::Medium(number), at);
    }

    #[inline]
    fn schedule_nic(&mut self, number: usize) {
        let at = self.endpoints[number].nic().departs_at();
        self.timers.set(Component::Nic(number), at);
        self.media.mark_dirty(PortId::Host(number));
    }

    #[inline]
    fn schedule_link(&mut self, number: usize) {
        let at = self.links[number].next_event();
        self.timers.set(Component::Link(number), at);
        self.media.mark_dirty(PortId::Link(number));
    }

    #[inline]
    fn schedule_host(&mut self, number: usize) {
        let endpoint = &self.endpoints[number];
        let nic = endpoint.nic();
        let at = if nic.interrupting() {
            Some(self.now)
        } else {
            let wake = endpoint.wake.map(|wake| wake.at);
            let nic = earliest(nic.announces_at(), nic.receives_at());
            earliest(earliest(nic, wake), endpoint.apps.deadline()).map(|at| at.max(self.now))
        };
        self.timers.set(Component::Host(number), at);
    }
}

impl<R: Record> Endpoint<'_, R> {
    /// Delivers all pending events to the applications. Returns true if there were any.
    fn dispatch_events(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(event) = self.host.next_event() {
            self.apps.on_event(&mut self.host, event, now);
            any = true;
        }
        any
    }
}

/// True if the frame of `packet` has the size of a link's, so that the two can be swapped.
fn has_link_frame(packet: &Packet<HeapFrame>) -> bool {
    packet.frame().bytes().len() == HeapFrame::LEN
}
