//! Keyed hashing (SipHash-1-3): the connection table, flow and host hashes, initial sequence
//! numbers, ports.
//!
//! Without the key an attacker cannot choose addresses that collide (hash flooding) or predict a
//! sequence number (RFC 6528, RFC 6056). The key comes from the host's seed, so a simulation
//! repeats exactly.

use std::hash::{BuildHasher, Hash};
use std::net::{IpAddr, SocketAddr};

use tautline_base::{HashKey, Instant};

use crate::tcp::Tuple;

/// The host's secret key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key(HashKey);

/// Separates the uses of one key.
#[derive(Clone, Copy, Hash)]
enum Use {
    Flow,
    Host,
    InitialSequence,
    Timestamp,
    Port,
    Cookie,
    CookieOfMinute,
    FastOpen,
    Interface,
    FlowLabel,
    Budget,
    StableInterface,
    Autoconf,
    Peer,
    DatagramPort,
    ReachableTime,
}

impl Key {
    /// Spreads a seed over the key.
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(HashKey::from_seed(seed))
    }

    fn hash(&self, purpose: Use, value: impl Hash) -> u64 {
        self.0.hash((purpose, value))
    }

    /// Hashes of flow, source host and destination host.
    pub(crate) fn flow(&self, tuple: &Tuple) -> (u64, u32, u32) {
        let flow = self.hash(Use::Flow, tuple);
        (
            flow,
            self.hash(Use::Host, tuple.local) as u32,
            self.hash(Use::Host, tuple.remote) as u32,
        )
    }

    /// Initial sequence number: hash of the connection plus a clock of 64 ns (RFC 6528).
    pub(crate) fn initial_sequence(&self, tuple: &Tuple, now: Instant) -> u32 {
        (self.hash(Use::InitialSequence, tuple) as u32).wrapping_add((now.as_nanos() >> 6) as u32)
    }

    /// The part of a SYN cookie that stays the same for a connection.
    pub(crate) fn cookie(&self, tuple: &Tuple) -> u32 {
        self.hash(Use::Cookie, tuple) as u32
    }

    /// The part of a SYN cookie that changes every minute, and with the peer's number and the segment
    /// size.
    pub(crate) fn cookie_of_minute(
        &self,
        tuple: &Tuple,
        minute: u64,
        (peer_isn, size): (u32, u16),
    ) -> u32 {
        self.hash(Use::CookieOfMinute, (tuple, minute, peer_isn, size)) as u32
    }

    /// The Fast Open cookie of a client in a period of time (RFC 7413 §4.1.2).
    pub(crate) fn fast_open(&self, tuple: &Tuple, period: u64) -> u64 {
        self.hash(Use::FastOpen, (tuple.local, tuple.remote, period))
    }

    /// Offset of a connection's timestamp clock (RFC 7323 §5.4).
    pub(crate) fn timestamp_offset(&self, tuple: &Tuple) -> u32 {
        self.hash(Use::Timestamp, tuple) as u32
    }

    /// Names a connection to IPv6 routers: never 0, the same for all its life, and not to be
    /// foreseen (RFC 6437 §3).
    pub(crate) fn flow_label(&self, tuple: &Tuple) -> u32 {
        (self.hash(Use::FlowLabel, tuple) as u32 & 0xf_ffff).max(1)
    }

    /// An interface identifier that reveals nothing about the hardware (RFC 7217).
    pub(crate) fn interface(&self, mac: [u8; 6]) -> u64 {
        self.hash(Use::Interface, mac)
    }

    /// The interface identifier of the host in a network, after so many duplicates; no reserved one
    /// (RFC 7217 §5, RFC 5453).
    pub(crate) fn stable_interface(&self, network: u64, mac: [u8; 6], retries: u8) -> u64 {
        const ANYCAST: std::ops::RangeInclusive<u64> =
            0xfdff_ffff_ffff_ff80..=0xfdff_ffff_ffff_ffff;
        (0u8..)
            .map(|attempt| self.hash(Use::StableInterface, (network, mac, retries, attempt)))
            .find(|interface| *interface != 0 && !ANYCAST.contains(interface))
            .unwrap_or(1)
    }

    /// Chance for delays and nonces of automatic configuration.
    pub(crate) fn autoconf(&self, count: u64) -> u64 {
        self.hash(Use::Autoconf, count)
    }

    /// Chance for the reachable time of neighbors.
    pub(crate) fn reachable_time(&self, count: u64) -> u64 {
        self.hash(Use::ReachableTime, count)
    }

    /// Chance for a budget that others must not measure.
    pub(crate) fn budget(&self, count: u64) -> u64 {
        self.hash(Use::Budget, count)
    }

    /// Place of a peer among those that are proven.
    pub(crate) fn peer(&self, peer: IpAddr) -> u64 {
        self.hash(Use::Peer, peer)
    }

    /// Start of the search for the port of datagram socket number `count` (RFC 6056 §3.3.1).
    pub(crate) fn datagram_port(&self, count: u32) -> u32 {
        self.hash(Use::DatagramPort, count) as u32
    }

    /// Start of the search for a local port toward a peer (RFC 6056 §3.3.3).
    pub(crate) fn port_offset(&self, remote: SocketAddr) -> u32 {
        self.hash(Use::Port, remote) as u32
    }
}

