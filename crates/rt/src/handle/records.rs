//! [`records`]: datagrams from one thread to another through two bounded rings, one of bytes and
//! one of what belongs to them.

use std::net::SocketAddr;

use rtrb::{Consumer, Producer, RingBuffer};

/// What belongs to a datagram: its other end, if it has its own, and its length.
type Label = (Option<SocketAddr>, usize);

/// The side that puts datagrams in.
#[derive(Debug)]
pub(super) struct Giver {
    labels: Producer<Label>,
    bytes: Producer<u8>,
}

/// The side that takes them out.
#[derive(Debug)]
pub(super) struct Taker {
    labels: Consumer<Label>,
    bytes: Consumer<u8>,
}

/// A way for up to `count` datagrams of together up to `bytes` bytes.
pub(super) fn records(count: usize, bytes: usize) -> (Giver, Taker) {
    let ((give_label, labels), (give_bytes, bytes)) =
        (RingBuffer::new(count), RingBuffer::new(bytes));
    (
        Giver {
            labels: give_label,
            bytes: give_bytes,
        },
        Taker { labels, bytes },
    )
}

impl Giver {
    /// Whether a datagram of `len` bytes fits.
    pub(super) fn fits(&self, len: usize) -> bool {
        !self.labels.is_full() && self.bytes.slots() >= len
    }

    /// Puts a datagram in. False, and nothing was done, if it does not fit.
    pub(super) fn give(&mut self, peer: Option<SocketAddr>, data: &[u8]) -> bool {
        // The bytes first: whoever sees the label finds them.
        self.fits(data.len())
            && self.bytes.push_entire_slice(data).is_ok()
            && self.labels.push((peer, data.len())).is_ok()
    }

    /// The other side is gone.
    pub(super) fn is_abandoned(&self) -> bool {
        self.labels.is_abandoned()
    }
}

impl Taker {
    /// Copies the first datagram to `out`, as far as it fits. Its other end, its length, and how
    /// much was copied.
    pub(super) fn look(&mut self, out: &mut [u8]) -> Option<(Option<SocketAddr>, usize, usize)> {
        let (peer, len) = *self.labels.peek().ok()?;
        let chunk = self.bytes.read_chunk(len).ok()?;
        let (front, back) = chunk.as_slices();
        let count = len.min(out.len());
        let split = count.min(front.len());
        out[..split].copy_from_slice(&front[..split]);
        out[split..count].copy_from_slice(&back[..count - split]);
        Some((peer, len, count))
    }

    /// Forgets the first datagram.
    pub(super) fn pop(&mut self) {
        if let Ok((_, len)) = self.labels.pop()
            && let Ok(chunk) = self.bytes.read_chunk(len)
        {
            chunk.commit_all();
        }
    }

    /// Nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// At least half of both rings is free.
    pub(super) fn is_half_empty(&self) -> bool {
        self.labels.slots() <= self.labels.buffer().capacity() / 2
            && self.bytes.slots() <= self.bytes.buffer().capacity() / 2
    }

    /// The other side is gone.
    pub(super) fn is_abandoned(&self) -> bool {
        self.labels.is_abandoned()
    }
}
