//! Generic segmentation offload: packets of several segments are cut into frames as they enter the
//! ring of the device below, one step later than in Linux (`validate_xmit_skb`, `tcp_gso_segment`).

use alloc::vec::Vec;
use core::num::NonZeroU32;

use tautline_base::{
    Deferred, Device, Frame, HeapFrame, Instant, Item, Owner, Packet, Pool, SocketId,
};

/// The packets in the device below, cut into its frames.
#[derive(Debug)]
pub(crate) struct Gso<F> {
    /// Frames of the device below.
    frames: Pool<F>,
    /// Every packet put and not completed, by the number that its frames carry as their owner.
    packets: Vec<Option<Whole>>,
    /// Unused packet numbers.
    free: Vec<u32>,
    /// The packet that did not fit into the ring as a whole, and its next segment. It is the last one
    /// put: nothing is accepted behind it.
    cut: Option<(u32, u16)>,
    /// Reused by `reap` and `reset`.
    completed: Vec<Packet<F>>,
}

/// A packet whose frames are in the device below.
#[derive(Debug)]
struct Whole {
    packet: Packet<HeapFrame>,
    /// Frames not yet completed, including those not yet cut.
    left: u16,
}

impl<F: Frame> Gso<F> {
    pub(crate) fn new(frames: Pool<F>) -> Self {
        Self {
            frames,
            packets: Vec::new(),
            free: Vec::new(),
            cut: None,
            completed: Vec::new(),
        }
    }

    /// Number of frames that can be put into a device with `room` descriptors.
    pub(crate) fn room(&self, room: usize) -> usize {
        match self.cut {
            Some(_) => 0,
            None => room.min(self.frames.free()),
        }
    }

    /// Puts as many frames of `packet` into `device` as fit; the others follow in
    /// [`reap`](Self::reap).
    pub(crate) fn put<D: Device<Frame = F>>(
        &mut self,
        packet: Packet<HeapFrame>,
        device: &mut D,
        now: Instant,
    ) {
        let left = packet.segments();
        let whole = Some(Whole { packet, left });
        let number = match self.free.pop() {
            Some(number) => {
                self.packets[number as usize] = whole;
                number
            }
            None => {
                self.packets.push(whole);
                self.packets.len() as u32 - 1
            }
        };
        self.cut_from(number, 0, device, now);
    }

    /// Puts the frames of packet `number` from segment `first` on.
    fn cut_from<D: Device<Frame = F>>(
        &mut self,
        number: u32,
        first: u16,
        device: &mut D,
        now: Instant,
    ) {
        self.cut = None;
        let Some(Whole { packet, left }) = &mut self.packets[number as usize] else {
            return;
        };
        if packet.deferred() == Deferred::Payload && packet.segmentation().is_none() {
            packet.complete(); // It leaves whole.
        }
        let (bytes, segments) = (packet.bytes(), packet.segments());
        let medium = packet.medium();
        let segmentation = (segments > 1).then(|| packet.segmentation()).flatten();
        let count = if segmentation.is_some() { segments } else { 1 };
        // A packet that cannot be cut, because its headers were damaged, leaves whole.
        *left = (*left).min(count);
        for index in first..count {
            let frame = (device.room() > 0).then(|| self.frames.take()).flatten();
            let Some(mut frame) = frame else {
                self.cut = Some((number, index));
                return;
            };
            let out = frame.bytes_mut();
            let len = match &segmentation {
                Some(segmentation) => segmentation.write(usize::from(index), out),
                None => out.get_mut(..bytes.len()).map(|out| {
                    out.copy_from_slice(bytes);
                    bytes.len()
                }),
            };
            let socket = SocketId {
                index: number,
                generation: NonZeroU32::MIN,
            };
            let owner = Owner {
                socket,
                segment: None,
            };
            // A frame shorter than the MTU cannot hold the segment: the device sends nothing of it.
            let piece = Packet::new(frame, len.unwrap_or(0) as u32)
                .with_medium(medium)
                .with_owner(owner, None);
            device.put(piece, now);
        }
    }

    /// Appends the packets whose last frame is completed to `done`, and continues the packet that
    /// did not fit.
    pub(crate) fn reap<D: Device<Frame = F>>(
        &mut self,
        device: &mut D,
        now: Instant,
        done: &mut Vec<Packet<HeapFrame>>,
    ) {
        device.reap(now, &mut self.completed);
        for piece in self.completed.drain(..) {
            let Some(owner) = self.frames.settle(piece).owner else {
                continue;
            };
            let number = owner.socket.index;
            let entry = &mut self.packets[number as usize];
            if let Some(whole) = entry {
                whole.left -= 1;
            }
            if entry.as_ref().is_some_and(|whole| whole.left == 0)
                && let Some(whole) = entry.take()
            {
                self.free.push(number);
                done.push(whole.packet);
            }
        }
        if let Some((number, next)) = self.cut
            && device.room() > 0
        {
            self.cut_from(number, next, device, now);
            device.doorbell(now);
        }
    }

    /// Packets put and not completed.
    pub(crate) fn in_flight(&self) -> usize {
        self.packets.len() - self.free.len()
    }

    /// Resets `device` and appends every packet in flight to `lost`.
    pub(crate) fn reset<D: Device<Frame = F>>(
        &mut self,
        device: &mut D,
        lost: &mut Vec<Packet<HeapFrame>>,
    ) {
        device.reset(&mut self.completed);
        for piece in self.completed.drain(..) {
            let _ = self.frames.settle(piece);
        }
        lost.extend(self.packets.drain(..).flatten().map(|whole| whole.packet));
        self.free.clear();
        self.cut = None;
    }
}
