//! [`Frames`]: a link's own frames, and its counters.

use tautline_base::{Drops, Ecn, Frame, HeapFrame, Instant, Item, Packet, Pool};
use tautline_stack::Tracer;

use super::{LinkEvent, LinkEventKind, LinkStats};
use crate::classify;

pub(super) struct Frames {
    pool: Pool<HeapFrame>,
    pub(super) drops: Drops<Packet<HeapFrame>>,
    pub(super) stats: LinkStats,
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            pool: Pool::new(Vec::new()),
            drops: Drops::new(),
            stats: LinkStats::default(),
        }
    }
}

impl Frames {
    pub(super) fn outstanding(&self) -> usize {
        self.pool.outstanding()
    }

    /// A free frame. The pool grows to the peak of frames in flight.
    fn take(&mut self) -> HeapFrame {
        if self.pool.free() == 0 {
            self.pool.add(HeapFrame::new());
        }
        self.pool
            .take()
            .expect("a frame was just added if none was free")
    }

    pub(super) fn copy(&mut self, bytes: &[u8]) -> Packet<HeapFrame> {
        let len = bytes.len().min(HeapFrame::LEN);
        let mut frame = self.take();
        frame.bytes_mut()[..len].copy_from_slice(&bytes[..len]);
        Packet::new(frame, len as u32)
    }

    /// A packet of this link with the frame of `packet`, which receives an empty one.
    pub(super) fn exchange(&mut self, packet: &mut Packet<HeapFrame>) -> Packet<HeapFrame> {
        let (len, deferred) = (packet.len().get() as u32, packet.deferred());
        let spare = self.take();
        Packet::new(packet.replace_frame(spare), len).with_deferred(deferred)
    }

    /// A packet that differs from `packet` in bit number `bit` of the frame.
    pub(super) fn flip_bit(
        &mut self,
        mut packet: Packet<HeapFrame>,
        bit: u32,
    ) -> Packet<HeapFrame> {
        // The receiver must find the damage.
        packet.complete();
        let mut frame = self.take();
        let (len, byte) = (packet.bytes().len(), bit as usize / 8);
        frame.bytes_mut()[..len].copy_from_slice(packet.bytes());
        if let Some(byte) = frame.bytes_mut()[..len].get_mut(byte) {
            *byte ^= 0x80 >> (bit % 8);
        }
        self.settle(packet);
        Packet::new(frame, len as u32)
    }

    /// The packet that `dequeue` takes out of the qdisc, as it will be on the wire.
    pub(super) fn dequeue(
        &mut self,
        now: Instant,
        tracer: &mut impl Tracer<LinkEvent>,
        dequeue: impl FnOnce(&mut Drops<Packet<HeapFrame>>) -> Option<Packet<HeapFrame>>,
    ) -> Option<Packet<HeapFrame>> {
        let next = dequeue(&mut self.drops);
        self.settle_drops(now, tracer);
        let mut packet = next?;
        if Ecn::of_tos(packet.tos()) == Ecn::Ce
            && classify::tos(packet.bytes()).map(Ecn::of_tos) != Some(Ecn::Ce)
        {
            self.stats.marked += 1;
            tracer.record(&LinkEvent::new(now, LinkEventKind::Marked), packet.bytes());
        }
        packet.finish();
        let sojourn = now - packet.enqueued();
        self.stats.sojourn = sojourn;
        let event = LinkEvent::new(now, LinkEventKind::Serialized { sojourn });
        tracer.record(&event, packet.bytes());
        Some(packet)
    }

    pub(super) fn settle(&mut self, packet: Packet<HeapFrame>) {
        let settled = self.pool.settle(packet);
        debug_assert!(
            settled.owner.is_none() && settled.credit.is_none(),
            "a link's packets have neither owner nor credit"
        );
    }

    pub(super) fn settle_drops(&mut self, now: Instant, tracer: &mut impl Tracer<LinkEvent>) {
        if self.drops.is_empty() {
            return;
        }
        for (packet, reason) in self.drops.drain() {
            self.stats.dropped[reason.index()] += 1;
            let event = LinkEvent::new(now, LinkEventKind::Dropped(reason));
            tracer.record(&event, packet.bytes());
            let _ownerless = self.pool.settle(packet);
        }
    }
}
