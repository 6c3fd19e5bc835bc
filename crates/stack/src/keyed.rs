//! Keyed hashing (SipHash-1-3): the connection table, flow and host hashes, initial sequence numbers, ports.
//!
//! Without the key nobody can choose addresses that collide (hash flooding) or predict a sequence number (RFC 6528, RFC 6056).
//! The key comes from the host's seed, so a simulation repeats exactly.

use std::hash::{BuildHasher, Hash, Hasher};
use std::net::SocketAddr;

use siphasher::sip::SipHasher13;
use tautline_base::Instant;

use crate::tcp::Tuple;

/// The host's secret key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key(u64, u64);

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
    Interface,
    FlowLabel,
    Budget,
}

impl Key {
    /// Spreads a seed over the key.
    pub(crate) fn from_seed(seed: u64) -> Self {
        let word = |which: u64| {
            let mut hasher = SipHasher13::new_with_keys(seed, which);
            hasher.write_u64(seed);
            hasher.finish()
        };
        Self(word(1), word(2))
    }

    fn hash(&self, purpose: Use, what: impl Hash) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.0, self.1);
        purpose.hash(&mut hasher);
        what.hash(&mut hasher);
        hasher.finish()
    }

    /// Hashes of flow, source host and destination host.
    pub(crate) fn flow(&self, tuple: &Tuple) -> (u64, u32, u32) {
        let flow = self.hash(Use::Flow, tuple);
        (flow, self.hash(Use::Host, tuple.local) as u32, self.hash(Use::Host, tuple.remote) as u32)
    }

    /// Initial sequence number: hash of the connection plus a clock of 64 ns (RFC 6528).
    pub(crate) fn initial_sequence(&self, tuple: &Tuple, now: Instant) -> u32 {
        (self.hash(Use::InitialSequence, tuple) as u32).wrapping_add((now.as_nanos() >> 6) as u32)
    }

    /// The part of a SYN cookie that stays the same for a connection.
    pub(crate) fn cookie(&self, tuple: &Tuple) -> u32 {
        self.hash(Use::Cookie, tuple) as u32
    }

    /// The part of a SYN cookie that changes every minute.
    pub(crate) fn cookie_of_minute(&self, tuple: &Tuple, minute: u64) -> u32 {
        self.hash(Use::CookieOfMinute, (tuple, minute)) as u32
    }

    /// Offset of a connection's timestamp clock (RFC 7323 §5.4).
    pub(crate) fn timestamp_offset(&self, tuple: &Tuple) -> u32 {
        self.hash(Use::Timestamp, tuple) as u32
    }

    /// Names a connection to IPv6 routers: never 0, the same for all its life, and not to be foreseen (RFC 6437 §3).
    pub(crate) fn flow_label(&self, tuple: &Tuple) -> u32 {
        (self.hash(Use::FlowLabel, tuple) as u32 & 0xf_ffff).max(1)
    }

    /// The interface identifier of an address that tells nothing of the hardware.
    pub(crate) fn interface(&self, mac: [u8; 6]) -> u64 {
        self.hash(Use::Interface, mac)
    }

    /// Chance for a budget that others must not measure.
    pub(crate) fn budget(&self, count: u64) -> u64 {
        self.hash(Use::Budget, count)
    }

    /// Where the search for a local port towards a peer begins (RFC 6056 §3.3.3).
    pub(crate) fn port_offset(&self, remote: SocketAddr) -> u32 {
        self.hash(Use::Port, remote) as u32
    }
}

impl BuildHasher for Key {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, self.1)
    }
}
