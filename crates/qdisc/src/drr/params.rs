//! [`Config`] and [`ClassConfig`]: the parameters of DRR and its classes.

use tautline_base::{Bytes, ConfigError};

use crate::units;

/// Parameters of [`Drr`](super::Drr): it has none, its classes do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {}

/// Parameters of a class of [`Drr`](super::Drr).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// Bytes it sends per turn, at least 1; below the longest packet a turn may pass without one.
    /// Default 1514, one Ethernet frame (Linux: that of the device).
    pub quantum: Bytes,
}

impl Default for ClassConfig {
    fn default() -> Self {
        Self {
            quantum: Bytes::new(1514),
        }
    }
}

impl ClassConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        ConfigError::check(
            self.quantum > Bytes::ZERO,
            "quantum",
            units::size(self.quantum),
            "at least 1b",
        )
    }
}
