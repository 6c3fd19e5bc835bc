//! The neighbor cache: which hardware address answers for an address, learned by ARP (RFC 826,
//! behavior of RFC 1122 §2.3.2) or neighbor discovery (RFC 4861 §7.2, §7.3).
//!
//! The cache is bounded, and an unsolicited claim does not replace a trusted entry. A stale entry
//! stays in use while it is verified, so a transfer does not pause. RFC 4861's states other than
//! INCOMPLETE are one, [`Entry::Resolved`]: REACHABLE is fresh, STALE is not, in PROBE a new
//! request has been sent. A peer that is heard through the neighbor makes it fresh again, for ARP, too
//! (§7.3.1, Linux `dst_confirm_neigh`). DELAY is not implemented: it would only postpone the request. After
//! [`ATTEMPTS`] requests without an answer, nor any other sign of the neighbor, the entry is
//! resolved anew, and the router that it may be gives way to another one (§7.3.3).

mod times;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use tautline_base::{Instant, SocketId};

use self::times::Times;
pub(crate) use self::times::{RETRANS_TIMER, retransmission_within_bounds};
use crate::keyed::Key;
use crate::wire::Mac;

/// Most addresses kept.
const CAPACITY: usize = 512;
/// Requests before resolution fails.
const ATTEMPTS: u32 = 3;
/// Least time between two defenses of an address (RFC 5227 §1.1).
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

/// The cache.
#[derive(Debug)]
pub(crate) struct NeighborCache {
    entries: HashMap<IpAddr, Entry, Key>,
    /// Entries without an answer; zero in steady state, which spares the scan for deadlines.
    pending: usize,
    /// Connections whose request was not sent because the cache is full of unanswered ones.
    crowded: BTreeSet<SocketId>,
    /// The neighbor of the latest lookup, if its entry is fresh: most hosts send nearly all packets
    /// to one. Cleared by any change.
    last: Option<FreshNeighbor>,
    /// Our addresses that another host has used, and when each was defended: at most one entry each.
    defended: Vec<(IpAddr, Instant)>,
    times: Times,
}

/// A known neighbor that is fresh until `until`.
#[derive(Clone, Copy, Debug)]
struct FreshNeighbor {
    address: IpAddr,
    mac: Mac,
    until: Instant,
}

#[derive(Debug)]
enum Entry {
    /// Requested, not answered yet; these connections wait. A set: all connections of a host may
    /// wait for one router.
    Incomplete {
        attempts: u32,
        at: Instant,
        waiting: BTreeSet<SocketId>,
    },
    Resolved {
        mac: Mac,
        since: Instant,
        asked: Option<Instant>,
        /// Requests since the last answer or other sign.
        unanswered: u32,
        /// Another host claimed the address: verify the entry.
        doubted: bool,
    },
}

/// The host's duties after a deadline.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// Addresses to request again.
    pub(crate) ask: Vec<IpAddr>,
    /// Connections whose neighbor did not answer [`ATTEMPTS`] requests.
    pub(crate) failed: Vec<SocketId>,
    /// The addresses of those neighbors.
    pub(crate) lost: Vec<IpAddr>,
    /// Connections that may look up again, now that the cache has a free entry.
    pub(crate) retry: Vec<SocketId>,
}

/// The kind of message that claims an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// A request for our address.
    Request,
    /// A solicited reply.
    Reply,
    /// A solicited reply that does not override other entries: it confirms the same address.
    Confirmation,
    /// An unsolicited message. It does not prove that the neighbor is reachable.
    Unsolicited,
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lookup {
    /// Its hardware address, if known.
    pub(crate) mac: Option<Mac>,
    /// The caller sends a request now.
    pub(crate) ask: bool,
}

impl NeighborCache {
    pub(crate) fn new(key: Key) -> Self {
        Self {
            entries: HashMap::with_hasher(key),
            pending: 0,
            crowded: BTreeSet::new(),
            last: None,
            defended: Vec::new(),
            times: Times::new(key),
        }
    }

