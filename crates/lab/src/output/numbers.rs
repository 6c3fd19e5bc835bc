//! The columns of a result's table and its numbers as text, for pages of every format.

use super::plot::short;
use super::report::RowReport;
use crate::cell::{Backend, Cell};
use crate::result::{Anova, RowResult};
use crate::scenario::document::describe;
use crate::summary::Estimate;

/// One number of the table.
pub(super) struct Column<'a> {
    /// Its name in the summaries.
    pub(super) name: &'a str,
    /// "Ping, median".
    pub(super) title: String,
    /// "ms".
    pub(super) unit: &'static str,
}

impl RowResult {
    /// The columns of its table.
    pub(super) fn columns(&self) -> Vec<Column<'_>> {
        let column = |name| {
            let (title, unit) = describe(name);
            Column { name, title, unit }
        };
        self.table.iter().map(String::as_str).map(column).collect()
    }
}

impl RowReport {
    pub(super) fn is_wire(&self) -> bool {
        self.row.path == Backend::Veth
    }

    /// The backend that has run it, as a heading names it.
    pub(super) fn backend_name(&self) -> &'static str {
        if self.is_wire() {
            "on the wire (veth)"
        } else {
            "in virtual time"
        }
    }

    pub(super) fn number(&self, cell: &Cell, name: &str) -> Option<&Estimate> {
        let cell = self.row.cells.iter().find(|known| known.cell == *cell)?;
        cell.numbers.get(name)
    }
}

impl Estimate {
    pub(super) fn rounded(&self) -> String {
        short(self.mean)
    }

    /// "105 to 129"; empty with a single repetition.
    pub(super) fn interval(&self) -> String {
        if self.count < 2 {
            String::new()
        } else {
            format!("{} to {}", short(self.lo), short(self.hi))
        }
    }

    /// "117 (105 to 129)"; the interval only if there is one.
    pub(super) fn spread(&self) -> String {
        match self.interval().as_str() {
            "" => self.rounded(),
            interval => format!("{} ({interval})", self.rounded()),
        }
    }
}

impl Anova {
    /// The values of the axes that it is for.
    pub(super) fn at(&self) -> String {
        let values: Vec<_> = self.at.iter().map(|(_, value)| value.as_str()).collect();
        values.join(", ")
    }

    pub(super) fn differs(&self) -> bool {
        self.p < self.alpha
    }
}
