//! [`Cell`]: shared air as data; and where in a network the cards of a medium are.
//!
//! A cell is laid over cables that are there anyway: one between the base and each station, whose
//! two cards then send when the medium lets them. Frames still go through the cable's links, which
//! add their delay and accidents; their rates do not count.

use rand_pcg::Pcg32;
use tautline_base::{HeapFrame, Packet};
use tautline_qdisc::Qdisc;

use super::topology::TopologyError;
use super::{End, PortId};
use crate::config_error::ConfigError;
use crate::link::Link;
use crate::medium::lte::Mcs;
use crate::medium::wifi::Phy;
use crate::medium::{Cards, CardsMut, Lte, LteConfig, Medium, Wifi, WifiConfig};
use crate::nic::SimNic;
use crate::record::Record;

/// Shared air between a base and its stations.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The access point or base station. A router needs a card on its link to each station: one is
    /// a queue for each.
    pub base: String,
    /// The stations, each with a cable to the base: hosts, whose own card is on the air, or
    /// routers, whose link to the base has one.
    pub stations: Vec<String>,
    /// What the air is like.
    pub air: Air,
}

/// What the air of a cell is like.
#[derive(Clone, Debug)]
pub enum Air {
    /// IEEE 802.11n or ac.
    Wifi {
        /// The cell.
        config: WifiConfig,
        /// How the first, second, ... station transmits and is transmitted to; those that are not
        /// here or `None` as `config` says.
        stations: Vec<Option<Phy>>,
    },
    /// LTE.
    Lte {
        /// The cell.
        config: LteConfig,
        /// The coding of the first, second, ... station; those that are not here or `None` as
        /// `config` says.
        stations: Vec<Option<Mcs>>,
    },
}

impl Cell {
    /// Wi-Fi between `base` and `stations`, all alike.
    pub fn wifi(base: &str, stations: &[&str], config: WifiConfig) -> Self {
        Self::new(
            base,
            stations,
            Air::Wifi {
                config,
                stations: Vec::new(),
            },
        )
    }

    /// LTE between `base` and `stations`, all alike.
    pub fn lte(base: &str, stations: &[&str], config: LteConfig) -> Self {
        Self::new(
            base,
            stations,
            Air::Lte {
                config,
                stations: Vec::new(),
            },
        )
    }

    fn new(base: &str, stations: &[&str], air: Air) -> Self {
        Self {
            base: base.into(),
            stations: stations.iter().copied().map(String::from).collect(),
            air,
        }
    }

    /// Makes the medium. Its cards are those that `card` finds on the way from one node to another.
    pub(super) fn build(
        &self,
        rng: Pcg32,
        mut card: impl FnMut(&str, &str) -> Result<PortId, TopologyError>,
    ) -> Result<OnAir, TopologyError> {
        let Self {
            base,
            stations,
            air,
        } = self;
        let mut cards = Vec::with_capacity(2 * stations.len());
        for station in stations {
            cards.push(card(station, base)?);
            cards.push(card(base, station)?);
        }
        let count = stations.len();
        let medium = match air {
            Air::Wifi { config, stations } => {
                Wifi::new(config.clone(), &filled(stations, count), rng).map(Medium::from)
            }
            Air::Lte { config, stations } => {
                Lte::new(*config, &filled(stations, count)).map(Medium::from)
            }
        };
        let refused = |error: ConfigError| TopologyError::Config {
            name: format!("air of {base}"),
            error,
        };
        Ok(OnAir {
            medium: medium.map_err(refused)?,
            cards,
        })
    }
}

/// The first `count` of `ways`, and `None` for those that are not there.
fn filled<T: Copy>(ways: &[Option<T>], count: usize) -> Vec<Option<T>> {
    (0..count)
        .map(|station| ways.get(station).copied().flatten())
        .collect()
}

/// A medium and where its cards are.
#[derive(Debug)]
pub(super) struct OnAir {
    pub(super) medium: Medium,
    pub(super) cards: Vec<PortId>,
}

/// Those cards, to be looked at.
pub(super) struct Places<'a, Q, R, A> {
    pub(super) cards: &'a [PortId],
    pub(super) ends: &'a [End<Q, R, A>],
    pub(super) links: &'a [Link],
}

/// Those cards, to be served.
pub(super) struct PlacesMut<'a, Q, R, A> {
    pub(super) cards: &'a [PortId],
    pub(super) ends: &'a mut [End<Q, R, A>],
    pub(super) links: &'a mut [Link],
}

const HAS_A_CARD: &str = "a cell is made of links with cards";

fn card<'a, Q, R, A>(place: PortId, ends: &'a [End<Q, R, A>], links: &'a [Link]) -> &'a SimNic
where
    Q: Qdisc<Packet<HeapFrame>>,
    R: Record,
{
    match place {
        PortId::Host(host) => ends[host].host.port().ring().device(),
        PortId::Link(link) => links[link].ring().expect(HAS_A_CARD).device(),
    }
}

impl<Q: Qdisc<Packet<HeapFrame>>, R: Record, A> Cards for Places<'_, Q, R, A> {
    fn card(&self, number: usize) -> &SimNic {
        card(self.cards[number], self.ends, self.links)
    }
}

impl<Q: Qdisc<Packet<HeapFrame>>, R: Record, A> Cards for PlacesMut<'_, Q, R, A> {
    fn card(&self, number: usize) -> &SimNic {
        card(self.cards[number], self.ends, self.links)
    }
}

impl<Q: Qdisc<Packet<HeapFrame>>, R: Record, A> CardsMut for PlacesMut<'_, Q, R, A> {
    fn card_mut(&mut self, number: usize) -> &mut SimNic {
        match self.cards[number] {
            PortId::Host(host) => self.ends[host].host.device_mut(),
            PortId::Link(link) => self.links[link].card_nic().expect(HAS_A_CARD),
        }
    }
}
