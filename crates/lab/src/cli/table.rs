//! [`Table`]: columns of text, the first ones to the left, numbers to the right.

use std::fmt;

use comfy_table::{CellAlignment, presets};

use crate::summary::Estimate;

/// Columns of text; those from `numbers_from` on are aligned right.
pub(super) struct Table {
    table: comfy_table::Table,
    numbers_from: usize,
}

impl Table {
    pub(super) fn new(
        numbers_from: usize,
        head: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        let mut table = Self {
            table,
            numbers_from,
        };
        table.row(head);
        table
    }

    pub(super) fn row(&mut self, row: impl IntoIterator<Item = impl Into<String>>) {
        self.table
            .add_row(row.into_iter().map(Into::into).collect::<Vec<String>>());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = self.table.clone();
        for (number, column) in table.column_iter_mut().enumerate() {
            column.set_padding((if number == 0 { 0 } else { 2 }, 0));
            if number >= self.numbers_from {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
            .lines()
            .try_for_each(|line| writeln!(f, "{}", line.trim_end()))
    }
}

/// A number with as many digits as say something.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 1e6 => format!("{value:.3e}"),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 1e-3 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

/// A number with half its confidence interval.
pub(super) fn estimate(value: Option<&Estimate>) -> String {
    match value {
        None => "–".to_owned(),
        Some(Estimate {
            mean, count: 0 | 1, ..
        }) => number(*mean),
        Some(Estimate { mean, hi, .. }) => format!("{} ±{}", number(*mean), number(hi - mean)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest() {
        let mut table = Table::new(1, ["cell", "ping"]);
        table.row(["L100M", "1.00"]);
        assert_eq!(table.to_string(), "cell   ping\nL100M  1.00\n");
    }

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        let written = [0.0, 95.345, 1234.5, 0.01234, 1.5e7, -3.0, 0.0001].map(number);
        assert_eq!(
            written,
            [
                "0", "95.34", "1234", "0.0123", "1.500e7", "-3.00", "1.00e-4"
            ]
        );
        let value = Estimate {
            mean: 2.0,
            lo: 1.5,
            hi: 2.5,
            count: 3,
        };
        assert_eq!(
            (estimate(Some(&value)), estimate(None)),
            ("2.00 ±0.5000".to_owned(), "–".to_owned())
        );
    }
}
