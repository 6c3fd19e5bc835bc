//! [`Curves`]: lines over time or over any measure, in panels that share the horizontal axis;
//! [`cumulative`]: a distribution as a curve.

use plotters::style::{Color as _, RGBColor, ShapeStyle};

use super::axis::Axis;
use super::canvas::{
    self, Anchor, Canvas, Error, Legend, MUTED, PIXEL, Panel, Room, TEXT, WIDTH, fit, line, spread,
    type_of, width_of, write,
};
use super::quantile::sorted;
use super::{Measure, PlotError};

/// A figure of curves.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Curves {
    /// Stands above it; may be empty.
    pub title: String,
    /// Horizontal axis of all panels.
    pub x: Measure,
    /// Ends of the horizontal axis; `None`: those of the points.
    pub range: Option<(f64, f64)>,
    /// Position of the curves' names.
    pub names: Names,
    /// How many colors the curves share: their numbers are below this.
    pub colors: usize,
    /// The panels from top to bottom.
    pub panels: Vec<CurvesPanel>,
}

/// Position of curves' names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Names {
    /// At the right end of each curve.
    #[default]
    AtEnds,
    /// Above the panels: one name for each color.
    Above(Vec<String>),
}

/// One panel of [`Curves`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CurvesPanel {
    /// Vertical axis.
    pub y: Measure,
    /// The curves, the last on top.
    pub curves: Vec<Curve>,
}

/// One curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Curve {
    /// Its name; may be empty.
    pub name: String,
    /// Number of its color.
    pub color: usize,
    /// Its points from left to right. One that is not finite breaks the curve.
    pub points: Vec<(f64, f64)>,
}

const MARGIN_LEFT: f64 = 52.0;
/// Room above a panel for what it measures.
const HEAD: f64 = 34.0;
/// Room below the last panel for the horizontal axis.
const FOOT: f64 = 40.0;
const NAME: f64 = 11.5;
const WIDEST_NAME: f64 = 150.0;
/// With more curves than this in a panel they are drawn thin under one common label.
const DISTINCT: usize = 9;
/// Length of a dash of a curve that is equal to another.
const DASH: f64 = 7.0;

impl CurvesPanel {
    /// The frame of the panel in `room`, over the range of its values.
    fn frame(&self, room: Room, x: Axis) -> Panel {
        let points = self.curves.iter().flat_map(|curve| &curve.points);
        let ticks = if room.height > 200.0 { 5 } else { 3 };
        let y = Axis::over(points.map(|(_, value)| *value), self.y.log, true, ticks);
        Panel { room, x, y }
    }
}

impl Curves {
    /// The figure.
    ///
    /// # Errors
    /// When it cannot be drawn.
    pub(crate) fn svg(&self) -> Result<String, PlotError> {
        let tall = match self.panels.len() {
            0 | 1 => 260.0,
            2 => 150.0,
            3 => 120.0,
            _ => 96.0,
        };
        let colors = self.colors.max(1);
        let above = if let Names::Above(names) = &self.names {
            names.as_slice()
        } else {
            &[]
        };
        let legend = Legend::new(
            above
                .iter()
                .enumerate()
                .map(|(i, name)| (name.clone(), canvas::color(i, colors))),
        );
        let height = legend.height() + self.panels.len().max(1) as f64 * (HEAD + tall) + FOOT;
        let x = self.across();
        let right = 12.0 + self.name_width();
        canvas::draw(&self.title, height as i32, |sheet, top| {
            legend.draw(sheet, top)?;
            let mut below = top + legend.height();
            for (number, panel) in self.panels.iter().enumerate() {
                let room = Room {
                    left: MARGIN_LEFT,
                    top: below + HEAD,
                    width: f64::from(WIDTH) - MARGIN_LEFT - right,
                    height: tall,
                };
                let last = number + 1 == self.panels.len();
                self.panel(sheet, &panel.frame(room, x.clone()), panel, last)?;
                below += HEAD + tall;
            }
            if self.panels.is_empty() {
                let room = Room {
                    left: 0.0,
                    top: below,
                    width: f64::from(WIDTH),
                    height: tall,
                };
                return canvas::nothing(sheet, room);
            }
            let axis_at = (
                MARGIN_LEFT + (f64::from(WIDTH) - MARGIN_LEFT - right) / 2.0,
                below + 29.0,
            );
            write(
                sheet,
                &self.x.caption(),
                &type_of(11.5, MUTED),
                axis_at,
                Anchor::Middle,
            )
        })
    }

