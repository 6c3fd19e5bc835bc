//! IPv6 addresses: their test for duplicates (RFC 4862 §5.4, RFC 7527), those formed of advertised
//! prefixes (RFC 4862 §5.5, RFC 7217), their lifetimes.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use tautline_base::Instant;

use super::lifetime::Until;
use super::routers::Full;
use super::{Random, group_of};
use crate::address::Cidr;
use crate::addressing::{Addressing, interface_of};
use crate::config::{HostConfig, Identifiers};
use crate::keyed::Key;
use crate::neighbor::{RETRANS_TIMER, retransmission_within_bounds};
use crate::wire::ndisc::Nonce;
use crate::wire::router::Prefix;

/// Most addresses formed of prefixes (Linux `max_addresses`).
const MOST_FORMED: usize = 16;
/// Most identifiers tried for a prefix after the first (RFC 7217 §6, `IDGEN_RETRIES`).
const RETRIES: u8 = 3;
/// An unauthenticated advertisement does not shorten a valid lifetime below this (RFC 4862 §5.5.3 e).
const TWO_HOURS: Duration = Duration::from_secs(2 * 60 * 60);
/// Bits of an interface identifier, and of a prefix to form addresses of.
const IDENTIFIER_BITS: u8 = 64;

/// The IPv6 addresses of a host, tested or not.
#[derive(Debug)]
pub(super) struct Addresses {
    all: Vec<Address>,
    transmits: u8,
    /// `RetransTimer`: the time after each probe (RFC 4862 §5.1).
    retransmission: Duration,
    identifiers: Identifiers,
    secret: Key,
    mac: [u8; 6],
    /// The link-local address is a duplicate: no other one is used (RFC 4862 §5.4.5).
    is_disabled: bool,
}

#[derive(Debug)]
struct Address {
    cidr: Cidr,
    origin: Origin,
    phase: Phase,
    preferred: Until,
    valid: Until,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Configured, or link-local: its network is on the link.
    Configured,
    /// Formed of a prefix, after so many duplicates.
    Formed { retries: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Tested; the next step is at `at`.
    Tentative {
        probes_left: u8,
        at: Instant,
        nonce: Option<Nonce>,
    },
    Assigned,
    Deprecated,
    Duplicate,
}

/// The result of [`Addresses::on_deadline`].
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) probes: Vec<(Ipv6Addr, Nonce)>,
    pub(super) lost: Vec<IpAddr>,
    pub(super) has_changed: bool,
}

impl Address {
    fn new(cidr: Cidr, origin: Origin, lifetimes: (Until, Until), probes: u8, at: Instant) -> Self {
        Self {
            cidr,
            origin,
            phase: Phase::Tentative {
                probes_left: probes,
                at,
                nonce: None,
            },
            preferred: lifetimes.0,
            valid: lifetimes.1,
        }
    }

    fn ip(&self) -> Ipv6Addr {
        match self.cidr.address() {
            IpAddr::V6(v6) => v6,
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        }
    }

    fn is_tentative(&self) -> bool {
        matches!(self.phase, Phase::Tentative { .. })
    }

    fn is_used(&self) -> bool {
        matches!(self.phase, Phase::Assigned | Phase::Deprecated)
    }

    /// The probe that is due, if one is.
    fn next_probe(
        &mut self,
        retransmission: Duration,
        random: &mut Random,
        now: Instant,
    ) -> Option<(Ipv6Addr, Nonce)> {
        let target = self.ip();
        let Phase::Tentative {
            probes_left,
            at,
            nonce,
        } = &mut self.phase
        else {
            return None;
        };
        if *at > now || *probes_left == 0 {
            return None;
        }
        let fresh = random.nonce();
        (*probes_left, *at, *nonce) = (*probes_left - 1, now + retransmission, Some(fresh));
        Some((target, fresh))
    }

    fn next_deadline(&self) -> Option<Instant> {
        let step = match self.phase {
            Phase::Tentative { at, .. } => Some(at),
            Phase::Assigned => self.preferred.at(),
            Phase::Deprecated | Phase::Duplicate => None,
        };
        step.into_iter().chain(self.valid.at()).min()
    }
}

