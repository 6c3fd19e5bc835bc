//! [`Client`]: a DHCPv4 client (RFC 2131, options of RFC 2132) as a state machine that neither reads
//! a clock nor sends anything itself.
//!
//! ```text
//! Selecting ──offer──▶ Requesting ──ack──▶ Bound ──T1──▶ renewing ──T2──▶ rebinding ──expiry──▶ Selecting
//! ```
//!
//! A client that [probes](Client::probing) asks the link, before a lease is bound, whether another host
//! has its address; if so, it declines the lease and begins again ten seconds later.
//!
//! [`poll`](Client::poll) says what to do: send a [`Message`] from port 68 to port 67, or take note
//! that a lease began or ended. Before the first lease the host has no address, so messages travel
//! in [frames of their own](Message::to_frame); later they are datagrams of a socket.
//!
//! Everything that a server sends is checked: an offer without a usable address, mask, server or a
//! lease of a minute is as if it had not come, a router outside the network is ignored, and timers
//! never ask more than once in 30 s. Whoever shares the link can still pose as a server, as RFC 2131
//! §7 says.

mod lease;
mod message;
mod probing;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;
use std::time::Duration;

use smoltcp::wire::{DhcpMessageType, DhcpPacket, DhcpRepr, EthernetAddress};
use tautline_base::{Instant, SplitMix64};

pub use self::lease::Lease;
use self::lease::Timers;
pub use self::message::{Message, message_in};
use self::probing::{PAUSE, Probing};

/// Port of servers (RFC 2131 §4.1).
pub const SERVER_PORT: u16 = 67;
/// Port of clients.
pub const CLIENT_PORT: u16 = 68;

/// First delay before a message is repeated; it doubles (RFC 2131 §4.1).
const FIRST_DELAY: Duration = Duration::from_secs(4);
const MOST_DELAY: Duration = Duration::from_secs(64);
/// Requests for one offer before the client looks for another.
const MOST_REQUESTS: u32 = 4;
/// Shortest time between two requests to renew (RFC 2131 §4.4.5).
const LEAST_BETWEEN_RENEWALS: Duration = Duration::from_secs(60);
/// Time after which the address of a new lease is [announced](Client::announcement) a second and last time
/// (RFC 5227 §1.1, `ANNOUNCE_INTERVAL`, `ANNOUNCE_NUM`).
pub const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// Longest message that the client reads.
pub const MOST_LEN: usize = 1500;

/// Option code of routers.
const ROUTER: u8 = 3;

/// An action that [`Client::poll`] asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this message.
    Send(Message),
    /// A lease began: configure its address. A renewal is not reported.
    Bound(Lease),
    /// The lease ended: stop using its address at once (RFC 2131 §4.4.5).
    Lost(Lost),
}

/// Why a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// No server renewed it in time.
    #[error("it expired, and no DHCP server has renewed it")]
    Expired,
    /// A server refused to renew it.
    #[error("a DHCP server refuses to renew it")]
    Refused,
}

/// The client of one interface.
#[derive(Debug)]
pub struct Client {
    mac: [u8; 6],
    /// Tells this host apart from the kernel's, which has the same hardware address.
    identifier: Vec<u8>,
    rng: SplitMix64,
    /// Probes for another host with the address of a new lease.
    probes: u8,
    state: State,
    /// A change that the caller has not been told yet.
    change: Option<Action>,
}

#[derive(Debug)]
enum State {
    Selecting(Attempt),
    Requesting(Lease, Attempt),
    Probing(Probing),
    /// Another host has the address.
    Declining(Lease, Attempt),
    Bound(LeaseInUse),
}

/// Repetitions of a message in one transaction.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    transaction: u32,
    since: Instant,
    sent: u32,
    /// When the latest message was sent.
    asked: Instant,
    /// When the DHCPDISCOVER was sent that the offer answers, once there is an offer.
    discovered: Instant,
    next: Instant,
}

/// A lease in use.
#[derive(Debug)]
struct LeaseInUse {
    lease: Lease,
    /// `None`: it never ends.
    timers: Option<Timers>,
    /// When renewal began, and its transaction, once it has.
    renewal: Option<(Instant, u32)>,
    /// When the request for it was sent, and the latest one.
    since: Instant,
    asked: Instant,
    /// The next request.
    next: Option<Instant>,
}

/// The first router that `packet` names.
fn router_of(packet: &DhcpPacket<&[u8]>) -> Option<Ipv4Addr> {
    let option = packet.options().find(|option| option.kind == ROUTER)?;
    let address: [u8; 4] = *option.data.first_chunk()?;
    Some(address.into())
}

impl LeaseInUse {
    /// A lease counts from the request for it (RFC 2131 §4.4.1).
    fn new(lease: Lease, asked: Instant) -> Self {
        let timers = lease.timers(asked);
        Self {
            next: timers.map(|timers| timers.renew),
            timers,
            lease,
            renewal: None,
            since: asked,
            asked,
        }
    }
}

