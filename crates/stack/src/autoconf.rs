//! Automatic configuration from the link: duplicates of its addresses, multicast groups to join, routers,
//! prefixes and addresses of IPv6 (RFC 4861 §6.3, RFC 4862, RFC 3810 §6).
//!
//! [`Autoconf`] is sans-I/O: it changes the host's [`Addressing`] and leaves messages to be sent in
//! [`take_messages`](Autoconf::take_messages). All its tables are bounded, so a flood of forged
//! advertisements costs neither memory nor time per packet.

mod addresses;
mod lifetime;
mod multicast;
mod report;
mod routers;
mod solicitation;

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use tautline_base::{Instant, Medium};

use self::addresses::Addresses;
use self::multicast::Groups;
use self::routers::Routers;
use self::solicitation::Solicitation;
use crate::addressing::Addressing;
use crate::config::HostConfig;
use crate::keyed::Key;
use crate::wire::mld::{self, Query, Record};
use crate::wire::ndisc::{self, Nonce};
use crate::wire::router::{Advertisement, RouterOption};
use crate::wire::{HOP_LIMIT, IPV6_MIN_MTU};

pub use self::report::Configuration;

/// Longest random delay before the first message (RFC 4861 §10, `MAX_RTR_SOLICITATION_DELAY`).
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Time between two changes of the routes of open connections, which costs a scan over them.
const REROUTE_INTERVAL: Duration = Duration::from_secs(1);

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A probe of duplicate address detection.
    Probe(Ipv6Addr, Nonce),
    /// A report of multicast groups.
    Report(Vec<(Record, Ipv6Addr)>),
    /// A router solicitation.
    Solicitation,
}

/// Parameters of the link that routers advertise (RFC 4861 §6.3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkParameters {
    pub(crate) hop_limit: Option<u8>,
    pub(crate) mtu: Option<usize>,
    /// Times of neighbors, of the latest advertisement; zero if it does not say.
    pub(crate) reachable_time: Duration,
    pub(crate) retransmission: Duration,
}

/// Changes that concern sockets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// The application is to be notified.
    pub(crate) any: bool,
    /// The link's MTU.
    mtu: bool,
    /// Open connections look up their next hop and the link's MTU again.
    pub(crate) reroute: bool,
    /// Addresses that the host no longer has.
    pub(crate) lost: Vec<IpAddr>,
}

/// State of automatic configuration.
#[derive(Debug)]
pub(crate) struct Autoconf {
    addresses: Addresses,
    groups: Groups,
    routers: Option<Routers>,
    solicitation: Solicitation,
    random: Random,
    messages: Vec<Message>,
    link: LinkParameters,
    changes: Changes,
    rerouted: Option<Instant>,
    next: Option<Instant>,
    has_begun: bool,
}

impl Autoconf {
    /// Takes over the IPv6 addresses of `addressing`; `None` if nothing is automatic on this link.
    pub(crate) fn new(
        config: &HostConfig,
        (medium, mtu): (Medium, usize),
        addressing: &mut Addressing,
        key: &Key,
    ) -> Option<Self> {
        let wanted = &config.autoconfiguration;
        let is_on = wanted.dad_transmits > 0 || wanted.router_advertisements;
        if !is_on || medium != Medium::Ethernet || mtu < IPV6_MIN_MTU {
            return None;
        }
        Some(Self {
            addresses: Addresses::new(config, addressing.take_ipv6(), key),
            groups: Groups::default(),
            routers: wanted.router_advertisements.then(|| Routers::new(mtu)),
            solicitation: Solicitation::new(wanted.router_advertisements),
            random: Random {
                key: *key,
                count: 0,
            },
            messages: Vec::new(),
            link: LinkParameters::default(),
            changes: Changes::default(),
            rerouted: None,
            next: Some(Instant::ZERO),
            has_begun: false,
        })
    }

