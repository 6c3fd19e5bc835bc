//! [`LimitKind`]: which limit stands in front of a ring, chosen when a simulation is set up.

use tautline_bql::{Dql, Limit, Push, Unlimited, dql, push};

use crate::config_error::ConfigError;

/// A limit on the bytes in a device, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// None but the ring's own room.
    Unlimited,
    /// Dynamic queue limits.
    Dql(dql::Config),
    /// Push-based flow control.
    Push(push::Config),
}

impl Default for LimitKind {
    /// Dynamic queue limits as Linux has them.
    fn default() -> Self {
        Self::Dql(dql::Config::default())
    }
}

impl LimitKind {
    pub(crate) fn build(&self) -> Result<Box<dyn Limit>, ConfigError> {
        Ok(match self {
            Self::Unlimited => Box::new(Unlimited::default()),
            Self::Dql(config) => Box::new(Dql::new(*config)?),
            Self::Push(config) => Box::new(Push::new(*config)?),
        })
    }
}
