//! Figures drawn from what a row's runs recorded.

use std::collections::BTreeMap;

mod facets;
#[cfg(test)]
mod tests;

use super::plot::{
    Curve, Curves, CurvesPanel, Grouped, GroupedPanel, Mark, Measure, Names, PlotError, Quantiles,
    Spot, Trade, cumulative, short,
};
use crate::quantity::Quantity;
use crate::recording::{Run, Series};
use crate::result::RowResult;
use crate::scenario::document::{BoxSpan, Figure, FigureError, Kind, Shown};
use facets::{CellRuns, Facets};

/// Why a figure cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
            Kind::Cdf => facets
                .panels()
                .iter()
                .map(|(name, part)| self.distributions(&shown, name, part))
                .collect(),
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
        let measure = self.measure(shown[0].title(), &shown[0], shown[0].quantity.unit());
        let look = Look {
            measure,
            legend: self.span.legend(),
            title: |shown| shown.title(),
        };
        self.grouped(shown, facets, &look, mark)
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
        let name = if shown.len() == 1 {
            shown[0].number_title()
        } else {
            shown[0].quantity.title().to_owned()
        };
        // The length of a bar is the value: a logarithmic one has to be asked for.
        let measure = Measure {
            log: self.log.or(Some(false)),
            ..Measure::new(name, shown[0].number_unit())
        };
        let look = Look {
            measure,
            legend,
            title: |shown| shown.number_title(),
        };
        self.grouped(shown, facets, &look, mark)
    }

    fn grouped(
        &self,
        shown: &[Shown<'_>],
        facets: &Facets<'_>,
        look: &Look,
        mark: impl Fn(&Shown<'_>, Vec<CellRuns<'_>>) -> Option<Mark>,
    ) -> Result<String, DrawError> {
        let colors = facets.colors();
        // Without an axis of colors, colors distinguish the shown quantities.
        let as_groups = shown.len() > 1 && colors == [""];
        let groups: Vec<String> = if as_groups {
            shown.iter().map(look.title).collect()
        } else {
            colors
                .iter()
                .map(|color| facets.color_label(color))
                .collect()
        };
        let figure = Grouped {
            title: self.heading(&look.measure.name, ""),
            measure: look.measure.clone(),
            x: facets.category_title(),
            legend: look.legend.to_owned(),
            groups: groups
                .into_iter()
                .filter(|group| !group.is_empty())
                .collect(),
            panels: grouped_panels(shown, facets, &colors, as_groups, look, mark),
        };
        Ok(figure.svg()?)
    }

    fn distributions(
        &self,
        shown: &[Shown<'_>],
        part: &str,
        facets: &Facets<'_>,
    ) -> Result<String, DrawError> {
        let colors = facets.colors();
        let mut names = Vec::new();
        let mut curves = Vec::new();
        for (number, color) in colors.iter().enumerate() {
            for shown in shown {
                let samples: Vec<f64> = facets
                    .at("", color)
                    .flat_map(|cell| samples(&cell, shown))
                    .collect();
                let median = Quantiles::of(&samples, self.span)
                    .map_or_else(|| "no samples".to_owned(), |q| short(q.median));
                let name = if shown.rest.is_some() || color.is_empty() {
                    shown.title()
                } else {
                    String::new()
                };
                let label = facets.color_label(color);
                let name: Vec<&str> = [label.as_str(), name.as_str()]
                    .into_iter()
                    .filter(|text| !text.is_empty())
                    .collect();
                names.push(format!("{} ({median})", name.join(" ")));
                let place = number * self.show.len() + curves.len() % self.show.len();
                curves.push(Curve {
                    name: String::new(),
                    color: place,
                    points: cumulative(&samples),
                });
            }
        }
        let share = Measure {
            log: Some(false),
            ..Measure::new("Share of samples (medians above)", "")
        };
        let figure = Curves {
            title: self.heading(&shown[0].title(), part),
            x: self.measure(shown[0].title(), &shown[0], shown[0].quantity.unit()),
            range: None,
            colors: names.len(),
            names: Names::Above(names),
            panels: vec![CurvesPanel { y: share, curves }],
        };
        Ok(figure.svg()?)
    }

    fn series(
        &self,
        shown: &[Shown<'_>],
        part: &str,
        facets: &Facets<'_>,
    ) -> Result<String, DrawError> {
        let colors = facets.colors();
        let alone = facets.cells().len() == 1;
        let mut most = colors.len();
        let mut end = f64::NEG_INFINITY;
        let mut panels = Vec::new();
        for shown in shown {
            let mut curves: Vec<Curve> = Vec::new();
            for cell in facets.cells() {
                let Some(run) = cell.runs().next() else {
                    continue;
                };
                end = end.max(run.end);
                let number = facets.color_of(cell, &colors);
                let matching: Vec<&Series> = matching(run, shown).collect();
                if shown.quantity.adds_up() && matching.len() > 1 {
                    let (name, points) = (facets.color_label(colors[number]), sum(&matching));
                    curves.push(Curve {
                        name,
                        color: number,
                        points,
                    });
                    continue;
                }
                for (place, series) in matching.into_iter().enumerate() {
                    // Flows of a lone cell are distinguished; else colors distinguish cells, and
                    // one name for each is enough.
                    let (name, color) = match (alone, place) {
                        (true, _) => (series.of.clone(), place),
                        (false, 0) => (facets.color_label(colors[number]), number),
                        (false, _) => (String::new(), number),
                    };
                    most = most.max(color + 1);
                    let points = series.points.clone();
                    curves.push(Curve {
                        name,
                        color,
                        points,
                    });
                }
            }
            panels.push(self.course(shown, curves));
        }
        let heading = shown.iter().map(Shown::title).collect::<Vec<_>>();
        let figure = Curves {
            title: self.heading(&heading.join(", "), part),
            x: Measure::new("Time", "s"),
            range: end.is_finite().then_some((0.0, end)),
            names: Names::AtEnds,
            colors: most,
            panels,
        };
        Ok(figure.svg()?)
    }

    /// A panel of `curves` over time, summed up if the figure is cumulative and they count.
    fn course(&self, shown: &Shown<'_>, mut curves: Vec<Curve>) -> CurvesPanel {
        let mut title = shown.title();
        if self.cumulative && shown.quantity.counts() {
            title.push_str(", summed up");
            curves
                .iter_mut()
                .for_each(|curve| sum_up(&mut curve.points));
        }
        let y = self.measure(title, shown, shown.quantity.unit());
        CurvesPanel { y, curves }
    }

    fn trade(
        &self,
        shown: &[Shown<'_>],
        part: &str,
        facets: &Facets<'_>,
    ) -> Result<String, DrawError> {
        let number = |cell: &CellRuns<'_>, shown: &Shown<'_>| {
            cell.result
                .numbers
                .get(&shown.path())
                .map(|estimate| [estimate.mean, estimate.lo, estimate.hi])
        };
        let categories = facets.categories();
        let group = |color: &str| {
            let spot = |category: &&str| {
                let cell = facets.at(category, color).next()?;
                Some(Spot {
                    name: (*category).to_owned(),
                    x: number(&cell, &shown[1])?,
                    y: number(&cell, &shown[0])?,
                })
            };
            categories.iter().filter_map(spot).collect::<Vec<_>>()
        };
        let figure = Trade {
            title: self.heading(
                &format!(
                    "{} against {}",
                    shown[0].quantity.title(),
                    shown[1].quantity.title()
                ),
                part,
            ),
            x: self.measure(shown[1].number_title(), &shown[1], shown[1].number_unit()),
            y: self.measure(shown[0].number_title(), &shown[0], shown[0].number_unit()),
            groups: facets
                .colors()
                .iter()
                .map(|color| (facets.color_label(color), group(color)))
                .collect(),
        };
        Ok(figure.svg()?)
    }
}

/// Settings that differ between boxes and bars.
struct Look {
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

/// Replaces each value by the sum of all up to it.
fn sum_up(points: &mut [(f64, f64)]) {
    let mut total = 0.0;
    for (_, value) in points {
        total += *value;
        *value = total;
    }
}

/// The panels of a figure of boxes or bars: one for each part, and, unless colors distinguish the
/// quantities (`as_groups`), for each shown quantity.
fn grouped_panels(
    shown: &[Shown<'_>],
    facets: &Facets<'_>,
    colors: &[&str],
    as_groups: bool,
    look: &Look,
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
                        (look.title)(one)
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
