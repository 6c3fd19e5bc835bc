//! [`SendBuffer`]: data that the application wrote and the peer has not acknowledged.

use std::collections::VecDeque;
use std::ops::Range;

use tautline_base::Bytes;

use crate::chunks::{Chunks, halves};
use crate::config::TcpConfig;
use crate::wire::Payload;

/// Bytes from which a part of an owned buffer is kept without a copy.
const LEAST_PART: usize = 4096;

/// Bytes from the lowest unacknowledged offset upward. Holds memory only for data in it.
#[derive(Debug)]
pub(in crate::tcp) struct SendBuffer {
    data: Data,
    /// Stream offset of the first byte.
    start: u64,
    capacity: usize,
    /// The application wrote less than it wanted and waits for space.
    pub(super) wants_room: bool,
}

#[derive(Debug)]
enum Data {
    /// A number of zeros, which take no memory.
    Zeros(usize),
    /// Copied.
    Bytes(VecDeque<u8>),
    /// Some of them owned. Boxed: it is large, and an idle connection has none.
    Chunks(Box<Chunks>),
}

impl Data {
    const EMPTY: Self = Self::Zeros(0);
}

impl SendBuffer {
    /// An empty buffer whose first byte will have offset 1, the SYN being 0.
    pub(super) fn new(config: &TcpConfig) -> Self {
        let start = config.send_start.unwrap_or(Bytes::MAX);
        Self {
            data: Data::EMPTY,
            start: 1,
            capacity: start.min(config.send_buffer).as_usize(),
            wants_room: false,
        }
    }

    /// Takes `data`.
    pub(in crate::tcp) fn write(&mut self, data: &[u8]) {
        if let Data::Zeros(count) = self.data {
            self.data = Data::Bytes(std::iter::repeat_n(0, count).collect());
        }
        match &mut self.data {
            Data::Zeros(_) => {}
            Data::Bytes(bytes) => bytes.extend(data),
            Data::Chunks(chunks) => chunks.copy(data),
        }
    }

    /// Takes the first `count` bytes of `data` without a copy. A small part is copied: it would keep memory
    /// of all of `data`.
    pub(in crate::tcp) fn write_owned(&mut self, data: &mut bytes::Bytes, count: usize) {
        let taken = data.split_to(count);
        if count < LEAST_PART && !data.is_empty() {
            return self.write(&taken);
        }
        let mut chunks = match std::mem::replace(&mut self.data, Data::EMPTY) {
            Data::Zeros(count) => Chunks::of_copied(std::iter::repeat_n(0, count).collect()).into(),
            Data::Bytes(bytes) => Chunks::of_copied(bytes).into(),
            Data::Chunks(chunks) => chunks,
        };
        chunks.own(taken);
        self.data = Data::Chunks(chunks);
    }

    /// Takes `count` zeros.
    pub(in crate::tcp) fn write_zeros(&mut self, count: usize) {
        match &mut self.data {
            Data::Zeros(held) => *held += count,
            Data::Bytes(bytes) => bytes.extend(std::iter::repeat_n(0, count)),
            Data::Chunks(chunks) => chunks.copy_zeros(count),
        }
    }

    /// Capacity in bytes.
    pub(in crate::tcp) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Changes the capacity to `capacity` bytes. Buffered data stays.
    pub(in crate::tcp) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Grows the capacity to `capacity` bytes, if it is smaller.
    pub(super) fn expand(&mut self, capacity: usize) {
        self.capacity = self.capacity.max(capacity);
    }

    /// The application waits for space.
    pub(in crate::tcp) fn wants_room(&self) -> bool {
        self.wants_room
    }

    /// Offset just past the last byte written.
    pub(in crate::tcp) fn end(&self) -> u64 {
        self.start + self.len() as u64
    }

    /// Bytes held.
    pub(in crate::tcp) fn len(&self) -> usize {
        match &self.data {
            Data::Zeros(count) => *count,
            Data::Bytes(bytes) => bytes.len(),
            Data::Chunks(chunks) => chunks.len(),
        }
    }

