//! [`Pfifo`]: first in, first out, bounded in packets, dropping the newcomer when full (`tc`'s
//! `pfifo`).

use tautline_base::{Backlog, Bytes};

use crate::fifo::{Bound, Fifo};

/// A FIFO bounded in packets.
///
/// ```
/// use tautline_base::{Instant, Item, Packet};
/// use tautline_qdisc::{Drops, Pfifo, Qdisc, pfifo::Config};
///
/// let (mut fifo, mut drops) = (Pfifo::new(Config { limit: 1 }), Drops::new());
/// for len in [1514, 66] {
///     fifo.enqueue(Packet::new((), len), Instant::ZERO, &mut drops);
/// }
/// assert_eq!(drops.drain().next().map(|(packet, _)| packet.len().get()), Some(66));
/// ```
pub type Pfifo<P> = Fifo<P, Config>;

/// Parameters of [`Pfifo`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Limit in packets. Default 1000, the transmit queue length of a Linux Ethernet
    /// device.
    pub limit: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { limit: 1000 }
    }
}

impl Bound for Config {
    #[inline]
    fn admits(&self, held: Backlog, _len: Bytes) -> bool {
        held.packets < self.limit as usize
    }
}
