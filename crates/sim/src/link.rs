//! [`Link`]: one direction of a link: a queue, the wire or a NIC, and a `channel` with a delay
//! that loses, duplicates, corrupts or reorders frames.
//!
//! A link copies frames that enter into frames of its own, so a sender's packet completes at its
//! NIC, as on a real machine. The queue is any qdisc, always inside a [`Ledger`]. With a NIC
//! ([`LinkNicConfig`]) the link is an egress port of a router: its packets are forwarded, so no TSQ
//! holds back their source.

mod channel;
mod config;
mod device;
mod event;
mod frames;
mod multi_queue;
mod wire;

use std::fmt;
use std::time::Duration;

use rand_pcg::Pcg32;
use tautline_base::{Backlog, Bytes, DropReason, Drops, HeapFrame, Instant, Item, Packet, Qdisc};
use tautline_bql::{Limit, Ring, TxStats};
use tautline_qdisc::Ledger;
use tautline_qdisc::fifo::{self, Fifo, Victim};
use tautline_stack::Tracer;
use tautline_tc::{DynQdisc, Inspect, Report};

use crate::classify;
use crate::config_error::ConfigError;
use crate::nic::SimNic;

use channel::Channel;
pub use config::{Buffer, Impairments, LinkConfig, LinkNicConfig};
use device::EgressNic;
pub use event::{LinkEvent, LinkEventKind};
use frames::Frames;
use multi_queue::MultiQueueNic;
use wire::Wire;

/// The queue of a link.
type LinkQdisc = Ledger<Box<dyn DynQdisc<Packet<HeapFrame>>>>;

/// A ring of a link's NIC.
type NicRing = Ring<SimNic, Box<dyn Limit>>;

/// One direction of a link.
pub struct Link {
    config: LinkConfig,
    egress: Egress,
    channel: Channel,
    frames: Frames,
}

/// The queue and what drains it.
enum Egress {
    Wire(Box<Wire>),
    Nic(Box<EgressNic>),
    MultiQueueNic(Box<MultiQueueNic>),
}

/// Counters of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Frames that entered.
    pub entered: u64,
    /// Frames that reached the far end, duplicates included.
    pub arrived: u64,
    /// Frames dropped by the queue, by [`DropReason::index`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Frames that the queue marked "congestion experienced".
    pub marked: u64,
    /// Sojourn time of the frame that left the queue last.
    pub sojourn: Duration,
    /// Frames whose last bit was sent, lost ones included. Without impairments, the frame that is
    /// being sent counts too.
    pub sent: u64,
    /// Bytes of `sent`.
    pub sent_bytes: Bytes,
    /// Frames lost in flight.
    pub lost: u64,
    /// Frames duplicated.
    pub duplicated: u64,
    /// Frames corrupted.
    pub corrupted: u64,
    /// Frames delayed to arrive out of order.
    pub held_back: u64,
    /// Peak backlog of the queue, in packets.
    pub backlog_peak: usize,
    /// Peak backlog of the queue, in bytes.
    pub bytes_peak: Bytes,
}

impl LinkStats {
    /// Frames dropped by the queue.
    pub fn drops(&self) -> u64 {
        self.dropped.iter().sum()
    }

    fn note_backlog(&mut self, packets: usize, bytes: Bytes) {
        self.backlog_peak = self.backlog_peak.max(packets);
        self.bytes_peak = self.bytes_peak.max(bytes);
    }
}

