//! [`PfifoHeadDrop`]: first in, first out, bounded in packets, dropping the oldest when full
//! (`tc`'s `pfifo_head_drop`). The sender learns of the loss a whole queue earlier, and what is
//! delivered is fresh.

use tautline_base::{Backlog, Bytes};

use crate::fifo::{Bound, Fifo, Victim};

/// A FIFO bounded in packets that drops at the head.
///
/// ```
/// use tautline_base::{Instant, Item, Packet};
/// use tautline_qdisc::{Drops, PfifoHeadDrop, Qdisc, pfifo_head_drop::Config};
///
/// let (mut fifo, mut drops) = (PfifoHeadDrop::new(Config { limit: 1 }), Drops::new());
/// for len in [1514, 66] {
///     fifo.enqueue(Packet::new((), len), Instant::ZERO, &mut drops);
/// }
/// assert_eq!(drops.drain().next().map(|(packet, _)| packet.len().get()), Some(1514));
/// ```
pub type PfifoHeadDrop<P> = Fifo<P, Config>;

/// Parameters of [`PfifoHeadDrop`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Limit in packets; with 0 the newcomer is dropped. Default 1000, the transmit queue
    /// length of a Linux Ethernet device.
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

    fn victim(&self) -> Victim {
        Victim::Oldest
    }
}
