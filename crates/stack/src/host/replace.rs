//! Live replacement of the qdisc (`tc qdisc replace`), its packets included.

use tautline_base::{Device, Instant, Packet, Qdisc};
use tautline_bql::Limit;

use super::Host;
use super::transport::DropStage;
use crate::trace::Tracer;

/// The packets of a qdisc that was replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// Packets that are queued in the new qdisc.
    pub moved: usize,
    /// Packets that were dropped: the new qdisc has no room for them, one of the two drops at
    /// random, or an AQM below the old one's shaper would have dropped them. Their connections find
    /// the losses.
    pub dropped: usize,
}

/// The qdisc in force does not release its packets; it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the qdisc in force does not release the {0} packets it holds; it stays")]
pub struct Stuck(pub usize);

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// Replaces the qdisc in force. Its packets move over in the order in which they would have
    /// left, so no flow is reordered; Linux drops them. Packets in the device's ring stay there.
    ///
    /// # Errors
    /// [`Stuck`]: the old qdisc keeps packets; it stays in force.
    pub fn set_qdisc(&mut self, qdisc: Q, now: Instant) -> Result<Replaced, Stuck> {
        let now = self.advance_clock(now);
        let interface = &mut self.interface;
        let queued = interface.port.backlog().packets;
        let mut old = std::mem::replace(interface.port.qdisc_mut(), qdisc);
        let mut packets = Vec::with_capacity(queued);
        // Time begins at zero, so that no AQM finds a packet old, and jumps to where a shaper opens.
        let mut then = Instant::ZERO;
        while !old.backlog().is_empty() {
            match (old.dequeue(then, &mut interface.drops), old.ready_at()) {
                (Some(packet), _) => packets.push(packet),
                (None, Some(later)) if later > then => then = later,
                (None, _) => break,
            }
        }
        let held = old.backlog().packets;
        if held > 0 {
            *interface.port.qdisc_mut() = old;
        }
        let before = interface.stats.dropped;
        for packet in packets {
            interface.port.enqueue(packet, now, &mut interface.drops);
        }
        self.settle_drops(DropStage::Later, now);
        if held > 0 {
            return Err(Stuck(held));
        }
        Ok(Replaced {
            moved: self.interface.port.backlog().packets,
            dropped: (self.interface.stats.dropped - before) as usize,
        })
    }
}
