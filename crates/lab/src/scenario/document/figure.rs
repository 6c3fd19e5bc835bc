//! [`Figure`]: which figure of a row to draw, as a scenario file states it under `[[figure]]`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;
use crate::scenario::node::listed;

/// One figure of a row.
///
/// ```toml
/// [[figure]]
/// kind = "box"
/// show = ["rtt"]
/// x = "bottleneck"
/// color = "tsq"
/// box = "p10-p90"
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Boxes, curves or bars.
    pub kind: Kind,
    /// Quantities or numbers to show. `box` and `cdf`: one quantity, `ping`, or that of one flow or
    /// port, `backlog.router>server`. `series`: one such for each panel, from top to bottom.
    /// `bars`: numbers of the summary, `goodput.total`, one panel each. `trade`: two of them, the
    /// vertical axis first.
    pub show: Vec<String>,
    /// Stands above it; a figure without one is named after what it shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Stands below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
    /// Range of the boxes.
    #[serde(default, rename = "box")]
    pub span: BoxSpan,
    /// `box`, `bars`, `trade`: the axis of the row whose values stand side by side, or are joined.
    /// By default the last that is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// The axis whose values are distinguished by color. By default the last, unless that is the
    /// only one left for `x`.
    #[serde(
        default,
        rename(serialize = "colour"),
        alias = "colour",
        skip_serializing_if = "Option::is_none"
    )]
    pub color: Option<String>,
    /// The axis whose values have a panel each; so have those of every axis left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub panel: Option<String>,
    /// Only the cells with these values of axes.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub only: BTreeMap<String, String>,
    /// Whether the axis of values is logarithmic. By default where they span more than two decades.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<bool>,
    /// `series`: whether what a quantity counts, drops for example, is summed up from the beginning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cumulative: bool,
}

/// Range of a box and of its whiskers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoxSpan {
    /// 10th to 90th percentile (as in paper 001), whiskers from the 1st to the 99th.
    #[default]
    #[serde(rename = "p10-p90")]
    TenToNinety,
    /// Quartiles, whiskers from the 5th percentile to the 95th.
    #[serde(rename = "p25-p75")]
    Quartiles,
}

impl BoxSpan {
    /// Explanation below a figure.
    pub fn legend(self) -> &'static str {
        match self {
            Self::TenToNinety => {
                "box: 10th to 90th percentile, line: median, whiskers: 1st to 99th"
            }
            Self::Quartiles => "box: 25th to 75th percentile, line: median, whiskers: 5th to 95th",
        }
    }

    /// Levels of whisker, box and whisker.
    pub(crate) fn levels(self) -> [f64; 4] {
        match self {
            Self::TenToNinety => [0.01, 0.10, 0.90, 0.99],
            Self::Quartiles => [0.05, 0.25, 0.75, 0.95],
        }
    }
}

/// Kind of a figure.
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

/// Why a figure cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FigureError {
    /// The row has no such axis.
    #[error("figure.{key} = {named:?} is no axis of the row; it has {axes}")]
    Axis {
        /// Key of the figure.
        key: &'static str,
        named: String,
        /// The row's axes.
        axes: String,
    },
    /// An entry of `show` is not a quantity.
    #[error("figure.show = {named:?} names no quantity; there is {known}")]
    Show {
        named: String,
        /// All quantities.
        known: String,
    },
    /// Figures of this kind do not have the key.
    #[error("a figure of kind {kind} has no `{key}`; kinds with it: {}", listed(.of))]
    Key {
        /// The kind.
        kind: &'static str,
        key: &'static str,
        /// The kinds that have it.
        of: Vec<&'static str>,
    },
    /// A figure of this kind shows another number of things.
    #[error("a figure of kind {kind} shows {wanted}, not {has}")]
    Count {
        /// The kind.
        kind: &'static str,
        /// Required number.
        wanted: &'static str,
        /// Actual number.
        has: usize,
    },
}

