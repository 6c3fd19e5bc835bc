//! [`Link`]: one direction of a link: a queue, a serialiser, and air in which frames are lost,
//! doubled, damaged or held back.
//!
//! The link copies what enters into frames of its own, so a sender's packet completes at its NIC,
//! as on a real machine. Its queue is any discipline, always inside a [`Ledger`]. With a card
//! ([`CardConfig`]) it is the way out of a router: what enters is forwarded, so nothing holds it
//! back as TSQ does at its source.

mod card;
mod config;
mod trace;

use std::fmt;
use std::time::Duration;

use rand_core::Rng;
use rand_pcg::Pcg32;
use tautline_base::{Bytes, Ecn, Frame, HeapFrame, Instant, Item, Packet, Pool};
use tautline_bql::{Limit, Ring};
use tautline_qdisc::fifo::{self, Fifo, Victim};
use tautline_qdisc::{Backlog, DropReason, Drops, DynQdisc, Ledger, Qdisc, Report};

use crate::classify;
use crate::config_error::ConfigError;
use crate::event_queue::EventQueue;
use crate::nic::{Departing, SimNic};
use crate::schedule::Line;

use card::Card;
pub use config::{Buffer, CardConfig, Impairments, LinkConfig};
pub use trace::{LinkEvent, LinkTracer, LinkWhat};

/// Where the IP packet begins in an Ethernet frame.
const IP: usize = 14;

/// One direction of a link.
pub struct Link {
    config: LinkConfig,
    queue: Ledger<Box<dyn DynQdisc<Packet<HeapFrame>>>>,
    drops: Drops<Packet<HeapFrame>>,
    line: Line,
    serialiser: Serialiser,
    card: Option<Box<Card>>,
    air: EventQueue<Packet<HeapFrame>>,
    pool: Pool<HeapFrame>,
    rng: Pcg32,
    stats: LinkStats,
}

enum Serialiser {
    Idle,
    Busy {
        packet: Packet<HeapFrame>,
        until: Instant,
    },
    /// Nothing can happen to the frame any more, so it is in the air already, where it counts from
    /// `until` on.
    Ahead {
        until: Instant,
    },
}

/// What a link counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Frames that came in.
    pub entered: u64,
    /// Frames that reached the other end, copies included.
    pub arrived: u64,
    /// Frames dropped by the queue, by [`DropReason::index`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Frames the queue marked "congestion experienced".
    pub marked: u64,
    /// How long the frame that the queue handed out last had waited in it.
    pub sojourn: Duration,
    /// Frames that left: their last bit was on the wire, whatever became of them then. Where
    /// nothing can go wrong, the one that is leaving counts too.
    pub sent: u64,
    /// Bytes of those.
    pub sent_bytes: Bytes,
    /// Frames lost in the air.
    pub lost: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Frames damaged.
    pub corrupted: u64,
    /// Frames held back.
    pub held_back: u64,
    /// The most that waited in the queue, in packets.
    pub backlog_peak: usize,
    /// The most that waited in the queue, in bytes.
    pub bytes_peak: Bytes,
}

impl LinkStats {
    /// Frames dropped by the queue.
    pub fn drops(&self) -> u64 {
        self.dropped.iter().sum()
    }
}