impl BuildHasher for Key {
    type Hasher = <HashKey as BuildHasher>::Hasher;

    #[inline]
    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const BUCKETS: usize = 4096;

    /// A connection of any peer's choosing.
    fn tuple(number: u32) -> Tuple {
        let remote = Ipv4Addr::from_bits(0x0a00_0000 + (number >> 12)).into();
        Tuple {
            local: Ipv4Addr::new(10, 7, 0, 1).into(),
            remote,
            local_port: 80,
            remote_port: 1024 + (number & 0xfff) as u16,
        }
    }

    fn bucket(key: Key, number: u32) -> usize {
        key.hash_one(tuple(number)) as usize % BUCKETS
    }

    /// How many of `numbers` share the fullest bucket.
    fn longest(key: Key, numbers: impl Iterator<Item = u32>) -> usize {
        let mut buckets = vec![0; BUCKETS];
        numbers.for_each(|number| buckets[bucket(key, number)] += 1);
        buckets.into_iter().max().unwrap_or(0)
    }

    /// TRUST: who floods a table needs its key. Addresses that all meet in one bucket of one host
    /// spread evenly over another's.
    #[test]
    fn a_flood_made_for_one_key_is_nothing_to_another() {
        let (known, other) = (Key::from_seed(1), Key::from_seed(2));
        let flood: Vec<u32> = (0..1 << 22)
            .filter(|number| bucket(known, *number) == 0)
            .collect();
        assert!(
            flood.len() > 900,
            "{} of {BUCKETS} in one bucket",
            flood.len()
        );
        assert_eq!(longest(known, flood.iter().copied()), flood.len());
        let chosen = longest(other, flood.iter().copied());
        let random = longest(other, 0..flood.len() as u32);
        assert!(
            chosen <= 2 * random,
            "{chosen} of a flood meet, {random} of as many others"
        );
    }

    /// RFC 6528, RFC 6056, RFC 7323 §5.4: one connection's numbers reveal nothing about the next one's,
    /// nor about another host's.
    #[test]
    fn numbers_of_neighboring_connections_are_unrelated() {
        let key = Key::from_seed(7);
        type Shown = fn(&Key, u32) -> u32;
        let shown: [Shown; 7] = [
            |key, number| key.initial_sequence(&tuple(number), Instant::ZERO),
            |key, number| key.timestamp_offset(&tuple(number)),
            |key, number| key.port_offset(tuple(number).peer()),
            |key, number| key.cookie(&tuple(number)),
            |key, number| key.cookie_of_minute(&tuple(0), 0, (number, 1460)),
            |key, number| key.fast_open(&tuple(0), number.into()) as u32,
            |key, number| key.interface([2, 0, 0, 0, (number >> 8) as u8, number as u8]) as u32,
        ];
        for show in shown {
            // About half of the bits differ, between neighbors and between keys.
            let differ = |a: u32, b: u32| (a ^ b).count_ones();
            let between: u32 = (0..1000)
                .map(|number| differ(show(&key, number), show(&key, number + 1)))
                .sum();
            let across: u32 = (0..1000)
                .map(|number| differ(show(&key, number), show(&Key::from_seed(8), number)))
                .sum();
            for bits in [between, across] {
                assert!(
                    (15_000..17_000).contains(&bits),
                    "{bits} of 32 000 bits differ"
                );
            }
        }
    }
}
