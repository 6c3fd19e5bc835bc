//! [`datagram_ring`]: datagrams between two threads through two bounded rings, one of payload bytes
//! and one of headers.

use std::net::SocketAddr;

use rtrb::{Consumer, Producer, RingBuffer};
use tautline_base::Ecn;

/// Addresses and ECN field of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) remote: SocketAddr,
    /// `None`: the socket's address.
    pub(super) local: Option<SocketAddr>,
    pub(super) ecn: Ecn,
}

/// Ends and length of a datagram.
type Header = (Ends, usize);

/// The first datagram of a ring, copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    pub(super) ends: Ends,
    /// Bytes copied.
    pub(super) copied: usize,
    /// Bytes of its payload.
    pub(super) len: usize,
}

/// The sending end.
#[derive(Debug)]
pub(super) struct DatagramSender {
    headers: Producer<Header>,
    bytes: Producer<u8>,
}

/// The receiving end.
#[derive(Debug)]
pub(super) struct DatagramReceiver {
    headers: Consumer<Header>,
    bytes: Consumer<u8>,
}

/// A ring for up to `count` datagrams of `bytes` bytes in total.
pub(super) fn datagram_ring(count: usize, bytes: usize) -> (DatagramSender, DatagramReceiver) {
    let (header_sender, headers) = RingBuffer::new(count);
    let (byte_sender, bytes) = RingBuffer::new(bytes);
    let sender = DatagramSender {
        headers: header_sender,
        bytes: byte_sender,
    };
    (sender, DatagramReceiver { headers, bytes })
}

impl DatagramSender {
    /// Whether a datagram of `len` bytes fits.
    pub(super) fn fits(&self, len: usize) -> bool {
        !self.headers.is_full() && self.bytes.slots() >= len
    }

    /// Appends a datagram. Returns false, without effect, if it does not fit.
    pub(super) fn push(&mut self, ends: Ends, data: &[u8]) -> bool {
        // The bytes first: a receiver that sees the header must find them.
        self.fits(data.len())
            && self.bytes.push_entire_slice(data).is_ok()
            && self.headers.push((ends, data.len())).is_ok()
    }

    /// Whether the receiving end was dropped.
    pub(super) fn is_abandoned(&self) -> bool {
        self.headers.is_abandoned()
    }
}

impl DatagramReceiver {
    /// Copies the first datagram to `out`, truncated to fit.
    pub(super) fn peek(&mut self, out: &mut [u8]) -> Option<First> {
        let (ends, len) = *self.headers.peek().ok()?;
        let chunk = self.bytes.read_chunk(len).ok()?;
        let (front, back) = chunk.as_slices();
        let copied = len.min(out.len());
        let split = copied.min(front.len());
        out[..split].copy_from_slice(&front[..split]);
        out[split..copied].copy_from_slice(&back[..copied - split]);
        Some(First { ends, copied, len })
    }

    /// Removes the first datagram.
    pub(super) fn pop(&mut self) {
        if let Ok((_, len)) = self.headers.pop()
            && let Ok(chunk) = self.bytes.read_chunk(len)
        {
            chunk.commit_all();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// Whether at least half of both rings is free.
    pub(super) fn is_half_empty(&self) -> bool {
        self.headers.slots() <= self.headers.buffer().capacity() / 2
            && self.bytes.slots() <= self.bytes.buffer().capacity() / 2
    }

    /// Whether the sending end was dropped.
    pub(super) fn is_abandoned(&self) -> bool {
        self.headers.is_abandoned()
    }
}
