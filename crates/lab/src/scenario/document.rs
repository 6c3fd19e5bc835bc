//! [`Document`]: a scenario file as typed values: every key, its unit and its default. `None`:
//! absent from the file.
//!
//! `docs/lab.md` explains each key; the names here are those of the file.

mod air;
mod figure;
mod flent;
mod flow;
mod network;
mod tcp;

use std::collections::BTreeMap;

use serde::Deserialize;

use super::units::Time;

pub(crate) use air::{Guard, Lte, Standard, Width, Wifi};
pub use figure::{BoxSpan, Figure, Kind};
pub(crate) use figure::{FigureError, Shown, describe};
pub use flent::FlentTest;
pub(crate) use flow::{FIRST_PORT, Flow, FlowKind, MOST_FLOWS_IN_ALL, Over};
pub(crate) use network::{Back, Host, Link, Port, Router, Wake};
pub(crate) use tcp::{EcnWord, PacingWord, Profile, Tcp};

/// The `paper` of an experiment that no paper describes.
pub(crate) const OWN: &str = "own";

fn own() -> String {
    OWN.to_owned()
}

/// A whole file, one cell's settings applied.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Row of the papers, e.g. `001-F4`.
    pub id: String,
    /// Subject of the comparison, in one line.
    pub title: String,
    /// Other rows, or figures of the papers, that this shows too.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The paper's number. Default `own`, for an experiment that no paper describes.
    #[serde(default = "own")]
    pub paper: String,
    /// The paper's finding in our words, with its numbers. Default none.
    #[serde(default)]
    pub claim: String,
    /// Differences from the paper, and the reasons.
    pub note: Option<String>,
    /// Whether it also runs on this machine's network.
    #[serde(default)]
    pub wire: bool,
    /// The row is shown by another command.
    pub elsewhere: Option<Elsewhere>,
    /// Names of the numbers that the table shows.
    #[serde(default)]
    pub table: Vec<String>,
    /// Times and repetitions.
    pub run: Option<Times>,
    /// Times of the quick form, in place of those of `run`.
    pub quick: Option<Quick>,
    /// Hosts.
    #[serde(default)]
    pub host: Vec<Host>,
    /// Routers.
    #[serde(default)]
    pub router: Vec<Router>,
    /// Cables.
    #[serde(default)]
    pub link: Vec<Link>,
    /// Wi-Fi cells.
    #[serde(default)]
    pub wifi: Vec<Wifi>,
    /// LTE cells.
    #[serde(default)]
    pub lte: Vec<Lte>,
    /// TCP of all flows.
    #[serde(default)]
    pub tcp: Tcp,
    /// Traffic.
    #[serde(default)]
    pub flow: Vec<Flow>,
    /// Variations: names, each with the names of its values.
    #[serde(default)]
    pub axis: Vec<Axis>,
    /// The paper's findings as expressions.
    #[serde(default)]
    pub shape: Vec<Shape>,
    /// Analyses of variance.
    #[serde(default)]
    pub anova: Vec<Variance>,
    /// Figures to draw.
    #[serde(default)]
    pub figure: Vec<Figure>,
    /// Flent's test with the same flows.
    pub flent: Option<FlentTest>,
}

/// Why a row is not run by `lab`, and what shows it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elsewhere {
    /// Its requirement: a Linux peer, wall-clock time.
    pub needs: String,
    /// The command.
    pub command: String,
    /// The verdict on what was measured, in a few words.
    pub verdict: Option<String>,
    /// Measured figures, as Markdown.
    pub measured: Option<String>,
}

/// Times and repetitions.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// End of the run.
    pub duration: Time,
    /// Start of the measurement.
    pub warm_up: Time,
    /// Runs of each cell. Default 3.
    #[serde(default = "three")]
    pub repetitions: usize,
    /// Time between samples. Default 100 ms.
    #[serde(default = "tenth")]
    pub sample: Time,
    /// Time after which the reply to a ping counts as lost. Default 10 s.
    #[serde(default = "ten_seconds")]
    pub ping_timeout: Time,
}

/// Times of the quick form.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// End of the run.
    pub duration: Option<Time>,
    /// Start of the measurement.
    pub warm_up: Option<Time>,
}

fn three() -> usize {
    3
}

fn ten_seconds() -> Time {
    Time(std::time::Duration::from_secs(10))
}

fn tenth() -> Time {
    Time(std::time::Duration::from_millis(100))
}

/// A variation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// Its values.
    #[serde(default)]
    pub value: Vec<AxisValue>,
}

/// One value of an axis.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisValue {
    /// Its name.
    pub name: String,
    /// Settings, applied to the document before it is deserialized.
    #[serde(default)]
    pub set: BTreeMap<String, serde_json::Value>,
}

/// A finding of the paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// The finding in words.
    pub says: String,
    /// The finding as an expression.
    pub check: String,
    /// The paper's numbers, by the expressions for ours.
    #[serde(default)]
    pub paper: BTreeMap<String, f64>,
}

/// An analysis of variance.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variance {
    /// The number compared, one per repetition; or a quantity, whose single values are compared.
    pub metric: String,
    /// The axis whose values are the groups.
    pub over: String,
    /// Probability of a false positive. Default 0.05.
    #[serde(default = "five_percent")]
    pub alpha: f64,
}

fn five_percent() -> f64 {
    0.05
}
