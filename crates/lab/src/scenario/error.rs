//! [`ScenarioError`]: what is wrong in a scenario file, and where.

use std::fmt;

use serde::de::{Expected, Unexpected};

use super::source::{Position, Sources};

/// An error in a scenario file with its position: `scenarios/001-f4.toml:12:8: flow.upload.from:
/// …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file, or an option of the command line with its value.
    pub file: String,
    /// Line and column from 1; `None` for an option, and when the file cannot be read at all.
    pub at: Option<(usize, usize)>,
    /// The key, as an axis would write it; empty when it is about no key.
    pub key: String,
    /// The error, and what would be accepted.
    pub message: String,
}

impl ScenarioError {
    /// An error of a whole file or directory.
    pub(crate) fn whole(file: String, message: impl fmt::Display) -> Self {
        Self {
            file,
            at: None,
            key: String::new(),
            message: message.to_string(),
        }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some((line, column)) = self.at {
            write!(f, ":{line}:{column}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ScenarioError {}

/// An error that does not yet know its sources, nor all of its key.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) place: Option<Position>,
    pub(crate) key: Vec<String>,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self {
            place: None,
            key: Vec::new(),
            message: message.to_string(),
        }
    }

    /// Sets the position to `place`, unless it is known more precisely.
    pub(crate) fn at(mut self, place: Position) -> Self {
        self.place.get_or_insert(place);
        self
    }

    /// Under `key`, which leads to what it knows so far.
    pub(crate) fn under(mut self, key: impl Into<String>) -> Self {
        self.key.insert(0, key.into());
        self
    }

    pub(crate) fn resolve(self, sources: &Sources) -> ScenarioError {
        let place = self.place.unwrap_or(Position { file: 0, at: 0 });
        let (file, line, column) = sources.locate(place);
        ScenarioError {
            file: file.to_owned(),
            at: (!sources.is_option(place.file)).then_some((line, column)),
            key: self.key.join("."),
            message: self.message.trim_end().to_owned(),
        }
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl serde::de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message)
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        let wanted = wanted.to_string();
        let wanted = match wanted.as_str() {
            "a boolean" => "true or false",
            "a string" => "text in quotes",
            "a sequence" => "a list in brackets, or tables in double brackets",
            "a map" => "a table",
            other if other.starts_with("struct ") => "a table",
            other => other,
        };
        Self::new(format_args!("found {found}, wanted {wanted}"))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format_args!(
            "there is no key `{field}` here; keys: {}",
            expected.join(", ")
        ))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format_args!(
            "`{variant}` is not known; allowed: {}",
            expected.join(", ")
        ))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format_args!("the key `{field}` is missing"))
    }
}