impl Figure {
    /// Whether it can be drawn for a row with these axes.
    ///
    /// # Errors
    /// What is wrong, with what would be right.
    pub fn check(&self, axes: &[String]) -> Result<(), FigureError> {
        let roles = [
            ("x", &self.x),
            ("color", &self.color),
            ("panel", &self.panel),
        ];
        let named = roles
            .into_iter()
            .filter_map(|(key, axis)| Some((key, axis.as_ref()?)));
        for (key, named) in named.chain(self.only.keys().map(|axis| ("where", axis))) {
            if !axes.contains(named) {
                let axes = if axes.is_empty() {
                    "none".to_owned()
                } else {
                    axes.join(", ")
                };
                return Err(FigureError::Axis {
                    key,
                    named: named.clone(),
                    axes,
                });
            }
        }
        let written = [
            (
                "x",
                self.x.is_some(),
                &[Kind::Box, Kind::Bars, Kind::Trade][..],
            ),
            ("cumulative", self.cumulative, &[Kind::Series]),
        ];
        let misplaced =
            |(_, written, kinds): &&(_, bool, &[Kind])| *written && !kinds.contains(&self.kind);
        if let Some((key, _, kinds)) = written.iter().find(misplaced) {
            return Err(FigureError::Key {
                kind: self.kind.name(),
                key,
                of: kinds.iter().map(|kind| kind.name()).collect(),
            });
        }
        let (wanted, fits) = match self.kind {
            Kind::Box | Kind::Cdf | Kind::Series | Kind::Bars => {
                ("at least one", !self.show.is_empty())
            }
            Kind::Trade => ("two", self.show.len() == 2),
        };
        if !fits {
            return Err(FigureError::Count {
                kind: self.kind.name(),
                wanted,
                has: self.show.len(),
            });
        }
        self.show
            .iter()
            .try_for_each(|named| Shown::read(named).map(drop))
    }
}

/// An entry of [`Figure::show`]: `ping`, `backlog.router>server`, `goodput.upload.total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown<'a> {
    pub(crate) quantity: Quantity,
    /// The part behind the quantity, without its dot.
    pub(crate) rest: Option<&'a str>,
}

impl<'a> Shown<'a> {
    pub(crate) fn read(named: &'a str) -> Result<Self, FigureError> {
        let (quantity, rest) = named
            .split_once('.')
            .map_or((named, None), |(quantity, rest)| (quantity, Some(rest)));
        let quantity = Quantity::ALL
            .into_iter()
            .find(|known| known.name() == quantity)
            .ok_or_else(|| FigureError::Show {
                named: named.to_owned(),
                known: Quantity::ALL.map(Quantity::name).join(", "),
            })?;
        Ok(Self { quantity, rest })
    }

    /// The whole entry: `goodput.upload.total`.
    pub(crate) fn path(&self) -> String {
        self.rest.map_or_else(
            || self.quantity.name().to_owned(),
            |rest| format!("{}.{rest}", self.quantity.name()),
        )
    }

    /// Title of several together: that of a lone one, else those of their quantities.
    pub(crate) fn common_title(all: &[Self], title: fn(&Self) -> String) -> String {
        if let [one] = all {
            return title(one);
        }
        let mut titles: Vec<&str> = Vec::new();
        for title in all.iter().map(|one| one.quantity.title()) {
            if !titles.contains(&title) {
                titles.push(title);
            }
        }
        titles.join(", ")
    }

    /// "Qdisc backlog of router>server".
    pub(crate) fn title(&self) -> String {
        self.rest.map_or_else(
            || self.quantity.title().to_owned(),
            |rest| format!("{} of {rest}", self.quantity.title()),
        )
    }

    /// For a number of the summary: "Goodput, upload total".
    pub(crate) fn number_title(&self) -> String {
        let words = self
            .rest
            .unwrap_or_default()
            .split('.')
            .map(|word| match word {
                "p50" => "median".to_owned(),
                "dip_gap" => "time between dips".to_owned(),
                word => match word
                    .strip_prefix('p')
                    .and_then(|level| level.parse::<u8>().ok())
                {
                    Some(level) => format!("{level}th percentile"),
                    None => word.to_owned(),
                },
            });
        let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
        if words.is_empty() {
            self.quantity.title().to_owned()
        } else {
            format!("{}, {}", self.quantity.title(), words.join(" "))
        }
    }

    /// The unit of a number of the summary.
    pub(crate) fn number_unit(&self) -> &'static str {
        match self.rest.and_then(|rest| rest.rsplit('.').next()) {
            Some("fairness" | "count" | "dips") => "",
            Some("dip_gap") => "s",
            _ => self.quantity.unit(),
        }
    }
}

/// A number of the summary in words, and its unit: `ping.p50` is "Ping, median" in "ms".
pub(crate) fn describe(number: &str) -> (String, &'static str) {
    Shown::read(number).map_or_else(
        |_| (number.to_owned(), ""),
        |shown| (shown.number_title(), shown.number_unit()),
    )
}
