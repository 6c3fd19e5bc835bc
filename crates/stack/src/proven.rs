//! [`ProvenPeers`]: peers that have completed a handshake with a listener, so their addresses are
//! not forged (as Linux's `tcp_peer_is_proven` prefers them). While SYNs come faster than they can be
//! answered, theirs are answered first.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU64;

use tautline_base::Instant;

use crate::keyed::Key;

/// Peers that are remembered at most, 16 bytes each; a new one takes the place of another.
const PEERS: usize = 512;
/// SYNs a second that one of them may send in a flood: someone may forge its address as well.
const SYNS_PER_SECOND: u32 = 256;

/// A peer, and its SYNs in the second of the latest one.
#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    hash: Option<NonZeroU64>,
    second: u32,
    syns: u32,
}

/// The peers of one host. Holds nothing before the first.
#[derive(Debug)]
pub(crate) struct ProvenPeers {
    key: Key,
    /// By hash.
    peers: Box<[Peer]>,
}

impl ProvenPeers {
    pub(crate) fn new(key: Key) -> Self {
        Self {
            key,
            peers: Box::default(),
        }
    }

    /// `peer` has completed a handshake.
    pub(crate) fn add(&mut self, peer: IpAddr) {
        let hash = self.hash(peer);
        if self.peers.is_empty() {
            self.peers = vec![Peer::default(); PEERS].into();
        }
        if let Some(entry) = self.entry(hash).filter(|entry| entry.hash != hash) {
            *entry = Peer {
                hash,
                ..Peer::default()
            };
        }
    }

    /// Whether `peer` is one of them, and has not sent too many SYNs in this second. Counts one more.
    pub(crate) fn admits(&mut self, peer: IpAddr, now: Instant) -> bool {
        let hash = self.hash(peer);
        let entry = self.entry(hash).filter(|entry| entry.hash == hash);
        entry.is_some_and(|entry| {
            let second = (now.as_millis() / 1000) as u32;
            if entry.second != second {
                (entry.second, entry.syns) = (second, 0);
            }
            entry.syns = entry.syns.saturating_add(1);
            entry.syns <= SYNS_PER_SECOND
        })
    }

    /// Of an IPv6 address its network counts, for a host may take any address of it.
    fn hash(&self, peer: IpAddr) -> Option<NonZeroU64> {
        let peer = match peer {
            IpAddr::V6(peer) => Ipv6Addr::from_bits(peer.to_bits() >> 64 << 64).into(),
            peer => peer,
        };
        NonZeroU64::new(self.key.peer(peer))
    }

    fn entry(&mut self, hash: Option<NonZeroU64>) -> Option<&mut Peer> {
        self.peers.get_mut(hash?.get() as usize % PEERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(seed: u64) -> ProvenPeers {
        ProvenPeers::new(Key::from_seed(seed))
    }

    fn host(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    #[test]
    fn a_peer_is_admitted_so_often_a_second_and_a_stranger_never() {
        let mut peers = peers(1);
        assert!(!peers.admits(host(1), Instant::ZERO) && peers.peers.is_empty());
        peers.add(host(1));
        for second in [5, 6] {
            let admitted = (0..1000)
                .filter(|_| peers.admits(host(1), Instant::from_secs(second)))
                .count();
            assert_eq!(admitted, SYNS_PER_SECOND as usize);
            // A further handshake earns no more.
            peers.add(host(1));
            assert!(!peers.admits(host(1), Instant::from_secs(second)));
        }
        assert!(!(2..10_000).any(|other| peers.admits(host(other), Instant::from_secs(7))));
    }

    #[test]
    fn many_peers_take_no_more_room_and_a_network_of_ipv6_counts_as_one() {
        let mut peers = peers(2);
        (0..100_000).for_each(|number| peers.add(host(number)));
        assert_eq!(peers.peers.len(), PEERS);
        let known = (0..100_000).filter(|number| peers.admits(host(*number), Instant::ZERO));
        assert_eq!(known.count(), PEERS);
        let [one, other, elsewhere] = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"]
            .map(|text| text.parse::<IpAddr>().expect("an address"));
        peers.add(one);
        assert!(peers.admits(other, Instant::ZERO) && !peers.admits(elsewhere, Instant::ZERO));
    }
}
