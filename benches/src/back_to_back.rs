//! Two devices joined back to back in one thread: transmitting hands the bytes over without a copy,
//! for a DMA engine's copy is not the processor's work, and completes at once. No queue, no delay:
//! what remains is the cost of the stacks.

use std::collections::VecDeque;
use std::num::NonZeroU16;

use tautline_base::{
    Device, Frame, HeapFrame, Instant, Item, Offload, Packet, Received, Segmentation, Tso,
};

/// Descriptors of the transmit ring, and frames on the way.
pub(crate) const RING: usize = 256;

/// One of the two devices.
pub struct BackToBack {
    tso: Option<Tso>,
    done: Vec<Packet<HeapFrame>>,
    sent: VecDeque<Received<HeapFrame>>,
    arrived: VecDeque<Received<HeapFrame>>,
    spare: Vec<HeapFrame>,
    read: Vec<HeapFrame>,
}

impl BackToBack {
    /// An idle device.
    pub fn new() -> Self {
        Self::with_tso(None)
    }

    /// One that carries packets of several segments whole, as a pair of NICs of one machine does.
    pub fn with_tso(tso: Option<Tso>) -> Self {
        let len = tso.map_or(HeapFrame::LEN, |tso| tso.frame_len());
        Self {
            tso,
            done: Vec::with_capacity(RING),
            sent: VecDeque::with_capacity(RING),
            arrived: VecDeque::with_capacity(RING),
            spare: (0..RING).map(|_| HeapFrame::with_len(len)).collect(),
            read: Vec::with_capacity(RING),
        }
    }

    /// Carries everything `self` has sent to `peer`, and the frames it has read back. Returns how
    /// many frames were carried.
    pub fn carry(&mut self, peer: &mut Self) -> usize {
        let carried = self.sent.len();
        peer.arrived.append(&mut self.sent);
        self.spare.append(&mut peer.read);
        carried
    }
}

impl Default for BackToBack {
    fn default() -> Self {
        Self::new()
    }
}

impl Device for BackToBack {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        1500
    }

    fn tso(&self) -> Option<Tso> {
        self.tso
    }

    fn room(&self) -> usize {
        self.spare.len().min(RING - self.done.len())
    }

    fn put(&mut self, mut packet: Packet<HeapFrame>, _now: Instant) {
        let mut frame = self.spare.pop().expect("the caller saw room");
        let len = packet.bytes().len();
        let mut offload = Offload::default();
        if self.tso.is_none() {
            frame = packet.replace_frame(frame);
        } else {
            // Frames of two lengths must not be confused: here the bytes are copied.
            frame.bytes_mut()[..len].copy_from_slice(packet.bytes());
            let whole =
                Segmentation::new(packet.bytes(), packet.network_offset(), packet.segments())
                    .filter(|_| packet.segments() > 1);
            let size = whole.and_then(|whole| NonZeroU16::new(whole.size() as u16));
            offload = Offload {
                checksum_known: size.is_some(),
                segment_size: size,
                ..Offload::default()
            };
        }
        self.sent.push_back(Received {
            offload,
            ..Received::new(frame, 0, len as u32)
        });
        self.done.push(packet);
    }

    fn doorbell(&mut self, _now: Instant) {}

    fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        done.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn receive(&mut self, _now: Instant) -> Option<Received<HeapFrame>> {
        self.arrived.pop_front()
    }

    fn recycle(&mut self, frame: HeapFrame) {
        self.read.push(frame);
    }

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        lost.append(&mut self.done);
    }
}
