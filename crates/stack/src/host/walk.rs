//! The walk of a packet: [`Host::poll`], read from top to bottom.
//!
//! ```text
//! 1 birth       a plan of TCP                conn.plan
//! 2 pacer       not before its departure     conn.pacer
//! 3 TSQ gate    a frame and a credit         conn.tsq, pool
//! 4 qdisc       port.enqueue
//! 5 DQL gate    room in ring and limit       port.transmit
//! 6 ring        the device owns the packet   port.transmit
//! 7 completion  the device returns it        port.reap
//! 8 settle      frame to pool, credit to TSQ, connection runnable
//! ```

use std::time::Duration;

use tautline_base::{Device, Ecn, Instant, Item, Packet, Qdisc, Reason, SocketId, Wake};
use tautline_bql::Limit;

use super::Host;
use super::autoconf::autoconfigure;
use super::interface::Interface;
use super::neighbors::retry_neighbors;
use super::transport::{DropStage, Transport};
use crate::config::Pacing;
use crate::socket::SocketOption;
use crate::tcp::Blocked;
use crate::trace::{Tracer, What};

/// Most births, and most transmissions, in one poll.
const BUDGET: usize = 64;
/// Births of one connection before the next one runs.
const QUOTA: usize = 16;
/// Time between polls for completions when the device does not announce them.
const REAP_INTERVAL: Duration = Duration::from_micros(50);

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// Lets time pass until `now`: settles completions, runs expired timers, bears segments and
    /// transmits packets, at most 64 of each. Returns the latest time of the next call; `None`: not
    /// before the next input.
    #[must_use = "the wake says when to poll again"]
    pub fn poll(&mut self, now: Instant) -> Option<Wake> {
        let now = self.advance_clock(now);
        self.reap(now);
        self.transport.on_deadlines(now);
        retry_neighbors(self, now);
        autoconfigure(self, now);
        let births = self.birth(now);
        let transmitted = self.transmit(now);
        // A write to a TUN is its own completion: credits return without another poll.
        while self.interface.port.ring().device().has_completed() {
            self.reap(now);
        }
        self.settle_drops(DropStage::Later, now);
        let is_exhausted = births.max(transmitted) >= BUDGET;
        next_wake(&self.interface, &self.transport, is_exhausted, now)
    }

    /// Steps 7 and 8: frames return, throttled connections run again.
    fn reap(&mut self, now: Instant) {
        let mut done = std::mem::take(&mut self.interface.done);
        self.interface.port.reap(now, &mut done);
        for packet in done.drain(..) {
            self.interface.stats.completed += 1;
            let tracer = &mut self.interface.tracer;
            Interface::<Q, D, T, L>::trace(tracer, now, What::Completed, &packet);
            if let Some(attribution) = self.transport.attribution_of(packet.owner()) {
                attribution.completed(packet.len().get(), packet.enqueued(), now);
            }
            self.settle(packet, true);
        }
        self.interface.done = done;
    }

    /// Steps 1 to 4 for sockets on the run queue. Returns the number of births.
    fn birth(&mut self, now: Instant) -> usize {
        let mut births = 0;
        while births < BUDGET {
            let has_frames = self.interface.pool.free() > 0;
            let Some(id) = self.transport.next_runnable(has_frames) else {
                break;
            };
            let quota = QUOTA.min(BUDGET - births);
            let mut born = 0;
            while born < quota {
                match self.birth_next(id, quota - born, now) {
                    0 => break,
                    more => born += more,
                }
            }
            births += born;
            if born == quota {
                self.transport.requeue(id);
            }
            self.transport.reconcile(id);
        }
        births
    }

    /// Takes the next segment of one connection through steps 1 to 4, decide, then commit, and the
    /// [train](crate::tcp::Train) behind it, `quota` segments in all. Returns their number; 0 if
    /// something blocks the first: the end of that makes the connection runnable again.
    fn birth_next(&mut self, id: SocketId, quota: usize, now: Instant) -> usize {
        let most = self.interface.largest_burst();
        let Some(connection) = self.transport.sockets.connection_mut(id) else {
            return usize::from(self.birth_datagram(id, now));
        };
        let plan = match connection.plan(most, now) {
            Ok(plan) => plan,
            Err(blocked) => {
                if let Blocked::Pacer(at) = blocked
                    && !std::mem::replace(&mut connection.links.paced, true)
                {
                    self.transport.paced.push(at, id);
                }
                return 0;
            }
        };
        let next_hop = connection.next_hop;
        let mac = match self.interface.neighbors.last(&next_hop, now) {
            Some(mac) => Some(mac),
            None => {
                let heard = connection.liveness.confirmed();
                self.interface.resolve(next_hop, Some(id), (heard, now))
            }
        };
        self.settle_drops(DropStage::Later, now);
        let Some(mac) = mac else {
            return 0;
        };
        let frame = if plan.segments > 1 {
            self.interface.pool.take_large()
        } else {
            self.interface.pool.take()
        };
        let Some(frame) = frame else {
            self.transport.wait_for_frame(id);
            return 0;
        };
        let connection = self.transport.sockets.connection_mut(id);
        let connection = connection.expect("it made the plan");
        let packet = self
            .interface
            .commit_segment(connection, &plan, mac, frame, now);
        let train = (self.interface).train_behind(connection, &plan, &packet, now);
        self.enqueue(packet, now);
        let mut born = 1;
        // The drop of the first may have changed the connection, but the train notices.
        if let Some((train, template)) = train
            && let Some(connection) = self.transport.sockets.connection_mut(id)
        {
            let most = quota.saturating_sub(born);
            born += (self.interface).birth_train(connection, (&train, &template), most, now);
            self.settle_drops(DropStage::Enqueue(Some(id)), now);
        }
        born
    }

    /// Step 4: the packet enters the qdisc; packets dropped for it are settled at once.
    pub(super) fn enqueue(&mut self, packet: Packet<D::Frame>, now: Instant) {
        let owner = packet.owner().map(|owner| owner.socket);
        self.interface.enqueue(packet, now);
        self.settle_drops(DropStage::Enqueue(owner), now);
    }

    /// Steps 5 and 6. Returns the number of packets that entered the ring.
    fn transmit(&mut self, now: Instant) -> usize {
        let Interface {
            port,
            drops,
            tracer,
            ..
        } = &mut self.interface;
        let transport = &mut self.transport;
        port.transmit(now, BUDGET, drops, |packet| {
            if packet.departure() > now
                && let Some(owner) = packet.owner()
            {
                pace_without_qdisc(transport, owner.socket, now);
            }
            if let Some(attribution) = transport.attribution_of(packet.owner()) {
                let (len, departure) = (packet.len().get(), packet.departure());
                attribution.ringed(len, packet.enqueued(), departure, now);
            }
            if T::ENABLED {
                let mut trace = |what| Interface::<Q, D, T, L>::trace(tracer, now, what, packet);
                // No packet is born with CE: the qdisc marked it.
                if Ecn::of_tos(packet.tos()) == Ecn::Ce {
                    trace(What::Marked);
                }
                trace(What::Ringed);
            }
        })
    }

    /// Step 8 for dropped packets.
    #[inline]
    pub(super) fn settle_drops(&mut self, stage: DropStage, now: Instant) {
        if !self.interface.drops.is_empty() {
            settle_dropped(self, stage, now);
        }
    }

    /// Step 8: the one place where a packet ends, sent or dropped.
    fn settle(&mut self, packet: Packet<D::Frame>, is_sent: bool) {
        let settled = self.interface.pool.settle(packet);
        if settled.owner.is_none() {
            // A qdisc that duplicates packets returns more than it was given.
            self.interface.unowned = self.interface.unowned.saturating_sub(1);
        }
        self.transport.on_settled(&settled, is_sent);
    }

    /// Drops every packet in qdisc and device, as after a device reset; connections are notified of
    /// their losses.
    pub fn reset_device(&mut self, now: Instant) {
        let now = self.advance_clock(now);
        self.interface.port.reset(&mut self.interface.drops);
        self.settle_drops(DropStage::Later, now);
    }
}

