//! [`MemoryDevice`]: a device in memory.

use std::collections::VecDeque;

use tautline_base::{
    Deferred, Device, Frame, HeapFrame, Instant, Item, KeptPacket, Medium, Packet, Received, Tso,
};

/// A device that completes every packet at once, keeps a copy of each frame sent and receives the
/// frames queued in `arrived`.
///
/// ```
/// use tautline_base::{Device, HeapFrame, Instant, Packet};
/// use tautline_testkit::MemoryDevice;
///
/// let (mut near, mut far) = (MemoryDevice::default(), MemoryDevice::default());
/// near.put(Packet::new(HeapFrame::new(), 60), Instant::ZERO);
/// far.arrived.append(&mut near.sent);
/// assert_eq!(far.receive(Instant::ZERO).map(|received| received.len), Some(60));
/// ```
pub struct MemoryDevice {
    /// Kind of its frames. Default Ethernet.
    pub medium: Medium,
    /// Largest IP packet in bytes. Default 1500.
    pub mtu: usize,
    /// Capacity of the ring: most packets put and not reaped. Default 256.
    pub ring: usize,
    /// The value of [`Device::announces_completions`]. Default false.
    pub announces: bool,
    /// Completes no packet, like a stuck driver. Default false.
    pub stuck: bool,
    /// Limits of packets of several segments, which leave as their segments, cut by the plain
    /// [`Segmentation`](tautline_base::Segmentation). Default `None`: it takes none.
    pub tso: Option<Tso>,
    /// Such packets leave whole, their checksums unfinished, and arrive so, in memory to
    /// [keep](Device::keep) that counts as twice their size. Default false.
    pub whole: bool,
    /// It [gathers](Device::gathers) the payload of such packets. Default false.
    pub gathers: bool,
    /// Packets whose payload it gathered.
    pub gathered: usize,
    /// Frames sent, oldest first.
    pub sent: VecDeque<Vec<u8>>,
    /// Frames to be received, oldest first.
    pub arrived: VecDeque<Vec<u8>>,
    /// Packets put and not reaped.
    pub done: Vec<Packet<HeapFrame>>,
}

impl MemoryDevice {
    /// Number of packets that a reap would return now.
    pub fn completions(&self) -> usize {
        if self.stuck { 0 } else { self.done.len() }
    }
}

impl Default for MemoryDevice {
    fn default() -> Self {
        Self {
            medium: Medium::Ethernet,
            mtu: 1500,
            ring: 256,
            announces: false,
            stuck: false,
            tso: None,
            whole: false,
            gathers: false,
            gathered: 0,
            sent: VecDeque::new(),
            arrived: VecDeque::new(),
            done: Vec::new(),
        }
    }
}

impl Device for MemoryDevice {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn medium(&self) -> Medium {
        self.medium
    }

    fn room(&self) -> usize {
        self.ring.saturating_sub(self.done.len())
    }

    fn tso(&self) -> Option<Tso> {
        self.tso
    }

    fn completes(&self) -> bool {
        self.tso.is_some()
    }

    fn gathers(&self) -> bool {
        self.gathers
    }

    fn put(&mut self, mut packet: Packet<HeapFrame>, _now: Instant) {
        if packet.deferred() == Deferred::Payload {
            assert!(self.gathers, "this device cannot gather a payload");
            self.gathered += 1;
        }
        if packet.segments() == 1 || self.whole {
            if packet.segments() == 1 {
                packet.complete();
            }
            self.sent
                .push_back(packet.slices().collect::<Vec<_>>().concat());
        } else {
            let whole = packet.segmentation();
            let whole = whole.expect("a packet of several segments is of TCP");
            for index in 0..whole.count() {
                let mut segment = vec![0; whole.len_of(index)];
                whole.write(index, &mut segment).expect("room");
                self.sent.push_back(segment);
            }
        }
        self.done.push(packet);
    }

    fn doorbell(&mut self, _now: Instant) {}

    fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        if !self.stuck {
            done.append(&mut self.done);
        }
    }

    fn announces_completions(&self) -> bool {
        self.announces
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn receive(&mut self, _now: Instant) -> Option<Received<HeapFrame>> {
        let bytes = self.arrived.pop_front()?;
        let mut frame = HeapFrame::with_len(bytes.len());
        frame.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
        let mut received = Received::new(frame, 0, bytes.len() as u32);
        received.offload.checksum_known = self.whole;
        Some(received)
    }

    fn keep(&mut self, received: Received<HeapFrame>) -> Result<KeptPacket, Received<HeapFrame>> {
        if self.whole {
            Ok(KeptPacket {
                bytes: Box::new(received.bytes().to_vec()),
                memory: 2 * received.bytes().len(),
            })
        } else {
            Err(received)
        }
    }

    fn recycle(&mut self, _frame: HeapFrame) {}

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        lost.append(&mut self.done);
    }
}
