//! What the lab writes: data files that other programs read, figures, and pages that show both
//! beside what the papers found.
//!
//! | module | writes |
//! |---|---|
//! | [`plot`] | figures as SVG |
//! | [`beside`] | what lies beside each run |
//! | [`csv`] | samples in long form |
//! | [`flent`] | data files for Flent |
//! | [`pcapng`] | every packet, for Wireshark |
//! | [`figure`] | which of them a row shows |
//! | [`sheet`] | rows read back, their figures drawn |
//! | [`html`] | the report |
//! | [`gallery`] | `docs/experiments/` |
//!
//! [`Tree`] says where each file of an output directory lies:
//!
//! ```text
//! lab-out/report.html
//! lab-out/001-F4/result.json             numbers of all cells, verdicts
//! lab-out/001-F4/L100M_NoTSQ/17.json     the run of a cell with seed 17; other formats beside it
//! lab-out/001-F4/figure-1.svg            the figures, in the scenario's order
//! lab-out/001-F4@veth/                   the same row on the wire
//! ```

pub mod beside;
pub mod csv;
pub mod figure;
pub mod flent;
pub mod gallery;
pub mod html;
mod numbers;
pub mod pcapng;
pub mod plot;
pub mod sheet;

use std::path::{Path, PathBuf};

use crate::run::{Cell, Path as World};

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

    /// Directory of scenario `id` in one world.
    pub fn row(&self, id: &str, world: World) -> PathBuf {
        match world {
            World::Sim => self.0.join(id),
            World::Veth => self.0.join(format!("{id}@veth")),
        }
    }

    /// Where the [`RowResult`](crate::RowResult) of scenario `id` is.
    pub fn result(&self, id: &str, world: World) -> PathBuf {
        self.row(id, world).join("result.json")
    }

    /// The file of the run of `cell` with `seed` and that `extension`, e.g. `json`, `csv`.
    pub fn run(&self, id: &str, world: World, cell: &Cell, seed: u64, extension: &str) -> PathBuf {
        self.row(id, world)
            .join(cell.to_string())
            .join(format!("{seed}.{extension}"))
    }

    /// The report over all rows.
    pub fn report(&self) -> PathBuf {
        self.0.join("report.html")
    }
}

#[cfg(test)]
mod fixture;
