//! Files beside each run's JSON: a data file for Flent, samples as CSV.

use std::io;
use std::path::{Path, PathBuf};

use super::csv;
use crate::output_dir::{self, OutputDir};
use crate::recording::Run;
use crate::scenario::document::FlentTest;

/// Which files to write beside a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SideFiles<'a> {
    /// The test of Flent's that its row is, if it is one.
    pub flent: Option<&'a FlentTest>,
    /// Whether samples are written as CSV.
    pub csv: bool,
}

impl SideFiles<'_> {
    /// Writes them.
    ///
    /// # Errors
    /// The file that cannot be written, and why.
    pub(crate) fn write(&self, tree: &OutputDir, run: &Run) -> Result<(), (PathBuf, io::Error)> {
        let csv = tree.run(&run.scenario, run.path, &run.cell, run.seed, "csv");
        if self.csv {
            put(&csv, |out| Ok(csv::write(run, out)?))?;
        }
        if let Some(test) = self.flent {
            let file = csv.with_file_name(test.file_name(run));
            put(&file, |out| test.write(run, out).map_err(io::Error::other))?;
        }
        Ok(())
    }
}

/// Writes a file whole, or not at all.
fn put(
    file: &Path,
    content: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
) -> Result<(), (PathBuf, io::Error)> {
    let mut bytes = Vec::new();
    let written = content(&mut bytes).and_then(|()| output_dir::write(file, &bytes));
    written.map_err(|error| (file.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fixture;

    #[test]
    fn files_lie_beside_the_run() {
        let directory = tempfile::tempdir().expect("a directory");
        let (tree, run, row) = (
            OutputDir::new(directory.path()),
            fixture::runs().remove(0),
            fixture::row(),
        );
        SideFiles {
            flent: row.flent.as_ref(),
            csv: true,
        }
        .write(&tree, &run)
        .expect("written");
        let cell = directory.path().join("001-F4/L100M_TSQ");
        assert!(cell.join("1.csv").is_file());
        assert!(
            cell.join("tcp_2up-2020-01-01T000000.000000.001-F4_L100M_TSQ_1.flent.gz")
                .is_file()
        );
    }

    #[test]
    fn a_test_that_the_flows_are_not_is_an_error_with_the_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let test = FlentTest {
            test: "rrul".to_owned(),
            ..FlentTest::default()
        };
        let beside = SideFiles {
            flent: Some(&test),
            csv: false,
        };
        let (file, error) = beside
            .write(&OutputDir::new(directory.path()), &fixture::runs()[0])
            .expect_err("refused");
        assert!(file.ends_with("rrul-2020-01-01T000000.000000.001-F4_L100M_TSQ_1.flent.gz"));
        assert!(
            error
                .to_string()
                .contains("rrul has 4 uploads, the run has 2"),
            "{error}"
        );
    }
}
