//! [`Config`] and [`ClassConfig`]: the parameters of ETS and of one of its bands.

use alloc::vec::Vec;

use tautline_base::{Bytes, ConfigError};

use crate::units;

/// Largest number of bands (`TCQ_ETS_MAX_BANDS`).
pub(super) const MAX_BANDS: usize = 16;

/// Quantum of a band that is given none: one Ethernet frame (Linux: that of the device).
pub(super) const QUANTUM: Bytes = Bytes::new(1514);

/// Parameters of [`Ets`](super::Ets). There is no default number of bands, as in `tc`: at least one
/// of `bands`, `strict` and `quanta` must be given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Number of bands, 1 to 16; band 0 is served first. Default: as many as `strict` and `quanta`
    /// name (`tc`).
    pub bands: Option<u8>,
    /// Number of bands in strict priority, before all others. Default 0 (Linux).
    pub strict: u8,
    /// Bytes per turn of the bands after the strict ones, in their order, each at least 1. The bands
    /// beyond its end have 1514, one Ethernet frame (Linux: that of the device).
    pub quanta: Vec<Bytes>,
    /// Band of each local priority (`Item::priority`), from priority 0. The priorities beyond its end
    /// use the last band (Linux).
    pub priomap: Vec<u8>,
}

impl Config {
    /// The number of bands.
    pub fn bands(&self) -> u8 {
        let named = usize::from(self.strict) + self.quanta.len();
        self.bands
            .unwrap_or_else(|| u8::try_from(named).unwrap_or(u8::MAX))
    }

    /// The quantum of band `band`; `None` if it is strict.
    pub fn quantum(&self, band: u8) -> Option<Bytes> {
        let place = usize::from(band.checked_sub(self.strict)?);
        Some(self.quanta.get(place).copied().unwrap_or(QUANTUM))
    }

    /// Gives `band` another quantum.
    ///
    /// # Errors
    /// If there is no such band, it is strict, or `quantum` is zero. Then nothing changes.
    pub fn set_quantum(&mut self, band: u8, quantum: Bytes) -> Result<(), ConfigError> {
        let place = band.checked_sub(self.strict).map(usize::from);
        let place = place.filter(|_| band < self.bands() && quantum > Bytes::ZERO);
        let allowed = if band < self.strict {
            "left out: a strict band has none"
        } else {
            "at least 1b"
        };
        ConfigError::check(place.is_some(), "quantum", units::size(quantum), allowed)?;
        let place = place.unwrap_or_default();
        if place >= self.quanta.len() {
            self.quanta.resize(place + 1, QUANTUM);
        }
        self.quanta[place] = quantum;
        Ok(())
    }

    /// The band of each local priority.
    pub fn bands_of_priorities(&self) -> [u8; 16] {
        let last = self.bands().saturating_sub(1);
        core::array::from_fn(|priority| self.priomap.get(priority).copied().unwrap_or(last))
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let bands = self.bands();
        ConfigError::check(
            (1..=MAX_BANDS).contains(&bands.into()),
            "bands",
            bands,
            "from 1 to 16",
        )?;
        ConfigError::check(
            usize::from(self.strict) + self.quanta.len() <= bands.into(),
            "bands",
            bands,
            "at least `strict` and the number of `quanta` together",
        )?;
        self.quanta.iter().try_for_each(|quantum| {
            let value = units::size(*quantum);
            ConfigError::check(*quantum > Bytes::ZERO, "quanta", value, "at least 1b each")
        })?;
        ConfigError::check(
            self.priomap.len() <= 16,
            "priomap",
            self.priomap.len(),
            "at most 16 bands",
        )?;
        self.priomap.iter().try_for_each(|band| {
            ConfigError::check(*band < bands, "priomap", band, "less than `bands`")
        })
    }
}

/// Parameters of a class of [`Ets`](super::Ets).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassConfig {
    /// Bytes per turn, at least 1; `None` for a strict band.
    pub quantum: Option<Bytes>,
}