impl Addresses {
    /// The configured addresses `own`, not yet tested.
    pub(super) fn new(config: &HostConfig, own: Vec<Cidr>, key: &Key) -> Self {
        let wanted = &config.autoconfiguration;
        let transmits = wanted.dad_transmits;
        let forever = (Until::Forever, Until::Forever);
        let tentative =
            |cidr| Address::new(cidr, Origin::Configured, forever, transmits, Instant::ZERO);
        Self {
            all: own.into_iter().map(tentative).collect(),
            transmits,
            retransmission: RETRANS_TIMER,
            identifiers: wanted.identifiers,
            secret: wanted.secret.map_or(*key, Key::from_seed),
            mac: config.mac,
            is_disabled: false,
        }
    }

    /// A router advertises the time between solicitations (RFC 4861 §6.3.4). A wait that has begun keeps its
    /// end.
    pub(super) fn advertise(&mut self, retransmission: Duration) {
        self.retransmission =
            retransmission_within_bounds(retransmission).unwrap_or(self.retransmission);
    }

    /// Begins the tests at `first`; without probes they end at once.
    pub(super) fn begin(&mut self, first: Instant) {
        let start = if self.transmits > 0 {
            first
        } else {
            Instant::ZERO
        };
        for address in &mut self.all {
            if let Phase::Tentative { at, .. } = &mut address.phase {
                *at = start;
            }
        }
    }

    /// Groups of the addresses whose test begins now: a host joins them before it probes (RFC 4862
    /// §5.4.2).
    pub(super) fn groups_to_join(&self, now: Instant) -> Vec<Ipv6Addr> {
        let is_due = |one: &&Address| matches!(one.phase, Phase::Tentative { at, .. } if at <= now);
        let due = self.all.iter().filter(is_due);
        due.map(|one| group_of(one.ip())).collect()
    }

    /// Whether an address of `group` is used or tested.
    pub(super) fn any_in(&self, group: Ipv6Addr) -> bool {
        self.all
            .iter()
            .any(|one| one.phase != Phase::Duplicate && group_of(one.ip()) == group)
    }

    /// Advances tests and ends lifetimes.
    pub(super) fn on_deadline(
        &mut self,
        addressing: &mut Addressing,
        random: &mut Random,
        now: Instant,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let retransmission = self.retransmission;
        self.all.retain_mut(|one| {
            if one.valid.is_over(now) {
                if one.is_used() {
                    addressing.withdraw(one.cidr);
                    outcome.lost.push(one.cidr.address());
                }
                outcome.has_changed = true;
                return false;
            }
            if let Some(probe) = one.next_probe(retransmission, random, now) {
                outcome.probes.push(probe);
            } else {
                step(one, addressing, &mut outcome, now);
            }
            true
        });
        outcome
    }

    /// Another host probes for `target`, or has it: if we test it, it is a duplicate (RFC 4862
    /// §5.4.3, §5.4.4). Returns whether we did.
    pub(super) fn on_claim(
        &mut self,
        target: Ipv6Addr,
        nonce: Option<Nonce>,
        now: Instant,
    ) -> bool {
        let is_tested = |one: &&mut Address| one.is_tentative() && one.ip() == target;
        let Some(one) = self.all.iter_mut().find(is_tested) else {
            return false;
        };
        let Phase::Tentative { nonce: ours, .. } = one.phase else {
            return false;
        };
        if nonce.is_some() && nonce == ours {
            // Our own probe came back.
            return false;
        }
        one.phase = Phase::Duplicate;
        let (cidr, origin, lifetimes) = (one.cidr, one.origin, (one.preferred, one.valid));
        match origin {
            Origin::Formed { retries } if self.may_retry(retries) => {
                let retries = retries + 1;
                self.all.retain(|one| one.cidr != cidr);
                let cidr = self.form(target, retries);
                let origin = Origin::Formed { retries };
                let retried = Address::new(cidr, origin, lifetimes, self.transmits, now);
                self.all.push(retried);
            }
            Origin::Configured if target.is_unicast_link_local() => self.disable(),
            Origin::Formed { .. } | Origin::Configured => {}
        }
        true
    }

