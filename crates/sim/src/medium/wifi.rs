//! [`Wifi`]: one channel of IEEE 802.11n/ac, shared by an access point and its stations.
//!
//! Whoever has something waits until the channel was idle for AIFS and its backoff has run down, then sends one aggregate to one
//! receiver and hears its acknowledgement SIFS later. That overhead is the same for one frame as for sixty-four: throughput is a
//! matter of how much lies in the ring when the channel is won (papers 001 §IV.B and 003).
//!
//! A backoff runs down while the channel is idle, also without anything to send, and is drawn anew after each transmission; who finds
//! it run down sends at once. Who would send at the same instant collides: all they sent fails. Every frame that fails goes again, in
//! the next aggregate, until it is given up.
//!
//! Not here: RTS/CTS, A-MSDU, hidden stations, rate control, spacing of small frames, power save. Frames reach the receiver when they
//! are acknowledged, some 50 µs later than on a real channel, and all have the access category of best effort.

mod config;
mod contention;
mod phy;
mod stats;

use std::time::Duration;

use rand_core::SeedableRng;
use rand_pcg::Pcg32;
use tautline_base::{Bytes, Instant};

use super::{Cards, CardsMut};
use crate::config_error::ConfigError;
use crate::nic::{Discipline, SimNic, Verdict};

pub use config::{Access, Aggregate, Backoff, Turn, WifiConfig};
use contention::Contention;
pub use phy::{Guard, Phy, Standard, Width};
pub use stats::{AirStats, WifiStats};

/// A Wi-Fi cell.
#[derive(Debug)]
pub struct Wifi {
    config: WifiConfig,
    /// Among the access point, number 0, and the stations.
    contention: Contention,
    links: Vec<AirLink>,
    channel: Channel,
    /// Contender and card of everything on the air.
    on_air: Vec<(usize, usize)>,
    /// Who begins, for one call.
    winners: Vec<usize>,
    /// Whom the access point served last.
    last_served: usize,
    /// Air time of that one when it was: where those begin who had nothing for a while.
    virtual_time: Duration,
    rng: Pcg32,
    stats: WifiStats,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Idle { since: Instant },
    Busy { until: Instant },
}

/// One card's share of the air.
#[derive(Debug)]
struct AirLink {
    phy: Phy,
    /// Air time had, in virtual time.
    had: Duration,
    stats: AirStats,
}