impl Link {
    /// An empty link whose accidents are drawn from `rng`.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn new(config: LinkConfig, rng: Pcg32) -> Result<Self, ConfigError> {
        config.check()?;
        // The card's luck is its own: with or without one the same frames have accidents.
        let queue: Box<dyn DynQdisc<Packet<HeapFrame>>> = match &config.queue {
            Buffer::TailDrop { packets, bytes } => {
                let packets = u32::try_from(*packets).ok();
                Box::new(Fifo::new(fifo::Config {
                    packets,
                    bytes: Some(*bytes),
                    victim: Victim::Newcomer,
                }))
            }
            Buffer::Discipline(tree) => tree.build()?,
        };
        let card = config
            .card
            .as_ref()
            .map(|card| Card::new(card, &config, rng.clone()))
            .transpose()?
            .map(Box::new);
        Ok(Self {
            line: Line::new(config.rate, config.framing, config.schedule.clone()),
            config,
            queue: Ledger::new(queue),
            drops: Drops::new(),
            serialiser: Serialiser::Idle,
            card,
            air: EventQueue::new(),
            pool: Pool::new(Vec::new()),
            rng,
            stats: LinkStats::default(),
        })
    }

    /// A frame comes in. Frames longer than [`HeapFrame::LEN`] are cut: no NIC here sends them.
    pub fn enter(&mut self, bytes: &[u8], now: Instant, tracer: &mut impl LinkTracer) {
        self.stats.entered += 1;
        tracer.record(
            &LinkEvent {
                at: now,
                what: LinkWhat::Entered,
            },
            bytes,
        );
        let packet = self.copy(bytes);
        self.queue_up(self.describe(packet), now, tracer);
    }

    fn queue_up(&mut self, packet: Packet<HeapFrame>, now: Instant, tracer: &mut impl LinkTracer) {
        if self.is_free(&packet, now) {
            self.note_peaks(Backlog {
                packets: 1,
                bytes: packet.len(),
            });
            self.stats.sojourn = Duration::ZERO;
            tracer.record(
                &LinkEvent {
                    at: now,
                    what: LinkWhat::Serialised {
                        sojourn: Duration::ZERO,
                    },
                },
                packet.bytes(),
            );
            return self.send_ahead(packet, now);
        }
        self.queue.enqueue(packet, now, &mut self.drops);
        self.settle_drops(now, tracer);
        self.note_peaks(self.queue.backlog());
        self.serialise(now, tracer);
    }

    fn note_peaks(&mut self, Backlog { packets, bytes }: Backlog) {
        self.stats.backlog_peak = self.stats.backlog_peak.max(packets);
        self.stats.bytes_peak = self.stats.bytes_peak.max(bytes);
    }

    /// True when `packet` can pass by the queue: the wire is free, nobody waits, the queue would
    /// take it and could do nothing to it.
    fn is_free(&self, packet: &Packet<HeapFrame>, now: Instant) -> bool {
        let idle = match self.serialiser {
            Serialiser::Idle => true,
            Serialiser::Ahead { until } => until <= now,
            Serialiser::Busy { .. } => false,
        };
        let takes = match self.config.queue {
            Buffer::TailDrop { packets, bytes } => packets > 0 && packet.len() <= bytes,
            Buffer::Discipline(_) => false,
        };
        idle && takes && self.sends_ahead() && self.queue.backlog().packets == 0
    }

    /// Whether a frame's fate is known when its first bit leaves, and nobody asks when its last
    /// does: a discipline may care that its queue is found empty then.
    fn sends_ahead(&self) -> bool {
        let in_order = matches!(self.config.queue, Buffer::TailDrop { .. });
        in_order && self.card.is_none() && self.config.impair.are_none()
    }

    /// The first bit of `packet` leaves now; it arrives when its last has crossed.
    fn send_ahead(&mut self, packet: Packet<HeapFrame>, now: Instant) {
        let until = self.line.departure(now, packet.len());
        self.stats.sent += 1;
        self.stats.sent_bytes += packet.len();
        self.air.push(until + self.config.delay, packet);
        self.serialiser = Serialiser::Ahead { until };
    }

    /// [`enter`](Self::enter) for a packet of another link, which gets an empty frame in exchange
    /// for the one that comes in: bytes cross a router without being copied.
    pub(crate) fn take_in(
        &mut self,
        packet: &mut Packet<HeapFrame>,
        now: Instant,
        tracer: &mut impl LinkTracer,
    ) {
        self.stats.entered += 1;
        tracer.record(
            &LinkEvent {
                at: now,
                what: LinkWhat::Entered,
            },
            packet.bytes(),
        );
        let packet = self.take_over(packet);
        self.queue_up(self.describe(packet), now, tracer);
    }

    /// A packet of this link with the bytes of another, which gets an empty frame for them.
    fn take_over(&mut self, packet: &mut Packet<HeapFrame>) -> Packet<HeapFrame> {
        let (spare, len, due) = (
            self.take_frame(),
            packet.len().get() as u32,
            packet.deferred(),
        );
        Packet::new(packet.replace_frame(spare), len).with_deferred(due)
    }

    /// Lets time pass until `now`; gives every frame that has arrived to `deliver`.
    pub fn advance(
        &mut self,
        now: Instant,
        tracer: &mut impl LinkTracer,
        mut deliver: impl FnMut(&[u8]),
    ) {
        self.serialise(now, tracer);
        while let Some(packet) = self.arrived(now, tracer) {
            deliver(packet.bytes());
            self.settle(packet);
        }
    }

    /// The next packet that has arrived by `now`; it must be [settled](Self::settle) here, with
    /// whatever frame.
    pub(crate) fn arrived(
        &mut self,
        now: Instant,
        tracer: &mut impl LinkTracer,
    ) -> Option<Packet<HeapFrame>> {
        let (at, packet) = self.air.pop_due(now)?;
        self.stats.arrived += 1;
        tracer.record(
            &LinkEvent {
                at,
                what: LinkWhat::Arrived,
            },
            packet.bytes(),
        );
        Some(packet)
    }

    /// From now on other things go wrong. Frames in the air are past it.
    pub fn set_impairments(&mut self, impair: Impairments) {
        self.config.impair = impair;
    }

    /// When [`advance`](Self::advance) has something to do.
    #[inline]
    pub fn next_event(&self) -> Option<Instant> {
        let serialiser = match &self.card {
            Some(card) => self.card_event(card),
            None => match &self.serialiser {
                Serialiser::Busy { until, .. } => Some(*until),
                Serialiser::Ahead { until } => self.queue.ready_at().map(|ready| ready.max(*until)),
                Serialiser::Idle => self.queue.ready_at(),
            },
        };
        earliest(serialiser, self.air.next_at())
    }

    fn card_event(&self, card: &Card) -> Option<Instant> {
        let feed = card
            .ring()
            .opens_at()
            .and_then(|opens| Some(opens.max(self.queue.ready_at()?)));
        earliest(card.next_event(), feed)
    }

    /// What waits in the queue.
    pub fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    /// The ring of its card, if it has one.
    pub fn ring(&self) -> Option<&Ring<SimNic, Box<dyn Limit>>> {
        self.card.as_deref().map(Card::ring)
    }

    /// The card, if it has one, for the medium that it is on.
    pub(crate) fn card_nic(&mut self) -> Option<&mut SimNic> {
        self.card
            .as_deref_mut()
            .map(|card| card.ring_mut().device_mut())
    }

    /// Frames in the queue, on the serialiser or in the air.
    pub fn outstanding(&self) -> usize {
        self.pool.outstanding()
    }

    /// What was counted so far.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// What the queue's discipline tells about itself.
    pub fn report(&self) -> Report {
        tautline_qdisc::Inspect::report(self.queue.inner())
    }

    /// Finishes what has been serialised by `now` and begins with what may go next.
    #[inline]
    pub(crate) fn serialise(&mut self, now: Instant, tracer: &mut impl LinkTracer) {
        match self.serialiser {
            Serialiser::Ahead { until } if until > now => {}
            Serialiser::Ahead { .. } if self.queue.backlog().packets == 0 => {
                self.serialiser = Serialiser::Idle
            }
            _ => self.go_on(now, tracer),
        }
    }

    fn go_on(&mut self, now: Instant, tracer: &mut impl LinkTracer) {
        if self.card.is_some() {
            return self.work(now, tracer);
        }
        loop {
            match std::mem::replace(&mut self.serialiser, Serialiser::Idle) {
                Serialiser::Busy { packet, until } if until > now => {
                    self.serialiser = Serialiser::Busy { packet, until };
                    return;
                }
                Serialiser::Busy { packet, until } => {
                    self.launch(packet, until, tracer);
                    if !self.begin(until, tracer) {
                        return;
                    }
                }
                Serialiser::Ahead { until } if until > now => {
                    self.serialiser = Serialiser::Ahead { until };
                    return;
                }
                Serialiser::Ahead { until } => {
                    if !self.begin(until, tracer) {
                        return;
                    }
                }
                Serialiser::Idle => {
                    if !self.begin(now, tracer) {
                        return;
                    }
                }
            }
        }
    }

    /// What the card has sent is on its way, what its driver found completed comes to rest, and its
    /// ring is filled again.
    fn work(&mut self, now: Instant, tracer: &mut impl LinkTracer) {
        let Some(mut card) = self.card.take() else {
            return;
        };
        card.advance(now, |frame, at| {
            let packet = match frame {
                Departing::Packet(packet) => self.take_over(packet),
                Departing::Segment(bytes) => self.copy(bytes),
            };
            self.launch(packet, at, tracer);
        });
        for packet in card.done.drain(..) {
            self.settle(packet);
        }
        let (mut clock, copy) = (now, card.copy);
        while let Some(slot) = card.ring_mut().slot(now)
            && let Some(packet) = self.next(clock, tracer)
        {
            slot.put(packet, now);
            clock += copy;
        }
        card.ring_mut().doorbell(now);
        self.card = Some(card);
    }

    /// Takes the next packet from the queue and begins to serialise it. False when none may go.
    fn begin(&mut self, now: Instant, tracer: &mut impl LinkTracer) -> bool {
        // A discipline may care that it is found empty; a line does not.
        if self.queue.backlog().packets == 0 && matches!(self.config.queue, Buffer::TailDrop { .. })
        {
            return false;
        }
        let Some(packet) = self.next(now, tracer) else {
            return false;
        };
        if self.sends_ahead() {
            self.send_ahead(packet, now);
            return true;
        }
        let until = self.line.departure(now, packet.len());
        self.serialiser = Serialiser::Busy { packet, until };
        true
    }

    /// The next packet from the queue, as it will be on the wire.
    fn next(&mut self, now: Instant, tracer: &mut impl LinkTracer) -> Option<Packet<HeapFrame>> {
        let next = self.queue.dequeue(now, &mut self.drops);
        self.settle_drops(now, tracer);
        let mut packet = next?;
        let tell = |what| LinkEvent { at: now, what };
        if Ecn::of_tos(packet.tos()) == Ecn::Ce
            && classify::tos(packet.bytes()).map(Ecn::of_tos) != Some(Ecn::Ce)
        {
            self.stats.marked += 1;
            tracer.record(&tell(LinkWhat::Marked), packet.bytes());
        }
        packet.finish();
        let sojourn = now - packet.enqueued();
        self.stats.sojourn = sojourn;
        tracer.record(&tell(LinkWhat::Serialised { sojourn }), packet.bytes());
        Some(packet)
    }

    /// The last bit is on the wire: the frame is lost, doubled, or on its way.
    fn launch(
        &mut self,
        mut packet: Packet<HeapFrame>,
        now: Instant,
        tracer: &mut impl LinkTracer,
    ) {
        self.stats.sent += 1;
        self.stats.sent_bytes += packet.len();
        if self.config.impair.loss.happens(&mut self.rng) {
            self.stats.lost += 1;
            tracer.record(
                &LinkEvent {
                    at: now,
                    what: LinkWhat::Lost,
                },
                packet.bytes(),
            );
            return self.settle(packet);
        }
        if self.config.impair.duplicate.happens(&mut self.rng) {
            self.stats.duplicated += 1;
            tracer.record(
                &LinkEvent {
                    at: now,
                    what: LinkWhat::Duplicated,
                },
                packet.bytes(),
            );
            packet.complete();
            let copy = self.copy(packet.bytes());
            self.fly(packet, now, tracer);
            return self.fly(copy, now, tracer);
        }
        self.fly(packet, now, tracer);
    }

    /// One copy of a frame takes its way through the air.
    fn fly(&mut self, mut packet: Packet<HeapFrame>, now: Instant, tracer: &mut impl LinkTracer) {
        let Impairments {
            corrupt,
            reorder,
            reorder_delay,
            ..
        } = self.config.impair;
        if corrupt.happens(&mut self.rng) && classify::is_ipv4(packet.bytes()) {
            packet = self.flip_a_bit(packet, now, tracer);
        }
        let mut arrives = now + self.config.delay;
        if reorder.happens(&mut self.rng) {
            self.stats.held_back += 1;
            tracer.record(
                &LinkEvent {
                    at: now,
                    what: LinkWhat::HeldBack,
                },
                packet.bytes(),
            );
            arrives += reorder_delay;
        }
        self.air.push(arrives, packet);
    }

    /// Replaces `packet` by one that differs in one random bit of the IP packet.
    fn flip_a_bit(
        &mut self,
        mut packet: Packet<HeapFrame>,
        now: Instant,
        tracer: &mut impl LinkTracer,
    ) -> Packet<HeapFrame> {
        let bits = (packet.bytes().len().saturating_sub(IP) * 8) as u64;
        // Multiply and shift: a draw below `bits` without a division's bias worth speaking of.
        let bit = (IP * 8) as u32 + ((u64::from(self.rng.next_u32()) * bits) >> 32) as u32;
        // The receiver must find the damage.
        packet.complete();
        let mut frame = self.take_frame();
        let (len, byte) = (packet.bytes().len(), bit as usize / 8);
        frame.bytes_mut()[..len].copy_from_slice(packet.bytes());
        if let Some(byte) = frame.bytes_mut()[..len].get_mut(byte) {
            *byte ^= 0x80 >> (bit % 8);
        }
        self.settle(packet);
        let damaged = Packet::new(frame, len as u32);
        self.stats.corrupted += 1;
        tracer.record(
            &LinkEvent {
                at: now,
                what: LinkWhat::Corrupted { bit },
            },
            damaged.bytes(),
        );
        damaged
    }

    fn copy(&mut self, bytes: &[u8]) -> Packet<HeapFrame> {
        let len = bytes.len().min(HeapFrame::LEN);
        let mut frame = self.take_frame();
        frame.bytes_mut()[..len].copy_from_slice(&bytes[..len]);
        Packet::new(frame, len as u32)
    }

    /// `packet` with the metadata that the queue asks for.
    fn describe(&self, packet: Packet<HeapFrame>) -> Packet<HeapFrame> {
        match self.config.queue {
            Buffer::TailDrop { .. } => classify::describe_in_order(packet),
            Buffer::Discipline(_) => classify::describe(packet),
        }
    }

    /// A free frame; the store grows to the most that was ever under way.
    fn take_frame(&mut self) -> HeapFrame {
        if self.pool.free() == 0 {
            self.pool.add(HeapFrame::new());
        }
        self.pool
            .take()
            .expect("a frame was just added if none was free")
    }

    /// Ends a packet of this link.
    pub(crate) fn settle(&mut self, packet: Packet<HeapFrame>) {
        let settled = self.pool.settle(packet);
        debug_assert!(
            settled.owner.is_none() && settled.credit.is_none(),
            "a link's packets belong to nobody"
        );
    }

    fn settle_drops(&mut self, now: Instant, tracer: &mut impl LinkTracer) {
        if self.drops.is_empty() {
            return;
        }
        let Self {
            drops, pool, stats, ..
        } = self;
        for (packet, reason) in drops.drain() {
            stats.dropped[reason.index()] += 1;
            tracer.record(
                &LinkEvent {
                    at: now,
                    what: LinkWhat::Dropped(reason),
                },
                packet.bytes(),
            );
            let _ownerless = pool.settle(packet);
        }
    }
}

/// The earlier of two moments that may come.
pub(crate) fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (moment, None) | (None, moment) => moment,
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("config", &self.config)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