impl Client {
    /// A client that begins to look for a server at `now`. `seed`: from the system's generator;
    /// with it transactions cannot be guessed from elsewhere.
    pub fn new(mac: [u8; 6], seed: u64, now: Instant) -> Self {
        // Type 0: not a hardware address (RFC 2132 §9.14).
        let identifier = [&[0][..], b"tautline", &mac].concat();
        let mut rng = SplitMix64::new(seed);
        let state = State::Selecting(Attempt::new(&mut rng, now));
        Self {
            mac,
            identifier,
            rng,
            probes: 0,
            state,
            change: None,
        }
    }

    /// The same client, which asks the link so often, before it uses the address of a new lease, whether
    /// another host has it (RFC 2131 §4.4.1). Each of these `probes` takes a second; RFC 5227 §1.1 has
    /// three. The default is 0, as in most clients: the server is believed. The caller sends what
    /// [`probe`](Self::probe) returns and passes on what it [hears](Self::hear).
    #[must_use]
    pub fn probing(self, probes: u8) -> Self {
        Self { probes, ..self }
    }

    /// A client that goes on with a lease that began at `since`, in another program perhaps.
    pub fn resume(mac: [u8; 6], seed: u64, lease: Lease, since: Instant) -> Self {
        Self {
            state: State::Bound(LeaseInUse::new(lease, since)),
            ..Self::new(mac, seed, since)
        }
    }

