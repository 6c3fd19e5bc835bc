//! Figures of curves: distributions, series over time, trade-offs between two numbers.

use super::{CellRuns, DrawError, Facets, matching, samples, sum};
use crate::output::plot::{
    Curve, Curves, CurvesPanel, Measure, Names, Quantiles, Spot, Trade, cumulative, short,
};
use crate::recording::Series;
use crate::scenario::document::{Figure, Shown};

impl Figure {
    pub(super) fn distributions(
        &self,
        shown: &[Shown<'_>],
        part: &str,
        facets: &Facets<'_>,
    ) -> Result<String, DrawError> {
        let colors = facets.colors();
        let mut names = Vec::new();
        let mut curves = Vec::new();
        for (number, color) in colors.iter().enumerate() {
            for one in shown {
                let samples: Vec<f64> = facets
                    .at("", color)
                    .flat_map(|cell| samples(&cell, one))
                    .collect();
                let median = Quantiles::of(&samples, self.span)
                    .map_or_else(|| "no samples".to_owned(), |q| short(q.median));
                let name = if shown.len() > 1 || one.rest.is_some() || color.is_empty() {
                    one.title()
                } else {
                    String::new()
                };
                let label = facets.color_label(color);
                let name: Vec<&str> = [label.as_str(), name.as_str()]
                    .into_iter()
                    .filter(|text| !text.is_empty())
                    .collect();
                names.push(format!("{} ({median})", name.join(" ")));
                let place = number * shown.len() + curves.len() % shown.len();
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
            title: self.heading(&Shown::common_title(shown, Shown::title), part),
            x: self.sample_axis(shown),
            range: None,
            colors: names.len(),
            names: Names::Above(names),
            panels: vec![CurvesPanel { y: share, curves }],
        };
        Ok(figure.svg()?)
    }

    pub(super) fn series(
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

    pub(super) fn trade(
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
        let axis =
            |shown: &Shown<'_>| self.measure(shown.number_title(), shown, shown.number_unit());
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
            x: axis(&shown[1]),
            y: axis(&shown[0]),
            groups: facets
                .colors()
                .iter()
                .map(|color| (facets.color_label(color), group(color)))
                .collect(),
        };
        Ok(figure.svg()?)
    }
}

/// Replaces each value by the sum of all up to it.
fn sum_up(points: &mut [(f64, f64)]) {
    let mut total = 0.0;
    for (_, value) in points {
        total += *value;
        *value = total;
    }
}