    /// A router advertises how long IPv6 neighbors count as reachable, and the time between requests for
    /// one; zero says nothing (RFC 4861 §6.3.4).
    pub(crate) fn advertise(&mut self, reachable: Duration, retransmission: Duration) {
        if self.times.advertise(reachable, retransmission) {
            self.last = None;
        }
    }

    /// The hardware address of `address` if the latest lookup was for it and its entry is fresh.
    #[inline]
    pub(crate) fn last(&self, address: &IpAddr, now: Instant) -> Option<Mac> {
        self.last
            .as_ref()
            .filter(|last| last.address == *address && now <= last.until)
            .map(|last| last.mac)
    }

    /// Looks `address` up. If it is unknown, `socket` is woken once it resolves; with `None` the
    /// caller looks up again itself. `heard`: the latest time at which a peer that is reached through
    /// the neighbor was heard, which shows that the neighbor is there (RFC 4861 §7.3.1). An address that
    /// another host has claimed is asked for all the same.
    pub(crate) fn lookup(
        &mut self,
        address: IpAddr,
        socket: Option<SocketId>,
        (heard, now): (Instant, Instant),
    ) -> Lookup {
        self.last = None;
        let (fresh, interval) = (
            self.times.fresh(address, now),
            self.times.interval(&address),
        );
        match self.entries.get_mut(&address) {
            Some(Entry::Resolved {
                mac,
                since,
                asked,
                unanswered,
                doubted,
            }) => {
                // Of several peers each may have been heard later than the one before, yet before the request.
                let answers = asked.is_some_and(|at| heard > at);
                if answers {
                    *unanswered = 0;
                }
                if heard > *since && !*doubted {
                    *since = heard;
                    *asked = asked.filter(|_| !answers);
                }
                let is_fresh = !*doubted && now - *since <= fresh;
                let ask = !is_fresh && asked.is_none_or(|at| now - at >= interval);
                let mac = *mac;
                if ask && *unanswered >= ATTEMPTS {
                    self.entries.remove(&address);
                    return self.request(address, socket, now);
                }
                if ask {
                    (*asked, *unanswered) = (Some(now), *unanswered + 1);
                } else if is_fresh {
                    self.last = Some(FreshNeighbor {
                        address,
                        mac,
                        until: *since + fresh,
                    });
                }
                Lookup {
                    mac: Some(mac),
                    ask,
                }
            }
            Some(Entry::Incomplete { waiting, .. }) => {
                waiting.extend(socket);
                Lookup {
                    mac: None,
                    ask: false,
                }
            }
            None => self.request(address, socket, now),
        }
    }

    /// Begins to resolve `address` for `socket`.
    fn request(&mut self, address: IpAddr, socket: Option<SocketId>, now: Instant) -> Lookup {
        Lookup {
            mac: None,
            ask: self.insert_request(address, socket, now),
        }
    }

    /// Adds an entry without an answer. Returns false if the cache is full of them: `socket` looks
    /// up again later.
    fn insert_request(&mut self, address: IpAddr, socket: Option<SocketId>, now: Instant) -> bool {
        if self.entries.len() >= CAPACITY && !self.evict_oldest_answer() {
            self.crowded.extend(socket);
            return false;
        }
        self.pending += 1;
        self.entries.insert(
            address,
            Entry::Incomplete {
                attempts: 1,
                at: now,
                waiting: socket.into_iter().collect(),
            },
        );
        true
    }

    /// Whether the hardware address of `address` is known.
    pub(crate) fn knows(&self, address: IpAddr) -> bool {
        matches!(self.entries.get(&address), Some(Entry::Resolved { .. }))
    }

    /// Whether `address` is known to be at `mac`, and nothing speaks against it.
    pub(crate) fn trusts(&self, address: IpAddr, mac: Mac) -> bool {
        let entry = self.entries.get(&address);
        matches!(entry, Some(Entry::Resolved { mac: trusted, doubted: false, .. }) if *trusted == mac)
    }

