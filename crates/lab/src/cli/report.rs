//! `lab report`: the pages over all results of a directory.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{ExitStatus, Failure, Library};
use crate::output::report::ReportRow;
use crate::output::{gallery, html};
use crate::output_dir::{self, OutputDir};

/// Arguments of `lab report`.
#[derive(Args, Debug)]
pub(super) struct Report {
    /// Directory of results
    #[arg(long, value_name = "DIR", default_value = "lab-out")]
    out: PathBuf,
    /// Redraw the figures from the runs
    #[arg(long)]
    draw: bool,
    /// Also write the gallery: a Markdown page with figures for each paper
    #[arg(long, value_name = "DIR")]
    gallery: Option<PathBuf>,
    #[command(flatten)]
    library: Library,
}

impl Report {
    pub(super) fn report(&self) -> Result<ExitStatus, Failure> {
        let tree = OutputDir::new(&self.out);
        if self.draw {
            ReportRow::draw_all(&tree)?;
        }
        let rows = ReportRow::read_all(&tree)?;
        write(&tree, &rows)?;
        if let Some(directory) = &self.gallery {
            let catalogue = self.library.open()?;
            let all = catalogue.ids().map(|id| catalogue.load(id));
            gallery::write(&rows, &all.collect::<Result<Vec<_>, _>>()?, directory)?;
            say!("{}", directory.join("README.md").display());
        }
        Ok(ExitStatus::Holds)
    }
}

/// Writes the report over all rows that lie in `tree`, and says where.
pub(super) fn refresh(tree: &OutputDir) -> Result<(), Failure> {
    write(tree, &ReportRow::read_all(tree)?)
}

fn write(tree: &OutputDir, rows: &[ReportRow]) -> Result<(), Failure> {
    let file = tree.report();
    let failed = |file: &Path, error| format!("{}: {error}", file.display());
    output_dir::write(&file, html::report(rows)?.as_bytes())
        .map_err(|error| failed(&file, error))?;
    say!("{}", file.display());
    Ok(())
}
