//! [`Accepted`]: which host of a group has which accepted connection.
//!
//! RSS can change while connections last (`ethtool -X`). Their segments then arrive at the queue of another
//! host, which would reset them. So each host notes the connections of the segments that it sends.
//! Linux's receive flow steering keeps such a table of recent senders (`rps_sock_flow_table`); there any
//! processor can take a segment that it confuses with another, here only one host can, and the whole hash is
//! compared.

use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

use tautline_base::headers::{Headers, IpHeader};
use tautline_base::{HashKey, Item};

const SLOTS: usize = 1 << 16;
const SYN: u16 = 0x02;
const RST: u16 = 0x04;
/// Bits of a slot that hold the number of a host, counted from 1. Above them are those of the hash.
const HOST: u64 = 0xffff;

/// The table: 512 KiB, one load for a segment. Of two connections with the same slot it knows the one that
/// has sent last.
pub(super) struct Accepted {
    key: HashKey,
    slots: Box<[AtomicU64]>,
}

impl Accepted {
    pub(super) fn new() -> Self {
        Self {
            key: HashKey::random(),
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Notes that host `index` has the connection of `sent`. A reset is no sign of one.
    pub(super) fn note<P: Item>(&self, sent: &P, index: usize) {
        let Some(ip) = segment(Headers::of(sent)).filter(|(_, flags)| flags & RST == 0) else {
            return;
        };
        let (
            IpHeader {
                source,
                destination,
                ports,
                ..
            },
            _,
        ) = ip;
        let (slot, hash) = self.slot((source, destination, ports));
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
        let (ip, _) = segment(headers).filter(|(_, flags)| flags & SYN == 0)?;
        let ports = ip.ports.map(|(source, destination)| (destination, source));
        let (slot, hash) = self.slot((ip.destination, ip.source, ports));
        let entry = slot.load(Ordering::Relaxed);
        let host = (entry & HOST).checked_sub(1)?;
        ((entry ^ hash) & !HOST == 0).then_some(host as usize)
    }

    /// The slot of the connection of an end, and its hash.
    fn slot(&self, end: impl Hash) -> (&AtomicU64, u64) {
        let hash = self.key.hash(end);
        (&self.slots[hash as usize % SLOTS], hash)
    }
}

/// The IP header and the flags of a TCP segment.
fn segment(headers: Headers) -> Option<(IpHeader, u16)> {
    let ip = headers.ip?;
    Some((ip, ip.tcp_flags?))
}

impl fmt::Debug for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accepted").finish_non_exhaustive()
    }
}