    /// Handles the claim that `address` is at `mac`. Returns the connections that waited for it.
    ///
    /// A host that requests our address will need an answer, so the claim adds an entry (RFC 826).
    /// A different claim does not replace a trusted entry, since that is how addresses are stolen;
    /// it triggers a request, and the answer counts.
    pub(crate) fn learn(
        &mut self,
        address: IpAddr,
        mac: Mac,
        claim: Claim,
        now: Instant,
    ) -> Vec<SocketId> {
        if !mac.is_unicast() {
            return Vec::new();
        }
        self.last = None;
        let fresh = Entry::Resolved {
            mac,
            since: now,
            asked: None,
            unanswered: 0,
            doubted: false,
        };
        let room = self.entries.len() < CAPACITY;
        match self.entries.get_mut(&address) {
            Some(entry @ Entry::Incomplete { .. }) => {
                let Entry::Incomplete { waiting, .. } = std::mem::replace(entry, fresh) else {
                    return Vec::new();
                };
                self.pending -= 1;
                let crowded = std::mem::take(&mut self.crowded);
                return waiting.into_iter().chain(crowded).collect();
            }
            Some(entry @ Entry::Resolved { .. }) => {
                let Entry::Resolved {
                    mac: trusted,
                    asked,
                    doubted,
                    ..
                } = entry
                else {
                    return Vec::new();
                };
                match claim {
                    Claim::Unsolicited if *trusted == mac => {}
                    _ if *trusted == mac => *entry = fresh,
                    Claim::Reply if asked.is_some() => *entry = fresh,
                    _ => *doubted = true,
                }
            }
            None if room && claim == Claim::Request => {
                self.entries.insert(address, fresh);
            }
            None => {}
        }
        Vec::new()
    }

    /// Whether `address`, which is ours and another host uses, is defended now: once in
    /// [`DEFEND_INTERVAL`], so that two hosts that are both sure of it do not flood the link (RFC 5227 §2.4).
    pub(crate) fn may_defend(&mut self, address: IpAddr, now: Instant) -> bool {
        self.defended.retain(|(_, at)| now < *at + DEFEND_INTERVAL);
        let is_recent = self.defended.iter().any(|(known, _)| *known == address);
        if !is_recent {
            self.defended.push((address, now));
        }
        !is_recent
    }

