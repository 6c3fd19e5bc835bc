//! [`TraceHash`]: one number over time, event, connection, sequence number, length and verdict of
//! every packet event.
//!
//! Equal scenario and seed give an equal hash on every machine and in every build profile: the hash
//! function and its key are fixed, and numbers are fed in a fixed width and byte order.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use tautline_qdisc::DropReason;
use tautline_stack::{PacketEvent, What};

use crate::link::{LinkEvent, LinkEventKind};
use crate::record::Record;

/// Bytes of a frame on a link that are hashed: Ethernet, IPv4 and TCP headers.
const HEADERS: usize = 54;

/// A running hash of packet events.
#[derive(Clone, Debug)]
pub struct TraceHash {
    hasher: SipHasher13,
    events: u64,
}

impl TraceHash {
    /// No events yet.
    pub fn new() -> Self {
        Self {
            hasher: SipHasher13::new_with_keys(0x7461_7574_6c69_6e65, 0x7472_6163_6568_6173),
            events: 0,
        }
    }

    /// The hash of all events so far.
    pub fn value(&self) -> u64 {
        self.hasher.finish()
    }

    /// Number of events.
    pub fn events(&self) -> u64 {
        self.events
    }

    fn feed(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.hasher.write(&number.to_le_bytes());
        }
    }
}

impl Default for TraceHash {
    fn default() -> Self {
        Self::new()
    }
}

impl Record for TraceHash {
    fn on_host(&mut self, host: usize, event: &PacketEvent, _frame: &[u8]) {
        let PacketEvent {
            at,
            what,
            socket,
            seq,
            len,
            sojourn: _,
        } = *event;
        // Generations begin at 1, so 0 means "no connection".
        let connection = socket.map_or(0, |id| {
            u64::from(id.generation.get()) << 32 | u64::from(id.index)
        });
        let (code, verdict) = host_code(what);
        self.feed(&[
            host as u64,
            at.as_nanos(),
            code,
            verdict,
            connection,
            u64::from(seq),
            u64::from(len),
        ]);
        self.events += 1;
    }

    fn on_link(&mut self, link: usize, event: &LinkEvent, frame: &[u8]) {
        let (code, verdict) = link_code(event.kind);
        self.feed(&[
            link as u64,
            event.at.as_nanos(),
            code,
            verdict,
            frame.len() as u64,
        ]);
        self.hasher.write(&frame[..frame.len().min(HEADERS)]);
        self.events += 1;
    }
}

/// Codes of an event and of its details.
fn host_code(what: What) -> (u64, u64) {
    match what {
        What::Born => (1, 0),
        What::Queued => (2, 0),
        What::Dropped(reason) => (3, drop_code(reason)),
        What::Marked => (4, 0),
        What::Ringed => (5, 0),
        What::Completed => (6, 0),
        What::Received => (7, 0),
    }
}

fn link_code(kind: LinkEventKind) -> (u64, u64) {
    match kind {
        LinkEventKind::Entered => (16, 0),
        LinkEventKind::Dropped(reason) => (17, drop_code(reason)),
        LinkEventKind::Marked => (18, 0),
        LinkEventKind::Serialized { sojourn } => (19, sojourn.as_nanos() as u64),
        LinkEventKind::Lost => (20, 0),
        LinkEventKind::Duplicated => (21, 0),
        LinkEventKind::Corrupted { bit } => (22, u64::from(bit)),
        LinkEventKind::HeldBack => (23, 0),
        LinkEventKind::Arrived => (24, 0),
    }
}

fn drop_code(reason: DropReason) -> u64 {
    reason.index() as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use tautline_base::Instant;

    fn event(at: u64, what: What, seq: u32) -> PacketEvent {
        PacketEvent {
            at: Instant::from_nanos(at),
            what,
            socket: None,
            seq,
            len: 60,
            sojourn: Duration::ZERO,
        }
    }

    fn hash_of(host: usize, event: PacketEvent) -> u64 {
        let mut hash = TraceHash::new();
        hash.on_host(host, &event, &[]);
        hash.value()
    }

    /// The number itself is part of the promise: a change of it must be meant.
    #[test]
    fn the_hash_is_the_same_on_every_machine() {
        let mut hash = TraceHash::new();
        hash.on_host(0, &event(1, What::Born, 2), &[]);
        hash.on_link(
            1,
            &LinkEvent {
                at: Instant::from_nanos(3),
                kind: LinkEventKind::Lost,
            },
            &[1; 60],
        );
        // Computed apart from this crate, by SipHash-1-3 over the numbers as little-endian 64-bit
        // words.
        assert_eq!(
            (hash.value(), hash.events()),
            (16_616_174_083_831_606_177, 2)
        );
    }

    #[test]
    fn every_fact_counts() {
        let reference = hash_of(0, event(1, What::Born, 2));
        assert_eq!(reference, hash_of(0, event(1, What::Born, 2)));
        assert_ne!(reference, hash_of(1, event(1, What::Born, 2)));
        assert_ne!(reference, hash_of(0, event(2, What::Born, 2)));
        assert_ne!(reference, hash_of(0, event(1, What::Queued, 2)));
        assert_ne!(reference, hash_of(0, event(1, What::Born, 3)));
        let dropped = |reason| hash_of(0, event(1, What::Dropped(reason), 2));
        assert_ne!(dropped(DropReason::Target), dropped(DropReason::Overlimit));
    }
}
