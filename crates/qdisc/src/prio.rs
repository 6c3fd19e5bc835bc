//! [`Prio`]: bands in strict priority, each with a qdisc of its own (`net/sched/sch_prio.c`;
//! `tc`'s `prio`).
//!
//! A band is served while no lower-numbered one yields a packet; one that holds packets back (a
//! shaper) is passed over. Filters choose the band, by class: band *n* is class *n* + 1. Without
//! one that decides, the priomap does. A packet's local priority has four bits and can name no
//! class, so the first step of Linux's classification does not arise.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use tautline_base::{Backlog, Bytes, ConfigError, DropReason, Drops, Instant, Item, Qdisc};

use crate::bands::band_of;
use crate::children::Children;
use crate::class::ClassId;
use crate::classful::Parent;
use crate::filter::Filters;
use crate::pfifo_fast::PRIOMAP;
use crate::stats::Common;

/// Parameters of [`Prio`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of bands, 2 to 16; band 0 is served first. Default 3 (Linux).
    pub bands: u8,
    /// Band of each local priority (`Item::priority`). Default that of `pfifo_fast` (Linux).
    pub priomap: [u8; 16],
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bands: 3,
            priomap: PRIOMAP,
        }
    }
}

impl Config {
    fn check(&self) -> Result<(), ConfigError> {
        ConfigError::check(
            (2..=16).contains(&self.bands),
            "bands",
            self.bands,
            "from 2 to 16",
        )?;
        self.priomap.iter().try_for_each(|band| {
            ConfigError::check(*band < self.bands, "priomap", band, "less than `bands`")
        })
    }
}

/// Bands in strict priority.
///
/// ```
/// use tautline_base::{Instant, Item, Packet};
/// use tautline_qdisc::{Drops, Pfifo, Prio, Qdisc, pfifo, prio::Config};
///
/// let bands = (0..3).map(|_| Pfifo::new(pfifo::Config::default())).collect();
/// let (mut prio, mut drops) = (Prio::new(1, Config::default(), bands)?, Drops::new());
/// for priority in [2, 6] {
///     prio.enqueue(Packet::new((), 1514).with_tos(0, priority), Instant::ZERO, &mut drops);
/// }
/// // The priomap puts interactive traffic (6) into the first band, bulk (2) into the last one.
/// assert_eq!(prio.dequeue(Instant::ZERO, &mut drops).map(|packet| packet.priority()), Some(6));
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Prio<P, Q> {
    config: Config,
    filters: Filters,
    bands: Children<P, Q>,
}

impl<P: Item, Q: Qdisc<P>> Prio<P, Q> {
    /// Bands that hold `children`, one each, under a qdisc called `handle`.
    ///
    /// # Errors
    /// If `bands` or `priomap` is outside its range, or there is not one child for each band.
    pub fn new(handle: u16, config: Config, children: Vec<Q>) -> Result<Self, ConfigError> {
        config.check()?;
        let one_each = children.len() == usize::from(config.bands);
        ConfigError::check(
            one_each,
            "bands",
            config.bands,
            "the number of disciplines given",
        )?;
        let mut bands = Children::new(handle);
        for (minor, child) in (1..).zip(children) {
            bands.insert(ClassId::new(handle, minor), child)?;
        }
        Ok(Self {
            config,
            filters: Filters::default(),
            bands,
        })
    }

    /// Replaces the parameters. `make` makes the qdisc of each new band; the packets of removed
    /// bands go to `drops`.
    ///
    /// # Errors
    /// If `bands` or `priomap` is outside its range. Then nothing changes.
    pub fn reconfigure(
        &mut self,
        config: Config,
        mut make: impl FnMut() -> Q,
        drops: &mut Drops<P>,
    ) -> Result<(), ConfigError> {
        config.check()?;
        let bands = usize::from(config.bands);
        while self.bands.len() > bands {
            self.bands.remove(self.bands.len() - 1, drops);
        }
        for minor in self.bands.len() as u16 + 1..=bands as u16 {
            self.bands
                .insert(ClassId::new(self.bands.handle().major, minor), make())?;
        }
        self.config = config;
        Ok(())
    }

    /// Its parameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Every class, its qdisc and what passed it.
    pub fn classes(&self) -> impl Iterator<Item = (ClassId, &Q, Common)> {
        self.bands.iter()
    }

    /// Sets the rules that choose a band.
    pub fn set_filters(&mut self, filters: Filters) {
        self.filters = filters;
    }
}

impl<P: Item, Q: Qdisc<P>> Qdisc<P> for Prio<P, Q> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        let bands = (self.config.bands, &self.config.priomap);
        match band_of(&mut self.filters, &mut packet, bands, now) {
            Some(band) => self.bands.enqueue(band, packet, now, drops),
            None => drops.push(packet, DropReason::Filter),
        }
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        (0..self.bands.len()).find_map(|band| self.bands.dequeue(band, now, drops))
    }

    fn ready_at(&self) -> Option<Instant> {
        (0..self.bands.len())
            .filter_map(|band| self.bands.ready_at(band))
            .min()
    }

    fn backlog(&self) -> Backlog {
        self.bands.backlog()
    }

    /// Looks into the bands: a later packet of a higher band still leaves first.
    fn peek_len(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<Bytes> {
        (0..self.bands.len()).find_map(|band| self.bands.peek_len(band, now, drops))
    }
}

impl<P: Item, Q: Qdisc<P>> Parent for Prio<P, Q> {
    type Packet = P;
    type Child = Q;

    fn children(&self) -> &Children<P, Q> {
        &self.bands
    }

    fn children_mut(&mut self) -> &mut Children<P, Q> {
        &mut self.bands
    }
}
