//! [`ConfigError`]: a parameter refused at construction, so that nothing is left to check per packet.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use core::error::Error;
use core::fmt;

/// A parameter outside its range. Displayed as: `flows` must be from 1 to 65536, not 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Name of the parameter in configuration files and on command lines: `flows`.
    pub parameter: &'static str,
    /// The refused value.
    pub value: String,
    /// The accepted values: `from 1 to 65536`.
    pub allowed: Cow<'static, str>,
}

impl ConfigError {
    /// The refusal of `value` for `parameter`, which accepts `allowed`.
    pub fn new(
        parameter: &'static str,
        value: impl fmt::Display,
        allowed: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            parameter,
            value: value.to_string(),
            allowed: allowed.into(),
        }
    }

    /// Refuses `value` for `parameter` unless `holds`.
    ///
    /// # Errors
    /// If `holds` is false.
    pub fn check(
        holds: bool,
        parameter: &'static str,
        value: impl fmt::Display,
        allowed: &'static str,
    ) -> Result<(), Self> {
        if holds {
            Ok(())
        } else {
            Err(Self::new(parameter, value, allowed))
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
