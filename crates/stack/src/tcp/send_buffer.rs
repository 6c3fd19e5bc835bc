//! What the application wrote and the peer has not acknowledged.

use std::collections::VecDeque;
use std::ops::Range;

use crate::wire::Payload;

/// Bytes from the lowest unacknowledged offset upward. Holds memory only for what is in it.
#[derive(Debug)]
pub(super) struct SendBuffer {
    held: Held,
    /// Stream offset of the first byte.
    start: u64,
    capacity: usize,
}

#[derive(Debug)]
enum Held {
    /// So many, and all are zero, as those of nobody are: they take no memory.
    Zeros(usize),
    Bytes(VecDeque<u8>),
}

impl Held {
    const NOTHING: Self = Self::Zeros(0);
}

impl SendBuffer {
    /// An empty buffer whose first byte will have offset 1, the SYN being 0.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            held: Held::NOTHING,
            start: 1,
            capacity,
        }
    }

    /// Takes as much of `data` as fits.
    pub(super) fn write(&mut self, data: &[u8]) -> usize {
        let taken = data.len().min(self.room());
        if let Held::Zeros(count) = self.held {
            self.held = Held::Bytes(std::iter::repeat_n(0, count).collect());
        }
        if let Held::Bytes(bytes) = &mut self.held {
            bytes.extend(&data[..taken]);
        }
        taken
    }

    /// Takes as many of `count` zeros as fit.
    pub(super) fn write_zeros(&mut self, count: usize) -> usize {
        let taken = count.min(self.room());
        match &mut self.held {
            Held::Zeros(held) => *held += taken,
            Held::Bytes(bytes) => bytes.extend(std::iter::repeat_n(0, taken)),
        }
        taken
    }

    /// How many bytes it may hold.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// It may hold `capacity` bytes, if it may not already hold more.
    pub(super) fn expand(&mut self, capacity: usize) {
        self.capacity = self.capacity.max(capacity);
    }

    /// How many bytes fit.
    pub(super) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.len())
    }

    /// Offset just past the last byte written.
    pub(super) fn end(&self) -> u64 {
        self.start + self.len() as u64
    }

    /// Bytes held.
    pub(super) fn len(&self) -> usize {
        match &self.held {
            Held::Zeros(count) => *count,
            Held::Bytes(bytes) => bytes.len(),
        }
    }

    /// Forgets everything below `offset`.
    pub(super) fn acknowledge(&mut self, offset: u64) {
        let gone = offset.saturating_sub(self.start).min(self.len() as u64);
        match &mut self.held {
            Held::Zeros(count) => *count -= gone as usize,
            Held::Bytes(bytes) => {
                bytes.drain(..gone as usize);
            }
        }
        self.start += gone;
    }

    /// The bytes of `range`; the part of the range that is held.
    pub(super) fn payload(&self, range: Range<u64>) -> Payload<'_> {
        let held = |offset: u64| offset.saturating_sub(self.start).min(self.len() as u64) as usize;
        let (from, to) = (held(range.start), held(range.end));
        match &self.held {
            Held::Zeros(_) => Payload::Zeros(to.saturating_sub(from)),
            Held::Bytes(bytes) => {
                let (front, back) = bytes.as_slices();
                let split = front.len();
                Payload::Bytes(
                    &front[from.min(split)..to.min(split)],
                    &back[from.max(split) - split..to.max(split) - split],
                )
            }
        }
    }

    /// Memory held, in bytes.
    pub(super) fn memory(&self) -> usize {
        match &self.held {
            Held::Zeros(_) => 0,
            Held::Bytes(bytes) => bytes.capacity(),
        }
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        self.start = self.end();
        self.held = Held::NOTHING;
    }

    /// Releases the memory of an idle buffer.
    pub(super) fn shrink_if_idle(&mut self) {
        if self.len() == 0 {
            self.held = Held::NOTHING;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(payload: Payload<'_>) -> Vec<u8> {
        match payload {
            Payload::Bytes(front, back) => [front, back].concat(),
            Payload::Zeros(count) => vec![0; count],
        }
    }

    proptest! {
        #[test]
        fn gives_back_what_was_written_at_every_offset(
            writes in prop::collection::vec((1usize..50, 0usize..50, any::<bool>()), 1..60)
        ) {
            let mut buffer = SendBuffer::new(128);
            let mut stream = vec![0u8];
            let mut acknowledged = 1u64;
            for (write, acknowledge, zeros) in writes {
                let data: Vec<u8> = (0..write).map(|i| if zeros { 0 } else { (stream.len() + i) as u8 }).collect();
                let taken = if zeros { buffer.write_zeros(write) } else { buffer.write(&data) };
                prop_assert!(buffer.len() <= 128);
                stream.extend(&data[..taken]);
                for start in acknowledged..buffer.end() {
                    prop_assert_eq!(bytes(buffer.payload(start..buffer.end())), &stream[start as usize..]);
                }
                acknowledged = (acknowledged + acknowledge as u64).min(buffer.end());
                buffer.acknowledge(acknowledged);
            }
        }
    }
}
