//! The report: one HTML file that needs nothing beside itself, each row with what its paper found,
//! what was seen here, whether each shape holds with the numbers compared, and the command that
//! runs it again. No scripts; readable on a phone and on paper.

use askama::Template;

use super::plot::short;
use super::report::ReportRow;
use crate::plan::provenance;
use crate::result::{Judgment, Score};

/// The page of all rows.
#[derive(Template)]
#[template(path = "report.html.jinja")]
struct Page<'a> {
    rows: &'a [ReportRow],
    total: Score,
    provenance: String,
}

/// The page of all `rows`.
pub(crate) fn report(rows: &[ReportRow]) -> askama::Result<String> {
    let reports = rows.iter().flat_map(|row| &row.reports);
    let total = reports.map(|report| report.row.score()).sum();
    let provenance = provenance();
    Page {
        rows,
        total,
        provenance,
    }
    .render()
}

#[cfg(test)]
mod tests;
