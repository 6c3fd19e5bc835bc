//! Another discipline in the place of the one in force, while packets wait in it (`tc qdisc
//! replace`).

use tautline_base::{Device, Instant, Packet};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;

use super::Host;
use crate::trace::Tracer;

/// What became of the packets that waited in a discipline which was replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// They wait in the new one.
    pub moved: usize,
    /// They were dropped: the new one has no room for them, one of the two drops at random, or an
    /// AQM behind the old one's shaper would have dropped them. Their connections will notice.
    pub dropped: usize,
}

/// A discipline that does not give its packets up; it stays in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the discipline in force does not give up the {0} packets it holds; it stays")]
pub struct Stuck(pub usize);

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// Puts `qdisc` in the place of the discipline in force. What waits there moves over in the
    /// order in which it would have left, so no flow is reordered; Linux drops it. Packets in the
    /// device's ring are not concerned.
    ///
    /// # Errors
    /// [`Stuck`].
    pub fn set_qdisc(&mut self, qdisc: Q, now: Instant) -> Result<Replaced, Stuck> {
        let now = self.advance_clock(now);
        let waiting = self.port.backlog().packets;
        let mut old = std::mem::replace(self.port.qdisc_mut(), qdisc);
        let mut packets = Vec::with_capacity(waiting);
        // Time begins at zero, so that no AQM finds a packet old, and leaps to wherever a shaper
        // opens, as far as that is.
        let mut then = Instant::ZERO;
        while !old.backlog().is_empty() {
            match (old.dequeue(then, &mut self.drops), old.ready_at()) {
                (Some(packet), _) => packets.push(packet),
                (None, Some(later)) if later > then => then = later,
                (None, _) => break,
            }
        }
        let held = old.backlog().packets;
        if held > 0 {
            *self.port.qdisc_mut() = old;
        }
        let before = self.stats.dropped;
        for packet in packets {
            self.port.enqueue(packet, now, &mut self.drops);
        }
        self.settle_later_drops(now);
        if held > 0 {
            return Err(Stuck(held));
        }
        Ok(Replaced {
            moved: self.port.backlog().packets,
            dropped: (self.stats.dropped - before) as usize,
        })
    }
}
