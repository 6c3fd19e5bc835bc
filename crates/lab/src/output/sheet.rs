//! [`Sheet`]: a row as pages show it: its results in each world it was run in, with the figures drawn.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::figure::{self, Figure, FigureError};
use super::{Tree, World};
use crate::result::{CellResult, Judged, RowResult};
use crate::run::Run;

/// A row in all worlds it was run in.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// One for each world, virtual time first. Never empty.
    pub worlds: Vec<Drawn>,
}

/// A row in one world, its figures drawn.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// Numbers and verdicts.
    pub row: RowResult,
    /// The figures, in the scenario's order.
    pub figures: Vec<Picture>,
}

/// A drawn figure.
#[derive(Clone, Debug)]
pub struct Picture {
    /// SVG.
    pub svg: String,
    /// What stands below it; may be empty.
    pub caption: String,
}

/// Why there is no sheet.
#[derive(Debug, thiserror::Error)]
pub enum SheetError {
    /// A file cannot be read or written.
    #[error("{}: {error}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file holds something else.
    #[error("{}: {error}; remove it and run the row again", file.display())]
    Content {
        /// Which.
        file: PathBuf,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// A figure does not suit its row.
    #[error("{row}: {error}")]
    Figure {
        /// Id of the row.
        row: String,
        /// Why.
        error: FigureError,
    },
    /// There is nothing to show.
    #[error("{} holds no results: run a row first, `lab run 001-F4 --out {}`", directory.display(), directory.display())]
    Nothing {
        /// Where they were looked for.
        directory: PathBuf,
    },
}

impl Drawn {
    /// Draws the figures of a row from its runs.
    ///
    /// # Errors
    /// When one does not suit the row.
    pub fn new(row: RowResult, runs: &[Run]) -> Result<Self, SheetError> {
        let stated = row.figures.clone();
        let figures: Vec<Figure> = if stated.is_empty() { figure::defaults(&row, runs) } else { stated };
        let mut pictures = Vec::new();
        for figure in figures {
            let svg = figure.draw(&row, runs).map_err(|error| SheetError::Figure { row: row.scenario.clone(), error })?;
            let last = svg.len().saturating_sub(1);
            let caption = |number| if number == last { figure.caption.clone().unwrap_or_default() } else { String::new() };
            pictures.extend(svg.into_iter().enumerate().map(|(number, svg)| Picture { svg, caption: caption(number) }));
        }
        Ok(Self { row, figures: pictures })
    }

    /// The command that runs it again.
    pub fn command(&self) -> String {
        let row = &self.row;
        let seed = row.cells.first().and_then(|cell| cell.seeds.first()).map_or(1, |seed| crate::plan::asked(*seed));
        let seed = if seed == 1 { String::new() } else { format!(" --seed {seed}") };
        let path = match row.path {
            World::Sim => "",
            World::Veth => " --path veth",
        };
        format!("lab run {}{seed}{path}", row.scenario)
    }

    /// How many shapes hold, of how many.
    pub fn score(&self) -> (usize, usize) {
        let holds = self.row.shapes.iter().filter(|shape| shape.judged == Judged::Holds).count();
        (holds, self.row.shapes.len())
    }

    /// Writes the figures beside the results: `figure-1.svg` and on.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write_figures(&self, tree: &Tree) -> Result<(), SheetError> {
        for (number, picture) in self.figures.iter().enumerate() {
            let file = tree.row(&self.row.scenario, self.row.path).join(format!("figure-{}.svg", number + 1));
            fs::write(&file, &picture.svg).map_err(|error| SheetError::File { file, error })?;
        }
        Ok(())
    }
}

impl Sheet {
    /// The row in the world that comes first, for what both share.
    pub fn first(&self) -> &Drawn {
        &self.worlds[0]
    }

    /// The sheets of all rows in a directory, in order of their ids. The runs of one row are in memory at a time.
    ///
    /// # Errors
    /// When there are none, a file is missing or is not what it should be.
    pub fn read_all(tree: &Tree) -> Result<Vec<Self>, SheetError> {
        let mut sheets: Vec<Self> = Vec::new();
        for row in results(tree)? {
            let runs = runs(tree, &row)?;
            let drawn = Drawn::new(row, &runs)?;
            match sheets.last_mut() {
                Some(sheet) if sheet.first().row.scenario == drawn.row.scenario => sheet.worlds.push(drawn),
                _ => sheets.push(Self { worlds: vec![drawn] }),
            }
        }
        if sheets.is_empty() { Err(SheetError::Nothing { directory: tree.root().to_owned() }) } else { Ok(sheets) }
    }
}

/// All results in a directory, in order of ids and worlds.
fn results(tree: &Tree) -> Result<Vec<RowResult>, SheetError> {
    let root = tree.root();
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(SheetError::File { file: root.to_owned(), error }),
    };
    let mut rows: Vec<RowResult> = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| SheetError::File { file: root.to_owned(), error })?;
        let file = entry.path().join("result.json");
        if file.is_file() {
            rows.push(read(&file)?);
        }
    }
    rows.sort_by(|a, b| (order(&a.scenario), a.path != World::Sim).cmp(&(order(&b.scenario), b.path != World::Sim)));
    Ok(rows)
}

/// The runs of a row, as its result names them.
fn runs(tree: &Tree, row: &RowResult) -> Result<Vec<Run>, SheetError> {
    let files = |cell: &CellResult| -> Vec<PathBuf> {
        cell.seeds.iter().map(|seed| tree.run(&row.scenario, row.path, &cell.cell, *seed, "json")).collect()
    };
    row.cells.iter().flat_map(files).map(|file| read(&file)).collect()
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<T, SheetError> {
    let text = fs::read(file).map_err(|error| SheetError::File { file: file.to_owned(), error })?;
    serde_json::from_slice(&text).map_err(|error| SheetError::Content { file: file.to_owned(), error })
}

/// Ids in the order people count: `F5` before `F10`.
fn order(id: &str) -> Vec<(u64, String)> {
    let mut parts = Vec::new();
    let mut rest = id;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        let words = after.len() - after.trim_start_matches(|c: char| !c.is_ascii_digit()).len();
        parts.push((number.parse().unwrap_or(0), after[..words].to_owned()));
        rest = &after[words..];
    }
    parts
}
