//! `lab list`: every row.

use super::table::Table;
use super::{ExitStatus, Failure, Library};

pub(super) fn list(library: &Library) -> Result<ExitStatus, Failure> {
    let catalogue = library.open()?;
    let mut table = Table::new(3, ["row", "wire", "what", "cells", "runs of each"]);
    let mut elsewhere = Table::new(4, Vec::<String>::new());
    for id in catalogue.ids() {
        let scenario = catalogue.load(id)?;
        let header = scenario.header();
        match (&header.elsewhere, &header.run) {
            (Some(other), _) => elsewhere.row([id, &header.title, &other.needs, &other.command]),
            (None, Some(run)) => {
                let wire = if header.wire { "W" } else { "" };
                let (cells, runs) = (
                    scenario.cells.len().to_string(),
                    run.repetitions.to_string(),
                );
                table.row([id, wire, &header.title, &cells, &runs]);
            }
            (None, None) => {}
        }
    }
    say!("{table}");
    say!(
        "W: also on the wire, by --path veth. Not run here, but by a command of their own:\n{elsewhere}"
    );
    Ok(ExitStatus::Holds)
}
