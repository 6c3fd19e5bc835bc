//! What the lab writes: data files that other programs read, figures, and pages that show both beside what the papers found.
//!
//! | module | writes |
//! |---|---|
//! | [`plot`] | figures as SVG |
//! | [`flent`] | data files for Flent |
//! | [`figure`] | which of them a row shows |
//!
//! [`Tree`] says where each file of an output directory lies:
//!
//! ```text
//! lab-out/report.html
//! lab-out/001-F4/result.json             numbers of all cells, verdicts
//! lab-out/001-F4/L100M_NoTSQ/17.json     the run of a cell with seed 17; other formats beside it
//! ```

pub mod figure;
pub mod flent;
pub mod plot;

use std::path::{Path, PathBuf};

use crate::run::Run;

/// An output directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree(PathBuf);

impl Tree {
    /// The directory `root`, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// Directory of scenario `id`.
    pub fn row(&self, id: &str) -> PathBuf {
        self.0.join(id)
    }

    /// Where the [`RowResult`](crate::RowResult) of scenario `id` is.
    pub fn result(&self, id: &str) -> PathBuf {
        self.row(id).join("result.json")
    }

    /// The file of `run` with that `extension`, e.g. `json`, `csv`.
    pub fn run(&self, run: &Run, extension: &str) -> PathBuf {
        self.row(&run.scenario).join(run.cell.to_string()).join(format!("{}.{extension}", run.seed))
    }

    /// The report over all rows.
    pub fn report(&self) -> PathBuf {
        self.0.join("report.html")
    }
}
