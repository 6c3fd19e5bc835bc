//! [`Wifi`]: one channel of IEEE 802.11n/ac, shared by an access point and its stations.
//!
//! Whoever has something waits until the channel was idle for AIFS and its backoff has run down,
//! then sends one aggregate to one receiver and hears its acknowledgement SIFS later. That overhead
//! is the same for one frame as for sixty-four: throughput is a matter of how much lies in the ring
//! when the channel is won (papers 001 §IV.B and 003).
//!
//! A backoff runs down while the channel is idle, also without anything to send, and is drawn anew
//! after each transmission; who finds it run down sends at once. Who would send at the same instant
//! collides: all they sent fails. Every frame that fails goes again, in the next aggregate, until
//! it is given up.
//!
//! Not here: RTS/CTS, A-MSDU, hidden stations, rate control, spacing of small frames, power save.
//! Frames reach the receiver when they are acknowledged, some 50 µs later than on a real channel,
//! and all have the access category of best effort.

mod config;
mod contention;
mod phy;
mod stats;

use std::collections::VecDeque;
use std::time::Duration;

use rand_core::SeedableRng;
use rand_pcg::Pcg32;
use tautline_base::{Bytes, Instant};

use super::Nics;
use crate::config_error::ConfigError;
use crate::nic::{DriverQueue, TxStatus};

pub use config::{Access, Aggregate, Backoff, StationScheduler, WifiConfig};
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
    /// What each contender has in its hardware, next first.
    hardware: Vec<VecDeque<Made>>,
    channel: Channel,
    /// Contender and nic of everything on the air.
    on_air: Vec<(usize, usize)>,
    /// Who begins, for one call.
    winners: Vec<usize>,
    /// Whom the access point served last.
    last_served: usize,
    /// Air time of that one when it was: where those begin who had nothing for a while.
    virtual_time: Duration,
    /// A driver's discipline held everything back when it was asked: nothing more is made ahead
    /// until the channel was won.
    withheld: bool,
    rng: Pcg32,
    stats: WifiStats,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Idle { since: Instant },
    Busy { until: Instant },
}

/// An aggregate, ready for the air.
#[derive(Clone, Copy, Debug)]
struct Made {
    /// Whose frames it holds.
    nic: usize,
    frames: usize,
    /// How long it keeps the channel busy, acknowledgement included.
    busy: Duration,
}

/// One nic's share of the air.
#[derive(Debug)]
struct AirLink {
    phy: Phy,
    /// Air time had, in virtual time.
    had: Duration,
    stats: AirStats,
}

