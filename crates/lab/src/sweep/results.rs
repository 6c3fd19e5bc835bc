//! [`Outcome`]: the numbers of a point as a line of JSON; [`ResultDir`]: the directory that such lines
//! are written to.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::manifest::Planned;
use super::{LineError, ResultName, Shard};
use crate::cell::{Backend, Cell};
use crate::run::{RunError, run};
use crate::summary::Summary;

/// The numbers of one point. Equal points give equal lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Id of the point.
    pub id: String,
    /// Id of the scenario.
    pub scenario: String,
    /// Place of the point in its manifest.
    pub number: usize,
    /// The cell.
    pub cell: Cell,
    /// The seed.
    pub seed: u64,
    /// The backend.
    pub path: Backend,
    /// The numbers.
    pub numbers: Summary,
}

impl Outcome {
    /// Its name.
    pub fn name(&self) -> ResultName {
        ResultName {
            point: self.id.clone(),
            scenario: self.scenario.clone(),
            cell: self.cell.clone(),
        }
    }

    /// Runs a point.
    ///
    /// # Errors
    /// As [`run`].
    pub fn of(planned: &Planned) -> Result<Self, RunError> {
        let Planned { point, number } = planned;
        let numbers = Summary::of(&run(point)?);
        let (id, scenario, cell) = (point.id.clone(), point.scenario.clone(), point.cell.clone());
        Ok(Self {
            id,
            scenario,
            number: *number,
            cell,
            seed: point.seed,
            path: point.path,
            numbers,
        })
    }
}

/// Results read from a file, each with its line.
///
/// A last line without an end was being written when something interrupted, and does not count.
///
/// # Errors
/// The first line that is no result.
pub fn read(text: &str, file: &str) -> Result<Vec<(usize, Outcome)>, LineError> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let read = |(number, line)| {
        let failed = |error: serde_json::Error| LineError {
            file: file.to_owned(),
            line: number + 1,
            message: format!("no line that `lab sweep run` writes: {error}"),
        };
        Ok((number + 1, serde_json::from_str(line).map_err(failed)?))
    };
    lines.map(read).collect()
}

/// The result files that `path` means: itself, or those in it if it is a directory, in order of
/// name.
///
/// # Errors
/// If a directory cannot be read.
pub fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let entries = fs::read_dir(path)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    let is_result = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "jsonl")
    };
    let mut files: Vec<_> = entries.into_iter().filter(is_result).collect();
    files.sort();
    Ok(files)
}

/// A directory of results, of which one process writes one file. Results are added line by line.
#[derive(Debug)]
pub struct ResultDir {
    file: File,
    /// Names of the results that any file of the directory holds.
    pub finished: BTreeSet<ResultName>,
}

impl ResultDir {
    /// Opens the directory `path`, which need not exist, for `shard`.
    ///
    /// # Errors
    /// If it cannot be read or written, or holds what is no result.
    pub fn open(path: &Path, shard: Shard) -> Result<Self, Box<dyn std::error::Error>> {
        let named = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(path).map_err(|error| named(path, error))?;
        let mut finished = BTreeSet::new();
        for file in files(path).map_err(|error| named(path, error))? {
            let text = fs::read_to_string(&file).map_err(|error| named(&file, error))?;
            finished.extend(
                read(&text, &file.display().to_string())?
                    .into_iter()
                    .map(|(_, outcome)| outcome.name()),
            );
        }
        let own = path.join(match shard.of() {
            (_, 1) => "results.jsonl".to_owned(),
            (index, count) => format!("results-{index}-of-{count}.jsonl"),
        });
        let file = open(&own).map_err(|error| named(&own, error))?;
        Ok(Self { file, finished })
    }

    /// Adds `line`, a result without its end.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, line: &str) -> io::Result<()> {
        self.file.write_all(format!("{line}\n").as_bytes())
    }
}

/// Opens `file` for adding lines, without what an interruption left of the last one.
fn open(file: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new()
        .create(true)
        .read(true)
        .append(true)
        .open(file)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let whole = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    if whole < bytes.len() {
        file.set_len(whole as u64)?;
    }
    file.seek(SeekFrom::End(0))?;
    Ok(file)
}
