//! Figures as SVG text: pure functions of their data, so equal data make equal bytes.
//!
//! Every figure is light, carries units on its axes and names on its curves, and distinguishes
//! groups by the colors that Okabe and Ito chose for the color-blind ("Color Universal Design",
//! 2008). An axis is logarithmic where its values span more than two decades, unless the figure
//! says otherwise. Samples that are not finite are left out; a figure without samples says so.

mod axis;
mod canvas;
mod curves;
mod grouped;
mod quantile;
mod trade;

pub(crate) use curves::{Curve, Curves, CurvesPanel, Names, cumulative};
pub(crate) use grouped::{Grouped, GroupedPanel, Mark};
pub(crate) use quantile::Quantiles;
pub(crate) use trade::{Spot, Trade};

pub(crate) use axis::short;

/// Name, unit and scale of an axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Measure {
    /// "Round trip of ping".
    pub name: String,
    /// "ms"; empty for a plain number.
    pub unit: String,
    /// Whether the axis is logarithmic; `None`: where its values span more than two decades.
    pub log: Option<bool>,
}

impl Measure {
    /// A measure whose axis is chosen by its values.
    pub(crate) fn new(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            unit: unit.into(),
            log: None,
        }
    }

    /// "Round trip of ping, ms".
    fn caption(&self) -> String {
        if self.unit.is_empty() {
            self.name.clone()
        } else {
            format!("{}, {}", self.name, self.unit)
        }
    }
}

/// Why a figure could not be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("figure {title:?}: {reason}")]
pub struct PlotError {
    title: String,
    reason: String,
}

#[cfg(test)]
mod tests;
