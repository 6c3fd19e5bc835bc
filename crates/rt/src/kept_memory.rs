//! [`KeptMemory`]: memory of received packets that a host keeps ([`Device::keep`]), and its reuse.
//!
//! [`Device::keep`]: tautline_base::Device::keep

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tautline_base::{Frame, HeapFrame, KeptPacket, Received};

/// Capacities of the buffers that shorter packets are copied to. A longer one keeps its frame.
const CAPACITIES: [usize; 2] = [16 << 10, 32 << 10];
/// Most unused frames, and buffers of each capacity, that wait for the next packets: as many as a host
/// receives in a turn. Each kind has its own bound: else those that a burst of shorter packets leaves would
/// take the place of frames for good, and each long packet would allocate and clear a new one.
const MOST_SPARE: usize = 64;

/// Memory for packets to keep. It comes back from any thread.
#[derive(Debug, Default)]
pub(crate) struct KeptMemory(Arc<Mutex<Spare>>);

#[derive(Debug, Default)]
struct Spare {
    frames: Vec<HeapFrame>,
    buffers: [Vec<Vec<u8>>; CAPACITIES.len()],
}

impl KeptMemory {
    /// A frame that was kept before.
    pub(crate) fn take_frame(&self) -> Option<HeapFrame> {
        locked(&self.0).frames.pop()
    }

    /// The packet of `received` in memory of its own, and the frame if it is not that.
    pub(crate) fn keep(&self, received: Received<HeapFrame>) -> (KeptPacket, Option<HeapFrame>) {
        let len = received.len as usize;
        let (memory, held, frame) = match CAPACITIES.iter().position(|capacity| len <= *capacity) {
            Some(class) => {
                let mut buffer = self.buffer(class);
                buffer.extend_from_slice(received.bytes());
                let held = buffer.capacity();
                (Memory::Buffer(buffer, class), held, Some(received.frame))
            }
            None => {
                let held = received.frame.bytes().len();
                (Memory::Frame(received), held, None)
            }
        };
        let spare = Arc::clone(&self.0);
        let packet = KeptPacket {
            bytes: Box::new(Kept { memory, spare }),
            memory: held,
        };
        (packet, frame)
    }

    /// An empty buffer.
    fn buffer(&self, class: usize) -> Vec<u8> {
        let spare = locked(&self.0).buffers[class].pop();
        spare.unwrap_or_else(|| Vec::with_capacity(CAPACITIES[class]))
    }
}

fn locked(spare: &Mutex<Spare>) -> MutexGuard<'_, Spare> {
    spare.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A packet that is kept.
struct Kept {
    memory: Memory,
    spare: Arc<Mutex<Spare>>,
}

enum Memory {
    Frame(Received<HeapFrame>),
    /// Of a class of [`CAPACITIES`].
    Buffer(Vec<u8>, usize),
    /// Gone, in the drop.
    None,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        match &self.memory {
            Memory::Frame(received) => received.bytes(),
            Memory::Buffer(bytes, _) => bytes,
            Memory::None => &[],
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let memory = std::mem::replace(&mut self.memory, Memory::None);
        let mut spare = locked(&self.spare);
        // What is too much is freed after the lock.
        match memory {
            Memory::Frame(Received { frame, .. }) if spare.frames.len() < MOST_SPARE => {
                spare.frames.push(frame);
            }
            Memory::Buffer(mut buffer, class) if spare.buffers[class].len() < MOST_SPARE => {
                buffer.clear();
                spare.buffers[class].push(buffer);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(len: usize) -> Received<HeapFrame> {
        let mut frame = HeapFrame::with_len(1 << 16);
        frame.bytes_mut()[100..100 + len].fill(7);
        Received::new(frame, 100, len as u32)
    }

    /// Bytes of all unused memory.
    fn unused(memory: &KeptMemory) -> usize {
        let spare = locked(&memory.0);
        let frames = spare.frames.iter().map(|frame| frame.bytes().len());
        let buffers = spare.buffers.iter().flatten().map(Vec::capacity);
        frames.chain(buffers).sum()
    }

    #[test]
    fn a_packet_is_kept_in_memory_of_twice_its_size_at_most_which_is_reused() {
        for (len, held) in [
            (9_000, 1 << 14),
            (1 << 14, 1 << 14),
            (17_000, 1 << 15),
            (40_000, 1 << 16),
        ] {
            let memory = KeptMemory::default();
            let (packet, frame) = memory.keep(received(len));
            assert_eq!(
                frame.is_none(),
                held == 1 << 16,
                "{len}: a large one keeps its frame"
            );
            assert_eq!((*packet.bytes).as_ref(), vec![7; len]);
            assert_eq!(packet.memory, held);
            assert_eq!(unused(&memory), 0);
            drop(packet);
            assert_eq!(unused(&memory), held);
            let _again = if held == 1 << 16 {
                assert!(memory.take_frame().is_some());
                None
            } else {
                let (packet, _) = memory.keep(received(len));
                assert_eq!((*packet.bytes).as_ref(), vec![7; len]);
                Some(packet)
            };
            assert_eq!(unused(&memory), 0, "it was used again");
        }
    }

    /// Unused memory of one kind is bounded, and leaves room for the other kinds.
    #[test]
    fn unused_memory_is_bounded() {
        let memory = KeptMemory::default();
        for len in [9_000, 17_000, 40_000, 9_000] {
            let packets: Vec<_> = (0..600).map(|_| memory.keep(received(len))).collect();
            drop(packets);
            let (packet, _) = memory.keep(received(len));
            drop(packet);
        }
        let spare = locked(&memory.0);
        assert_eq!(spare.frames.len(), MOST_SPARE);
        assert_eq!(spare.buffers.each_ref().map(Vec::len), [MOST_SPARE; 2]);
    }
}
