//! [`Lte`]: an LTE cell as in paper 002 §5.2: a base station shares the resource blocks of every
//! TTI, one millisecond, evenly among the stations with data.
//!
//! The ring of a NIC is the RLC buffer of its bearer, in unacknowledged mode: 500 KB in the thesis
//! ([`NicConfig::ring_bytes`](crate::NicConfig::ring_bytes)). Packets are segmented to fill
//! transport blocks; a packet completes, and arrives, when the TTI with its last byte is over. The
//! base station knows the downlink buffers. A station reports its uplink buffer, receives a grant,
//! and sends after the grant delay: with the defaults 5 to 6 ms after a packet has entered an empty
//! buffer.
//!
//! Not modeled: fading (a station's coding is constant), HARQ and losses (use impairments and
//! delays of the cables), several bearers, random access and scheduling requests (the first report
//! is sent at once).

mod bearer;
mod config;
mod scheduler;
mod uplink;

use std::time::Duration;

use tautline_base::Instant;

use super::Nics;
use crate::config_error::ConfigError;

use bearer::Bearer;
pub use config::{LteConfig, Mcs, peak_rate, transport_block};
use scheduler::RoundRobin;
use uplink::Uplink;

const TTI: Duration = Duration::from_millis(1);

/// An LTE cell.
#[derive(Debug)]
pub struct Lte {
    config: LteConfig,
    stations: Vec<Station>,
    /// The next TTI; `None` while the cell is idle.
    next: Option<Instant>,
    /// Schedulers of downlink and uplink.
    schedulers: [RoundRobin; 2],
    /// Scratch space.
    needs: Vec<u32>,
    shares: Vec<u32>,
    stats: [LteStats; 2],
}

#[derive(Debug)]
struct Station {
    mcs: Mcs,
    down: Bearer,
    up: Bearer,
    uplink: Uplink,
}

/// Counters of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LteStats {
    /// Number of transport blocks sent.
    pub transport_blocks: u64,
    /// Number of resource blocks in them.
    pub resource_blocks: u64,
    /// Number of bytes in them.
    pub bytes: u64,
    /// Bytes of padding: more was granted than the station had.
    pub padding: u64,
}

impl LteStats {
    fn add(&mut self, resource_blocks: u32, bytes: u64, padding: u64) {
        self.transport_blocks += 1;
        self.resource_blocks += u64::from(resource_blocks);
        self.bytes += bytes;
        self.padding += padding;
    }
}