    /// Forgets everything below `offset`.
    pub(in crate::tcp) fn acknowledge(&mut self, offset: u64) {
        let gone = offset.saturating_sub(self.start).min(self.len() as u64);
        match &mut self.data {
            Data::Zeros(count) => *count -= gone as usize,
            Data::Bytes(bytes) => {
                bytes.drain(..gone as usize);
            }
            Data::Chunks(chunks) => chunks.drain(gone as usize),
        }
        self.start += gone;
    }

    /// The bytes of `range`; the part of the range that is held.
    pub(in crate::tcp) fn payload(&self, range: Range<u64>) -> Payload<'_> {
        let held = |offset: u64| offset.saturating_sub(self.start).min(self.len() as u64) as usize;
        let (from, to) = (held(range.start), held(range.end));
        match &self.data {
            Data::Zeros(_) => Payload::Zeros(to.saturating_sub(from)),
            Data::Bytes(bytes) => {
                let [front, back] = halves(bytes, from..to.max(from));
                Payload::Bytes(front, back)
            }
            Data::Chunks(chunks) => Payload::Chunks(chunks, from, to.max(from)),
        }
    }

    /// Memory held, in bytes.
    pub(in crate::tcp) fn memory(&self) -> usize {
        match &self.data {
            Data::Zeros(_) => 0,
            Data::Bytes(bytes) => bytes.capacity(),
            Data::Chunks(chunks) => chunks.memory(),
        }
    }

    /// Drops everything.
    pub(in crate::tcp) fn clear(&mut self) {
        self.start = self.end();
        self.data = Data::EMPTY;
    }

    /// Releases the memory of an idle buffer.
    pub(in crate::tcp) fn shrink_if_idle(&mut self) {
        if self.len() == 0 {
            self.data = Data::EMPTY;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn contents(payload: Payload<'_>) -> Vec<u8> {
        match payload {
            Payload::Bytes(front, back) => [front, back].concat(),
            Payload::Chunks(chunks, from, to) => {
                chunks.parts(from..to).collect::<Vec<_>>().concat()
            }
            Payload::Zeros(count) => vec![0; count],
        }
    }

    /// An owner frees a buffer as a whole: a byte of it must not keep it.
    #[test]
    fn a_small_part_of_an_owned_buffer_is_copied() {
        let mut buffer = SendBuffer::new(&TcpConfig::default());
        let mut owned = bytes::Bytes::from(vec![7; 16_384]);
        buffer.write_owned(&mut owned, 1);
        assert!(owned.is_unique(), "none of it is kept");
        buffer.write_owned(&mut owned, 8_000);
        assert!(!owned.is_unique());
        assert_eq!(contents(buffer.payload(1..8_002)), [7; 8_001]);
        let mut small = bytes::Bytes::from(vec![7; 100]);
        let kept = small.clone();
        buffer.write_owned(&mut small, 100);
        assert!(!kept.is_unique(), "all of it is kept");
    }

    proptest! {
        #[test]
        fn gives_back_what_was_written_at_every_offset(
            writes in prop::collection::vec((1usize..50, 0usize..50, 0..3), 1..60)
        ) {
            let mut buffer = SendBuffer::new(&TcpConfig::default());
            let mut stream = vec![0u8];
            let mut acknowledged = 1u64;
            for (write, acknowledge, way) in writes {
                let data: Vec<u8> = (0..write).map(|i| if way == 0 { 0 } else { (stream.len() + i) as u8 }).collect();
                match way {
                    0 => buffer.write_zeros(write),
                    1 => buffer.write(&data),
                    _ => buffer.write_owned(&mut data.clone().into(), write),
                }
                stream.extend(&data);
                for start in acknowledged..buffer.end() {
                    prop_assert_eq!(contents(buffer.payload(start..buffer.end())), &stream[start as usize..]);
                }
                acknowledged = (acknowledged + acknowledge as u64).min(buffer.end());
                buffer.acknowledge(acknowledged);
                let middle = acknowledged.midpoint(buffer.end());
                prop_assert_eq!(
                    contents(buffer.payload(acknowledged..middle)),
                    &stream[acknowledged as usize..middle as usize]
                );
            }
        }
    }
}
