//! Figures drawn from what a row's runs recorded.

use std::collections::BTreeMap;

mod curves;
mod facets;
#[cfg(test)]
mod tests;

use super::plot::{Grouped, GroupedPanel, Mark, Measure, PlotError, Quantiles};
use crate::quantity::Quantity;
use crate::recording::{Run, Series};
use crate::result::RowResult;
use crate::scenario::document::{BoxSpan, Figure, FigureError, Kind, Shown};
use facets::{CellRuns, Facets};

/// Why a figure cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DrawError {
    /// It does not fit its row.
    #[error(transparent)]
    Figure(#[from] FigureError),
    /// Drawing failed.
    #[error(transparent)]
    Plot(#[from] PlotError),
}

/// The figures of a row that states none: boxes of the ping, bars of the throughput, the course of
/// the first runs.
pub(crate) fn defaults(row: &RowResult, runs: &[Run]) -> Vec<Figure> {
    let has = |quantity: Quantity| runs.iter().any(|run| run.of(quantity).next().is_some());
    let figure = |kind, show: Vec<String>| Figure {
        kind,
        show,
        title: None,
        caption: None,
        span: BoxSpan::default(),
        x: None,
        color: None,
        panel: None,
        only: BTreeMap::new(),
        log: None,
        cumulative: false,
    };
    let mut figures = Vec::new();
    if has(Quantity::Goodput) {
        figures.push(figure(Kind::Bars, vec!["goodput.total".to_owned()]));
    }
    if has(Quantity::Ping) {
        figures.push(figure(Kind::Box, vec!["ping".to_owned()]));
    }
    let course = [Quantity::Goodput, Quantity::Ping, Quantity::OneWay]
        .into_iter()
        .filter(|quantity| has(*quantity));
    let course: Vec<String> = course.map(|quantity| quantity.name().to_owned()).collect();
    if !course.is_empty() && row.cells.len() <= 8 {
        figures.push(figure(Kind::Series, course));
    }
    figures
}

impl Figure {
    /// The figure as one or several SVG texts: what does not fit one is continued in the next.
    /// `None` if none of its cells was run.
    ///
    /// # Errors
    /// When it does not suit the row.
    pub fn draw(&self, row: &RowResult, runs: &[Run]) -> Result<Vec<String>, DrawError> {
        self.check(&row.axes)?;
        let shown: Vec<Shown<'_>> = self
            .show
            .iter()
            .map(|named| Shown::read(named))
            .collect::<Result<_, _>>()?;
        let facets = Facets::new(self, row, runs);
        if facets.cells().is_empty() {
            return Ok(Vec::new());
        }
        match self.kind {
            Kind::Box => by_unit(&shown, |s| s.quantity.unit())
                .iter()
                .map(|group| self.boxes(group, &facets))
                .collect(),
            Kind::Bars => by_unit(&shown, Shown::number_unit)
                .iter()
                .map(|group| self.bars(group, &facets))
                .collect(),
            Kind::Cdf => {
                let groups = by_unit(&shown, |s| s.quantity.unit());
                let panels = facets.panels();
                let figures = panels.iter().flat_map(|(name, part)| {
                    let figure =
                        move |group: &Vec<Shown<'_>>| self.distributions(group, name, part);
                    groups.iter().map(figure)
                });
                figures.collect()
            }
            Kind::Series => facets
                .panels()
                .iter()
                .map(|(name, part)| self.series(&shown, name, part))
                .collect(),
            Kind::Trade => facets
                .panels()
                .iter()
                .map(|(name, part)| self.trade(&shown, name, part))
                .collect(),
        }
    }

    fn heading(&self, otherwise: &str, part: &str) -> String {
        let heading = self.title.as_deref().unwrap_or(otherwise);
        if part.is_empty() {
            heading.to_owned()
        } else {
            format!("{heading} · {part}")
        }
    }

    /// The axis of the samples of `shown`, which have one unit.
    fn sample_axis(&self, shown: &[Shown<'_>]) -> Measure {
        let title = Shown::common_title(shown, Shown::title);
        self.measure(title, &shown[0], shown[0].quantity.unit())
    }

    /// Goodput is linear unless the figure says otherwise: its differences count, not its decades.
    fn measure(&self, name: impl Into<String>, shown: &Shown<'_>, unit: &str) -> Measure {
        let linear = (shown.quantity == Quantity::Goodput).then_some(false);
        Measure {
            log: self.log.or(linear),
            ..Measure::new(name, unit)
        }
    }

    fn boxes(&self, shown: &[Shown<'_>], facets: &Facets<'_>) -> Result<String, DrawError> {
        let mark = |shown: &Shown<'_>, cells: Vec<CellRuns<'_>>| {
            let samples: Vec<f64> = cells.iter().flat_map(|cell| samples(cell, shown)).collect();
            Quantiles::of(&samples, self.span).map(Mark::Box)
        };
        let style = Style {
            measure: self.sample_axis(shown),
            legend: self.span.legend(),
            title: |shown| shown.title(),
        };
        self.grouped(shown, facets, &style, mark)
    }

    fn bars(&self, shown: &[Shown<'_>], facets: &Facets<'_>) -> Result<String, DrawError> {
        let mark = |shown: &Shown<'_>, cells: Vec<CellRuns<'_>>| {
            let estimate = cells.first()?.result.numbers.get(&shown.path())?;
            Some(Mark::Bar {
                mean: estimate.mean,
                low: estimate.lo,
                high: estimate.hi,
            })
        };
        let several = facets
            .cells()
            .iter()
            .any(|cell| cell.result.seeds.len() > 1);
        let legend = if several {
            "mean over repetitions with its 95 % confidence interval"
        } else {
            ""
        };
        let name = Shown::common_title(shown, Shown::number_title);
        // The length of a bar is the value: a logarithmic one has to be asked for.
        let measure = Measure {
            log: self.log.or(Some(false)),
            ..Measure::new(name, shown[0].number_unit())
        };
        let style = Style {
            measure,
            legend,
            title: |shown| shown.number_title(),
        };
        self.grouped(shown, facets, &style, mark)
    }

    fn grouped(
        &self,
        shown: &[Shown<'_>],
        facets: &Facets<'_>,
        style: &Style,
        mark: impl Fn(&Shown<'_>, Vec<CellRuns<'_>>) -> Option<Mark>,
    ) -> Result<String, DrawError> {
        let colors = facets.colors();
        // Without an axis of colors, colors distinguish the shown quantities.
        let as_groups = shown.len() > 1 && colors == [""];
        let groups: Vec<String> = if as_groups {
            shown.iter().map(style.title).collect()
        } else {
            colors
                .iter()
                .map(|color| facets.color_label(color))
                .collect()
        };
        let figure = Grouped {
            title: self.heading(&style.measure.name, ""),
            measure: style.measure.clone(),
            x: facets.category_title(),
            legend: style.legend.to_owned(),
            groups: groups
                .into_iter()
                .filter(|group| !group.is_empty())
                .collect(),
            panels: grouped_panels(shown, facets, &colors, as_groups, style, mark),
        };
        Ok(figure.svg()?)
    }
}

/// Settings that differ between boxes and bars.
struct Style {
    measure: Measure,
    legend: &'static str,
    /// Names an entry.
    title: fn(&Shown<'_>) -> String,
}

/// The entries of each unit, which share an axis.
fn by_unit<'a>(
    shown: &[Shown<'a>],
    unit: impl Fn(&Shown<'a>) -> &'static str,
) -> Vec<Vec<Shown<'a>>> {
    let mut groups: Vec<Vec<Shown<'a>>> = Vec::new();
    for entry in shown {
        match groups
            .iter_mut()
            .find(|group| unit(&group[0]) == unit(entry))
        {
            Some(group) => group.push(*entry),
            None => groups.push(vec![*entry]),
        }
    }
    groups
}

/// The series that an entry means: all of its quantity, or those of one flow with all its
/// instances, or one.
fn matching<'a>(run: &'a Run, shown: &Shown<'a>) -> impl Iterator<Item = &'a Series> {
    let rest = shown.rest;
    run.of(shown.quantity)
        .filter(move |series| rest.is_none_or(|of| series.of == of || series.group() == of))
}

/// Samples of all repetitions of a cell; additive quantities are summed over flows or ports.
fn samples(cell: &CellRuns<'_>, shown: &Shown<'_>) -> Vec<f64> {
    let mut samples = Vec::new();
    for run in cell.runs() {
        let matching: Vec<&Series> = matching(run, shown).collect();
        if shown.quantity.adds_up() && matching.len() > 1 {
            let inside = sum(&matching)
                .into_iter()
                .filter(|(at, _)| run.is_measured(*at));
            samples.extend(inside.map(|(_, value)| value));
        } else {
            samples.extend(
                matching
                    .into_iter()
                    .flat_map(|series| run.measured(series))
                    .map(|(_, value)| value),
            );
        }
    }
    samples
}

/// The sum of series at each time that any has a point at.
fn sum(all: &[&Series]) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = all
        .iter()
        .flat_map(|series| series.points.iter().copied())
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Times that were sampled together may differ in the last digit.
    points.dedup_by(|next, kept| {
        (next.0 - kept.0).abs() < 1e-9 && {
            kept.1 += next.1;
            true
        }
    });
    points
}

/// The panels of a figure of boxes or bars: one for each part, and, unless colors distinguish the
/// quantities (`as_groups`), for each shown quantity.
fn grouped_panels(
    shown: &[Shown<'_>],
    facets: &Facets<'_>,
    colors: &[&str],
    as_groups: bool,
    style: &Style,
    mark: impl Fn(&Shown<'_>, Vec<CellRuns<'_>>) -> Option<Mark>,
) -> Vec<GroupedPanel> {
    let mut panels = Vec::new();
    for (part, facets) in facets.panels() {
        let categories = facets.categories();
        let category = |shown: &[Shown<'_>]| {
            let marks = |category: &str| -> Vec<Option<Mark>> {
                let at = |color: &str| facets.at(category, color).collect();
                shown
                    .iter()
                    .flat_map(|shown| {
                        colors
                            .iter()
                            .map(|color| mark(shown, at(color)))
                            .collect::<Vec<_>>()
                    })
                    .collect()
            };
            categories
                .iter()
                .map(|category| ((*category).to_owned(), marks(category)))
                .collect()
        };
        if as_groups {
            panels.push(GroupedPanel {
                title: part,
                categories: category(shown),
            });
        } else {
            for one in shown {
                let title = [
                    part.clone(),
                    if shown.len() > 1 {
                        (style.title)(one)
                    } else {
                        String::new()
                    },
                ];
                let title = title
                    .into_iter()
                    .filter(|text| !text.is_empty())
                    .collect::<Vec<_>>()
                    .join(" · ");
                panels.push(GroupedPanel {
                    title,
                    categories: category(std::slice::from_ref(one)),
                });
            }
        }
    }
    panels
}
