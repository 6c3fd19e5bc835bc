//! [`flush`]: empties a qdisc that is to be deleted.

use tautline_base::{DropReason, Drops, Instant, Item, Qdisc};

/// Takes every packet out of `queue` and drops it with [`DropReason::Reset`].
///
/// Time starts at zero, so no AQM finds a packet old, and leaps to wherever a shaper opens. A qdisc
/// that holds packets but names no later moment is left alone.
pub(crate) fn flush<P: Item>(queue: &mut impl Qdisc<P>, drops: &mut Drops<P>) {
    let mut now = Instant::ZERO;
    while !queue.backlog().is_empty() {
        if let Some(packet) = queue.dequeue(now, drops) {
            drops.push(packet, DropReason::Reset);
        } else {
            match queue.ready_at() {
                Some(later) if later > now => now = later,
                _ => break,
            }
        }
    }
}
