//! Live replacement of the qdisc (`tc qdisc replace`), its packets included.

use tautline_base::{Device, Instant, Packet, Qdisc};
use tautline_bql::Limit;
use tautline_qdisc::replace;

use super::Host;
use super::transport::DropStage;
use crate::trace::Tracer;

/// The packets of a qdisc that was replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// Packets that are queued in the new qdisc.
    pub moved: usize,
    /// Packets that were dropped: the new qdisc has less capacity, one of the two drops at random,
    /// or an AQM below the old one's shaper would have dropped them. Their connections find the
    /// losses.
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
        let before = interface.stats.dropped;
        let outcome = replace(interface.port.qdisc_mut(), qdisc, now, &mut interface.drops);
        self.settle_drops(DropStage::Later, now);
        outcome.map_err(Stuck)?;
        Ok(Replaced {
            moved: self.interface.port.backlog().packets,
            dropped: (self.interface.stats.dropped - before) as usize,
        })
    }
}
