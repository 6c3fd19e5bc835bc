//! [`OutputDir`]: the layout of an output directory.
//!
//! ```text
//! lab-out/report.html
//! lab-out/001-F4/result.json             numbers of all cells, verdicts
//! lab-out/001-F4/L100M_NoTSQ/17.json     the run of a cell with seed 17; other formats beside it
//! lab-out/001-F4/figure-1.svg            the figures, in the scenario's order
//! lab-out/001-F4@veth/                   the same row over veth pairs
//! ```

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::cell::{Backend, Cell};

/// An output directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputDir(PathBuf);

impl OutputDir {
    /// The directory `root`, which need not exist yet.
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    /// Makes the directory, and a file in it for a moment: what cannot be written is refused before
    /// an hour of runs, not after it.
    ///
    /// # Errors
    /// The cause and the remedy.
    pub(crate) fn prepare(&self) -> Result<(), String> {
        let probe = self.0.join(".writable");
        fs::create_dir_all(&self.0)
            .and_then(|()| fs::write(&probe, []))
            .and_then(|()| fs::remove_file(&probe))
            .map_err(|error| {
                let root = self.0.display();
                format!("--out {root}: {error}; name a directory that can be written")
            })
    }

    /// The directory itself.
    pub(crate) fn root(&self) -> &Path {
        &self.0
    }

    /// Directory of scenario `id` with one backend.
    pub(crate) fn row(&self, id: &str, backend: Backend) -> PathBuf {
        match backend {
            Backend::Sim => self.0.join(id),
            Backend::Veth => self.0.join(format!("{id}@veth")),
        }
    }

    /// Path of the [`RowResult`](crate::RowResult) of scenario `id`.
    pub(crate) fn result(&self, id: &str, backend: Backend) -> PathBuf {
        self.row(id, backend).join("result.json")
    }

    /// The file of the run of `cell` with `seed` and that `extension`, e.g. `json`, `csv`.
    pub(crate) fn run(
        &self,
        id: &str,
        backend: Backend,
        cell: &Cell,
        seed: u64,
        extension: &str,
    ) -> PathBuf {
        self.row(id, backend)
            .join(cell.to_string())
            .join(format!("{seed}.{extension}"))
    }

    /// The report over all rows.
    pub(crate) fn report(&self) -> PathBuf {
        self.0.join("report.html")
    }
}

/// Writes `file` as a whole or not at all.
///
/// # Errors
/// If the directory cannot be made or the file not be written.
pub(crate) fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut beside = file.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    fs::write(&beside, bytes)
        .and_then(|()| fs::rename(&beside, file))
        .inspect_err(|_| {
            // What the failure left there; the failure itself is reported.
            let _nothing_there = fs::remove_file(&beside);
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing_beside_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("row/result.json");
        write(&file, b"1").expect("written");
        write(&file, b"2").expect("in its place");
        assert_eq!(fs::read(&file).expect("there"), b"2");
        fs::create_dir(directory.path().join("row/taken")).expect("made");
        assert!(write(&directory.path().join("row/taken"), b"3").is_err());
        let names = fs::read_dir(directory.path().join("row")).expect("read");
        assert_eq!(names.count(), 2);
    }
}
