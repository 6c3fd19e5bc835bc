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
        let x = Axis::over(spots().flat_map(|spot| spot.x), self.x.log, true, 7);
        let y = Axis::over(spots().flat_map(|spot| spot.y), self.y.log, true, 5);
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
            if spots().next().is_none() {
                canvas::nothing(sheet, room)
            } else {
                Ok(())
            }
        })
    }
}

/// Draws the spots of one group with their intervals, joined by a line.
fn group(sheet: &Canvas<'_>, frame: &Panel, spots: &[Spot], color: RGBColor) -> Result<(), Error> {
    let place = |spot: &Spot| (frame.across(spot.x[0]), frame.height(spot.y[0]));
    let shown: Vec<&Spot> = spots
        .iter()
        .filter(|spot| spot.x[0].is_finite() && spot.y[0].is_finite())
        .collect();
    let path: Vec<(f64, f64)> = shown.iter().map(|spot| place(spot)).collect();
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
        write(
            sheet,
            &fit(&spot.name, 10.5, 120.0),
            &type_of(10.5, TEXT),
            (at.0 + 7.0, at.1 - 8.0),
            Anchor::Left,
        )?;
    }
    Ok(())
}
