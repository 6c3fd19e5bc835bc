//! The walk of a packet: [`Host::poll`], read from top to bottom.
//!
//! ```text
//! 1 birth       what TCP may send            conn.next_segment
//! 2 pacer       not before its departure     conn.pacer
//! 3 TSQ gate    a frame and a credit         conn.tsq, pool
//! 4 discipline  port.enqueue
//! 5 DQL gate    room in ring and limit       port.transmit
//! 6 ring        the device owns the packet   port.transmit
//! 7 completion  the device gives it back     port.reap
//! 8 settle      frame to pool, credit to TSQ, connection runnable
//! ```

use std::num::NonZeroU32;
use std::time::Duration;

use tautline_base::{
    Deferred, Device, Ecn, Frame, Instant, Item, Owner, Packet, Reason, SocketId, Wake,
};
use tautline_bql::Limit;
use tautline_qdisc::pfifo_fast::priority_of_tos;
use tautline_qdisc::{DropReason, Qdisc};

use super::Host;
use crate::attribution::Attribution;
use crate::config::LocalDropReporting;
use crate::socket::Event;
use crate::sockets::Sockets;
use crate::tcp::Blocked;
use crate::tcp::State;
use crate::trace::{Tracer, What};
use crate::wire::{self, Addresses, ECN_BITS, HOP_LIMIT};

/// Most births, and most transmissions, in one poll.
const BUDGET: usize = 64;
/// Births of one connection before the next one has its turn.
const QUOTA: usize = 16;
/// Sums of times saturate here.
const END_OF_TIME: Instant = Instant::from_nanos(u64::MAX);
/// How soon completions are looked for when the device does not announce them.
const REAP_INTERVAL: Duration = Duration::from_micros(50);

