//! [`Channel`]: propagation delay and impairments, from the last bit of a frame on the wire to its
//! arrival.

use std::time::Duration;

use rand_core::Rng;
use rand_pcg::Pcg32;
use tautline_base::headers::ETHERNET_HEADER;
use tautline_base::{HeapFrame, Instant, Item, Packet};
use tautline_stack::Tracer;

use super::frames::Frames;
use super::{Impairments, LinkEvent, LinkEventKind};
use crate::classify;
use crate::event_queue::EventQueue;

pub(super) struct Channel {
    delay: Duration,
    impair: Impairments,
    perfect: bool,
    in_flight: EventQueue<Packet<HeapFrame>>,
    rng: Pcg32,
}

impl Channel {
    pub(super) fn new(delay: Duration, impair: Impairments, rng: Pcg32) -> Self {
        Self {
            delay,
            impair,
            perfect: impair.are_none(),
            in_flight: EventQueue::new(),
            rng,
        }
    }

    pub(super) fn set_impairments(&mut self, impair: Impairments) {
        (self.impair, self.perfect) = (impair, impair.are_none());
    }

    /// True without impairments.
    pub(super) fn is_perfect(&self) -> bool {
        self.perfect
    }

    pub(super) fn next_arrival(&self) -> Option<Instant> {
        self.in_flight.next_at()
    }

    /// The next packet that has arrived by `now`, and when it did.
    pub(super) fn arrived(&mut self, now: Instant) -> Option<(Instant, Packet<HeapFrame>)> {
        self.in_flight.pop_due(now)
    }

    /// Delivers `packet`, whose last bit leaves at `departs`, without impairments.
    pub(super) fn carry(&mut self, packet: Packet<HeapFrame>, departs: Instant) {
        self.in_flight.push(departs + self.delay, packet);
    }

    /// Loses, duplicates or delivers `packet`, whose last bit is on the wire.
    pub(super) fn depart(
        &mut self,
        mut packet: Packet<HeapFrame>,
        now: Instant,
        frames: &mut Frames,
        tracer: &mut impl Tracer<LinkEvent>,
    ) {
        frames.stats.sent += 1;
        frames.stats.sent_bytes += packet.len();
        if self.impair.loss.draw(&mut self.rng) {
            frames.stats.lost += 1;
            tracer.record(&LinkEvent::new(now, LinkEventKind::Lost), packet.bytes());
            return frames.settle(packet);
        }
        if self.impair.duplicate.draw(&mut self.rng) {
            frames.stats.duplicated += 1;
            let event = LinkEvent::new(now, LinkEventKind::Duplicated);
            tracer.record(&event, packet.bytes());
            packet.complete();
            let copy = frames.copy(packet.bytes());
            self.propagate(packet, now, frames, tracer);
            return self.propagate(copy, now, frames, tracer);
        }
        self.propagate(packet, now, frames, tracer);
    }

    /// Delivers one copy of a frame, corrupted or delayed or not.
    fn propagate(
        &mut self,
        mut packet: Packet<HeapFrame>,
        now: Instant,
        frames: &mut Frames,
        tracer: &mut impl Tracer<LinkEvent>,
    ) {
        if self.impair.corrupt.draw(&mut self.rng) && classify::is_ipv4(packet.bytes()) {
            let bits = ((packet.bytes().len() - ETHERNET_HEADER) * 8) as u64;
            // Multiply and shift: a draw below `bits` whose bias is negligible.
            let bit = (u64::from(self.rng.next_u32()) * bits) >> 32;
            let bit = (ETHERNET_HEADER * 8) as u32 + bit as u32;
            packet = frames.flip_bit(packet, bit);
            frames.stats.corrupted += 1;
            let event = LinkEvent::new(now, LinkEventKind::Corrupted { bit });
            tracer.record(&event, packet.bytes());
        }
        let mut departs = now;
        if self.impair.reorder.draw(&mut self.rng) {
            frames.stats.held_back += 1;
            tracer.record(
                &LinkEvent::new(now, LinkEventKind::HeldBack),
                packet.bytes(),
            );
            departs += self.impair.reorder_delay;
        }
        self.carry(packet, departs);
    }
}
