//! [`replace`]: another qdisc in the place of one that holds packets (`tc qdisc replace`).

use alloc::vec::Vec;
use core::mem;

use tautline_base::{Drops, Instant, Item, Qdisc};

/// Puts `new` in the place of `current`. Queued packets move over in the order in which they would
/// have left, so no flow is reordered; Linux drops them. Packets that exceed the new qdisc's limit,
/// that one of the two drops at random, or that an AQM below the old one's shaper would have
/// dropped go to `drops`.
///
/// # Errors
/// The number of packets that the old qdisc does not release; it stays.
pub fn replace<P: Item, Q: Qdisc<P>>(
    current: &mut Q,
    new: Q,
    now: Instant,
    drops: &mut Drops<P>,
) -> Result<(), usize> {
    let mut packets = Vec::with_capacity(current.backlog().packets);
    let mut old = mem::replace(current, new);
    // Time begins at zero, so that no AQM finds a packet old, and jumps to where a shaper opens.
    let mut then = Instant::ZERO;
    while !old.backlog().is_empty() {
        match (old.dequeue(then, drops), old.ready_at()) {
            (Some(packet), _) => packets.push(packet),
            (None, Some(later)) if later > then => then = later,
            (None, _) => break,
        }
    }
    let held = old.backlog().packets;
    if held > 0 {
        *current = old;
    }
    for packet in packets {
        current.enqueue(packet, now, drops);
    }
    if held > 0 { Err(held) } else { Ok(()) }
}
