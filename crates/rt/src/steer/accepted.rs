//! [`Accepted`]: which host of a group has which accepted connection.
//!
//! RSS can change while connections last (`ethtool -X`). Their segments then arrive at the queue of another
//! host, which would reset them. So each host notes the SYNs that it gets, and the connections of the segments
//! that it sends.
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
        let entry = entry_of(hash, index);
        // Written only if it changes: the others read the same cache line.
        if slot.load(Ordering::Relaxed) != entry {
            slot.store(entry, Ordering::Relaxed);
        }
    }

    /// The host for a segment that arrived at the queue of host `here`: the one that has its connection, or
    /// that got its SYN, which is sent again while no answer comes and must not be answered by two; otherwise
    /// `here`. A host that no longer `lives` has none.
    pub(super) fn host(
        &self,
        received: &[u8],
        network_offset: usize,
        here: usize,
        lives: impl Fn(usize) -> bool,
    ) -> usize {
        let Some(segment) = Segment::of(Headers::parse(received, network_offset)) else {
            return here;
        };
        let (slot, hash) = self.slot(segment.destination, segment.source);
        let entry = slot.load(Ordering::Relaxed);
        let known = (entry & HOST).checked_sub(1).map(|host| host as usize);
        let known = known.filter(|host| (entry ^ hash) & !HOST == 0 && lives(*host));
        if known.is_none() && segment.flags & SYN != 0 {
            slot.store(entry_of(hash, here), Ordering::Relaxed);
        }
        known.unwrap_or(here)
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

/// Content of a slot for a connection of host `index`.
fn entry_of(hash: u64, index: usize) -> u64 {
    hash & !HOST | (index as u64 + 1)
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