    /// The lease in use.
    pub fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Bound(held) => Some(&held.lease),
            _ => None,
        }
    }

    /// When the lease in use began: with the request for it, not with its acknowledgment.
    pub fn since(&self) -> Option<Instant> {
        match &self.state {
            State::Bound(held) => Some(held.since),
            _ => None,
        }
    }

    /// When [`poll`](Self::poll) must be called at the latest; `None`: not before the next message.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Selecting(attempt)
            | State::Requesting(_, attempt)
            | State::Declining(_, attempt) => Some(attempt.next),
            State::Probing(probing) => Some(probing.deadline()),
            State::Bound(held) => {
                let expiry = held.timers.map(|timers| timers.expiry);
                held.next.into_iter().chain(expiry).min()
            }
        }
    }

    /// The next action at `now`; call it until it returns `None`.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        if let Some(change) = self.change.take() {
            return Some(change);
        }
        match &mut self.state {
            State::Requesting(_, attempt)
                if attempt.next <= now && attempt.sent >= MOST_REQUESTS =>
            {
                self.state = State::Selecting(Attempt::new(&mut self.rng, now));
                self.poll(now)
            }
            State::Selecting(attempt) | State::Requesting(_, attempt) => {
                if attempt.next > now {
                    return None;
                }
                attempt.sent += 1;
                attempt.asked = now;
                attempt.next = now + delay_after(attempt.sent, &mut self.rng);
                Some(Action::Send(self.message(now)))
            }
            State::Probing(probing) => {
                if !probing.advance(now) {
                    return None;
                }
                let held = LeaseInUse::new(probing.lease.clone(), probing.asked);
                let bound = Action::Bound(held.lease.clone());
                self.state = State::Bound(held);
                Some(bound)
            }
            State::Declining(..) => {
                let declined = self.message(now);
                self.start_again(now + PAUSE, now);
                Some(Action::Send(declined))
            }
            State::Bound(held) => {
                let timers = held.timers?;
                if timers.expiry <= now {
                    self.state = State::Selecting(Attempt::new(&mut self.rng, now));
                    return Some(Action::Lost(Lost::Expired));
                }
                if held.next.is_none_or(|next| next > now) {
                    return None;
                }
                let limit = if now < timers.rebind {
                    timers.rebind
                } else {
                    timers.expiry
                };
                let half = (limit - now) / 2;
                held.next = Some((now + half.max(LEAST_BETWEEN_RENEWALS)).min(limit));
                held.asked = now;
                held.renewal
                    .get_or_insert_with(|| (now, self.rng.next_u64() as u32));
                Some(Action::Send(self.message(now)))
            }
        }
    }

    /// The address that the client [probes](Self::probing) for now.
    pub fn probed(&self) -> Option<Ipv4Addr> {
        match &self.state {
            State::Probing(probing) => Some(probing.lease.address),
            _ => None,
        }
    }

    /// The Ethernet frame of the probe that is due after a [`poll`](Self::poll), if the client
    /// [probes](Self::probing).
    pub fn probe(&mut self) -> Option<Vec<u8>> {
        match &mut self.state {
            State::Probing(probing) => probing.take(self.mac),
            _ => None,
        }
    }

    /// The Ethernet frame that announces the address of the lease in use: neighbors that remember the
    /// host which had it before replace what they remember (RFC 2131 §4.4.1, RFC 5227 §2.3). It is sent twice,
    /// [`ANNOUNCE_INTERVAL`] apart; a host that runs by then does the same with [`announce`](crate::announce).
    pub fn announcement(&self) -> Option<Vec<u8>> {
        let address = self.lease()?.address;
        probing::request(self.mac, address, address)
    }

    /// Takes an Ethernet frame from the link: if it shows that another host has the address that the
    /// client probes for, the lease is declined.
    pub fn hear(&mut self, frame: &[u8], now: Instant) {
        if let State::Probing(probing) = &self.state
            && probing.is_contradicted(frame, self.mac)
        {
            let attempt = Attempt::new(&mut self.rng, now);
            self.state = State::Declining(probing.lease.clone(), attempt);
        }
    }

    /// The server grants what was requested at `asked`.
    fn on_granted(&mut self, lease: Lease, asked: Instant, now: Instant) {
        self.state = if self.probes > 0 {
            State::Probing(Probing::new(lease, asked, self.probes, now))
        } else {
            self.change = Some(Action::Bound(lease.clone()));
            State::Bound(LeaseInUse::new(lease, asked))
        };
    }

    /// Looks for a server again, at `next`.
    fn start_again(&mut self, next: Instant, now: Instant) {
        let attempt = Attempt::new(&mut self.rng, now);
        self.state = State::Selecting(Attempt { next, ..attempt });
    }

    /// Takes the payload of a datagram from port 67 to port 68. Only an answer to this client's latest
    /// message has an effect.
    pub fn receive(&mut self, payload: &[u8], now: Instant) {
        let Ok(packet) = DhcpPacket::new_checked(payload) else {
            return;
        };
        let Ok(reply) = DhcpRepr::parse(&packet) else {
            return;
        };
        if reply.client_hardware_address != EthernetAddress(self.mac) {
            return;
        }
        let lease = Lease::of(&reply, router_of(&packet));
        let is_of = |attempt: &Attempt| attempt.transaction == reply.transaction_id;
        match (&mut self.state, reply.message_type) {
            (State::Selecting(attempt), DhcpMessageType::Offer)
                if is_of(attempt) && attempt.sent > 0 =>
            {
                if let Some(offer) = lease {
                    let attempt = Attempt {
                        sent: 0,
                        discovered: attempt.asked,
                        next: now,
                        ..*attempt
                    };
                    self.state = State::Requesting(offer, attempt);
                }
            }
            (State::Requesting(offer, attempt), DhcpMessageType::Ack)
                if is_of(attempt) && attempt.sent > 0 =>
            {
                let is_same =
                    |lease: &Lease| (lease.address, lease.server) == (offer.address, offer.server);
                if let Some(lease) = lease.filter(is_same) {
                    let asked = attempt.asked;
                    self.on_granted(lease, asked, now);
                }
            }
            (State::Requesting(offer, attempt), DhcpMessageType::Nak)
                if is_of(attempt) && reply.server_identifier == Some(offer.server) =>
            {
                // Not at once: a server that refuses what it offers would be asked for ever.
                let next = now + delay_after(1, &mut self.rng);
                self.start_again(next, now);
            }
            (State::Bound(held), kind) if held.is_answer(&reply, now) => match kind {
                DhcpMessageType::Ack => {
                    let is_same = |lease: &Lease| lease.address == held.lease.address;
                    if let Some(lease) = lease.filter(is_same) {
                        *held = LeaseInUse::new(lease, held.asked);
                    }
                }
                DhcpMessageType::Nak => {
                    self.change = Some(Action::Lost(Lost::Refused));
                    self.state = State::Selecting(Attempt::new(&mut self.rng, now));
                }
                _ => {}
            },
            _ => {}
        }
    }
}

impl Attempt {
    fn new(rng: &mut SplitMix64, now: Instant) -> Self {
        Self {
            transaction: rng.next_u64() as u32,
            since: now,
            sent: 0,
            asked: now,
            discovered: now,
            next: now,
        }
    }
}

impl LeaseInUse {
    /// Any server may renew the lease.
    fn is_rebinding(&self, now: Instant) -> bool {
        self.timers.is_some_and(|timers| timers.rebind <= now)
    }

    /// Whether `reply` answers a request to renew: while only one server was asked, that one's.
    fn is_answer(&self, reply: &DhcpRepr<'_>, now: Instant) -> bool {
        let is_asked = self.is_rebinding(now) || reply.server_identifier == Some(self.lease.server);
        let of_renewal = |(_, transaction)| transaction == reply.transaction_id;
        is_asked && self.renewal.is_some_and(of_renewal)
    }
}

/// How long to wait after message number `sent`: 4, 8, … 64 s, each up to a second less or more
/// (RFC 2131 §4.1).
fn delay_after(sent: u32, rng: &mut SplitMix64) -> Duration {
    let doublings = sent.saturating_sub(1).min(4);
    let delay = (FIRST_DELAY * (1 << doublings)).min(MOST_DELAY);
    let jitter = Duration::from_millis(rng.next_u64() % 2000);
    delay - Duration::from_secs(1) + jitter
}