/// Where a packet was dropped; decides whether its connection is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Enqueue,
    Later,
}

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// Lets time pass until `now`: completions are settled, deadlines take effect, segments are
    /// born and packets transmitted, at most 64 of each. Returns when to call again at the latest;
    /// `None` means not before the next input.
    pub fn poll(&mut self, now: Instant) -> Option<Wake> {
        let now = self.advance_clock(now);
        self.reap(now);
        self.fire_deadlines(now);
        let births = self.birth(now);
        let transmitted = self.transmit(now);
        self.settle_drops(Stage::Later, None, now);
        self.next_wake(births.max(transmitted) >= BUDGET, now)
    }

    /// Steps 7 and 8: frames come back, throttled connections run again.
    fn reap(&mut self, now: Instant) {
        let mut done = std::mem::take(&mut self.done);
        self.port.reap(now, &mut done);
        for packet in done.drain(..) {
            self.stats.completed += 1;
            Self::trace(
                &mut self.tracer,
                now,
                What::Completed,
                packet.owner(),
                packet.bytes(),
            );
            if self.attributing
                && let Some(attribution) = attribution_of(&mut self.sockets, packet.owner())
            {
                attribution.completed(packet.len().get(), packet.enqueued(), now);
            }
            self.settle(packet, true);
        }
        self.done = done;
    }

    /// Timers, pacing and address resolution whose moment has come.
    fn fire_deadlines(&mut self, now: Instant) {
        while let Some((at, id)) = self.deadlines.pop_due(now) {
            let Some(connection) = self.sockets.connection_mut(id) else {
                continue;
            };
            if connection.links.armed != Some(at) {
                continue;
            }
            connection.links.armed = None;
            if connection.next_deadline().is_some_and(|at| at <= now) {
                connection.on_deadline(now);
            }
            self.touch(id);
        }
        while let Some((_, id)) = self.paced.pop_due(now) {
            if let Some(connection) = self.sockets.connection_mut(id) {
                connection.links.paced = false;
                self.runnable.push(connection);
            }
        }
        while let Some((_, id)) = self.idling.pop_due(now) {
            if let Some(connection) = self.sockets.connection_mut(id) {
                connection.links.idling = false;
                connection.release_memory(now);
                self.charge(id);
                self.watch_memory(id);
            }
        }
        self.time_waits.on_deadline(now);
        if self.neighbours.next_deadline().is_some_and(|at| at <= now) {
            self.ask_neighbours_again(now);
        }
    }

    /// Notes when a connection's memory goes unless more arrives. An arrival only moves that later:
    /// one entry each is enough.
    fn watch_memory(&mut self, id: SocketId) {
        if let Some(connection) = self.sockets.connection_mut(id)
            && !connection.links.idling
            && let Some(at) = connection.release_at().filter(|at| *at < END_OF_TIME)
        {
            connection.links.idling = true;
            self.idling.push(at, id);
        }
    }

    /// Steps 1 to 4 for connections on the run queue. Returns how many segments were born.
    fn birth(&mut self, now: Instant) -> usize {
        let mut births = 0;
        while births < BUDGET {
            let Some(id) = self.next_runnable() else {
                break;
            };
            let quota = QUOTA.min(BUDGET - births);
            let born = (0..quota).take_while(|_| self.birth_one(id, now)).count();
            births += born;
            if born == quota
                && let Some((queued, _)) = self.sockets.flags(id)
            {
                self.runnable.add(id, queued);
            }
            self.after(id);
        }
        births
    }

    /// Who runs next: while there are frames, whoever waited for one, else whoever has something to
    /// do.
    fn next_runnable(&mut self) -> Option<SocketId> {
        let starved = if self.pool.free() > 0 {
            self.starved.pop_front()
        } else {
            None
        };
        let id = starved.or_else(|| self.runnable.pop())?;
        if let Some((queued_flag, starved_flag)) = self.sockets.flags(id) {
            *(if starved.is_some() {
                starved_flag
            } else {
                queued_flag
            }) = false;
        }
        Some(id)
    }

    /// One segment of one connection through steps 1 to 4. False when something holds it back;
    /// whatever that was will make the connection runnable again.
    fn birth_one(&mut self, id: SocketId, now: Instant) -> bool {
        let Some(connection) = self.sockets.connection_mut(id) else {
            return self.birth_datagram(id, now);
        };
        let device = self.port.ring().device();
        let completes = device.completes();
        let most = device
            .tso()
            .zip(self.pool.large_room())
            .map(|(tso, room)| tso.within(room));
        let plan = match connection.plan(most, now) {
            Ok(plan) => plan,
            Err(blocked) => {
                if let Blocked::Pacer(at) = blocked
                    && !std::mem::replace(&mut connection.links.paced, true)
                {
                    self.paced.push(at, id);
                }
                return false;
            }
        };
        let destination_mac = match self.neighbours.last(&connection.next_hop, now) {
            Some(mac) => mac,
            None => {
                let next_hop = connection.next_hop;
                let Some(mac) = self.resolve(next_hop, Some(id), now) else {
                    return false;
                };
                mac
            }
        };
        let frame = if plan.segments > 1 {
            self.pool.take_large()
        } else {
            self.pool.take()
        };
        let Some(mut frame) = frame else {
            self.starve(id);
            return false;
        };

        // All have agreed: from here on nothing is taken back.
        let connection = self.sockets.connection_mut(id).expect("looked up above");
        let tos = connection.config.tos & !ECN_BITS;
        let addresses = Addresses {
            source_mac: self.mac,
            destination_mac,
            source: connection.tuple.local,
            destination: connection.tuple.remote,
            hop_limit: HOP_LIMIT,
            flow_label: connection.flow_label,
            tos,
            vlan: self.config.vlan,
        };
        let header = connection.header(&plan, now);
        let (bytes, payload) = (frame.bytes_mut(), connection.payload(&plan));
        let (len, due) = match plan.segments {
            1 if completes => wire::write_incomplete(bytes, &addresses, &header, payload),
            1 => (
                wire::write_tcp(bytes, &addresses, &header, payload),
                Deferred::Nothing,
            ),
            _ => (
                wire::write_tso(bytes, &addresses, &header, payload),
                Deferred::Nothing,
            ),
        };
        let segment = connection.commit(&plan, now);
        let packet = Packet::new(frame, len as u32)
            .with_deferred(due)
            .with_segments(plan.segments);
        let on_wire = u32::try_from(packet.len().get())
            .ok()
            .and_then(NonZeroU32::new);
        let credit = on_wire
            .filter(|_| plan.occupies())
            .map(|len| connection.tsq.charge(&connection.config.tsq, len));
        let (flow, source, destination) = connection.hashes;
        let packet = packet
            .with_owner(
                Owner {
                    socket: id,
                    segment,
                },
                credit,
            )
            .with_hashes(flow, source, destination)
            .with_tos(tos | header.codepoint.bits(), priority_of_tos(tos))
            .with_departure(plan.departure);
        self.enqueue(packet, now);
        true
    }

    /// `id` waits for a free frame.
    pub(super) fn starve(&mut self, id: SocketId) {
        if let Some((_, starved)) = self.sockets.flags(id)
            && !std::mem::replace(starved, true)
        {
            self.starved.push_back(id);
        }
    }

    /// Step 4: the packet enters the discipline; what is dropped in its place is settled at once.
    pub(super) fn enqueue(&mut self, packet: Packet<D::Frame>, now: Instant) {
        self.stats.births += 1;
        let owner = packet.owner();
        Self::trace(&mut self.tracer, now, What::Born, owner, packet.bytes());
        Self::trace(&mut self.tracer, now, What::Queued, owner, packet.bytes());
        self.port.enqueue(packet, now, &mut self.drops);
        if !self.drops.is_empty() {
            self.settle_drops(Stage::Enqueue, owner, now);
        }
    }

    /// Steps 5 and 6. Returns how many packets entered the ring.
    fn transmit(&mut self, now: Instant) -> usize {
        let Self {
            tracer,
            sockets,
            attributing,
            ..
        } = self;
        self.port.transmit(now, BUDGET, &mut self.drops, |packet| {
            if *attributing && let Some(attribution) = attribution_of(sockets, packet.owner()) {
                attribution.ringed(
                    packet.len().get(),
                    packet.enqueued(),
                    packet.departure(),
                    now,
                );
            }
            if T::ENABLED {
                let owner = packet.owner();
                // Nothing is born with CE: a packet that carries it now was marked by the
                // discipline.
                if Ecn::of_tos(packet.tos()) == Ecn::Ce {
                    Self::trace(tracer, now, What::Marked, owner, packet.bytes());
                }
                Self::trace(tracer, now, What::Ringed, owner, packet.bytes());
            }
        })
    }

    /// Step 8 for packets that did not make it. A connection is told of drops as its profile says.
    fn settle_drops(&mut self, stage: Stage, enqueued: Option<Owner>, now: Instant) {
        if self.drops.is_empty() {
            return;
        }
        let mut drops = std::mem::take(&mut self.drops);
        for (packet, reason) in drops.drain() {
            self.stats.dropped += 1;
            let owner = packet.owner();
            Self::trace(
                &mut self.tracer,
                now,
                What::Dropped(reason),
                owner,
                packet.bytes(),
            );
            if let Some(owner) = owner {
                self.tell_of_drop(owner, packet.segments(), (stage, enqueued), reason, now);
            }
            self.settle(packet, false);
        }
        self.drops = drops;
    }

    fn tell_of_drop(
        &mut self,
        owner: Owner,
        segments: u16,
        (stage, enqueued): (Stage, Option<Owner>),
        reason: DropReason,
        now: Instant,
    ) {
        let Some(connection) = self.sockets.connection_mut(owner.socket) else {
            return;
        };
        let told = match connection.config.local_drop_reporting {
            LocalDropReporting::Nothing => false,
            // Linux's return code reaches only the socket whose packet was being enqueued.
            LocalDropReporting::Enqueue => {
                stage == Stage::Enqueue && enqueued.is_some_and(|e| e.socket == owner.socket)
            }
            LocalDropReporting::Everything => true,
        };
        if told || reason == DropReason::Reset {
            connection.on_local_drop(owner.segment, segments, reason, now);
            self.runnable.push(connection);
        }
    }

    /// Step 8: the one place where a packet ends, sent or dropped.
    fn settle(&mut self, packet: Packet<D::Frame>, sent: bool) {
        let settled = self.pool.settle(packet);
        let Some(owner) = settled.owner else { return };
        if let Some(connection) = self.sockets.connection_mut(owner.socket) {
            let refused = connection.left_host(owner.segment, settled.segments, sent);
            let throttled = settled
                .credit
                .is_some_and(|credit| connection.tsq.release(&credit));
            if refused || throttled {
                self.runnable.push(connection);
            }
        } else if let Some((socket, credit)) =
            self.sockets.udp_mut(owner.socket).zip(settled.credit)
        {
            if socket.release(&credit, sent) {
                self.runnable.add(owner.socket, &mut socket.place.queued);
            }
            self.tell_udp(owner.socket);
        }
    }

    /// Step 8 for packets dropped at no enqueue of their own.
    pub(super) fn settle_later_drops(&mut self, now: Instant) {
        self.settle_drops(Stage::Later, None, now);
    }

    /// Every packet in discipline and device is given up, as after a device reset; connections hear
    /// of their losses.
    pub fn reset_device(&mut self, now: Instant) {
        let now = self.advance_clock(now);
        self.port.reset(&mut self.drops);
        self.settle_drops(Stage::Later, None, now);
    }

    /// A connection may have changed: let it run, and do what [`after`](Self::after) does.
    pub(super) fn touch(&mut self, id: SocketId) {
        if let Some(connection) = self.sockets.connection_mut(id) {
            self.runnable.push(connection);
            self.after(id);
        } else if let Some(socket) = self.sockets.udp_mut(id) {
            socket.try_again();
            self.runnable.add(id, &mut socket.place.queued);
        }
    }

    /// Passes on what happened to a connection, keeps its deadline armed, frees it when it is done.
    fn after(&mut self, id: SocketId) {
        let Some(connection) = self.sockets.connection_mut(id) else {
            return;
        };
        let calm = !connection.links.half_open
            && !connection.pending.anything()
            && connection.still_delivers()
            && self.holdings.are_settled_with(connection);
        if !calm && !self.settle_affairs(id) {
            return;
        }
        let Some(connection) = self.sockets.connection_mut(id) else {
            return;
        };
        // What would be due at the end of time has overflowed: there it would be due again and
        // again.
        if let Some(at) = connection.next_deadline()
            && at < END_OF_TIME
            && connection.links.armed.is_none_or(|armed| at < armed)
        {
            connection.links.armed = Some(at);
            self.deadlines.push(at, id);
        }
        if !connection.links.idling {
            self.watch_memory(id);
        }
    }

    /// What a connection's change means to its listener, its application and the host's memory.
    /// False if it is gone.
    fn settle_affairs(&mut self, id: SocketId) -> bool {
        self.note_opened(id);
        self.tell(id);
        let Some(connection) = self.sockets.connection_mut(id) else {
            return false;
        };
        if connection.finished() && connection.orphan {
            self.forget(id);
            return false;
        }
        if connection.state() == State::TimeWait && self.retire(id) {
            return false;
        }
        self.charge(id);
        true
    }

    /// Tells the application what happened to a connection, unless it has let go of it.
    fn tell(&mut self, id: SocketId) {
        let Some(connection) = self.sockets.connection_mut(id) else {
            return;
        };
        let happened = std::mem::take(&mut connection.pending);
        if !connection.orphan {
            let told = [
                happened.established.then_some(Event::Connected(id)),
                happened.readable.then_some(Event::Readable(id)),
                happened.writable.then_some(Event::Writable(id)),
                happened.closed.map(|why| Event::Closed { socket: id, why }),
            ];
            self.events.extend(told.into_iter().flatten());
        }
    }

    /// A half-open connection that has opened or failed leaves its listener's backlog. One that
    /// failed was never the application's: it frees itself.
    fn note_opened(&mut self, id: SocketId) {
        let Some(connection) = self.sockets.connection_mut(id) else {
            return;
        };
        if matches!(connection.state(), State::SynReceived { .. }) {
            return;
        }
        if !std::mem::take(&mut connection.links.half_open) {
            return;
        }
        connection.orphan |= connection.state() == State::Closed;
        let counted_at = connection.links.counted_at;
        if let Some(listener) = counted_at.and_then(|at| self.sockets.listener_mut(at)) {
            listener.pending -= 1;
        }
    }

    /// When to poll again.
    fn next_wake(&self, exhausted: bool, now: Instant) -> Option<Wake> {
        let device = self.port.ring().device();
        let runnable =
            !self.runnable.is_empty() || (!self.starved.is_empty() && self.pool.free() > 0);
        let reap = device.in_flight() > 0 && !device.announces_completions();
        let mut next: Option<Wake> = None;
        let mut consider = |at: Option<Instant>, why| {
            if let Some(at) = at
                && next.is_none_or(|next| Wake::new(at, why) < next)
            {
                next = Some(Wake::new(at, why));
            }
        };
        consider((exhausted || runnable).then_some(now), Reason::Budget);
        consider(self.paced.next(), Reason::Pacing);
        consider(self.deadlines.next(), Reason::Timer);
        consider(self.neighbours.next_deadline(), Reason::Neighbor);
        consider(self.idling.next(), Reason::Idle);
        consider(self.time_waits.next_deadline(), Reason::Close);
        consider(self.port.ready_at(), Reason::Qdisc);
        consider(reap.then_some(now + REAP_INTERVAL), Reason::Reap);
        next
    }
}

/// The account of the connection that sent a packet, if it carries sequence space and an account is
/// kept.
fn attribution_of(sockets: &mut Sockets, owner: Option<Owner>) -> Option<&mut Attribution> {
    let owner = owner.filter(|owner| owner.segment.is_some())?;
    sockets.connection_mut(owner.socket)?.attribution_mut()
}
