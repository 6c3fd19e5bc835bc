//! [`RingLimit`]: configuration of the limit of a ring.

use tautline_bql::{Limit, LimitKind};

use crate::config_error::ConfigError;
use crate::dyn_rlc::{self, DynRlc};

/// A limit on the bytes in a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingLimit {
    /// A limit of real devices.
    Device(LimitKind),
    /// A delay target. Experimental, see [`dyn_rlc`].
    DynRlc(dyn_rlc::Config),
}

impl Default for RingLimit {
    /// Dynamic queue limits with Linux's defaults.
    fn default() -> Self {
        Self::Device(LimitKind::default())
    }
}

impl From<LimitKind> for RingLimit {
    fn from(kind: LimitKind) -> Self {
        Self::Device(kind)
    }
}

impl From<dyn_rlc::Config> for RingLimit {
    fn from(config: dyn_rlc::Config) -> Self {
        Self::DynRlc(config)
    }
}

impl RingLimit {
    /// Builds the limit, with nothing in flight.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn build(&self) -> Result<Box<dyn Limit>, ConfigError> {
        Ok(match self {
            Self::Device(kind) => kind.build()?,
            Self::DynRlc(config) => Box::new(DynRlc::new(*config)?),
        })
    }
}
