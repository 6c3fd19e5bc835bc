//! `lab report`: the pages over all results of a directory.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{Ended, Failure};
use crate::output::sheet::Sheet;
use crate::output::{Tree, gallery, html};

/// Arguments of `lab report`.
#[derive(Args, Debug)]
pub(super) struct Report {
    /// Directory of results
    #[arg(long, value_name = "DIR", default_value = "lab-out")]
    out: PathBuf,
    /// Draw the figures again, from the runs
    #[arg(long)]
    draw: bool,
    /// Write the gallery too: a page of Markdown for each paper, with figures
    #[arg(long, value_name = "DIR")]
    gallery: Option<PathBuf>,
}

impl Report {
    pub(super) fn report(&self) -> Result<Ended, Failure> {
        let tree = Tree::new(&self.out);
        if self.draw {
            Sheet::draw_all(&tree)?;
        }
        let sheets = Sheet::read_all(&tree)?;
        write(&tree, &sheets)?;
        if let Some(directory) = &self.gallery {
            gallery::write(&sheets, directory)?;
            say!("{}", directory.join("README.md").display());
        }
        Ok(Ended::Well)
    }
}

/// Writes the report over all rows that lie in `tree`, and says where.
pub(super) fn refresh(tree: &Tree) -> Result<(), Failure> {
    write(tree, &Sheet::read_all(tree)?)
}

fn write(tree: &Tree, sheets: &[Sheet]) -> Result<(), Failure> {
    let file = tree.report();
    let failed = |file: &Path, error| format!("{}: {error}", file.display());
    fs::write(&file, html::report(sheets)).map_err(|error| failed(&file, error))?;
    say!("{}", file.display());
    Ok(())
}
