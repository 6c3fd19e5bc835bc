//! [`Wire`]: a link without a NIC: whenever the wire is free, the next packet of the queue is
//! serialized.

use tautline_base::{Bytes, HeapFrame, Instant, Item, Packet, Qdisc};
use tautline_stack::Tracer;

use super::channel::Channel;
use super::frames::Frames;
use super::{Buffer, LinkConfig, LinkEvent, LinkQdisc};
use crate::schedule::LineRate;

pub(super) struct Wire {
    qdisc: LinkQdisc,
    /// The limits of a queue with tail drop, in packets and bytes.
    tail_drop: Option<(usize, Bytes)>,
    line: LineRate,
    serializer: Serializer,
}

enum Serializer {
    Idle,
    Busy {
        packet: Packet<HeapFrame>,
        until: Instant,
    },
    /// The fate of the frame is known, so it is already in flight.
    Ahead {
        until: Instant,
    },
}

impl Wire {
    pub(super) fn new(link: &LinkConfig, qdisc: LinkQdisc) -> Self {
        Self {
            qdisc,
            tail_drop: match link.queue {
                Buffer::TailDrop { packets, bytes } => Some((packets, bytes)),
                Buffer::Qdisc(_) => None,
            },
            line: LineRate::new(link.rate, link.framing, link.schedule.clone()),
            serializer: Serializer::Idle,
        }
    }

    pub(super) fn qdisc(&self) -> &LinkQdisc {
        &self.qdisc
    }

    pub(super) fn qdisc_mut(&mut self) -> &mut LinkQdisc {
        &mut self.qdisc
    }

    /// True if `packet` can bypass the queue: the wire is free, the queue is empty and would accept
    /// the packet unchanged.
    pub(super) fn is_free_for(
        &self,
        packet: &Packet<HeapFrame>,
        now: Instant,
        channel: &Channel,
    ) -> bool {
        let idle = match self.serializer {
            Serializer::Idle => true,
            Serializer::Ahead { until } => until <= now,
            Serializer::Busy { .. } => false,
        };
        let accepts = |(packets, bytes)| packets > 0 && packet.len() <= bytes;
        idle && self.tail_drop.is_some_and(accepts)
            && channel.is_perfect()
            && self.qdisc.backlog().packets == 0
    }

    /// Sends `packet`, whose first bit leaves now and which arrives after its last.
    pub(super) fn send_ahead(
        &mut self,
        packet: Packet<HeapFrame>,
        now: Instant,
        channel: &mut Channel,
        frames: &mut Frames,
    ) {
        let until = self.line.departure(now, packet.len());
        frames.stats.sent += 1;
        frames.stats.sent_bytes += packet.len();
        channel.carry(packet, until);
        self.serializer = Serializer::Ahead { until };
    }

    pub(super) fn next_event(&self) -> Option<Instant> {
        match &self.serializer {
            Serializer::Busy { until, .. } => Some(*until),
            Serializer::Ahead { until } => self.qdisc.ready_at().map(|ready| ready.max(*until)),
            Serializer::Idle => self.qdisc.ready_at(),
        }
    }

    #[inline]
    pub(super) fn advance(
        &mut self,
        now: Instant,
        channel: &mut Channel,
        frames: &mut Frames,
        tracer: &mut impl Tracer<LinkEvent>,
    ) {
        match self.serializer {
            Serializer::Ahead { until } if until > now => {}
            Serializer::Ahead { .. } if self.qdisc.backlog().packets == 0 => {
                self.serializer = Serializer::Idle;
            }
            _ => self.run(now, channel, frames, tracer),
        }
    }

    fn run(
        &mut self,
        now: Instant,
        channel: &mut Channel,
        frames: &mut Frames,
        tracer: &mut impl Tracer<LinkEvent>,
    ) {
        loop {
            let free_at = match std::mem::replace(&mut self.serializer, Serializer::Idle) {
                Serializer::Idle => now,
                Serializer::Ahead { until } if until <= now => until,
                Serializer::Busy { packet, until } if until <= now => {
                    channel.depart(packet, until, frames, tracer);
                    until
                }
                busy => {
                    self.serializer = busy;
                    return;
                }
            };
            if !self.begin(free_at, channel, frames, tracer) {
                return;
            }
        }
    }

    /// Dequeues the next packet and begins to serialize it. Returns false without a packet.
    fn begin(
        &mut self,
        now: Instant,
        channel: &mut Channel,
        frames: &mut Frames,
        tracer: &mut impl Tracer<LinkEvent>,
    ) -> bool {
        // An AQM may depend on being found empty; tail drop does not.
        if self.tail_drop.is_some() && self.qdisc.backlog().packets == 0 {
            return false;
        }
        let next = frames.dequeue(now, tracer, |drops| self.qdisc.dequeue(now, drops));
        let Some(packet) = next else {
            return false;
        };
        // The frame's fate is known when its first bit leaves, and nothing depends on the time of
        // its last: an AQM would, because it then finds its queue empty.
        if self.tail_drop.is_some() && channel.is_perfect() {
            self.send_ahead(packet, now, channel, frames);
        } else {
            let until = self.line.departure(now, packet.len());
            self.serializer = Serializer::Busy { packet, until };
        }
        true
    }
}
