//! [`Cell`]: one combination of a row's variations; [`Backend`]: what runs it.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The value of each axis, in order of the axes: `[("bottleneck", "L100M"), ("tsq", "NoTSQ")]`.
/// Empty for a row without axes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cell(pub Vec<(String, String)>);

impl Cell {
    /// The values alone, in order of the axes.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, value)| value.as_str())
    }
}

/// The name of the column of `axis` in a table that has these `other` columns: two of one name would
/// be read as one (`count` of flows and of repetitions).
pub(crate) fn column(axis: &str, other: &[&str]) -> String {
    if other.contains(&axis) {
        format!("axis.{axis}")
    } else {
        axis.to_owned()
    }
}

/// The values joined by `_`; `all` for a row without axes. Directories are named so.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("all");
        }
        for (number, value) in self.values().enumerate() {
            write!(f, "{}{value}", if number == 0 { "" } else { "_" })?;
        }
        Ok(())
    }
}

/// The runner of a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// Virtual time.
    #[default]
    Sim,
    /// Network namespaces on this machine, joined by veth pairs, in real time.
    Veth,
}

impl Backend {
    /// As files write it: `sim`, `veth`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Veth => "veth",
        }
    }
}
