//! [`ReportRow`]: a row as pages show it: its results with each backend that has run it, and its
//! figures.
//!
//! Figures are drawn once, when the row has been run, and lie beside its result; pages are put
//! together from those files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::draw::{self, DrawError};
use crate::cell::Backend;
use crate::output_dir::{OutputDir, write};
use crate::recording::Run;
use crate::result::{CellResult, RowResult};
use crate::scenario::document::Figure;

/// A row with all backends that have run it.
#[derive(Clone, Debug)]
pub(crate) struct ReportRow {
    /// One for each backend, virtual time first. Never empty.
    pub reports: Vec<RowReport>,
}

/// A row with one backend, its figures drawn.
#[derive(Clone, Debug)]
pub(crate) struct RowReport {
    /// Numbers and verdicts.
    pub row: RowResult,
    /// The figures, in the scenario's order.
    pub figures: Vec<RenderedFigure>,
}

/// A drawn figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RenderedFigure {
    /// Its file: `figure-2.svg`, or `figure-2-1.svg` for the first part of several.
    pub file: String,
    /// SVG.
    pub svg: String,
    /// Text below the figure; may be empty.
    pub caption: String,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReportError {
    /// A file cannot be read or written.
    #[error("{}: {error}", file.display())]
    File { file: PathBuf, error: io::Error },
    /// A file holds something else.
    #[error("{}: {error}; remove it and run the row again", file.display())]
    Content {
        file: PathBuf,
        error: serde_json::Error,
    },
    /// A figure does not suit its row.
    #[error("{row}: {error}")]
    Figure {
        /// Id of the row.
        row: String,
        /// Why.
        error: DrawError,
    },
    /// A page cannot be put together.
    #[error("{0}")]
    Page(#[from] askama::Error),
    /// There is nothing to show.
    #[error("{} holds no results: run a row first, `lab run 001-F4 --out {}`", directory.display(), directory.display())]
    Nothing {
        /// The searched directory.
        directory: PathBuf,
    },
}

impl RowReport {
    /// Draws the figures of a row from its runs.
    ///
    /// # Errors
    /// When one does not suit the row.
    pub(crate) fn new(row: RowResult, runs: &[Run]) -> Result<Self, ReportError> {
        let stated = row.figures.clone();
        let figures: Vec<Figure> = if stated.is_empty() {
            draw::defaults(&row, runs)
        } else {
            stated
        };
        let mut pictures = Vec::new();
        for (number, figure) in figures.iter().enumerate() {
            let parts = figure
                .draw(&row, runs)
                .map_err(|error| ReportError::Figure {
                    row: row.scenario.clone(),
                    error,
                })?;
            let (number, last) = (number + 1, parts.len());
            for (part, svg) in parts.into_iter().enumerate() {
                let part = part + 1;
                let file = if last == 1 {
                    format!("figure-{number}.svg")
                } else {
                    format!("figure-{number}-{part}.svg")
                };
                let caption = if part == last {
                    figure.caption.clone().unwrap_or_default()
                } else {
                    String::new()
                };
                pictures.push(RenderedFigure { file, svg, caption });
            }
        }
        Ok(Self {
            row,
            figures: pictures,
        })
    }

    /// The command that runs it again.
    pub(crate) fn command(&self) -> String {
        let row = &self.row;
        let seed = row
            .cells
            .iter()
            .find_map(|cell| cell.seeds.first())
            .map_or(1, |seed| crate::plan::asked(*seed));
        let seed = if seed == 1 {
            String::new()
        } else {
            format!(" --seed {seed}")
        };
        let path = match row.path {
            Backend::Sim => "",
            Backend::Veth => " --path veth",
        };
        let partly = row.cells.iter().any(|cell| !cell.was_run());
        let cells = row
            .cells
            .iter()
            .filter(|cell| partly && cell.was_run())
            .map(|cell| format!(" --cell {}", cell.cell));
        let options = row.options.iter().map(|option| format!(" {option}"));
        format!(
            "lab run {}{}{seed}{path}{}",
            row.scenario,
            options.collect::<String>(),
            cells.collect::<String>()
        )
    }

    /// Writes the figures beside the result, in place of those that were there.
    ///
    /// # Errors
    /// When a file cannot be written or removed.
    pub(crate) fn write_figures(&self, tree: &OutputDir) -> Result<(), ReportError> {
        let directory = tree.row(&self.row.scenario, self.row.path);
        for file in figure_files(&directory)? {
            fs::remove_file(&file).map_err(|error| ReportError::File { file, error })?;
        }
        for picture in &self.figures {
            let file = directory.join(&picture.file);
            write(&file, picture.svg.as_bytes())
                .map_err(|error| ReportError::File { file, error })?;
        }
        Ok(())
    }

    /// A row with the figures that lie beside its result.
    fn read(row: RowResult, directory: &Path) -> Result<Self, ReportError> {
        let mut figures = Vec::new();
        for file in figure_files(directory)? {
            let svg = fs::read_to_string(&file).map_err(|error| ReportError::File {
                file: file.clone(),
                error,
            })?;
            let file = file
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            figures.push(RenderedFigure {
                file,
                svg,
                caption: String::new(),
            });
        }
        for (number, figure) in row.figures.iter().enumerate() {
            let of_figure = |picture: &&mut RenderedFigure| place(&picture.file).0 == number + 1;
            if let (Some(caption), Some(last)) =
                (&figure.caption, figures.iter_mut().rfind(of_figure))
            {
                last.caption.clone_from(caption);
            }
        }
        Ok(Self { row, figures })
    }
}

/// Figure and part that a file's name says: 2 and 1 for `figure-2-1.svg`.
fn place(file: &str) -> (usize, usize) {
    let mut numbers = file
        .trim_start_matches("figure-")
        .trim_end_matches(".svg")
        .split('-')
        .map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// The figures in a row's directory, in order.
fn figure_files(directory: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let failed = |error| ReportError::File {
        file: directory.to_owned(),
        error,
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let name = entry
            .map_err(failed)?
            .file_name()
            .to_string_lossy()
            .into_owned();
        if name.starts_with("figure-") && name.ends_with(".svg") {
            files.push(name);
        }
    }
    files.sort_by_key(|name| place(name));
    Ok(files.into_iter().map(|name| directory.join(name)).collect())
}

impl ReportRow {
    /// The report of the first backend, for what all share.
    pub(crate) fn first(&self) -> &RowReport {
        &self.reports[0]
    }

    /// Draws the figures of all rows in a directory again. The runs of one row are in memory at a
    /// time.
    ///
    /// # Errors
    /// When a file is missing or is not what it should be.
    pub(crate) fn draw_all(tree: &OutputDir) -> Result<(), ReportError> {
        for row in results(tree)? {
            let runs = runs(tree, &row)?;
            RowReport::new(row, &runs)?.write_figures(tree)?;
        }
        Ok(())
    }

    /// The reports of all rows in a directory, in order of their ids.
    ///
    /// # Errors
    /// If there are no results, or a file is missing or malformed.
    pub(crate) fn read_all(tree: &OutputDir) -> Result<Vec<Self>, ReportError> {
        let mut rows: Vec<Self> = Vec::new();
        for result in results(tree)? {
            let directory = tree.row(&result.scenario, result.path);
            let report = RowReport::read(result, &directory)?;
            match rows.last_mut() {
                Some(row) if row.first().row.scenario == report.row.scenario => {
                    row.reports.push(report)
                }
                _ => rows.push(Self {
                    reports: vec![report],
                }),
            }
        }
        if rows.is_empty() {
            Err(ReportError::Nothing {
                directory: tree.root().to_owned(),
            })
        } else {
            Ok(rows)
        }
    }
}

/// All results in a directory, in order of ids and backends.
fn results(tree: &OutputDir) -> Result<Vec<RowResult>, ReportError> {
    let root = tree.root();
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(ReportError::File {
                file: root.to_owned(),
                error,
            });
        }
    };
    let mut rows: Vec<RowResult> = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| ReportError::File {
            file: root.to_owned(),
            error,
        })?;
        let file = entry.path().join("result.json");
        if file.is_file() {
            rows.push(read(&file)?);
        }
    }
    rows.sort_by_cached_key(|row| (order(&row.scenario), row.path != Backend::Sim));
    Ok(rows)
}

