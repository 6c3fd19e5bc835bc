//! [`Cell`]: the description of a shared radio channel.
//!
//! A cell overlays existing cables, one between the base and each station, whose two NICs then send
//! when the medium grants it. Frames still cross the links of the cable, which add their delay and
//! impairments; the rates of these links have no effect.

use rand_pcg::Pcg32;

use super::media::SharedMedium;
use super::sample::PortId;
use super::topology_error::TopologyError;
use crate::medium::lte::Mcs;
use crate::medium::wifi::Phy;
use crate::medium::{Lte, LteConfig, Medium, Wifi, WifiConfig};

/// A shared radio channel between a base and its stations.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The access point or base station. A router needs a NIC on its link to each station, which is
    /// the queue of that station.
    pub base: String,
    /// The stations, each with a cable to the base: hosts, or routers whose link to the base has a
    /// NIC.
    pub stations: Vec<String>,
    /// The technology.
    pub radio: Radio,
}

/// The radio technology of a cell.
#[derive(Clone, Debug)]
pub enum Radio {
    /// IEEE 802.11n or 802.11ac.
    Wifi {
        /// Parameters of the cell.
        config: WifiConfig,
        /// PHY of each station, in both directions; missing or `None`: that of `config`.
        stations: Vec<Option<Phy>>,
    },
    /// LTE.
    Lte {
        /// Parameters of the cell.
        config: LteConfig,
        /// Coding of each station; missing or `None`: that of `config`.
        stations: Vec<Option<Mcs>>,
    },
}

impl Cell {
    /// Wi-Fi between `base` and equal `stations`.
    pub fn wifi(base: &str, stations: &[&str], config: WifiConfig) -> Self {
        let radio = Radio::Wifi {
            config,
            stations: Vec::new(),
        };
        Self::new(base, stations, radio)
    }

    /// LTE between `base` and equal `stations`.
    pub fn lte(base: &str, stations: &[&str], config: LteConfig) -> Self {
        let radio = Radio::Lte {
            config,
            stations: Vec::new(),
        };
        Self::new(base, stations, radio)
    }

    fn new(base: &str, stations: &[&str], radio: Radio) -> Self {
        Self {
            base: base.into(),
            stations: stations.iter().copied().map(String::from).collect(),
            radio,
        }
    }

    /// Builds the medium. `nic` finds the NIC on the link from one node to another.
    pub(super) fn build(
        &self,
        rng: Pcg32,
        mut nic: impl FnMut(&str, &str) -> Result<PortId, TopologyError>,
    ) -> Result<SharedMedium, TopologyError> {
        let count = self.stations.len();
        let mut nics = Vec::with_capacity(2 * count);
        for station in &self.stations {
            nics.push(nic(station, &self.base)?);
            nics.push(nic(&self.base, station)?);
        }
        let medium = match &self.radio {
            Radio::Wifi { config, stations } => {
                Wifi::new(config.clone(), &padded(stations, count), rng).map(Medium::from)
            }
            Radio::Lte { config, stations } => {
                Lte::new(*config, &padded(stations, count)).map(Medium::from)
            }
        };
        let medium = medium.map_err(|error| TopologyError::Config {
            name: format!("cell of {}", self.base),
            error,
        })?;
        Ok(SharedMedium { medium, nics })
    }
}

/// The first `count` of `settings`, padded with `None`.
fn padded<T: Copy>(settings: &[Option<T>], count: usize) -> Vec<Option<T>> {
    let settings = settings.iter().copied();
    settings
        .chain(std::iter::repeat(None))
        .take(count)
        .collect()
}
