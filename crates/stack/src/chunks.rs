//! [`Chunks`]: a queue of bytes, some copied from the application and some still its own.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use tautline_base::MAX_FRAGMENTS;

/// Bytes in the order written. A steady stream allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    chunks: VecDeque<Chunk>,
    /// The copied bytes of all chunks.
    copied: VecDeque<u8>,
    /// Number of copied bytes that were dropped.
    copied_start: u64,
    /// Bytes dropped, and bytes ever written.
    span: Range<u64>,
}

/// Its start is the end of the chunk before.
#[derive(Debug)]
struct Chunk {
    end: u64,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// Copied bytes, up to this one of all ever copied.
    Copied(u64),
    Owned(Bytes),
}

impl Chunks {
    /// Begins with `bytes`, which were copied.
    pub(crate) fn of_copied(bytes: VecDeque<u8>) -> Self {
        let len = bytes.len();
        let mut chunks = Self {
            copied: bytes,
            ..Self::default()
        };
        chunks.extend_copied(len);
        chunks
    }

    pub(crate) fn len(&self) -> usize {
        (self.span.end - self.span.start) as usize
    }

    /// Appends copied bytes.
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        self.copied.extend(bytes);
        self.extend_copied(bytes.len());
    }

    /// Appends `count` zeros.
    pub(crate) fn copy_zeros(&mut self, count: usize) {
        self.copied.extend(std::iter::repeat_n(0, count));
        self.extend_copied(count);
    }

    /// The last `len` copied bytes follow what is there.
    fn extend_copied(&mut self, len: usize) {
        if len == 0 {
            return;
        }
        self.span.end += len as u64;
        let end = self.span.end;
        let copied = self.copied_start + self.copied.len() as u64;
        match self.chunks.back_mut() {
            Some(Chunk {
                end: last,
                source: Source::Copied(until),
            }) => (*last, *until) = (end, copied),
            _ => self.chunks.push_back(Chunk {
                end,
                source: Source::Copied(copied),
            }),
        }
    }

    /// Appends bytes without a copy. They are dropped as a whole.
    pub(crate) fn own(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        self.span.end += bytes.len() as u64;
        self.chunks.push_back(Chunk {
            end: self.span.end,
            source: Source::Owned(bytes),
        });
    }

    /// Drops the first `count` bytes, at most all.
    pub(crate) fn drain(&mut self, count: usize) {
        let to = self.span.start + count.min(self.len()) as u64;
        while let Some(chunk) = self.chunks.front() {
            let until = chunk.end.min(to);
            if let Source::Copied(_) = chunk.source {
                let gone = until - self.span.start;
                self.copied.drain(..gone as usize);
                self.copied_start += gone;
            }
            self.span.start = until;
            if until < chunk.end {
                break;
            }
            self.chunks.pop_front();
        }
    }

    /// The bytes of `range`, counted from the first one held, if they are in one place, and owned.
    #[inline]
    pub(crate) fn in_one_piece(&self, range: Range<usize>) -> Option<&[u8]> {
        let (at, end) = (range.start as u64, range.end as u64);
        let (at, end) = (self.span.start + at, self.span.start + end);
        let first = self.chunks.partition_point(|chunk| chunk.end <= at);
        let chunk = self.chunks.get(first).filter(|chunk| end <= chunk.end)?;
        match &chunk.source {
            Source::Owned(bytes) => {
                let from_end = (chunk.end - at) as usize;
                Some(&bytes[bytes.len() - from_end..][..range.len()])
            }
            Source::Copied(_) => None,
        }
    }

    /// Lends the bytes of `range`, counted from the first one held, as `fragments`. False, with no
    /// fragments, if some of the bytes are copies, or the fragments would be too many.
    pub(crate) fn lend(&self, range: Range<usize>, fragments: &mut Vec<Bytes>) -> bool {
        fragments.clear();
        let end = self.span.start + range.end.min(self.len()) as u64;
        let mut at = self.span.start + range.start as u64;
        let first = self.chunks.partition_point(|chunk| chunk.end <= at);
        let last = self.chunks.partition_point(|chunk| chunk.end < end);
        let chunks = self.chunks.range(first..(last + 1).min(self.chunks.len()));
        let is_owned = |chunk: &Chunk| matches!(chunk.source, Source::Owned(_));
        if chunks.len() > MAX_FRAGMENTS || !chunks.clone().all(is_owned) {
            return false;
        }
        for chunk in chunks {
            if let Source::Owned(bytes) = &chunk.source {
                let until = chunk.end.min(end);
                let from = bytes.len() - (chunk.end - at) as usize;
                fragments.push(bytes.slice(from..from + (until - at) as usize));
                at = until;
            }
        }
        true
    }

    /// The bytes of `range`, counted from the first one held, in parts. A part may be empty.
    pub(crate) fn parts(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
        let end = self.span.start + range.end.min(self.len()) as u64;
        let mut at = self.span.start + range.start as u64;
        let first = self.chunks.partition_point(|chunk| chunk.end <= at);
        let held = self.chunks.range(first..).map_while(move |chunk| {
            let until = chunk.end.min(end);
            let len = until.checked_sub(at).filter(|len| *len > 0)? as usize;
            let from_end = chunk.end - at;
            at = until;
            Some(match &chunk.source {
                Source::Owned(bytes) => [&bytes[bytes.len() - from_end as usize..][..len], &[]],
                Source::Copied(until) => {
                    let start = (until - from_end - self.copied_start) as usize;
                    halves(&self.copied, start..start + len)
                }
            })
        });
        held.flatten()
    }

    /// Memory held, in bytes: what was copied, and what its owners keep for it.
    pub(crate) fn memory(&self) -> usize {
        let list = self.chunks.capacity() * size_of::<Chunk>();
        // Dropped from the first buffer, which is still held as a whole.
        let dropped = match self.chunks.front() {
            Some(Chunk {
                end,
                source: Source::Owned(bytes),
            }) => bytes.len() - (end - self.span.start) as usize,
            _ => 0,
        };
        self.len() + dropped - self.copied.len() + self.copied.capacity() + list
    }
}

/// The bytes of `range` in `ring`, before and after its wrap.
pub(crate) fn halves(ring: &VecDeque<u8>, range: Range<usize>) -> [&[u8]; 2] {
    let (front, back) = ring.as_slices();
    let split = front.len();
    [
        &front[range.start.min(split)..range.end.min(split)],
        &back[range.start.max(split) - split..range.end.max(split) - split],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copied bytes are one chunk, however many writes brought them; each owned buffer is one more.
    #[test]
    fn memory_counts_the_copies_and_the_list_of_chunks() {
        let mut chunks = Chunks::default();
        (0..1000).for_each(|_| chunks.copy(&[7]));
        let list = chunks.memory() - chunks.copied.capacity();
        assert!((1..=8 * size_of::<Chunk>()).contains(&list), "{list}");
        (0..1000).for_each(|_| chunks.own(Bytes::from_static(b"own")));
        let owned = chunks.memory() - chunks.copied.capacity();
        assert!(owned >= 3000 + 1001 * size_of::<Chunk>(), "{owned}");
    }

    /// Its owner frees it as a whole.
    #[test]
    fn memory_counts_an_owned_buffer_until_all_of_it_is_dropped() {
        let mut chunks = Chunks::default();
        chunks.own(vec![7; 10_000].into());
        let whole = chunks.memory();
        chunks.drain(9_999);
        assert_eq!(chunks.memory(), whole);
        chunks.copy(&[7; 5]);
        chunks.drain(1);
        assert!(chunks.memory() < 1_000);
    }
}