/// The runs of a row, as its result names them.
///
/// # Errors
/// When a file is missing or is not what it should be.
pub(crate) fn runs(tree: &OutputDir, row: &RowResult) -> Result<Vec<Run>, ReportError> {
    let files = |cell: &CellResult| -> Vec<PathBuf> {
        cell.seeds
            .iter()
            .map(|seed| tree.run(&row.scenario, row.path, &cell.cell, *seed, "json"))
            .collect()
    };
    row.cells
        .iter()
        .flat_map(files)
        .map(|file| read(&file))
        .collect()
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<T, ReportError> {
    let text = fs::read(file).map_err(|error| ReportError::File {
        file: file.to_owned(),
        error,
    })?;
    serde_json::from_slice(&text).map_err(|error| ReportError::Content {
        file: file.to_owned(),
        error,
    })
}

/// Ids in the order people count: `F5` before `F10`.
pub(super) fn order(id: &str) -> Vec<(u64, String)> {
    let mut parts = Vec::new();
    let mut rest = id;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        let words = after.len()
            - after
                .trim_start_matches(|c: char| !c.is_ascii_digit())
                .len();
        parts.push((number.parse().unwrap_or(0), after[..words].to_owned()));
        rest = &after[words..];
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fixture;

    fn write<T: serde::Serialize>(file: &Path, content: &T) {
        fs::create_dir_all(file.parent().expect("a directory")).expect("made");
        fs::write(file, serde_json::to_vec(content).expect("JSON")).expect("written");
    }

    /// A directory with the results and runs of the fixture's row with both backends, and of another
    /// row.
    fn tree() -> (tempfile::TempDir, OutputDir) {
        let directory = tempfile::tempdir().expect("a directory");
        let tree = OutputDir::new(directory.path());
        let other = |id: &str, path| RowResult {
            scenario: id.to_owned(),
            path,
            ..fixture::row()
        };
        for row in [
            other("001-F10", Backend::Sim),
            other("001-F4", Backend::Veth),
            fixture::row(),
        ] {
            write(&tree.result(&row.scenario, row.path), &row);
            for run in fixture::runs() {
                write(
                    &tree.run(&row.scenario, row.path, &run.cell, run.seed, "json"),
                    &run,
                );
            }
            let runs = runs(&tree, &row).expect("read");
            RowReport::new(row, &runs)
                .expect("drawn")
                .write_figures(&tree)
                .expect("written");
        }
        (directory, tree)
    }

    #[test]
    fn what_was_drawn_is_read_back_in_order_of_ids_and_backends() {
        let (_directory, tree) = tree();
        let rows = ReportRow::read_all(&tree).expect("read");
        let ids: Vec<(&str, usize)> = rows
            .iter()
            .map(|s| (s.first().row.scenario.as_str(), s.reports.len()))
            .collect();
        assert_eq!(ids, [("001-F4", 2), ("001-F10", 1)]);
        assert_eq!(
            rows[0]
                .reports
                .iter()
                .map(|drawn| drawn.row.path)
                .collect::<Vec<_>>(),
            [Backend::Sim, Backend::Veth]
        );
        let files: Vec<&str> = rows[0]
            .first()
            .figures
            .iter()
            .map(|picture| picture.file.as_str())
            .collect();
        assert_eq!(
            files,
            [
                "figure-1.svg",
                "figure-2.svg",
                "figure-3-1.svg",
                "figure-3-2.svg"
            ]
        );
        fs::write(tree.row("001-F4", Backend::Sim).join("figure-1.svg"), "old").expect("written");
        ReportRow::draw_all(&tree).expect("drawn");
        let rows = ReportRow::read_all(&tree).expect("read");
        let again = RowReport::new(fixture::row(), &fixture::runs()).expect("drawn");
        assert_eq!(rows[0].first().figures, again.figures);
    }

    #[test]
    fn figures_that_are_no_more_are_removed() {
        let (_directory, tree) = tree();
        let stated = "kind = 'box'\nshow = ['ping']\ncaption = 'Only this.'";
        let row = RowResult {
            figures: vec![toml::from_str(stated).expect("a figure")],
            ..fixture::row()
        };
        RowReport::new(row.clone(), &fixture::runs())
            .expect("drawn")
            .write_figures(&tree)
            .expect("written");
        write(&tree.result(&row.scenario, row.path), &row);
        let rows = ReportRow::read_all(&tree).expect("read");
        assert_eq!(rows[0].first().figures.len(), 1);
        assert_eq!(rows[0].first().figures[0].caption, "Only this.");
    }

    #[test]
    fn the_command_has_the_options_that_the_row_was_run_with() {
        let command = |row: RowResult| {
            let figures = Vec::new();
            RowReport { row, figures }.command()
        };
        assert_eq!(command(fixture::row()), "lab run 001-F4 --seed 0");
        let quick = RowResult {
            options: vec!["--quick".to_owned(), "--cc bbr".to_owned()],
            path: Backend::Veth,
            ..fixture::row()
        };
        assert_eq!(
            command(quick),
            "lab run 001-F4 --quick --cc bbr --seed 0 --path veth"
        );
    }

    #[test]
    fn what_is_missing_or_broken_is_named() {
        let (directory, tree) = tree();
        let result = tree.result("001-F4", Backend::Sim);
        fs::write(&result, "{").expect("written");
        let error = ReportRow::read_all(&tree).expect_err("broken").to_string();
        assert!(
            error.contains("001-F4/result.json") && error.contains("run the row again"),
            "{error}"
        );
        let nothing = OutputDir::new(directory.path().join("nothing"));
        let error = ReportRow::read_all(&nothing)
            .expect_err("nothing")
            .to_string();
        assert!(
            error.contains("holds no results: run a row first"),
            "{error}"
        );
    }
}
