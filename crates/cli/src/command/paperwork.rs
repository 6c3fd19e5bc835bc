//! `tautline completions` and `tautline man`: generated from the options, so that they cannot differ
//! from them.

use std::fs::create_dir_all;
use std::io::{ErrorKind, Write, stdout};
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
    /// # Errors
    /// If the script cannot be written.
    pub(super) fn print(&self) -> Result<(), Failure> {
        let (mut command, mut script) = (Tautline::command(), Vec::new());
        // It panics where its output does not take all.
        clap_complete::generate(self.shell, &mut command, "tautline", &mut script);
        let mut out = stdout();
        match out.write_all(&script).and_then(|()| out.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(Failure::file("standard output")),
        }
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