    /// Time of the next call of [`on_deadline`](Self::on_deadline).
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.next
    }

    /// Does what is due at `now`. Returns the changes since the last call.
    pub(crate) fn on_deadline(&mut self, addressing: &mut Addressing, now: Instant) -> Changes {
        if !self.has_begun {
            self.has_begun = true;
            let first = now + self.random.within(FIRST_DELAY);
            self.addresses.begin(first);
            self.solicitation.begin(first);
        }
        for group in self.addresses.groups_to_join(now) {
            self.groups.join(group, now);
        }
        if let Some(records) = self.groups.on_deadline(&mut self.random, now) {
            let reports = records.chunks(mld::MOST_RECORDS);
            self.messages
                .extend(reports.map(|records| Message::Report(records.to_vec())));
        }
        let random = &mut self.random;
        let outcome = self.addresses.on_deadline(addressing, random, now);
        let probes = outcome.probes.into_iter();
        self.messages
            .extend(probes.map(|(target, nonce)| Message::Probe(target, nonce)));
        self.changes.any |= outcome.has_changed;
        self.changes.lost.extend(outcome.lost);
        let routers = self.routers.as_mut();
        self.changes.any |= routers.is_some_and(|routers| routers.expire(addressing, now));
        let has_source = self.addresses.has_link_local();
        if self.solicitation.is_due(has_source, now) {
            self.messages.push(Message::Solicitation);
        }
        self.leave_groups(now);
        let changes = self.take_changes(now);
        self.schedule(now);
        changes
    }

    /// Messages to be sent, in order.
    pub(crate) fn take_messages(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.messages)
    }

    /// Parameters that routers have set.
    pub(crate) fn link(&self) -> LinkParameters {
        self.link
    }

    /// Whether `address` belongs to this host alone as soon as its test ends.
    pub(crate) fn is_tentative(&self, address: Ipv6Addr) -> bool {
        self.addresses.is_tentative(address)
    }

    /// Another host probes for `target`, or has it. Returns whether that ends a test of ours.
    pub(crate) fn on_claim(
        &mut self,
        target: Ipv6Addr,
        nonce: Option<Nonce>,
        addressing: &mut Addressing,
        now: Instant,
    ) -> bool {
        let ended = self.addresses.on_claim(target, nonce, now);
        if ended {
            self.changes.any = true;
            if self.addresses.is_disabled() {
                self.solicitation.stop();
                self.forget_routers(addressing);
            }
            self.next = Some(now);
        }
        ended
    }

    /// Handles an advertisement from the router at `source`. Returns the number of entries that the
    /// bounds exclude.
    pub(crate) fn on_advertisement(
        &mut self,
        source: Ipv6Addr,
        message: &Advertisement<'_>,
        addressing: &mut Addressing,
        now: Instant,
    ) -> u64 {
        let Some(routers) = self.routers.as_mut().filter(|_| self.has_begun) else {
            return 0;
        };
        self.solicitation.on_advertisement(message.lifetime);
        let mut excess = 0;
        match routers.hear(source, message.lifetime, addressing, now) {
            Ok(has_changed) => self.changes.any |= has_changed,
            Err(_) => excess += 1,
        }
        // A lower one than the default would let a forged message cut the host off.
        if message.hop_limit >= HOP_LIMIT {
            self.link.hop_limit = Some(message.hop_limit);
        }
        self.link.reachable_time = message.reachable_time;
        self.link.retransmission = message.retransmission;
        self.addresses.advertise(message.retransmission);
        for option in message.options() {
            match option {
                RouterOption::Source(_) => {}
                RouterOption::Mtu(mtu) => {
                    let before = self.link.mtu;
                    self.link.mtu = routers.accept_mtu(mtu).or(before);
                    self.changes.mtu |= self.link.mtu != before;
                }
                RouterOption::Prefix(prefix) => {
                    match routers.hear_prefix(&prefix, addressing, now) {
                        Ok(has_changed) => self.changes.any |= has_changed,
                        Err(_) => excess += 1,
                    }
                    let formed = self.addresses.hear_prefix(&prefix, &mut self.random, now);
                    excess += u64::from(formed.is_err());
                }
            }
        }
        self.next = Some(now);
        excess
    }

    /// Handles a query for members of groups.
    pub(crate) fn on_query(&mut self, query: &Query, now: Instant) {
        self.groups.on_query(query, &mut self.random, now);
        self.schedule(now);
    }

    /// No answer came from `router`: another one is preferred.
    pub(crate) fn on_unreachable(
        &mut self,
        router: IpAddr,
        addressing: &mut Addressing,
        now: Instant,
    ) {
        let is_ours = self.routers.as_ref().is_some_and(|all| all.has(router));
        if is_ours && addressing.demote_router(router) {
            self.changes.any = true;
            self.next = Some(now);
        }
    }

    /// The neighbor `address` says that it is no router: if it was one of the default routers, it is
    /// not any more (RFC 4861 §7.2.5).
    pub(crate) fn on_not_a_router(
        &mut self,
        address: Ipv6Addr,
        addressing: &mut Addressing,
        now: Instant,
    ) {
        let routers = self.routers.as_mut();
        let ended = routers.map(|routers| routers.hear(address, 0, addressing, now));
        if ended == Some(Ok(true)) {
            self.changes.any = true;
            self.next = Some(now);
        }
    }

    fn forget_routers(&mut self, addressing: &mut Addressing) {
        if let Some(mut routers) = self.routers.take() {
            routers.clear(addressing);
        }
    }

    /// Leaves the groups of addresses that the host neither has nor tests.
    fn leave_groups(&mut self, now: Instant) {
        let addresses = &self.addresses;
        self.groups
            .leave_unless(|group| addresses.any_in(group), now);
    }

    fn take_changes(&mut self, now: Instant) -> Changes {
        let mut changes = std::mem::take(&mut self.changes);
        let can_reroute = self
            .rerouted
            .is_none_or(|last| now >= last + REROUTE_INTERVAL);
        if can_reroute && (changes.any || changes.mtu) {
            self.rerouted = Some(now);
            changes.reroute = true;
        } else {
            // They wait for their turn.
            (self.changes.any, self.changes.mtu) = (changes.any, changes.mtu);
        }
        changes.any &= changes.reroute;
        changes
    }

    fn schedule(&mut self, now: Instant) {
        let changes = self.rerouted.map_or(now, |last| last + REROUTE_INTERVAL);
        let is_changed = self.changes.any || self.changes.mtu;
        let deadlines = [
            self.addresses.next_deadline(),
            self.groups.next_deadline(),
            self.routers.as_ref().and_then(Routers::next_deadline),
            self.solicitation
                .next_deadline(self.addresses.has_link_local()),
            is_changed.then_some(changes),
        ];
        let next = deadlines.into_iter().flatten().min();
        self.next = next.map(|at| at.max(now));
    }

    /// State for the application.
    pub(crate) fn report(&self, addressing: &Addressing) -> Configuration {
        Configuration {
            tentative: self.addresses.tentative().collect(),
            duplicates: self.addresses.duplicates().collect(),
            ..Configuration::of(addressing)
        }
    }
}

/// Random delays and nonces from the host's secret.
#[derive(Debug)]
pub(crate) struct Random {
    key: Key,
    count: u64,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.count += 1;
        self.key.autoconf(self.count)
    }

    /// A time below `limit`.
    pub(crate) fn within(&mut self, limit: Duration) -> Duration {
        let nanos = limit.as_nanos() as u64;
        Duration::from_nanos(self.next() % nanos.max(1))
    }

    /// A nonce of a probe.
    pub(crate) fn nonce(&mut self) -> Nonce {
        let [a, b, c, d, e, f, ..] = self.next().to_be_bytes();
        [a, b, c, d, e, f]
    }
}

/// The group that neighbors ask for `address` in.
fn group_of(address: Ipv6Addr) -> Ipv6Addr {
    ndisc::solicited_node(address)
}