impl Wifi {
    /// A quiet cell of `stations`, each with its own way to transmit and be transmitted to or else
    /// that of `config`, whose luck comes from `rng`.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn new(
        config: WifiConfig,
        stations: &[Option<Phy>],
        mut rng: Pcg32,
    ) -> Result<Self, ConfigError> {
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
            contention: Contention::new(
                config.access,
                stations.len() + 1,
                Pcg32::from_rng(&mut rng),
            ),
            links: stations
                .iter()
                .flat_map(|phy| [link(*phy), link(*phy)])
                .collect(),
            hardware: vec![VecDeque::new(); stations.len() + 1],
            channel: Channel::Idle {
                since: Instant::ZERO,
            },
            on_air: Vec::new(),
            winners: Vec::new(),
            last_served: 0,
            virtual_time: Duration::ZERO,
            withheld: false,
            rng,
            stats: WifiStats::default(),
            config,
        })
    }

    /// As [`Medium::advance`](super::Medium::advance).
    pub fn advance(&mut self, now: Instant, nics: &mut (impl Nics + ?Sized)) {
        loop {
            while let Some(number) = self.next_ahead(nics) {
                self.make(number, now, nics);
            }
            match self.channel {
                Channel::Busy { until } if until <= now => self.conclude(until, nics),
                Channel::Busy { .. } => return,
                Channel::Idle { since }
                    if self
                        .next_start(since, nics)
                        .is_some_and(|start| start <= now) =>
                {
                    self.transmit(since, now, nics);
                }
                Channel::Idle { .. } => return,
            }
        }
    }

    /// As [`Medium::next_event`](super::Medium::next_event).
    pub fn next_event(&self, nics: &(impl Nics + ?Sized)) -> Option<Instant> {
        let next = match self.channel {
            Channel::Busy { until } => Some(until),
            Channel::Idle { since } => self.next_start(since, nics),
        };
        if self.next_ahead(nics).is_some() {
            Some(Instant::ZERO)
        } else {
            next
        }
    }

    /// Nics on it: two for each station.
    pub fn nic_count(&self) -> usize {
        self.links.len()
    }

    /// What was counted so far.
    pub fn stats(&self) -> &WifiStats {
        &self.stats
    }

    /// What was counted of nic `number`: `2i` is that of station `i`, `2i + 1` what the access
    /// point sends to it with.
    pub fn nic_stats(&self, number: usize) -> Option<&AirStats> {
        self.links.get(number).map(|link| &link.stats)
    }

    /// The parameters.
    pub fn config(&self) -> &WifiConfig {
        &self.config
    }

    /// What the driver of nic `number` keeps its frames in, if not in the order of its ring.
    pub(super) fn driver_queue(&self, number: usize) -> Option<DriverQueue> {
        let WifiConfig {
            driver,
            station_driver,
            ..
        } = &self.config;
        let own = station_driver.as_ref().filter(|_| number.is_multiple_of(2));
        own.or(driver.as_ref()).map(|tree| {
            tree.build()
                .expect("one was made when the parameters were checked")
        })
    }

    fn next_start(&self, since: Instant, nics: &(impl Nics + ?Sized)) -> Option<Instant> {
        self.contention
            .next_start(since, |number| self.wants(number, nics))
    }

    /// Whether contender `number` has something to send.
    fn wants(&self, number: usize, nics: &(impl Nics + ?Sized)) -> bool {
        !self.hardware[number].is_empty() || self.can_make(number, nics)
    }

    /// Whether an aggregate can be made for contender `number`: the access point, 0, of any odd
    /// nic's frames, or station `i`, `i + 1`, of its own.
    fn can_make(&self, number: usize, nics: &(impl Nics + ?Sized)) -> bool {
        let ready = |nic: usize| nics.nic(nic).can_send(self.config.aggregate.frames);
        match number.checked_sub(1) {
            None => (1..self.links.len()).step_by(2).any(ready),
            Some(station) => ready(2 * station),
        }
    }

    /// The first contender for whom an aggregate can be made ahead of its time.
    fn next_ahead(&self, nics: &(impl Nics + ?Sized)) -> Option<usize> {
        let room =
            |number: &usize| !self.withheld && self.hardware[*number].len() < self.config.ahead;
        (0..self.hardware.len())
            .filter(room)
            .find(|number| self.can_make(*number, nics))
    }

    /// The channel is won: every winner sends an aggregate.
    fn transmit(&mut self, since: Instant, now: Instant, nics: &mut (impl Nics + ?Sized)) {
        let mut winners = std::mem::take(&mut self.winners);
        let wanting = |number: usize| self.wants(number, nics);
        // Who wants is asked before, for the asking borrows what winning changes.
        winners.extend((0..self.hardware.len()).filter(|number| wanting(*number)));
        self.contention.win(since, now, &mut winners);
        let mut longest = Duration::ZERO;
        for number in winners.drain(..) {
            if self.hardware[number].is_empty() {
                self.make(number, now, nics);
            }
            let Some(Made { nic, frames, busy }) = self.hardware[number].front().copied() else {
                continue;
            };
            let link = &mut self.links[nic];
            link.stats.sizes[frames] += 1;
            link.stats.airtime += busy;
            longest = longest.max(busy);
            self.on_air.push((number, nic));
        }
        self.winners = winners;
        self.stats.transmissions += 1;
        self.stats.collisions += u64::from(self.on_air.len() > 1);
        self.stats.busy += longest;
        self.channel = Channel::Busy {
            until: now + longest,
        };
    }

    /// Makes an aggregate for contender `number`, which can.
    fn make(&mut self, number: usize, now: Instant, nics: &mut (impl Nics + ?Sized)) {
        let nic = if number == 0 {
            self.choose(nics)
        } else {
            2 * (number - 1)
        };
        let Aggregate {
            frames,
            bytes: most,
            time,
        } = self.config.aggregate;
        let (config, link) = (&self.config, &mut self.links[nic]);
        let (mut count, mut bytes) = (0, Bytes::ZERO);
        let device = nics.nic_mut(nic);
        device.grant(now, frames, |len| {
            let with = bytes + config.subframe(len);
            let fits =
                count == 0 || (count < frames && with <= most && link.phy.duration(with) <= time);
            if fits {
                (count, bytes) = (count + 1, with);
            }
            fits
        });
        if count == 0 {
            self.withheld = true;
            return device.conclude(now, |_| TxStatus::Retry);
        }
        let busy = link.phy.duration(bytes) + config.response(count);
        link.had = link.had.max(self.virtual_time).saturating_add(busy);
        self.hardware[number].push_back(Made {
            nic,
            frames: count,
            busy,
        });
    }

    /// Which nic the access point makes an aggregate of, of those that have something.
    fn choose(&mut self, nics: &(impl Nics + ?Sized)) -> usize {
        let (count, window) = (self.links.len() / 2, self.config.aggregate.frames);
        // From the one after the last.
        let order = (1..=count).map(|step| (self.last_served + step) % count);
        let ready = |nic: usize| nics.nic(nic).can_send(window);
        let mut waiting = order.filter(|station| ready(2 * station + 1));
        let station = match self.config.scheduler {
            StationScheduler::RoundRobin => waiting.next(),
            StationScheduler::Airtime => {
                waiting.min_by_key(|station| self.links[2 * station + 1].had.max(self.virtual_time))
            }
        };
        self.last_served = station.unwrap_or(self.last_served);
        let nic = 2 * self.last_served + 1;
        self.virtual_time = self.virtual_time.max(self.links[nic].had);
        nic
    }

    /// The acknowledgement has come, or has not.
    fn conclude(&mut self, at: Instant, nics: &mut (impl Nics + ?Sized)) {
        let mut on_air = std::mem::take(&mut self.on_air);
        let collision = on_air.len() > 1;
        for (number, nic) in on_air.drain(..) {
            self.hardware[number].pop_front();
            let Self {
                config, rng, links, ..
            } = self;
            let stats = &mut links[nic].stats;
            let mut any = false;
            nics.nic_mut(nic).conclude(at, |tries| {
                if !collision && !config.error.draw(rng) {
                    any = true;
                    return TxStatus::Acknowledged;
                }
                if tries <= config.retries {
                    stats.failed += 1;
                    return TxStatus::Retry;
                }
                stats.lost += 1;
                TxStatus::Dropped
            });
            if any {
                self.contention.succeeded(number);
            } else {
                self.contention.failed(number);
            }
        }
        self.on_air = on_air;
        self.withheld = false;
        self.channel = Channel::Idle { since: at };
    }
}

#[cfg(test)]
mod tests;