impl Link {
    /// An empty link with impairments drawn from `rng`.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn new(config: LinkConfig, rng: Pcg32) -> Result<Self, ConfigError> {
        config.check()?;
        let qdisc: Box<dyn DynQdisc<Packet<HeapFrame>>> = match &config.queue {
            Buffer::TailDrop { packets, bytes } => Box::new(Fifo::new(fifo::Config {
                packets: u32::try_from(*packets).ok(),
                bytes: Some(*bytes),
                victim: Victim::Newcomer,
            })),
            Buffer::Qdisc(tree) => tree.clone().with_hash_key(0).build()?,
        };
        let egress = match &config.nic {
            None => Egress::Wire(Box::new(Wire::new(&config, Ledger::new(qdisc)))),
            // It draws from an RNG of its own: the same frames are impaired with and without it.
            Some(nic) => Egress::of_nic(nic, &config, qdisc, rng.clone())?,
        };
        Ok(Self {
            egress,
            channel: Channel::new(config.delay, config.impair, rng),
            frames: Frames::default(),
            config,
        })
    }

    /// Puts a frame onto the link. Frames longer than [`HeapFrame::LEN`] are truncated: no NIC here
    /// sends them.
    pub fn enter(&mut self, bytes: &[u8], now: Instant, tracer: &mut impl Tracer<LinkEvent>) {
        self.frames.stats.entered += 1;
        tracer.record(&LinkEvent::new(now, LinkEventKind::Entered), bytes);
        let packet = self.frames.copy(bytes);
        self.enqueue(packet, now, tracer);
    }

    /// [`enter`](Self::enter) for a packet of another link, which receives an empty frame in
    /// exchange: bytes cross a router without being copied.
    pub(crate) fn enter_packet(
        &mut self,
        packet: &mut Packet<HeapFrame>,
        now: Instant,
        tracer: &mut impl Tracer<LinkEvent>,
    ) {
        self.frames.stats.entered += 1;
        tracer.record(&LinkEvent::new(now, LinkEventKind::Entered), packet.bytes());
        let packet = self.frames.exchange(packet);
        self.enqueue(packet, now, tracer);
    }

    fn enqueue(
        &mut self,
        packet: Packet<HeapFrame>,
        now: Instant,
        tracer: &mut impl Tracer<LinkEvent>,
    ) {
        let frames = &mut self.frames;
        if let Egress::Wire(wire) = &mut self.egress
            && wire.is_free_for(&packet, now, &self.channel)
        {
            let sojourn = Duration::ZERO;
            frames.stats.note_backlog(1, packet.len());
            frames.stats.sojourn = sojourn;
            let kind = LinkEventKind::Serialized { sojourn };
            tracer.record(&LinkEvent::new(now, kind), packet.bytes());
            return wire.send_ahead(packet, now, &mut self.channel, frames);
        }
        // Past a free wire no qdisc asks for its metadata. Nothing on it may either: without it, the packet's
        // TOS byte reads as zero.
        let packet = match self.config.queue {
            Buffer::TailDrop { .. } => classify::describe_in_order(packet),
            Buffer::Qdisc(_) => classify::describe(packet),
        };
        let Backlog { packets, bytes } = self.egress.enqueue(packet, now, &mut frames.drops);
        frames.settle_drops(now, tracer);
        frames.stats.note_backlog(packets, bytes);
        self.serialize(now, tracer);
    }

    /// Processes everything due until `now`, and passes every frame that has arrived to `deliver`.
    pub fn advance(
        &mut self,
        now: Instant,
        tracer: &mut impl Tracer<LinkEvent>,
        mut deliver: impl FnMut(&[u8]),
    ) {
        self.serialize(now, tracer);
        while let Some(packet) = self.arrived(now, tracer) {
            deliver(packet.bytes());
            self.settle(packet);
        }
    }

    /// Sends what has been serialized by `now`, and dequeues what may go next.
    #[inline]
    pub(crate) fn serialize(&mut self, now: Instant, tracer: &mut impl Tracer<LinkEvent>) {
        let (channel, frames) = (&mut self.channel, &mut self.frames);
        match &mut self.egress {
            Egress::Wire(wire) => wire.advance(now, channel, frames, tracer),
            Egress::Nic(nic) => nic.advance(now, channel, frames, tracer),
            Egress::MultiQueueNic(nic) => nic.advance(now, channel, frames, tracer),
        }
    }

    /// The next packet that has arrived by `now`. It must be [settled](Self::settle) here, with any
    /// frame.
    pub(crate) fn arrived(
        &mut self,
        now: Instant,
        tracer: &mut impl Tracer<LinkEvent>,
    ) -> Option<Packet<HeapFrame>> {
        let (at, packet) = self.channel.arrived(now)?;
        self.frames.stats.arrived += 1;
        tracer.record(&LinkEvent::new(at, LinkEventKind::Arrived), packet.bytes());
        Some(packet)
    }

    /// Ends a packet of this link.
    pub(crate) fn settle(&mut self, packet: Packet<HeapFrame>) {
        self.frames.settle(packet);
    }

    /// Replaces the impairments. Frames already in flight are unaffected.
    pub fn set_impairments(&mut self, impair: Impairments) {
        self.channel.set_impairments(impair);
    }

    /// When [`advance`](Self::advance) next has something to do.
    #[inline]
    pub fn next_event(&self) -> Option<Instant> {
        let egress = match &self.egress {
            Egress::Wire(wire) => wire.next_event(),
            Egress::Nic(nic) => nic.next_event(),
            Egress::MultiQueueNic(nic) => nic.next_event(),
        };
        earliest(egress, self.channel.next_arrival())
    }

    /// Backlog of the queue.
    pub fn backlog(&self) -> Backlog {
        match &self.egress {
            Egress::Wire(wire) => wire.qdisc().backlog(),
            Egress::Nic(nic) => nic.port().backlog(),
            Egress::MultiQueueNic(nic) => nic.backlog(),
        }
    }

    /// The ring of its NIC, if it has one and only one.
    pub fn ring(&self) -> Option<&Ring<SimNic, Box<dyn Limit>>> {
        match &self.egress {
            Egress::Wire(_) | Egress::MultiQueueNic(_) => None,
            Egress::Nic(nic) => Some(nic.port().ring()),
        }
    }

    /// Every ring of its NIC with its counters, in the order of the transmit queues.
    pub(crate) fn rings(&self) -> Vec<(&NicRing, &TxStats)> {
        match &self.egress {
            Egress::Wire(_) => Vec::new(),
            Egress::Nic(nic) => vec![(nic.port().ring(), nic.port().stats())],
            Egress::MultiQueueNic(nic) => nic.queues().collect(),
        }
    }

    /// The NIC, if it has one with one ring, for its medium.
    pub(crate) fn nic_mut(&mut self) -> Option<&mut SimNic> {
        match &mut self.egress {
            Egress::Wire(_) | Egress::MultiQueueNic(_) => None,
            Egress::Nic(nic) => Some(nic.port_mut().ring_mut().device_mut()),
        }
    }

    /// Frames in the queue, being serialized, or in flight.
    pub fn outstanding(&self) -> usize {
        self.frames.outstanding()
    }

    /// Counters.
    pub fn stats(&self) -> &LinkStats {
        &self.frames.stats
    }

    /// Statistics of the qdisc.
    pub fn report(&self) -> Report {
        match &self.egress {
            Egress::Wire(wire) => wire.qdisc().inner().report(),
            Egress::Nic(nic) => nic.port().qdisc().inner().report(),
            Egress::MultiQueueNic(nic) => nic.report(),
        }
    }
}

