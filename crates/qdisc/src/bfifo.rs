//! [`Bfifo`]: first in, first out, bounded in bytes, dropping the newcomer that does not fit
//! (`tc`'s `bfifo`).

use tautline_base::{Backlog, Bytes};

use crate::fifo::{Bound, Fifo};

/// A FIFO bounded in bytes.
///
/// ```
/// use tautline_base::{Bytes, Instant, Packet};
/// use tautline_qdisc::{Bfifo, Drops, Qdisc, bfifo::Config};
///
/// let (mut fifo, mut drops) = (Bfifo::new(Config { limit: Bytes::new(2000) }), Drops::new());
/// for len in [1514, 1514, 66] {
///     fifo.enqueue(Packet::new((), len), Instant::ZERO, &mut drops);
/// }
/// assert_eq!((fifo.backlog().packets, drops.len()), (2, 1)); // a short packet still fits
/// ```
pub type Bfifo<P> = Fifo<P, Config>;

/// Parameters of [`Bfifo`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Limit in bytes. Default 1000 frames of 1514, the transmit queue of a Linux Ethernet
    /// device.
    pub limit: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: Bytes::new(1000 * 1514),
        }
    }
}

impl Bound for Config {
    #[inline]
    fn admits(&self, held: Backlog, len: Bytes) -> bool {
        held.bytes + len <= self.limit
    }
}
