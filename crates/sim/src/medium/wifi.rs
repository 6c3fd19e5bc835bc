//! [`Wifi`]: one channel of IEEE 802.11n/ac, shared by an access point and its stations.
//!
//! A contender with a frame waits until the channel was idle for AIFS and its backoff has expired,
//! then sends one aggregate to one receiver, which acknowledges it SIFS later. That overhead is the
//! same for one frame as for sixty-four: throughput depends on the occupancy of the ring when the
//! channel is won (papers 001 §IV.B and 003).
//!
//! A backoff counts down while the channel is idle, even without a frame to send, and is drawn
//! again after each transmission; once it has expired, a new frame is sent at once. Contenders that
//! send at the same time collide: all their frames fail. A failed frame is sent again, in the next
//! aggregate, up to the retry limit.
//!
//! Not modeled: RTS/CTS, A-MSDU, hidden stations, rate control, spacing of small frames, power
//! save. Frames reach the receiver when they are acknowledged, some 50 µs later than on a real
//! channel. The only access category is best effort.

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
    /// Contenders: the access point, number 0, and the stations.
    contention: Contention,
    links: Vec<AirLink>,
    /// Aggregates in the hardware of each contender, next first.
    hardware: Vec<VecDeque<Prepared>>,
    channel: Channel,
    /// Contender and NIC of each current transmission.
    on_air: Vec<(usize, usize)>,
    /// Scratch space of `transmit`.
    winners: Vec<usize>,
    /// The station that the access point served last.
    last_served: usize,
    /// Airtime of that station: a station that was idle continues from here.
    virtual_time: Duration,
    /// A driver's qdisc has packets but released none: no aggregates are prepared ahead until the
    /// channel is won.
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
struct Prepared {
    /// The NIC of its frames.
    nic: usize,
    frames: usize,
    /// Duration with its acknowledgment.
    busy: Duration,
}

/// State of one NIC.
#[derive(Debug)]
struct AirLink {
    phy: Phy,
    /// Airtime used, in virtual time of the scheduler.
    used: Duration,
    stats: AirStats,
}

impl Wifi {
    /// An idle cell of `stations`, each with its own PHY or that of `config`. Backoffs and errors
    /// are drawn from `rng`.
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
            used: Duration::ZERO,
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

    /// Like [`Medium::advance`](super::Medium::advance).
    pub fn advance(&mut self, now: Instant, nics: &mut (impl Nics + ?Sized)) {
        loop {
            while let Some(number) = self.next_ahead(nics) {
                self.prepare(number, now, nics);
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

    /// Like [`Medium::next_event`](super::Medium::next_event).
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

    /// NICs on it: two for each station.
    pub fn nic_count(&self) -> usize {
        self.links.len()
    }

    /// Counters of the channel.
    pub fn stats(&self) -> &WifiStats {
        &self.stats
    }

    /// Counters of NIC `number`: `2i` is that of station `i`, `2i + 1` that of the access point
    /// towards it.
    pub fn nic_stats(&self, number: usize) -> Option<&AirStats> {
        self.links.get(number).map(|link| &link.stats)
    }

    /// The parameters.
    pub fn config(&self) -> &WifiConfig {
        &self.config
    }

    /// The qdisc in the driver of NIC `number`; `None` for ring order.
    pub(super) fn driver_queue(&self, number: usize) -> Option<DriverQueue> {
        let WifiConfig {
            driver,
            station_driver,
            ..
        } = &self.config;
        let own = station_driver.as_ref().filter(|_| number.is_multiple_of(2));
        own.or(driver.as_ref()).map(|tree| {
            let tree = tree.clone().with_hash_key(0);
            tree.build()
                .expect("one was made when the parameters were checked")
        })
    }

    fn next_start(&self, since: Instant, nics: &(impl Nics + ?Sized)) -> Option<Instant> {
        self.contention
            .next_start(since, |number| self.wants(number, nics))
    }

    /// True if contender `number` has an aggregate or can prepare one.
    fn wants(&self, number: usize, nics: &(impl Nics + ?Sized)) -> bool {
        !self.hardware[number].is_empty() || self.can_prepare(number, nics)
    }

    /// True if contender `number` can prepare an aggregate: the access point, number 0, from any odd
    /// NIC, station `i`, number `i + 1`, from its own.
    fn can_prepare(&self, number: usize, nics: &(impl Nics + ?Sized)) -> bool {
        let ready = |nic: usize| nics.nic(nic).can_send(self.config.aggregate.frames);
        match number.checked_sub(1) {
            None => (1..self.links.len()).step_by(2).any(ready),
            Some(station) => ready(2 * station),
        }
    }

    /// The first contender that can prepare an aggregate before it wins the channel.
    fn next_ahead(&self, nics: &(impl Nics + ?Sized)) -> Option<usize> {
        let room =
            |number: &usize| !self.withheld && self.hardware[*number].len() < self.config.ahead;
        (0..self.hardware.len())
            .filter(room)
            .find(|number| self.can_prepare(*number, nics))
    }

    /// Sends an aggregate of every contender that wins the channel.
    fn transmit(&mut self, since: Instant, now: Instant, nics: &mut (impl Nics + ?Sized)) {
        let mut winners = std::mem::take(&mut self.winners);
        let wanting = |number: usize| self.wants(number, nics);
        // Collect the contenders first: `win` needs `&mut self`.
        winners.extend((0..self.hardware.len()).filter(|number| wanting(*number)));
        self.contention.win(since, now, &mut winners);
        let mut longest = Duration::ZERO;
        for number in winners.drain(..) {
            if self.hardware[number].is_empty() {
                self.prepare(number, now, nics);
            }
            let Some(Prepared { nic, frames, busy }) = self.hardware[number].front().copied()
            else {
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

    /// Prepares an aggregate of contender `number`, which [can](Self::can_prepare).
    fn prepare(&mut self, number: usize, now: Instant, nics: &mut (impl Nics + ?Sized)) {
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
        link.used = link.used.max(self.virtual_time).saturating_add(busy);
        self.hardware[number].push_back(Prepared {
            nic,
            frames: count,
            busy,
        });
    }

    /// The NIC of the access point's next aggregate.
    fn choose(&mut self, nics: &(impl Nics + ?Sized)) -> usize {
        let (count, window) = (self.links.len() / 2, self.config.aggregate.frames);
        // Begin after the station served last.
        let order = (1..=count).map(|step| (self.last_served + step) % count);
        let ready = |nic: usize| nics.nic(nic).can_send(window);
        let mut waiting = order.filter(|station| ready(2 * station + 1));
        let station = match self.config.scheduler {
            StationScheduler::RoundRobin => waiting.next(),
            StationScheduler::Airtime => waiting
                .min_by_key(|station| self.links[2 * station + 1].used.max(self.virtual_time)),
        };
        self.last_served = station.unwrap_or(self.last_served);
        let nic = 2 * self.last_served + 1;
        self.virtual_time = self.virtual_time.max(self.links[nic].used);
        nic
    }

    /// Ends the transmissions: each frame is acknowledged or has failed.
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