impl Lte {
    /// An idle cell of `stations`, each with its own coding or that of `config`.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn new(config: LteConfig, stations: &[Option<Mcs>]) -> Result<Self, ConfigError> {
        config.check()?;
        for mcs in stations.iter().flatten() {
            mcs.check()?;
        }
        let station = |mcs: &Option<Mcs>| Station {
            mcs: mcs.unwrap_or(config.mcs),
            down: Bearer::default(),
            up: Bearer::default(),
            uplink: Uplink::default(),
        };
        Ok(Self {
            stations: stations.iter().map(station).collect(),
            next: None,
            schedulers: Default::default(),
            needs: vec![0; stations.len()],
            shares: vec![0; stations.len()],
            stats: Default::default(),
            config,
        })
    }

    /// Like [`Medium::advance`](super::Medium::advance). TTIs that are skipped are lost.
    pub fn advance(&mut self, now: Instant, nics: &mut (impl Nics + ?Sized)) {
        let first = if self.next.is_none() && self.any_waiting(nics) {
            Some(boundary_from(now))
        } else {
            self.next
        };
        self.next = first;
        let Some(tti) = first.filter(|first| *first <= now) else {
            return;
        };
        self.run_tti(tti, nics);
        let active = self.stations.iter().any(Station::is_active) || self.any_waiting(nics);
        self.next = active.then(|| (tti + TTI).max(boundary_from(now)));
        if self.next.is_some_and(|next| next <= tti) {
            self.next = None;
        }
    }

    /// Like [`Medium::next_event`](super::Medium::next_event).
    pub fn next_event(&self, nics: &(impl Nics + ?Sized)) -> Option<Instant> {
        self.next
            .or_else(|| self.any_waiting(nics).then_some(Instant::ZERO))
    }

    /// NICs on it: two for each station.
    pub fn nic_count(&self) -> usize {
        2 * self.stations.len()
    }

    /// Counters of the downlink.
    pub fn downlink(&self) -> &LteStats {
        &self.stats[0]
    }

    /// Counters of the uplink.
    pub fn uplink(&self) -> &LteStats {
        &self.stats[1]
    }

    /// The parameters.
    pub fn config(&self) -> &LteConfig {
        &self.config
    }

    fn any_waiting(&self, nics: &(impl Nics + ?Sized)) -> bool {
        (0..self.nic_count()).any(|nic| nics.nic(nic).has_waiting())
    }

    /// Runs the TTI that begins at `now`.
    fn run_tti(&mut self, now: Instant, nics: &mut (impl Nics + ?Sized)) {
        for (number, station) in self.stations.iter_mut().enumerate() {
            station.up.conclude(now, nics.nic_mut(2 * number));
            station.down.conclude(now, nics.nic_mut(2 * number + 1));
            station
                .uplink
                .receive_reports(self.config.counts_outstanding, now);
        }
        self.send_down(now, nics);
        self.grant_up(now);
        self.send_up(now, nics);
    }

    fn send_down(&mut self, now: Instant, nics: &mut (impl Nics + ?Sized)) {
        let Self {
            config,
            stations,
            schedulers: [scheduler, _],
            needs,
            shares,
            stats: [stats, _],
            ..
        } = self;
        for (number, (station, need)) in stations.iter().zip(needs.iter_mut()).enumerate() {
            let backlog = station.down.backlog(nics.nic(2 * number + 1));
            *need = if backlog == 0 {
                0
            } else {
                config::blocks_for(station.mcs.down, backlog + bearer::BLOCK_OVERHEAD)
            };
        }
        scheduler.share(config.resource_blocks, needs, shares);
        for (number, (station, share)) in stations
            .iter_mut()
            .zip(shares.iter())
            .enumerate()
            .filter(|(_, (_, share))| **share > 0)
        {
            let block = transport_block(station.mcs.down, *share);
            let padding = station.down.send(block, now, nics.nic_mut(2 * number + 1));
            stats.add(*share, block.get(), padding);
        }
    }

    /// Grants uplink transmissions for the reports.
    fn grant_up(&mut self, now: Instant) {
        let Self {
            config,
            stations,
            schedulers: [_, scheduler],
            needs,
            shares,
            stats: [_, stats],
            ..
        } = self;
        for (station, need) in stations.iter().zip(needs.iter_mut()) {
            *need = config::blocks_for(station.mcs.up, station.uplink.wanted());
        }
        scheduler.share(config.resource_blocks, needs, shares);
        for (station, share) in stations
            .iter_mut()
            .zip(shares.iter())
            .filter(|(_, share)| **share > 0)
        {
            station.uplink.grant(
                transport_block(station.mcs.up, *share),
                now + config.grant_delay,
            );
            stats.resource_blocks += u64::from(*share);
        }
    }

    /// Stations use their grants, then report what is left.
    fn send_up(&mut self, now: Instant, nics: &mut (impl Nics + ?Sized)) {
        let [_, stats] = &mut self.stats;
        for (number, station) in self.stations.iter_mut().enumerate() {
            let nic = nics.nic_mut(2 * number);
            while let Some(block) = station.uplink.due(now) {
                let padding = station.up.send(block, now, nic);
                stats.add(0, block.get(), padding);
            }
            station
                .uplink
                .report(station.up.backlog(nic), self.config.report_every, now);
        }
    }
}

impl Station {
    fn is_active(&self) -> bool {
        self.down.is_on_air() || self.up.is_on_air() || self.uplink.is_active()
    }
}

/// The first boundary of a TTI at or after `now`.
fn boundary_from(now: Instant) -> Instant {
    let tti = TTI.as_nanos() as u64;
    Instant::from_nanos(now.as_nanos().div_ceil(tti).saturating_mul(tti))
}

#[cfg(test)]
mod tests;
