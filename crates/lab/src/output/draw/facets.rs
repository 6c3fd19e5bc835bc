//! [`Facets`]: the cells of a row sorted into panels, categories and colors, as a figure says.

use crate::recording::Run;
use crate::result::{CellResult, RowResult};
use crate::scenario::document::{Figure, Kind};

/// A cell with what was recorded of it.
#[derive(Clone, Copy)]
pub(super) struct CellRuns<'a> {
    pub(super) result: &'a CellResult,
    runs: &'a [Run],
}

impl<'a> CellRuns<'a> {
    /// Its repetitions, in order.
    pub(super) fn runs(&self) -> impl Iterator<Item = &'a Run> {
        let (result, runs) = (self.result, self.runs);
        let of_seed = move |seed: &u64| {
            runs.iter()
                .find(|run| run.seed == *seed && run.cell == result.cell)
        };
        result.seeds.iter().filter_map(of_seed)
    }
}

/// Which axis is drawn as what, and the cells that are.
pub(super) struct Facets<'a> {
    cells: Vec<CellRuns<'a>>,
    x: Option<&'a str>,
    color: Option<&'a str>,
    panels: Vec<&'a str>,
}

impl<'a> Facets<'a> {
    pub(super) fn new(figure: &'a Figure, row: &'a RowResult, runs: &'a [Run]) -> Self {
        let chosen = |cell: &&CellResult| {
            figure
                .only
                .iter()
                .all(|(axis, value)| value_of(cell, axis) == Some(value.as_str()))
        };
        let cells = row
            .cells
            .iter()
            .filter(|cell| cell.was_run())
            .filter(chosen)
            .map(|result| CellRuns { result, runs })
            .collect();
        let given = [&figure.x, &figure.color, &figure.panel].map(Option::as_deref);
        let free = |axis: &&str| !figure.only.contains_key(*axis) && !given.contains(&Some(axis));
        let mut free: Vec<&str> = row.axes.iter().map(String::as_str).filter(free).collect();
        let [mut x, mut color, panel] = given;
        let wants_x = matches!(figure.kind, Kind::Box | Kind::Bars | Kind::Trade);
        if color.is_none() && (!wants_x || x.is_some() || free.len() > 1) {
            color = free.pop();
        }
        if wants_x && x.is_none() {
            x = free.pop();
        }
        Self {
            cells,
            x: x.filter(|_| wants_x),
            color,
            panels: panel.into_iter().chain(free).collect(),
        }
    }

    /// Every panel with its name: the values of all axes that are neither categories nor colors.
    /// Empty only if no cell was run.
    pub(super) fn panels(&self) -> Vec<(String, Self)> {
        let name = |cell: &CellRuns<'_>| {
            let values = self
                .panels
                .iter()
                .filter_map(|axis| Some(Self::label(axis, value_of(cell.result, axis)?)));
            values.collect::<Vec<_>>().join(" · ")
        };
        let mut panels: Vec<(String, Self)> = Vec::new();
        for cell in &self.cells {
            let name = name(cell);
            let place = panels
                .iter()
                .position(|(known, _)| *known == name)
                .unwrap_or_else(|| {
                    panels.push((
                        name,
                        Self {
                            cells: Vec::new(),
                            x: self.x,
                            color: self.color,
                            panels: Vec::new(),
                        },
                    ));
                    panels.len() - 1
                });
            panels[place].1.cells.push(*cell);
        }
        panels
    }

    /// A value as a reader understands it without its axis: "bql off", "ring 128", but "CUBIC".
    fn label(axis: &str, value: &str) -> String {
        let bare = value.starts_with(|c: char| c.is_ascii_digit())
            || ["on", "off", "yes", "no", "none"].contains(&value);
        if bare {
            format!("{axis} {value}")
        } else {
            value.to_owned()
        }
    }

    /// The label of a value of the axis of colors.
    pub(super) fn color_label(&self, value: &str) -> String {
        self.color
            .map_or_else(|| value.to_owned(), |axis| Self::label(axis, value))
    }

    /// Values of the axis of categories, in the row's order; one without a name if there is no such
    /// axis.
    pub(super) fn categories(&self) -> Vec<&'a str> {
        self.values(self.x)
    }

    /// Name of the axis of categories, as the title of a figure's axis; empty without such an axis.
    pub(super) fn category_title(&self) -> String {
        self.x.unwrap_or_default().replace('_', " ")
    }

    /// Values of the axis of colors, as [`Self::categories`].
    pub(super) fn colors(&self) -> Vec<&'a str> {
        self.values(self.color)
    }

    fn values(&self, axis: Option<&str>) -> Vec<&'a str> {
        let Some(axis) = axis else { return vec![""] };
        let mut values: Vec<&str> = Vec::new();
        for value in self
            .cells
            .iter()
            .filter_map(|cell| value_of(cell.result, axis))
        {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }

    /// The cells of a category and color; several only if a panel was not cut out first.
    pub(super) fn at(&self, category: &str, color: &str) -> impl Iterator<Item = CellRuns<'a>> {
        let is = |cell: &CellRuns<'_>, axis: Option<&str>, value: &str| {
            axis.is_none_or(|axis| value_of(cell.result, axis) == Some(value))
        };
        self.cells
            .iter()
            .filter(move |cell| is(cell, self.x, category) && is(cell, self.color, color))
            .copied()
    }

    /// All cells, in the row's order.
    pub(super) fn cells(&self) -> &[CellRuns<'a>] {
        &self.cells
    }

    /// The color of a cell, as its place in [`Self::colors`].
    pub(super) fn color_of(&self, cell: &CellRuns<'_>, colors: &[&str]) -> usize {
        let value = self.color.and_then(|axis| value_of(cell.result, axis));
        colors
            .iter()
            .position(|color| Some(*color) == value)
            .unwrap_or(0)
    }
}

/// The value of an axis in a cell.
fn value_of<'a>(cell: &'a CellResult, axis: &str) -> Option<&'a str> {
    cell.cell
        .0
        .iter()
        .find(|(name, _)| name == axis)
        .map(|(_, value)| value.as_str())
}
