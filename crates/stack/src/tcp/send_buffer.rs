//! What the application wrote and the peer has not acknowledged.

use std::collections::VecDeque;
use std::ops::Range;

/// Bytes from the lowest unacknowledged offset upward. Holds memory only for what is in it.
#[derive(Debug)]
pub(super) struct SendBuffer {
    bytes: VecDeque<u8>,
    /// Stream offset of the first byte.
    start: u64,
    capacity: usize,
}

impl SendBuffer {
    /// An empty buffer whose first byte will have offset 1, the SYN being 0.
    pub(super) fn new(capacity: usize) -> Self {
        Self { bytes: VecDeque::new(), start: 1, capacity }
    }

    /// Takes as much of `data` as fits.
    pub(super) fn write(&mut self, data: &[u8]) -> usize {
        let taken = data.len().min(self.room());
        self.bytes.extend(&data[..taken]);
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
        self.capacity.saturating_sub(self.bytes.len())
    }

    /// Offset just past the last byte written.
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Bytes held.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets everything below `offset`. An emptied buffer gives its memory back when it had grown large.
    pub(super) fn acknowledge(&mut self, offset: u64) {
        let gone = offset.saturating_sub(self.start).min(self.bytes.len() as u64);
        self.bytes.drain(..gone as usize);
        self.start += gone;
    }

    /// The bytes of `range` in at most two pieces; the part of the range that is held.
    pub(super) fn slices(&self, range: Range<u64>) -> (&[u8], &[u8]) {
        let from = range.start.saturating_sub(self.start).min(self.bytes.len() as u64) as usize;
        let to = range.end.saturating_sub(self.start).min(self.bytes.len() as u64) as usize;
        let (front, back) = self.bytes.as_slices();
        let split = front.len();
        (&front[from.min(split)..to.min(split)], &back[from.max(split) - split..to.max(split) - split])
    }

    /// Memory held, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        self.start = self.end();
        self.bytes = VecDeque::new();
    }

    /// Releases the memory of an idle buffer.
    pub(super) fn shrink_if_idle(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gives_back_what_was_written_at_every_offset(
            writes in prop::collection::vec((1usize..50, 0usize..50), 1..60)
        ) {
            let mut buffer = SendBuffer::new(128);
            let mut stream = vec![0u8];
            let mut acknowledged = 1u64;
            for (write, acknowledge) in writes {
                let data: Vec<u8> = (0..write).map(|i| (stream.len() + i) as u8).collect();
                let taken = buffer.write(&data);
                prop_assert!(buffer.len() <= 128);
                stream.extend(&data[..taken]);
                for start in acknowledged..buffer.end() {
                    let (a, b) = buffer.slices(start..buffer.end());
                    prop_assert_eq!([a, b].concat(), &stream[start as usize..]);
                }
                acknowledged = (acknowledged + acknowledge as u64).min(buffer.end());
                buffer.acknowledge(acknowledged);
            }
        }
    }
}