/// Settles the packets dropped since the last call.
fn settle_dropped<Q, D, T, L>(host: &mut Host<Q, D, T, L>, stage: DropStage, now: Instant)
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    let mut drops = std::mem::take(&mut host.interface.drops);
    for (packet, reason) in drops.drain() {
        host.interface.stats.dropped += 1;
        let tracer = &mut host.interface.tracer;
        Interface::<Q, D, T, L>::trace(tracer, now, What::Dropped(reason), &packet);
        host.transport.report_drop(&packet, stage, reason, now);
        host.settle(packet, false);
    }
    host.interface.drops = drops;
}

/// The latest time of the next poll.
fn next_wake<Q, D, T, L>(
    interface: &Interface<Q, D, T, L>,
    transport: &Transport,
    is_exhausted: bool,
    now: Instant,
) -> Option<Wake>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    let device = interface.port.ring().device();
    let has_starved = !transport.starved.is_empty() && interface.pool.free() > 0;
    let is_runnable = is_exhausted || has_starved || !transport.runnable.is_empty();
    let must_reap = device.in_flight() > 0 && !device.announces_completions();
    let mut next: Option<Wake> = None;
    let mut consider = |at: Option<Instant>, why| {
        if let Some(at) = at
            && next.is_none_or(|next| Wake::new(at, why) < next)
        {
            next = Some(Wake::new(at, why));
        }
    };
    consider(is_runnable.then_some(now), Reason::Budget);
    consider(transport.paced.next(), Reason::Pacing);
    consider(transport.deadlines.next(), Reason::Timer);
    consider(interface.neighbors.next_deadline(), Reason::Neighbor);
    let autoconf = interface.autoconf.as_ref();
    consider(
        autoconf.and_then(|autoconf| autoconf.next_deadline()),
        Reason::Neighbor,
    );
    consider(transport.idling.next(), Reason::Idle);
    consider(transport.time_waits.next_deadline(), Reason::Close);
    consider(transport.requests.next_deadline(), Reason::Close);
    consider(interface.port.ready_at(), Reason::Qdisc);
    consider(must_reap.then_some(now + REAP_INTERVAL), Reason::Reap);
    next
}

/// The qdisc let a segment of connection `id` go before its departure, so it does not pace. The
/// connection does from now on; otherwise its stamps would run away from the clock, and round-trip
/// times and timeouts are counted from them. In Linux, FQ takes pacing over from the internal timer
/// (`sk_pacing_status`).
#[cold]
fn pace_without_qdisc(transport: &mut Transport, id: SocketId, now: Instant) {
    if let Some(connection) = transport.sockets.connection_mut(id)
        && connection.config.pacing == Pacing::Qdisc
    {
        connection.set_option(SocketOption::Pacing(Pacing::Internal), now);
        transport.reconcile(id);
    }
}
