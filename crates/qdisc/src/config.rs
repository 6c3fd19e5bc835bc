//! [`ConfigError`]: a parameter that a discipline refuses at construction, so that nothing is left
//! to check per packet.

use alloc::string::{String, ToString};
use core::error::Error;
use core::fmt;

/// A parameter outside what the discipline can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The parameter, in `tc`'s name: `flows`.
    pub parameter: &'static str,
    /// The refused value.
    pub value: String,
    /// What would be accepted: `from 1 to 65536`.
    pub allowed: &'static str,
}

impl ConfigError {
    /// `Ok` if `holds`, else the refusal of `value` for `parameter`.
    pub(crate) fn check(
        holds: bool,
        parameter: &'static str,
        value: impl fmt::Display,
        allowed: &'static str,
    ) -> Result<(), Self> {
        if holds {
            Ok(())
        } else {
            Err(Self {
                parameter,
                value: value.to_string(),
                allowed,
            })
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` must be {}, not {}",
            self.parameter, self.allowed, self.value
        )
    }
}

impl Error for ConfigError {}
