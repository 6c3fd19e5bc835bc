//! The columns of a row's table, and how its numbers are written.

use super::plot::short;
use crate::result::RowResult;
use crate::scenario::document::describe;
use crate::summary::Estimate;

/// One number of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    /// Its name in the summaries.
    pub(super) name: String,
    /// "Ping, median".
    pub(super) title: String,
    /// "ms".
    pub(super) unit: &'static str,
}

/// The columns of `row`'s table.
pub(super) fn columns(row: &RowResult) -> Vec<Column> {
    let column = |name: &String| {
        let (title, unit) = describe(name);
        Column {
            name: name.clone(),
            title,
            unit,
        }
    };
    row.table.iter().map(column).collect()
}

/// "105 to 129"; empty where one repetition tells no interval.
pub(super) fn interval(estimate: &Estimate) -> String {
    let Estimate { lo, hi, count, .. } = *estimate;
    if count < 2 {
        String::new()
    } else {
        format!("{} to {}", short(lo), short(hi))
    }
}