    /// The horizontal axis.
    fn across(&self) -> Axis {
        if let Some((low, high)) = self.range {
            return Axis::exactly(low, high, 8);
        }
        let points = self
            .panels
            .iter()
            .flat_map(|panel| &panel.curves)
            .flat_map(|curve| &curve.points);
        Axis::over(points.map(|(x, _)| *x), self.x.log, false, 8)
    }

    /// Room at the right for the names at the curves' ends.
    fn name_width(&self) -> f64 {
        if self.names != Names::AtEnds {
            return 12.0;
        }
        let names = self
            .panels
            .iter()
            .filter(|panel| panel.curves.len() <= DISTINCT)
            .flat_map(|panel| &panel.curves);
        names
            .map(|curve| width_of(&curve.name, NAME))
            .fold(0.0, f64::max)
            .min(WIDEST_NAME)
            + 12.0
    }

    fn panel(
        &self,
        sheet: &Canvas<'_>,
        frame: &Panel,
        panel: &CurvesPanel,
        last: bool,
    ) -> Result<(), Error> {
        frame.grid(sheet, last, true)?;
        canvas::caption(sheet, frame.room, &panel.y)?;
        let many = panel.curves.len() > DISTINCT;
        let mut ends: Vec<(f64, &str, RGBColor)> = Vec::new();
        for (number, curve) in panel.curves.iter().enumerate() {
            let color = canvas::color(curve.color, self.colors.max(1));
            let style = if many {
                color.mix(0.35).stroke_width(PIXEL as u32 * 8 / 10)
            } else {
                color.stroke_width(PIXEL as u32 * 15 / 10)
            };
            let before = panel.curves[..number].iter();
            let equal = before.filter(|other| other.points == curve.points);
            let end = draw_curve(sheet, frame, curve, equal.count(), style)?;
            if let (Some(height), Names::AtEnds, false, false) =
                (end, &self.names, many, curve.name.is_empty())
            {
                ends.push((height, &curve.name, color));
            }
        }
        if panel.curves.iter().all(|curve| {
            curve
                .points
                .iter()
                .all(|(x, y)| !x.is_finite() || !y.is_finite())
        }) {
            return canvas::nothing(sheet, frame.room);
        }
        if many {
            let count = format!("{} curves", panel.curves.len());
            let corner = (frame.room.right(), frame.room.top - 11.0);
            return write(sheet, &count, &type_of(11.0, MUTED), corner, Anchor::Right);
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut heights: Vec<f64> = ends.iter().map(|(height, ..)| *height).collect();
        spread(
            &mut heights,
            NAME + 1.5,
            frame.room.top..frame.room.bottom(),
        );
        for ((_, name, color), height) in ends.iter().zip(heights) {
            let at = (frame.room.right() + 7.0, height);
            write(
                sheet,
                &fit(name, NAME, WIDEST_NAME),
                &type_of(NAME, darker(*color)),
                at,
                Anchor::Left,
            )?;
        }
        Ok(())
    }
}

/// Names are written in their curve's color, dark enough to be read.
fn darker(color: RGBColor) -> RGBColor {
    let mix = |a: u8, b: u8| (f64::from(a) * 0.72 + f64::from(b) * 0.28) as u8;
    RGBColor(
        mix(color.0, TEXT.0),
        mix(color.1, TEXT.1),
        mix(color.2, TEXT.2),
    )
}

/// Draws the runs of finite points; at which height the last one ends. If there are `equal` curves
/// below, it has gaps of so many dashes, for it would hide them.
fn draw_curve(
    sheet: &Canvas<'_>,
    frame: &Panel,
    curve: &Curve,
    equal: usize,
    style: ShapeStyle,
) -> Result<Option<f64>, Error> {
    let mut end = None;
    for run in curve
        .points
        .split(|(x, y)| !x.is_finite() || !y.is_finite())
        .filter(|run| !run.is_empty())
    {
        let mut drawn = thinned(
            run.iter()
                .map(|(x, y)| (frame.across(*x), frame.height(*y))),
        );
        if let [only] = drawn[..] {
            // A lone point is a short dash: a path of no length is invisible.
            drawn = vec![(only.0 - 2.0, only.1), (only.0 + 2.0, only.1)];
        }
        end = drawn.last().map(|(_, height)| *height);
        if equal == 0 {
            line(sheet, &drawn, style)?;
        } else {
            for dash in dashes(&drawn, DASH * equal as f64) {
                line(sheet, &dash, style)?;
            }
        }
    }
    Ok(end)
}

/// The parts of a line that are dashes, with a `gap` behind each.
fn dashes(whole: &[(f64, f64)], gap: f64) -> Vec<Vec<(f64, f64)>> {
    let (mut dashes, mut dash) = (Vec::new(), Vec::new());
    let (mut drawn, mut left) = (true, DASH);
    for pair in whole.windows(2) {
        let (mut from, to) = (pair[0], pair[1]);
        loop {
            if drawn && dash.is_empty() {
                dash.push(from);
            }
            let (across, down) = (to.0 - from.0, to.1 - from.1);
            let length = (across * across + down * down).sqrt();
            if length <= left {
                left -= length;
                if drawn {
                    dash.push(to);
                }
                break;
            }
            from = (
                from.0 + across * left / length,
                from.1 + down * left / length,
            );
            if drawn {
                dash.push(from);
                dashes.push(std::mem::take(&mut dash));
            }
            drawn = !drawn;
            left = if drawn { DASH } else { gap };
        }
    }
    dashes.extend(Some(dash).filter(|dash| dash.len() > 1));
    dashes
}

/// At most four points to a pixel of width: its first, lowest, highest and last.
fn thinned(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::new();
    let mut column: Vec<(f64, f64)> = Vec::new();
    for point in points {
        if column
            .first()
            .is_some_and(|first| first.0.floor() != point.0.floor())
        {
            keep_extremes(&mut kept, &column);
            column.clear();
        }
        column.push(point);
    }
    keep_extremes(&mut kept, &column);
    kept
}

fn keep_extremes(kept: &mut Vec<(f64, f64)>, column: &[(f64, f64)]) {
    if column.len() <= 4 {
        return kept.extend(column);
    }
    let by_height = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
    let (lowest, highest) = (
        column.iter().min_by(by_height),
        column.iter().max_by(by_height),
    );
    let places = [column.first(), lowest, highest, column.last()]
        .into_iter()
        .flatten()
        .copied();
    let first = kept.len();
    kept.extend(places);
    kept[first + 1..].sort_by(|a, b| a.0.total_cmp(&b.0));
    kept.dedup();
}

/// The share of `samples` at or below each value, as a curve of at most 400 points.
pub(crate) fn cumulative(samples: &[f64]) -> Vec<(f64, f64)> {
    const POINTS: usize = 400;
    let sorted = sorted(samples);
    let Some(lowest) = sorted.first() else {
        return Vec::new();
    };
    let stride = sorted.len().div_ceil(POINTS);
    let share = |number: usize| (number + 1) as f64 / sorted.len() as f64;
    let mut points = vec![(*lowest, 0.0)];
    points.extend(
        (0..sorted.len())
            .filter(|i| i % stride == stride - 1 || i + 1 == sorted.len())
            .map(|i| (sorted[i], share(i))),
    );
    points
}
