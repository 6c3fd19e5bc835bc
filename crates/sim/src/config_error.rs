//! [`ConfigError`]: a parameter that a part of the simulated network refuses at construction.

use tautline_qdisc::ParseError;

/// A parameter outside its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A number is out of range.
    #[error("`{parameter}` must be {allowed}, not {value}")]
    Range {
        /// The field's name.
        parameter: &'static str,
        /// The refused value.
        value: String,
        /// What would be accepted.
        allowed: &'static str,
    },
    /// The words of a discipline were not understood.
    #[error(transparent)]
    Discipline(#[from] ParseError),
    /// A dynamic queue limit refused a parameter.
    #[error(transparent)]
    QueueLimit(#[from] tautline_base::ConfigError),
}

impl ConfigError {
    /// `Ok` if `holds`, else the refusal of `value` for `parameter`.
    pub(crate) fn check(
        holds: bool,
        parameter: &'static str,
        value: impl ToString,
        allowed: &'static str,
    ) -> Result<(), Self> {
        if holds {
            Ok(())
        } else {
            Err(Self::Range {
                parameter,
                value: value.to_string(),
                allowed,
            })
        }
    }
}