impl Wifi {
    /// A quiet cell of `stations`, each with its own way to transmit and be transmitted to or else that of `config`, whose luck comes
    /// from `rng`.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn new(config: WifiConfig, stations: &[Option<Phy>], mut rng: Pcg32) -> Result<Self, ConfigError> {
        config.check()?;
        for phy in stations.iter().flatten() {
            phy.check()?;
        }
        let link = |phy: Option<Phy>| AirLink {
            phy: phy.unwrap_or(config.phy),
            had: Duration::ZERO,
            stats: AirStats::new(config.aggregate.frames),
        };
        Ok(Self {
            contention: Contention::new(config.access, stations.len() + 1, Pcg32::from_rng(&mut rng)),
            links: stations.iter().flat_map(|phy| [link(*phy), link(*phy)]).collect(),
            channel: Channel::Idle { since: Instant::ZERO },
            on_air: Vec::new(),
            winners: Vec::new(),
            last_served: 0,
            virtual_time: Duration::ZERO,
            rng,
            stats: WifiStats::default(),
            config,
        })
    }

    /// As [`Medium::advance`](super::Medium::advance).
    pub fn advance(&mut self, now: Instant, cards: &mut (impl CardsMut + ?Sized)) {
        loop {
            match self.channel {
                Channel::Busy { until } if until <= now => self.conclude(until, cards),
                Channel::Busy { .. } => return,
                Channel::Idle { since } if self.next_start(since, cards).is_some_and(|start| start <= now) => {
                    self.transmit(since, now, cards);
                }
                Channel::Idle { .. } => return,
            }
        }
    }

    /// As [`Medium::next_event`](super::Medium::next_event).
    pub fn next_event(&self, cards: &(impl Cards + ?Sized)) -> Option<Instant> {
        match self.channel {
            Channel::Busy { until } => Some(until),
            Channel::Idle { since } => self.next_start(since, cards),
        }
    }

    /// Cards on it: two for each station.
    pub fn cards(&self) -> usize {
        self.links.len()
    }

    /// What was counted so far.
    pub fn stats(&self) -> &WifiStats {
        &self.stats
    }

    /// What was counted of card `number`: `2i` is that of station `i`, `2i + 1` what the access point sends to it with.
    pub fn card_stats(&self, number: usize) -> Option<&AirStats> {
        self.links.get(number).map(|link| &link.stats)
    }

    /// The parameters.
    pub fn config(&self) -> &WifiConfig {
        &self.config
    }

    /// What a driver keeps its frames in, if not in the order of its ring.
    pub(super) fn driver_queue(&self) -> Option<Discipline> {
        self.config.driver.as_ref().map(|tree| tree.build().expect("one was made when the parameters were checked"))
    }

    fn next_start(&self, since: Instant, cards: &(impl Cards + ?Sized)) -> Option<Instant> {
        self.contention.next_start(since, |number| wants(number, self.links.len(), cards))
    }

    /// The channel is won: every winner sends an aggregate.
    fn transmit(&mut self, since: Instant, now: Instant, cards: &mut (impl CardsMut + ?Sized)) {
        let mut winners = std::mem::take(&mut self.winners);
        self.contention.win(since, now, |number| wants(number, self.links.len(), cards), &mut winners);
        let mut longest = Duration::ZERO;
        for number in winners.drain(..) {
            let card = if number == 0 { self.choose(cards) } else { 2 * (number - 1) };
            let time = self.send(card, now, cards.card_mut(card));
            longest = longest.max(time);
            self.on_air.push((number, card));
        }
        self.winners = winners;
        self.stats.transmissions += 1;
        self.stats.collisions += u64::from(self.on_air.len() > 1);
        self.stats.busy += longest;
        self.channel = Channel::Busy { until: now + longest };
    }

    /// Which card the access point sends with, of those that have something.
    fn choose(&mut self, cards: &(impl Cards + ?Sized)) -> usize {
        let count = self.links.len() / 2;
        // From the one after the last.
        let order = (1..=count).map(|step| (self.last_served + step) % count);
        let mut waiting = order.filter(|station| cards.card(2 * station + 1).is_awaiting());
        let station = match self.config.turn {
            Turn::RoundRobin => waiting.next(),
            Turn::Airtime => waiting.min_by_key(|station| self.links[2 * station + 1].had.max(self.virtual_time)),
        };
        self.last_served = station.unwrap_or(self.last_served);
        let card = 2 * self.last_served + 1;
        self.virtual_time = self.virtual_time.max(self.links[card].had);
        card
    }

    /// Takes an aggregate from `nic` onto the air. Returns how long that keeps the channel busy, acknowledgement included.
    fn send(&mut self, card: usize, now: Instant, nic: &mut SimNic) -> Duration {
        let Aggregate { frames, bytes: most, time } = self.config.aggregate;
        let (config, link) = (&self.config, &mut self.links[card]);
        let (mut count, mut bytes) = (0, Bytes::ZERO);
        nic.grant(now, frames, |len| {
            let with = bytes + config.subframe(len);
            let fits = count == 0 || (count < frames && with <= most && link.phy.duration(with) <= time);
            if fits {
                (count, bytes) = (count + 1, with);
            }
            fits
        });
        let busy = link.phy.duration(bytes) + config.response(count);
        link.stats.sizes[count] += 1;
        link.stats.airtime += busy;
        link.had = link.had.max(self.virtual_time).saturating_add(busy);
        busy
    }

    /// The acknowledgement has come, or has not.
    fn conclude(&mut self, at: Instant, cards: &mut (impl CardsMut + ?Sized)) {
        let mut on_air = std::mem::take(&mut self.on_air);
        let collision = on_air.len() > 1;
        for (number, card) in on_air.drain(..) {
            let Self { config, rng, links, .. } = self;
            let stats = &mut links[card].stats;
            let mut any = false;
            cards.card_mut(card).conclude(at, |tries| {
                if !collision && !config.error.happens(rng) {
                    any = true;
                    return Verdict::Acknowledged;
                }
                if tries <= config.retries {
                    stats.failed += 1;
                    return Verdict::Failed;
                }
                stats.lost += 1;
                Verdict::GivenUp
            });
            if any {
                self.contention.succeeded(number);
            } else {
                self.contention.failed(number);
            }
        }
        self.on_air = on_air;
        self.channel = Channel::Idle { since: at };
    }
}

/// Whether contender `number` has something to send: the access point, 0, with any odd card, station `i`, `i + 1`, with its own.
fn wants(number: usize, count: usize, cards: &(impl Cards + ?Sized)) -> bool {
    match number.checked_sub(1) {
        None => (1..count).step_by(2).any(|card| cards.card(card).is_awaiting()),
        Some(station) => cards.card(2 * station).is_awaiting(),
    }
}

#[cfg(test)]
mod tests;
