//! `tautline completions` and `tautline man`: generated from the options, so that they cannot differ
//! from them.

use std::fs::create_dir_all;
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Tautline;
use crate::failure::Failure;

/// Prints a completion script for a shell.
#[derive(Args, Debug)]
pub(super) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(super) fn print(&self) {
        let mut command = Tautline::command();
        clap_complete::generate(self.shell, &mut command, "tautline", &mut std::io::stdout());
    }
}

/// Writes the manual pages, one for each command, to a directory.
#[derive(Args, Debug)]
pub(super) struct Man {
    /// Made if it does not exist, e.g. /usr/local/share/man/man1
    directory: PathBuf,
}

impl Man {
    /// # Errors
    /// If a page cannot be written.
    pub(super) fn write(&self) -> Result<(), Failure> {
        let failed = || Failure::file(&self.directory);
        create_dir_all(&self.directory).map_err(failed())?;
        clap_mangen::generate_to(Tautline::command(), &self.directory).map_err(failed())
    }
}