    /// Forms an address of an advertised prefix, or updates the lifetimes of the one there is (RFC
    /// 4862 §5.5.3).
    ///
    /// # Errors
    /// [`Full`].
    pub(super) fn hear_prefix(
        &mut self,
        prefix: &Prefix,
        random: &mut Random,
        now: Instant,
    ) -> Result<(), Full> {
        let network = prefix.network;
        let is_usable = prefix.autonomous
            && prefix.len + IDENTIFIER_BITS == 128
            && !(network.is_unicast_link_local() || network.is_multicast())
            && network.to_bits() >> 64 != 0
            && prefix.preferred <= prefix.valid
            && !self.is_disabled;
        if !is_usable {
            return Ok(());
        }
        let formed = |one: &Address| matches!(one.origin, Origin::Formed { .. });
        let of_prefix =
            |one: &&mut Address| formed(one) && one.ip().to_bits() >> 64 == network.to_bits() >> 64;
        if let Some(one) = self.all.iter_mut().find(of_prefix) {
            one.preferred = Until::seconds_from(prefix.preferred, now);
            one.valid = renewed(one.valid, prefix.valid, now);
            return Ok(());
        }
        if prefix.valid == 0 {
            return Ok(());
        }
        if self.all.iter().filter(|one| formed(one)).count() >= MOST_FORMED {
            return Err(Full);
        }
        let lifetimes = (
            Until::seconds_from(prefix.preferred, now),
            Until::seconds_from(prefix.valid, now),
        );
        // All hosts of the link heard the advertisement at once: they must not probe at once.
        let first = match self.transmits {
            0 => now,
            _ => now + random.within(super::FIRST_DELAY),
        };
        let cidr = self.form(network, 0);
        let origin = Origin::Formed { retries: 0 };
        self.all
            .push(Address::new(cidr, origin, lifetimes, self.transmits, first));
        Ok(())
    }

    pub(super) fn is_tentative(&self, address: Ipv6Addr) -> bool {
        let is_tested = |one: &Address| one.is_tentative() && one.ip() == address;
        self.all.iter().any(is_tested)
    }

    pub(super) fn is_disabled(&self) -> bool {
        self.is_disabled
    }

    /// Whether a link-local address has passed its test.
    pub(super) fn has_link_local(&self) -> bool {
        let mut used = self.all.iter().filter(|one| one.is_used());
        used.any(|one| one.ip().is_unicast_link_local())
    }

    pub(super) fn tentative(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let tentative = self.all.iter().filter(|one| one.is_tentative());
        tentative.map(|one| one.cidr.address())
    }

    pub(super) fn duplicates(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let duplicates = self.all.iter();
        duplicates
            .filter(|one| one.phase == Phase::Duplicate)
            .map(|one| one.cidr.address())
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.all.iter().filter_map(Address::next_deadline).min()
    }

    fn may_retry(&self, retries: u8) -> bool {
        self.identifiers == Identifiers::Stable && retries < RETRIES
    }

    /// Another host has our hardware address, or our place on the link. Addresses that have passed
    /// their test end with the next deadline.
    fn disable(&mut self) {
        self.is_disabled = true;
        self.all.retain(|one| !one.is_tentative());
        let used = self.all.iter_mut().filter(|one| one.is_used());
        used.for_each(|one| one.valid = Until::At(Instant::ZERO));
    }

    /// The address of the network of `prefix` after so many duplicates.
    fn form(&self, prefix: Ipv6Addr, retries: u8) -> Cidr {
        let network = prefix.to_bits() >> 64;
        let interface = match self.identifiers {
            Identifiers::FromMac => interface_of(self.mac),
            Identifiers::Stable => self
                .secret
                .stable_interface(network as u64, self.mac, retries),
        };
        let address = Ipv6Addr::from_bits(network << 64 | u128::from(interface));
        Cidr::new(address, IDENTIFIER_BITS)
    }
}

/// Does what is due for one address, after its probes.
fn step(one: &mut Address, addressing: &mut Addressing, outcome: &mut Outcome, now: Instant) {
    match one.phase {
        Phase::Tentative { at, .. } if at <= now => {
            addressing.assign(one.cidr, one.origin == Origin::Configured);
            one.phase = Phase::Assigned;
            outcome.has_changed = true;
        }
        _ => {}
    }
    let is_over = one.preferred.is_over(now);
    match one.phase {
        Phase::Assigned if is_over => one.phase = Phase::Deprecated,
        Phase::Deprecated if !is_over => one.phase = Phase::Assigned,
        _ => return,
    }
    addressing.set_deprecated(one.cidr.address(), is_over);
    outcome.has_changed = true;
}

/// The end of a valid lifetime after an advertisement of `seconds`: it may rise, and fall to two
/// hours at least (RFC 4862 §5.5.3 e).
fn renewed(valid: Until, seconds: u32, now: Instant) -> Until {
    let advertised = Until::seconds_from(seconds, now);
    let floor = Until::At(now + TWO_HOURS);
    if advertised > floor || advertised > valid {
        advertised
    } else {
        valid.min(floor)
    }
}
