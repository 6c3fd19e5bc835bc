//! [`Ets`]: enhanced transmission selection (IEEE 802.1Qaz; `net/sched/sch_ets.c`, Linux 5.6;
//! `tc`'s `ets`).
//!
//! Bands, each with a qdisc of its own. The first ones are in strict priority: a band is served while
//! no lower-numbered one yields a packet. What they leave is shared among the others by deficit round
//! robin, by bytes in proportion to their quanta. Filters choose the band, by class: band *n* is class
//! *n* + 1. Without one that decides, the priomap does.
//!
//! A band that holds its packets back (a shaper) is passed over. DIVERGES: so are the bands in turn;
//! Linux stops there.

mod params;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::time::Duration;

use tautline_base::{Backlog, ConfigError, DropReason, Drops, Instant, Item, Qdisc};

use crate::bands::band_of;
use crate::children::Children;
use crate::class::ClassId;
use crate::classful::Parent;
use crate::filter::Filters;
use crate::rounds::Rounds;
use crate::stats::Common;

use params::QUANTUM;
pub use params::{ClassConfig, Config};

/// Bands in strict priority, and bands that share what those leave.
///
/// ```
/// use tautline_base::{Bytes, Instant, Item, Packet};
/// use tautline_qdisc::{Drops, Ets, Pfifo, Qdisc, ets::Config, pfifo};
///
/// let config = Config {
///     strict: 1,
///     quanta: [6056, 1514].map(Bytes::new).to_vec(),
///     priomap: vec![2, 1, 0], // of the priorities 0, 1 and 2
///     ..Config::default()
/// };
/// let bands = (0..config.bands()).map(|_| Pfifo::new(pfifo::Config::default())).collect();
/// let (mut ets, mut drops) = (Ets::new(1, config, bands)?, Drops::new());
/// for packet in 0..12 {
///     ets.enqueue(Packet::new((), 1514).with_tos(0, packet / 5), Instant::ZERO, &mut drops);
/// }
/// let sent = std::iter::from_fn(|| ets.dequeue(Instant::ZERO, &mut drops));
/// let priorities: Vec<u8> = sent.map(|packet| packet.priority()).collect();
/// assert_eq!(priorities, [2, 2, 0, 1, 1, 1, 1, 0, 1, 0, 0, 0]); // strict; then four for one
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Ets<P, Q> {
    config: Config,
    /// The band of each priority, as `config` says.
    priomap: [u8; 16],
    filters: Filters,
    bands: Children<P, Q>,
    /// The turns of all bands; the strict ones are never active.
    rounds: Rounds,
    /// Set when all bands held their packets back: none yields one before this time.
    closed_until: Option<Instant>,
}

impl<P: Item, Q: Qdisc<P>> Ets<P, Q> {
    /// Bands that hold `children`, one each, which must be empty, under a qdisc called `handle`.
    ///
    /// # Errors
    /// If `bands` is not from 1 to 16 or fewer than `strict` and `quanta` name, a quantum is zero,
    /// `priomap` names no band, or there is not one child for each band.
    pub fn new(handle: u16, config: Config, children: Vec<Q>) -> Result<Self, ConfigError> {
        config.check()?;
        let one_each = children.len() == usize::from(config.bands());
        ConfigError::check(
            one_each,
            "bands",
            config.bands(),
            "the number of disciplines given",
        )?;
        let mut ets = Self {
            priomap: config.bands_of_priorities(),
            filters: Filters::default(),
            bands: Children::new(handle),
            rounds: Rounds::default(),
            closed_until: None,
            config,
        };
        children
            .into_iter()
            .try_for_each(|child| ets.add_band(child))?;
        ets.set_quanta();
        Ok(ets)
    }