    /// Time of the next repetition of an unanswered request.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        if self.pending == 0 {
            return None;
        }
        let again = |(address, entry): (&IpAddr, &Entry)| match entry {
            Entry::Incomplete { at, .. } => Some(*at + self.times.interval(address)),
            Entry::Resolved { .. } => None,
        };
        self.entries.iter().filter_map(again).min()
    }

    /// Handles the deadlines up to `now`.
    pub(crate) fn on_deadline(&mut self, now: Instant) -> Timeouts {
        let (mut ask, mut failed, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        if self.next_deadline().is_none_or(|at| at > now) {
            return Timeouts::default();
        }
        let (pending, times) = (&mut self.pending, &self.times);
        self.entries.retain(|address, entry| {
            let Entry::Incomplete {
                attempts,
                at,
                waiting,
            } = entry
            else {
                return true;
            };
            if *at + times.interval(address) > now {
                return true;
            }
            if *attempts >= ATTEMPTS {
                failed.extend(std::mem::take(waiting));
                lost.push(*address);
                *pending -= 1;
                return false;
            }
            *attempts += 1;
            *at = now;
            ask.push(*address);
            true
        });
        ask.sort_unstable();
        failed.sort_unstable();
        lost.sort_unstable();
        let retry = if self.entries.len() < CAPACITY {
            std::mem::take(&mut self.crowded).into_iter().collect()
        } else {
            Vec::new()
        };
        Timeouts {
            ask,
            failed,
            lost,
            retry,
        }
    }

    /// Frees an entry: removes the oldest answer. Returns false if no entry has an answer.
    fn evict_oldest_answer(&mut self) -> bool {
        let since = |entry: &Entry| match entry {
            Entry::Resolved { since, .. } => Some(*since),
            Entry::Incomplete { .. } => None,
        };
        let answers = self
            .entries
            .iter()
            .filter_map(|(address, entry)| Some((since(entry)?, *address)));
        let Some((_, oldest)) = answers.min() else {
            return false;
        };
        self.entries.remove(&oldest).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smoltcp::wire::EthernetAddress;
    use std::net::Ipv4Addr;
    use std::num::NonZeroU32;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 7, 0, 2));
    const MAC: Mac = EthernetAddress([2, 0, 0, 0, 0, 2]);
    const SOCKET: SocketId = SocketId {
        index: 0,
        generation: NonZeroU32::MIN,
    };
    const WAITS: Option<SocketId> = Some(SOCKET);

    /// A lookup at that time; nobody behind the neighbor has been heard.
    const fn at(now: Instant) -> (Instant, Instant) {
        (Instant::ZERO, now)
    }

    #[test]
    fn a_question_is_asked_three_times_a_second_apart() {
        let mut neighbors = NeighborCache::new(Key::from_seed(1));
        assert_eq!(
            neighbors.lookup(PEER, WAITS, at(Instant::ZERO)),
            Lookup {
                mac: None,
                ask: true
            }
        );
        assert_eq!(
            neighbors.lookup(PEER, WAITS, at(Instant::ZERO)),
            Lookup {
                mac: None,
                ask: false
            }
        );
        let again = || Timeouts {
            ask: vec![PEER],
            ..Timeouts::default()
        };
        assert_eq!(
            neighbors.on_deadline(Instant::from_millis(999)),
            Timeouts::default()
        );
        assert_eq!(neighbors.on_deadline(Instant::from_secs(1)), again());
        assert_eq!(neighbors.on_deadline(Instant::from_secs(2)), again());
        assert_eq!(
            neighbors.on_deadline(Instant::from_secs(3)),
            Timeouts {
                failed: vec![SOCKET],
                lost: vec![PEER],
                ..Timeouts::default()
            }
        );
        assert_eq!(neighbors.next_deadline(), None);
    }

    /// One by one they would be searched among all that wait: minutes for so many.
    #[test]
    fn many_connections_wait_for_one_neighbor() {
        const COUNT: u32 = 200_000;
        let mut neighbors = NeighborCache::new(Key::from_seed(1));
        for index in (0..COUNT).chain(0..COUNT) {
            let socket = Some(SocketId { index, ..SOCKET });
            neighbors.lookup(PEER, socket, at(Instant::ZERO));
        }
        let woken = neighbors.learn(PEER, MAC, Claim::Reply, Instant::ZERO);
        assert_eq!(woken.len(), COUNT as usize, "each once");
    }

    #[test]
    fn a_trusted_entry_is_not_overturned() {
        const THIEF: Mac = EthernetAddress([2, 0, 0, 0, 0, 66]);
        let mut neighbors = NeighborCache::new(Key::from_seed(1));
        neighbors.learn(PEER, MAC, Claim::Request, Instant::ZERO);
        neighbors.learn(PEER, THIEF, Claim::Reply, Instant::ZERO);
        // The claim raises doubt. Asked for, the owner defends its address ...
        assert_eq!(
            neighbors.lookup(PEER, WAITS, at(Instant::ZERO)),
            Lookup {
                mac: Some(MAC),
                ask: true
            }
        );
        neighbors.learn(PEER, MAC, Claim::Reply, Instant::ZERO);
        assert_eq!(
            neighbors.lookup(PEER, WAITS, at(Instant::ZERO)),
            Lookup {
                mac: Some(MAC),
                ask: false
            }
        );
        // ... or a new owner answers, as after a change of NICs.
        neighbors.learn(PEER, THIEF, Claim::Reply, Instant::from_secs(9));
        assert!(neighbors.lookup(PEER, WAITS, at(Instant::from_secs(9))).ask);
        neighbors.learn(PEER, THIEF, Claim::Reply, Instant::from_secs(9));
        assert_eq!(
            neighbors.lookup(PEER, WAITS, at(Instant::from_secs(9))).mac,
            Some(THIEF)
        );
    }

    #[test]
    fn while_we_ask_neither_a_question_nor_an_announcement_is_an_answer() {
        const THIEF: Mac = EthernetAddress([2, 0, 0, 0, 0, 66]);
        let mut neighbors = NeighborCache::new(Key::from_seed(1));
        neighbors.learn(PEER, MAC, Claim::Request, Instant::ZERO);
        assert!(
            neighbors
                .lookup(PEER, WAITS, at(Instant::from_secs(90)))
                .ask
        );
        for claim in [Claim::Request, Claim::Unsolicited] {
            neighbors.learn(PEER, THIEF, claim, Instant::from_secs(90));
            assert_eq!(
                neighbors
                    .lookup(PEER, WAITS, at(Instant::from_secs(90)))
                    .mac,
                Some(MAC)
            );
        }
        // Nor does an announcement make an old entry young.
        neighbors.learn(PEER, MAC, Claim::Unsolicited, Instant::from_secs(91));
        assert!(
            neighbors
                .lookup(PEER, WAITS, at(Instant::from_secs(92)))
                .ask
        );
    }

    #[test]
    fn who_is_not_known_is_remembered_only_for_a_question() {
        let mut neighbors = NeighborCache::new(Key::from_seed(1));
        for claim in [Claim::Reply, Claim::Unsolicited] {
            neighbors.learn(PEER, MAC, claim, Instant::ZERO);
        }
        assert!(neighbors.entries.is_empty());
        neighbors.learn(PEER, MAC, Claim::Request, Instant::ZERO);
        assert_eq!(
            neighbors.lookup(PEER, WAITS, at(Instant::ZERO)).mac,
            Some(MAC)
        );
    }

    #[test]
    fn a_stale_answer_is_used_while_it_is_asked_again() {
        let mut neighbors = NeighborCache::new(Key::from_seed(1));
        neighbors.lookup(PEER, WAITS, at(Instant::ZERO));
        assert_eq!(
            neighbors.learn(PEER, MAC, Claim::Reply, Instant::ZERO),
            [SOCKET]
        );
        assert_eq!(
            neighbors.lookup(PEER, WAITS, at(Instant::from_secs(9))),
            Lookup {
                mac: Some(MAC),
                ask: false
            }
        );
        assert_eq!(
            neighbors.lookup(PEER, WAITS, at(Instant::from_secs(90))),
            Lookup {
                mac: Some(MAC),
                ask: true
            }
        );
        assert_eq!(
            neighbors.lookup(PEER, WAITS, at(Instant::from_secs(90))),
            Lookup {
                mac: Some(MAC),
                ask: false
            }
        );
    }

    /// RFC 4861 §7.3.3: an old answer is not used for ever. Three requests without one, and the address
    /// is resolved anew.
    #[test]
    fn a_neighbor_that_answers_no_more_is_resolved_anew() {
        let mut neighbors = NeighborCache::new(Key::from_seed(1));
        neighbors.learn(PEER, MAC, Claim::Request, Instant::from_secs(1));
        let mut asked = |second| {
            let Lookup { mac, ask } = neighbors.lookup(PEER, WAITS, at(Instant::from_secs(second)));
            (mac, ask)
        };
        assert_eq!(asked(61), (Some(MAC), false));
        assert_eq!([62, 63, 64].map(&mut asked), [(Some(MAC), true); 3]);
        assert_eq!(asked(65), (None, true));
        assert!(neighbors.next_deadline().is_some());
    }

    /// RFC 4861 §7.3.1: a peer that is heard through the neighbor confirms it, from then on, unless another
    /// host claims the address.
    #[test]
    fn a_neighbor_through_which_a_peer_is_heard_is_not_asked() {
        let mut neighbors = NeighborCache::new(Key::from_seed(1));
        neighbors.learn(PEER, MAC, Claim::Request, Instant::from_secs(1));
        let asked = |neighbors: &mut NeighborCache, heard, second| {
            let times = (Instant::from_secs(heard), Instant::from_secs(second));
            let Lookup { mac, ask } = neighbors.lookup(PEER, WAITS, times);
            assert_eq!(mac, Some(MAC));
            ask
        };
        assert!(!asked(&mut neighbors, 50, 62), "heard, and not yet asked");
        assert_eq!(neighbors.last(&PEER, Instant::from_secs(110)), Some(MAC));
        assert_eq!(neighbors.last(&PEER, Instant::from_secs(111)), None);
        assert!(asked(&mut neighbors, 50, 111));
        assert!(!asked(&mut neighbors, 112, 113), "heard after the request");
        const THIEF: Mac = EthernetAddress([2, 0, 0, 0, 0, 66]);
        neighbors.learn(PEER, THIEF, Claim::Unsolicited, Instant::from_secs(114));
        assert_eq!(
            [115, 116, 117, 118].map(|second| asked(&mut neighbors, second, second)),
            [true; 4],
            "until the owner answers"
        );
        neighbors.learn(PEER, MAC, Claim::Reply, Instant::from_secs(119));
        assert!(!asked(&mut neighbors, 50, 179));
    }

    /// Connections that were idle for different times use their router again at once.
    #[test]
    fn peers_that_were_heard_before_the_request_do_not_repeat_it() {
        let mut neighbors = NeighborCache::new(Key::from_seed(1));
        neighbors.learn(PEER, MAC, Claim::Request, Instant::from_secs(1));
        let asked = [10, 20, 30, 40, 50].map(|heard| {
            let times = (Instant::from_secs(heard), Instant::from_secs(200));
            let Lookup { mac, ask } = neighbors.lookup(PEER, WAITS, times);
            assert_eq!(mac, Some(MAC));
            ask
        });
        assert_eq!(asked, [true, false, false, false, false]);
    }

    /// The shortcut agrees with a lookup: never stale, doubted, or of another address.
    #[test]
    fn the_last_neighbor_is_cached_while_its_entry_is_fresh() {
        let mut neighbors = NeighborCache::new(Key::from_seed(1));
        neighbors.learn(PEER, MAC, Claim::Request, Instant::from_secs(1));
        assert_eq!(
            neighbors.last(&PEER, Instant::from_secs(1)),
            None,
            "nobody has looked"
        );
        let look = |neighbors: &mut NeighborCache, second| {
            neighbors.lookup(PEER, WAITS, at(Instant::from_secs(second)));
            neighbors.last(&PEER, Instant::from_secs(second))
        };
        assert_eq!(look(&mut neighbors, 1), Some(MAC));
        let others = IpAddr::V4(Ipv4Addr::new(10, 7, 0, 3));
        assert_eq!(
            [1, 61].map(|second| neighbors.last(&PEER, Instant::from_secs(second))),
            [Some(MAC); 2]
        );
        assert_eq!(
            (
                neighbors.last(&PEER, Instant::from_secs(62)),
                neighbors.last(&others, Instant::from_secs(1))
            ),
            (None, None)
        );
        neighbors.learn(
            PEER,
            EthernetAddress([2, 0, 0, 0, 0, 66]),
            Claim::Reply,
            Instant::from_secs(2),
        );
        assert_eq!(neighbors.last(&PEER, Instant::from_secs(2)), None);
        assert_eq!(look(&mut neighbors, 3), None, "it is doubted");
        neighbors.learn(PEER, MAC, Claim::Reply, Instant::from_secs(3));
        assert_eq!(look(&mut neighbors, 62), Some(MAC));
    }

    #[test]
    fn a_flood_of_addresses_stays_bounded() {
        let mut neighbors = NeighborCache::new(Key::from_seed(1));
        for i in 0..10_000u32 {
            neighbors.lookup(
                Ipv4Addr::from(0x0a07_0000 + i).into(),
                WAITS,
                at(Instant::from_nanos(u64::from(i))),
            );
        }
        assert_eq!(
            (neighbors.entries.len(), neighbors.pending),
            (CAPACITY, CAPACITY)
        );
        // Connections that could not ask are notified when an entry is free.
        assert_eq!(neighbors.crowded, BTreeSet::from([SOCKET]));
        for second in 2..4 {
            assert!(
                neighbors
                    .on_deadline(Instant::from_secs(second))
                    .retry
                    .is_empty()
            );
        }
        assert_eq!(neighbors.on_deadline(Instant::from_secs(9)).retry, [SOCKET]);
    }
}
