//! [`Trade`]: one quantity against another, throughput against latency: a cross for each cell, its
//! arms as long as a confidence interval, cells of a group joined in order.

use plotters::element::Circle;
use plotters::style::{Color as _, RGBColor};

use super::axis::Axis;
use super::canvas::{
    self, Anchor, Canvas, Error, Legend, MUTED, PIXEL, Panel, Room, TEXT, WIDTH, fit, line,
    type_of, units, write,
};
use super::{Measure, PlotError};

/// A figure of one quantity against another.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Trade {
    /// Stands above it; may be empty.
    pub title: String,
    /// The horizontal axis.
    pub x: Measure,
    /// The vertical axis.
    pub y: Measure,
    /// Each group by name, with its spots in the order in which they are joined.
    pub groups: Vec<(String, Vec<Spot>)>,
}

/// One cell: mean, lower and upper end on each axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spot {
    /// Stands beside it; may be empty.
    pub name: String,
    /// Horizontal mean, low, high.
    pub x: [f64; 3],
    /// Vertical mean, low, high.
    pub y: [f64; 3],
}

const HEIGHT: f64 = 300.0;
const NAME: f64 = 10.5;

impl Trade {
    /// The figure.
    ///
    /// # Errors
    /// When it cannot be drawn.
    pub(crate) fn svg(&self) -> Result<String, PlotError> {
        let count = self.groups.len().max(1);
        let names = self
            .groups
            .iter()
            .enumerate()
            .map(|(i, (name, _))| (name.clone(), canvas::color(i, count)));
        let legend = Legend::new(names.filter(|_| count > 1));
        let spots = || self.groups.iter().flat_map(|(_, spots)| spots);
        let x = Axis::over(spots().flat_map(|spot| spot.x), self.x.log, false, 7);
        let y = Axis::over(spots().flat_map(|spot| spot.y), self.y.log, false, 5);
        let height = legend.height() + 30.0 + HEIGHT + 42.0;
        canvas::draw(&self.title, height as i32, |sheet, top| {
            legend.draw(sheet, top)?;
            let top = top + legend.height() + 30.0;
            let room = Room {
                left: 52.0,
                top,
                width: f64::from(WIDTH) - 52.0 - 40.0,
                height: HEIGHT,
            };
            let frame = Panel { room, x, y };
            frame.grid(sheet, true, true)?;
            canvas::caption(sheet, room, &self.y)?;
            let axis_at = (room.left + room.width / 2.0, room.bottom() + 30.0);
            write(
                sheet,
                &self.x.caption(),
                &type_of(11.5, MUTED),
                axis_at,
                Anchor::Middle,
            )?;
            for (number, (_, spots)) in self.groups.iter().enumerate() {
                group(sheet, &frame, spots, canvas::color(number, count))?;
            }
            self.names(sheet, &frame)?;
            if spots().next().is_none() {
                canvas::nothing(sheet, room)
            } else {
                Ok(())
            }
        })
    }
}

impl Trade {
    /// Writes the spots' names, but for those that would stand on a spot or on another name.
    fn names(&self, sheet: &Canvas<'_>, frame: &Panel) -> Result<(), Error> {
        let shown: Vec<(&Spot, (f64, f64))> = self
            .groups
            .iter()
            .flat_map(|(_, spots)| spots)
            .filter(|spot| spot.x[0].is_finite() && spot.y[0].is_finite())
            .map(|spot| (spot, place(frame, spot)))
            .collect();
        let mut taken: Vec<[f64; 4]> = shown
            .iter()
            .map(|(_, (x, y))| [x - 5.0, y - 5.0, x + 5.0, y + 5.0])
            .collect();
        for (number, (spot, (x, y))) in shown.iter().enumerate() {
            let name = fit(&spot.name, NAME, 120.0);
            let width = canvas::width_of(&name, NAME) * 1.15;
            let beside = [
                (x + 6.0, y - 9.0),
                (x - 6.0 - width, y - 9.0),
                (x + 6.0, y + 9.0),
                (x - 6.0 - width, y + 9.0),
            ];
            let free = beside.into_iter().find_map(|(left, middle)| {
                let room = [left, middle - 6.0, left + width, middle + 6.0];
                let others = taken
                    .iter()
                    .enumerate()
                    .filter(|(other, _)| *other != number);
                let clear = others.into_iter().all(|(_, other)| !overlap(&room, other));
                (clear && left > frame.room.left).then_some(room)
            });
            if let Some(room) = free {
                taken.push(room);
                let at = (room[0], (room[1] + room[3]) / 2.0);
                write(sheet, &name, &type_of(NAME, TEXT), at, Anchor::Left)?;
            }
        }
        Ok(())
    }
}

/// Whether two rectangles (left, top, right, bottom) share a point.
fn overlap(a: &[f64; 4], b: &[f64; 4]) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

fn place(frame: &Panel, spot: &Spot) -> (f64, f64) {
    (frame.across(spot.x[0]), frame.height(spot.y[0]))
}

/// Draws the spots of one group with their intervals, joined by a line.
fn group(sheet: &Canvas<'_>, frame: &Panel, spots: &[Spot], color: RGBColor) -> Result<(), Error> {
    let shown: Vec<&Spot> = spots
        .iter()
        .filter(|spot| spot.x[0].is_finite() && spot.y[0].is_finite())
        .collect();
    let path: Vec<(f64, f64)> = shown.iter().map(|spot| place(frame, spot)).collect();
    if path.len() > 1 {
        line(sheet, &path, color.mix(0.45).stroke_width(PIXEL as u32))?;
    }
    for (spot, at) in shown.iter().zip(path) {
        let arm = color.stroke_width(PIXEL as u32);
        line(
            sheet,
            &[
                (frame.across(spot.x[1]), at.1),
                (frame.across(spot.x[2]), at.1),
            ],
            arm,
        )?;
        line(
            sheet,
            &[
                (at.0, frame.height(spot.y[1])),
                (at.0, frame.height(spot.y[2])),
            ],
            arm,
        )?;
        sheet.draw(&Circle::new(units(at), 4 * PIXEL, color.filled()))?;
    }
    Ok(())
}
