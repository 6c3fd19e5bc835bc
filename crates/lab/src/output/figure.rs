//! [`Figure`]: which figure of a row to draw, as a scenario file states it under `[[figure]]`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::plot::BoxSpan;

/// One figure of a row.
///
/// ```toml
/// [[figure]]
/// kind = "box"
/// show = ["rtt"]
/// x = "bottleneck"
/// colour = "tsq"
/// box = "p10-p90"
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What it looks like.
    pub kind: Kind,
    /// What it shows. `box` and `cdf`: one quantity, `ping`, or that of one flow or port, `backlog.router>server`. `series`: one such
    /// for each panel, from top to bottom. `bars`: numbers of the summary, `goodput.total`, one panel each. `trade`: two of them, the
    /// vertical axis first.
    pub show: Vec<String>,
    /// Stands above it; a figure without one is named after what it shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Stands below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
    /// What boxes cover.
    #[serde(default, rename = "box")]
    pub span: BoxSpan,
    /// The axis of the row whose values stand side by side, or are joined by `trade`. By default the last but one, or the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// The axis whose values are told apart by colour. By default the last of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colour: Option<String>,
    /// Only the cells with these values of axes.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub only: BTreeMap<String, String>,
    /// Whether the axis of values is logarithmic. By default where they span more than two decades.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<bool>,
}

/// What a figure looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A box for each cell: samples of all repetitions together.
    Box,
    /// A cumulative distribution for each cell: samples of all repetitions together.
    Cdf,
    /// Values over time in the first repetition of each cell.
    Series,
    /// A bar for each cell: the mean over repetitions with its 95 % confidence interval.
    Bars,
    /// One number of each cell against another.
    Trade,
}

impl Kind {
    /// Its name in a scenario file and in the names of files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Box => "box",
            Self::Cdf => "cdf",
            Self::Series => "series",
            Self::Bars => "bars",
            Self::Trade => "trade",
        }
    }
}
