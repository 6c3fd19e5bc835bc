//! `lab compare`: two results side by side.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::table::{Table, estimate, number};
use super::{ExitStatus, Failure};
use crate::cell::Cell;
use crate::result::{CellResult, RowResult};
use crate::summary::Estimate;

/// Arguments of `lab compare`.
#[derive(Args, Debug)]
pub(super) struct Compare {
    /// An output directory, a row's directory in one, or a cell's in that
    one: PathBuf,
    /// The other result, of the same kind
    other: PathBuf,
    /// Numbers to compare [default: those of the row's table]
    #[arg(long, value_name = "NAME")]
    number: Vec<String>,
}

enum Input {
    Rows(Vec<RowResult>),
    Cell(Box<RowResult>, Cell),
}

impl Compare {
    pub(super) fn compare(&self) -> Result<ExitStatus, Failure> {
        match (read(&self.one)?, read(&self.other)?) {
            (Input::Rows(ones), Input::Rows(others)) => {
                // Two rows may be of different backends; in directories each is compared with its
                // like.
                let single = ones.len() == 1 && others.len() == 1;
                let like = |one: &RowResult, other: &RowResult| {
                    one.scenario == other.scenario && (single || one.path == other.path)
                };
                let pairs = ones
                    .iter()
                    .filter_map(|one| Some((one, others.iter().find(|other| like(one, other))?)));
                let compared = pairs.map(|(one, other)| self.rows(one, other)).count();
                if compared == 0 {
                    return Err("they have no row in common".into());
                }
            }
            (Input::Cell(one_row, one), Input::Cell(other_row, other)) => {
                say!(
                    "{} {one}  against  {} {other}",
                    one_row.scenario,
                    other_row.scenario
                );
                let mut table = head(0);
                self.cell(
                    &mut table,
                    &[],
                    self.names(&one_row),
                    find(&one_row, &one),
                    find(&other_row, &other),
                );
                say!("{table}");
            }
            _ => return Err(
                "they are of different kinds: name two output directories, two rows or two cells"
                    .into(),
            ),
        }
        Ok(ExitStatus::Holds)
    }

    fn rows(&self, one: &RowResult, other: &RowResult) {
        say!("{}  {}", one.scenario, one.title);
        let mut table = head(one.axes.len());
        for cell in &one.cells {
            let values: Vec<&str> = cell.cell.values().collect();
            self.cell(
                &mut table,
                &values,
                self.names(one),
                Some(cell),
                find(other, &cell.cell),
            );
        }
        say!("{table}");
        for own in &one.shapes {
            let same = other
                .shapes
                .iter()
                .find(|shape| shape.expected.says == own.expected.says);
            if same.is_some_and(|same| same.judged != own.judged) {
                say!("the verdict differs: {}\n", own.expected.says);
            }
        }
    }

    fn names<'a>(&'a self, row: &'a RowResult) -> &'a [String] {
        if self.number.is_empty() {
            &row.table
        } else {
            &self.number
        }
    }

    fn cell(
        &self,
        table: &mut Table,
        values: &[&str],
        names: &[String],
        one: Option<&CellResult>,
        other: Option<&CellResult>,
    ) {
        for name in names {
            let [one, other] =
                [one, other].map(|cell| cell.and_then(|cell| cell.numbers.get(name)));
            let (difference, share) = match (one, other) {
                (Some(one), Some(other)) => difference(one, other),
                _ => ("–".to_owned(), "–".to_owned()),
            };
            let numbers = [estimate(one), estimate(other), difference, share];
            table.row(
                values
                    .iter()
                    .map(|value| (*value).to_owned())
                    .chain([name.clone()])
                    .chain(numbers),
            );
        }
    }
}

fn head(axes: usize) -> Table {
    let names = (0..axes)
        .map(|_| "")
        .chain(["number", "one", "other", "difference", "%"]);
    Table::new(axes + 1, names)
}

/// Other less one, with the interval that the two confidence intervals leave it, and a star where that
/// does not hold zero. A single repetition has no interval, so neither has the difference.
fn difference(one: &Estimate, other: &Estimate) -> (String, String) {
    let difference = other.mean - one.mean;
    let [half_one, half_other] = [one, other].map(|estimate| estimate.hi - estimate.mean);
    let half = (half_one * half_one + half_other * half_other).sqrt();
    let interval = match one.count.min(other.count) {
        0 | 1 => String::new(),
        _ if difference.abs() > half => format!(" ±{} *", number(half)),
        _ => format!(" ±{}", number(half)),
    };
    let share = if one.mean == 0.0 {
        "–".to_owned()
    } else {
        format!("{:+.1}", difference / one.mean * 100.0)
    };
    (format!("{}{interval}", number(difference)), share)
}

fn find<'a>(row: &'a RowResult, cell: &Cell) -> Option<&'a CellResult> {
    row.cells.iter().find(|known| known.cell == *cell)
}

fn read(path: &Path) -> Result<Input, Failure> {
    if path.join("result.json").is_file() {
        return Ok(Input::Rows(vec![row(path)?]));
    }
    if let Some(parent) = path
        .parent()
        .filter(|parent| parent.join("result.json").is_file())
    {
        let row = row(parent)?;
        let name = path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let found = row
            .cells
            .iter()
            .find(|cell| cell.cell.to_string() == name)
            .map(|cell| cell.cell.clone());
        let cell = found.ok_or_else(|| format!("{} has no cell {name}", row.scenario))?;
        return Ok(Input::Cell(Box::new(row), cell));
    }
    let entries = fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut directories: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    directories.retain(|directory| directory.join("result.json").is_file());
    directories.sort();
    if directories.is_empty() {
        return Err(format!(
            "{}: no result.json in it or in a directory of it: run `lab run` first",
            path.display()
        )
        .into());
    }
    Ok(Input::Rows(
        directories
            .iter()
            .map(|directory| row(directory))
            .collect::<Result<_, _>>()?,
    ))
}

fn row(directory: &Path) -> Result<RowResult, Failure> {
    let file = directory.join("result.json");
    let named = |error: String| format!("{}: {error}", file.display());
    let bytes = fs::read(&file).map_err(|error| named(error.to_string()))?;
    Ok(serde_json::from_slice(&bytes).map_err(|error| named(error.to_string()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Estimate {
        Estimate::of(values).expect("there are values")
    }

    #[test]
    fn a_difference_has_an_interval_where_both_results_have_one() {
        let shown = |one: &[f64], other: &[f64]| difference(&of(one), &of(other)).0;
        // Each half is 2.484, by Student's t with two degrees of freedom.
        assert_eq!(
            shown(&[1.0, 2.0, 3.0], &[11.0, 12.0, 13.0]),
            "10.00 ±3.51 *"
        );
        assert_eq!(shown(&[1.0, 2.0, 3.0], &[2.0, 3.0, 4.0]), "1.00 ±3.51");
        assert_eq!(shown(&[2.0], &[11.0, 12.0, 13.0]), "10.00");
        assert_eq!(shown(&[2.0], &[12.0]), "10.00");
        // Runs without any randomness agree with each other exactly.
        assert_eq!(shown(&[2.0, 2.0], &[12.0, 12.0]), "10.00 ±0 *");
    }
}
