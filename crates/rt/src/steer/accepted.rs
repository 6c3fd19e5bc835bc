//! [`Accepted`]: which host of a group has which accepted connection.
//!
//! RSS can change while connections last (`ethtool -X`). Their segments then arrive at the queue of another
//! host, which would reset them. So each host notes the connections of the segments that it sends.
//! Linux's receive flow steering keeps such a table of recent senders (`rps_sock_flow_table`); there any
//! processor can take a segment that it confuses with another, here only one host can, and the whole hash is
//! compared.

use std::fmt;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use tautline_base::Item;
use tautline_base::headers::Headers;

const SLOTS: usize = 1 << 16;
const SYN: u16 = 0x02;
const RST: u16 = 0x04;
/// Bits of a slot that hold the number of a host, counted from 1. Above them are those of the hash.
const HOST: u64 = 0xffff;

/// The table: 512 KiB, one load for a segment. Of two connections with the same slot it knows the one that
/// has sent last.
pub(super) struct Accepted {
    /// Quick, and random enough: an attacker who finds connections that share a slot harms them only when
    /// RSS changes.
    hasher: RandomState,
    slots: Box<[AtomicU64]>,
}

impl Accepted {
    pub(super) fn new() -> Self {
        Self {
            hasher: RandomState::default(),
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Notes that host `index` has the connection of `sent`. A reset is no sign of one.
    pub(super) fn note<P: Item>(&self, sent: &P, index: usize) {
        let Some(segment) = Segment::of(Headers::of(sent)).filter(|sent| sent.flags & RST == 0)
        else {
            return;
        };
        let (slot, hash) = self.slot(segment.source, segment.destination);
        let entry = hash & !HOST | (index as u64 + 1);
        // Written only if it changes: the others read the same cache line.
        if slot.load(Ordering::Relaxed) != entry {
            slot.store(entry, Ordering::Relaxed);
        }
    }

    /// The host that has the connection of a segment that arrived; `None` if that is not known, or the
    /// segment may open a new one.
    pub(super) fn host(&self, received: &[u8], network_offset: usize) -> Option<usize> {
        let headers = Headers::parse(received, network_offset);
        let segment = Segment::of(headers).filter(|received| received.flags & SYN == 0)?;
        let (slot, hash) = self.slot(segment.destination, segment.source);
        let entry = slot.load(Ordering::Relaxed);
        let host = (entry & HOST).checked_sub(1)?;
        ((entry ^ hash) & !HOST == 0).then_some(host as usize)
    }

    /// The slot of the connection between two ends, and its hash.
    fn slot(&self, local: End, remote: End) -> (&AtomicU64, u64) {
        // Whole words are hashed at once.
        let bits = |end: End| match end.0 {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let ports = u32::from(local.1) << 16 | u32::from(remote.1);
        let hash = self.hasher.hash_one((bits(local), bits(remote), ports));
        (&self.slots[hash as usize % SLOTS], hash)
    }
}

/// An address and a port.
type End = (IpAddr, u16);

/// The ends and the flags of a TCP segment.
struct Segment {
    source: End,
    destination: End,
    flags: u16,
}

impl Segment {
    fn of(headers: Headers) -> Option<Self> {
        let ip = headers.ip?;
        let (source, destination) = ip.ports?;
        Some(Self {
            source: (ip.source, source),
            destination: (ip.destination, destination),
            flags: ip.tcp_flags?,
        })
    }
}

impl fmt::Debug for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accepted").finish_non_exhaustive()
    }
}
