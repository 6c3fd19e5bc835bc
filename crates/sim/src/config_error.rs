//! [`ConfigError`]: a parameter that a part of the simulated network refuses at construction.

use std::fmt::Display;

use tautline_tc::ParseError;

/// A refused parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A value is out of range.
    #[error(transparent)]
    Range(#[from] tautline_base::ConfigError),
    /// The words of a qdisc were not understood.
    #[error(transparent)]
    Qdisc(#[from] ParseError),
}

impl ConfigError {
    /// Refuses `value` for `parameter` unless `holds`.
    pub(crate) fn check(
        holds: bool,
        parameter: &'static str,
        value: impl Display,
        allowed: &'static str,
    ) -> Result<(), Self> {
        Ok(tautline_base::ConfigError::check(
            holds, parameter, value, allowed,
        )?)
    }
}