impl Egress {
    fn of_nic(
        nic: &LinkNicConfig,
        link: &LinkConfig,
        qdisc: Box<dyn DynQdisc<Packet<HeapFrame>>>,
        rng: Pcg32,
    ) -> Result<Self, ConfigError> {
        Ok(match nic.access_categories {
            None => Self::Nic(Box::new(EgressNic::new(
                nic,
                link,
                Ledger::new(qdisc),
                rng,
            )?)),
            Some(waking) => {
                let nic = MultiQueueNic::new(nic, waking, link, qdisc, rng)?;
                Self::MultiQueueNic(Box::new(nic))
            }
        })
    }

    /// Enqueues `packet`; returns the backlog with it.
    fn enqueue(
        &mut self,
        packet: Packet<HeapFrame>,
        now: Instant,
        drops: &mut Drops<Packet<HeapFrame>>,
    ) -> Backlog {
        fn with<Q: Qdisc<Packet<HeapFrame>>>(
            qdisc: &mut Q,
            packet: Packet<HeapFrame>,
            now: Instant,
            drops: &mut Drops<Packet<HeapFrame>>,
        ) -> Backlog {
            qdisc.enqueue(packet, now, drops);
            qdisc.backlog()
        }
        match self {
            Self::Wire(wire) => with(wire.qdisc_mut(), packet, now, drops),
            Self::Nic(nic) => with(nic.port_mut().qdisc_mut(), packet, now, drops),
            Self::MultiQueueNic(nic) => with(nic.qdisc_mut(), packet, now, drops),
        }
    }
}

/// The earlier of two times, either of which may be missing.
pub(crate) fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (at, None) | (None, at) => at,
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("config", &self.config)
            .field("stats", self.stats())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