    /// Replaces the parameters. `make` makes the qdisc of each new band; the packets of removed
    /// bands go to `drops`. A band that is no longer strict has its turn last, with one quantum.
    ///
    /// # Errors
    /// As [`new`](Self::new). Then nothing changes.
    pub fn reconfigure(
        &mut self,
        config: Config,
        mut make: impl FnMut() -> Q,
        drops: &mut Drops<P>,
    ) -> Result<(), ConfigError> {
        config.check()?;
        let bands = usize::from(config.bands());
        while self.bands.len() > bands {
            let last = self.bands.len() - 1;
            self.bands.remove(last, drops);
            self.rounds.remove(last);
        }
        while self.bands.len() < bands {
            self.add_band(make())?;
        }
        self.priomap = config.bands_of_priorities();
        self.config = config;
        self.set_quanta();
        // DIVERGES: in Linux 6.1 a band that becomes strict keeps its turns beside.
        for band in 0..bands {
            if self.is_strict(band) {
                self.rounds.deactivate(band);
            } else if !self.bands.held(band).is_empty() {
                self.rounds.activate(band);
            }
        }
        self.closed_until = None;
        Ok(())
    }

    /// Gives a class another quantum. Its deficit stays.
    ///
    /// # Errors
    /// If there is no such class, its band is strict, or `quantum` is zero. Then nothing changes.
    pub fn change_class_config(
        &mut self,
        class: ClassId,
        config: ClassConfig,
        _now: Instant,
    ) -> Result<(), ConfigError> {
        let band = self.bands.known(class, "classid")?;
        let Some(quantum) = config.quantum else {
            return Ok(());
        };
        let number = u8::try_from(band).expect("at most 16 bands");
        self.config.set_quantum(number, quantum)?;
        self.rounds.set_quantum(band, quantum);
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

    /// The parameters of `class`.
    pub fn class(&self, class: ClassId) -> Option<ClassConfig> {
        let band = u8::try_from(self.bands.find(class)?).ok()?;
        let quantum = self.config.quantum(band);
        Some(ClassConfig { quantum })
    }

    /// Sets the rules that choose a band.
    pub fn set_filters(&mut self, filters: Filters) {
        self.filters = filters;
    }

    /// Adds a band behind all others.
    fn add_band(&mut self, child: Q) -> Result<(), ConfigError> {
        let minor = self.bands.len() as u16 + 1;
        let class = ClassId::new(self.bands.handle().major, minor);
        let band = self.bands.insert(class, child)?;
        self.rounds.insert(band, QUANTUM);
        Ok(())
    }

    /// Gives every band the quantum of the parameters. Those of strict bands are of no use.
    fn set_quanta(&mut self) {
        for band in 0..self.config.bands() {
            let quantum = self.config.quantum(band).unwrap_or(QUANTUM);
            self.rounds.set_quantum(band.into(), quantum);
        }
    }

    fn is_strict(&self, band: usize) -> bool {
        band < usize::from(self.config.strict)
    }
}

impl<P: Item, Q: Qdisc<P>> Qdisc<P> for Ets<P, Q> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        let bands = (self.config.bands(), &self.priomap);
        let Some(band) = band_of(&mut self.filters, &mut packet, bands, now) else {
            return drops.push(packet, DropReason::Filter);
        };
        self.bands.enqueue(band, packet, now, drops);
        if !self.is_strict(band) && !self.bands.held(band).is_empty() {
            self.rounds.activate(band);
        }
        self.closed_until = None;
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        self.closed_until = None;
        let strict = usize::from(self.config.strict);
        let packet = (0..strict)
            .find_map(|band| self.bands.dequeue(band, now, drops))
            .or_else(|| self.rounds.dequeue(&mut self.bands, now, drops));
        if packet.is_none() {
            let opens = (0..strict).filter_map(|band| self.bands.ready_at(band));
            let opens = opens.chain(self.rounds.opens(&self.bands)).min();
            self.closed_until = opens.map(|opens| opens.max(now + Duration::from_nanos(1)));
        }
        packet
    }

    fn ready_at(&self) -> Option<Instant> {
        (!self.backlog().is_empty()).then(|| self.closed_until.unwrap_or(Instant::ZERO))
    }

    fn backlog(&self) -> Backlog {
        self.bands.backlog()
    }
}

impl<P: Item, Q: Qdisc<P>> Parent for Ets<P, Q> {
    type Packet = P;
    type Child = Q;

    fn children(&self) -> &Children<P, Q> {
        &self.bands
    }

    fn children_mut(&mut self) -> &mut Children<P, Q> {
        self.closed_until = None;
        &mut self.bands
    }

    fn note_change(&mut self, at: usize) {
        if self.bands.held(at).is_empty() {
            self.rounds.deactivate(at);
        }
    }
}
