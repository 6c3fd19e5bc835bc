//! Elements common to all figures: canvas, colors, text, and the frame of one panel.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use super::{Measure, PlotError};

pub(super) type Error = DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>;
pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// plotters places everything on whole units: a tenth of a pixel each, so that curves are smooth.
pub(super) const PIXEL: i32 = 10;
/// Width of a sheet in pixels.
pub(super) const WIDTH: i32 = 720;
/// A font size of plotters is this much larger than the one it writes.
const FONT_SCALE: f64 = 1.24;
/// Mean width of a character over the font's size.
const CHARACTER: f64 = 0.54;

pub(super) const TEXT: RGBColor = RGBColor(0x26, 0x2b, 0x33);
pub(super) const MUTED: RGBColor = RGBColor(0x66, 0x6e, 0x7a);
pub(super) const GRID: RGBColor = RGBColor(0xe3, 0xe7, 0xec);
pub(super) const BASELINE: RGBColor = RGBColor(0x9a, 0xa2, 0xad);

/// Okabe and Ito's colors without their yellow, which white paper swallows.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x55, 0x5b, 0x66),
];
/// Where a scale of many steps begins and ends: from light to dark, so that it also prints.
const SCALE: [RGBColor; 3] = [
    RGBColor(0x7f, 0xcd, 0xbb),
    RGBColor(0x1d, 0x91, 0xc0),
    RGBColor(0x0c, 0x2c, 0x84),
];

/// The color of group `number` of `count`: distinct ones, or steps of one scale where there are
/// more groups than those.
pub(super) fn color(number: usize, count: usize) -> RGBColor {
    if count <= COLOURS.len() {
        return COLOURS[number % COLOURS.len()];
    }
    let place = 2.0 * (number.min(count - 1)) as f64 / (count - 1) as f64;
    let (from, to, part) = if place < 1.0 {
        (SCALE[0], SCALE[1], place)
    } else {
        (SCALE[1], SCALE[2], place - 1.0)
    };
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * part).round() as u8;
    RGBColor(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

/// Anchor of a text relative to its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Left,
    Middle,
    Right,
}

/// Type of `size` pixels.
pub(super) fn type_of(size: f64, color: RGBColor) -> TextStyle<'static> {
    ("sans-serif", size * FONT_SCALE * f64::from(PIXEL))
        .into_font()
        .color(&color)
}

/// Width of `text` in pixels, about.
pub(super) fn width_of(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * CHARACTER
}

/// `text`, cut to what fits `width` pixels.
pub(super) fn fit(text: &str, size: f64, width: f64) -> String {
    let room = (width / (size * CHARACTER)).max(2.0) as usize;
    if text.chars().count() <= room {
        text.to_owned()
    } else {
        text.chars().take(room - 1).chain(['…']).collect()
    }
}

/// Writes `text` with its middle line at `y`; positions in pixels.
pub(super) fn write(
    sheet: &Canvas<'_>,
    text: &str,
    style: &TextStyle<'_>,
    at: (f64, f64),
    anchor: Anchor,
) -> Result<(), Error> {
    if text.is_empty() {
        return Ok(());
    }
    let horizontal = match anchor {
        Anchor::Left => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::Right => HPos::Right,
    };
    sheet.draw_text(
        text,
        &style.pos(Pos::new(horizontal, VPos::Center)),
        units(at),
    )
}

/// A point in pixels as the sheet's units.
pub(super) fn units((x, y): (f64, f64)) -> (i32, i32) {
    (
        (x * f64::from(PIXEL)).round() as i32,
        (y * f64::from(PIXEL)).round() as i32,
    )
}

/// Draws a figure of `height` pixels below its title; `paint` gets the sheet and the height at
/// which free space begins.
///
/// # Errors
/// What plotters reports.
pub(super) fn draw(
    title: &str,
    height: i32,
    paint: impl FnOnce(&Canvas<'_>, f64) -> Result<(), Error>,
) -> Result<String, PlotError> {
    const TITLE: f64 = 15.0;
    let mut text = String::new();
    let top = if title.is_empty() { 4.0 } else { 30.0 };
    let height = height + top as i32;
    let painted = {
        let sheet =
            SVGBackend::with_string(&mut text, ((WIDTH * PIXEL) as u32, (height * PIXEL) as u32))
                .into_drawing_area();
        let heading = ("sans-serif", TITLE * FONT_SCALE * f64::from(PIXEL))
            .into_font()
            .style(FontStyle::Bold)
            .color(&TEXT);
        sheet
            .fill(&WHITE)
            .and_then(|()| {
                write(
                    &sheet,
                    &fit(title, TITLE, f64::from(WIDTH) - 24.0),
                    &heading,
                    (12.0, 16.0),
                    Anchor::Left,
                )
            })
            .and_then(|()| paint(&sheet, top))
            .and_then(|()| sheet.present())
    };
    painted.map_err(|error| PlotError {
        title: title.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(scaled(&text, height))
}

/// The sheet with its size in pixels, as wide as its place allows, in the reader's own typeface.
fn scaled(text: &str, height: i32) -> String {
    let (width_units, height_units) = (WIDTH * PIXEL, height * PIXEL);
    let body = text.split_once('>').map_or("", |(_, body)| body);
    let typeface = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif";
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {width_units} {height_units}\" \
         role=\"img\" style=\"max-width:100%;height:auto\" font-family=\"{typeface}\">{}",
        body.replace(" font-family=\"sans-serif\"", "")
            .replace(" opacity=\"1\"", "")
    )
}

/// A rectangle of the sheet, in pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Room {
    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

/// Two axes and the rectangle they span.
pub(super) struct Panel {
    pub(super) room: Room,
    pub(super) x: Axis,
    pub(super) y: Axis,
}

impl Panel {
    /// Where the sheet shows the value `x`, in pixels.
    pub(super) fn across(&self, x: f64) -> f64 {
        self.room.left + self.room.width * self.x.share(x)
    }

    /// Where the sheet shows the value `y`, in pixels.
    pub(super) fn height(&self, y: f64) -> f64 {
        self.room.bottom() - self.room.height * self.y.share(y)
    }

    /// Draws the lines of the grid and the base line; the labels of the horizontal ticks if
    /// `label_x`, of the others if `label_y`.
    pub(super) fn grid(
        &self,
        sheet: &Canvas<'_>,
        label_x: bool,
        label_y: bool,
    ) -> Result<(), Error> {
        let room = self.room;
        let label = type_of(11.0, MUTED);
        for (share, text) in self.y.ticks() {
            let height = room.bottom() - room.height * share;
            line(
                sheet,
                &[(room.left, height), (room.right(), height)],
                GRID.stroke_width(PIXEL as u32),
            )?;
            if label_y {
                write(
                    sheet,
                    &text,
                    &label,
                    (room.left - 6.0, height),
                    Anchor::Right,
                )?;
            }
        }
        for (share, text) in self.x.ticks() {
            let across = room.left + room.width * share;
            line(
                sheet,
                &[(across, room.bottom()), (across, room.bottom() + 4.0)],
                BASELINE.stroke_width(PIXEL as u32),
            )?;
            if label_x {
                write(
                    sheet,
                    &text,
                    &label,
                    (across, room.bottom() + 12.0),
                    Anchor::Middle,
                )?;
            }
        }
        line(
            sheet,
            &[(room.left, room.bottom()), (room.right(), room.bottom())],
            BASELINE.stroke_width(PIXEL as u32),
        )
    }
}

/// A line through points in pixels.
pub(super) fn line(
    sheet: &Canvas<'_>,
    points: &[(f64, f64)],
    style: ShapeStyle,
) -> Result<(), Error> {
    sheet.draw(&PathElement::new(
        points.iter().copied().map(units).collect::<Vec<_>>(),
        style,
    ))
}

/// Fills the rectangle between two corners in pixels.
pub(super) fn fill(
    sheet: &Canvas<'_>,
    corners: [(f64, f64); 2],
    color: RGBAColor,
) -> Result<(), Error> {
    sheet.draw(&Rectangle::new(corners.map(units), color.filled()))
}

/// Writes what a panel's height measures above its left edge.
pub(super) fn caption(sheet: &Canvas<'_>, room: Room, measure: &Measure) -> Result<(), Error> {
    write(
        sheet,
        &measure.caption(),
        &type_of(11.5, MUTED),
        (12.0, room.top - 18.0),
        Anchor::Left,
    )
}

/// Writes in the middle of an empty panel that it is empty.
pub(super) fn nothing(sheet: &Canvas<'_>, room: Room) -> Result<(), Error> {
    let middle = (room.left + room.width / 2.0, room.top + room.height / 2.0);
    write(
        sheet,
        "no samples",
        &type_of(12.0, MUTED),
        middle,
        Anchor::Middle,
    )
}

/// Names with the color they stand for, in rows.
pub(super) struct Legend(Vec<(String, RGBColor, f64, f64)>);

impl Legend {
    const SIZE: f64 = 12.0;
    const ROW: f64 = 18.0;
    const SWATCH: f64 = 12.0;
    const LEFT: f64 = 12.0;

    /// Places the names, in order, on as many rows as they need.
    pub(super) fn new(names: impl IntoIterator<Item = (String, RGBColor)>) -> Self {
        let (mut left, mut row) = (Self::LEFT, 0.0);
        let place = |(name, color): (String, RGBColor)| {
            let name = fit(&name, Self::SIZE, f64::from(WIDTH) - 60.0);
            let width = Self::SWATCH + 6.0 + width_of(&name, Self::SIZE) + 16.0;
            if left + width > f64::from(WIDTH) && left > Self::LEFT {
                (left, row) = (Self::LEFT, row + Self::ROW);
            }
            let at = left;
            left += width;
            (name, color, at, row)
        };
        Self(names.into_iter().map(place).collect())
    }

    /// Pixels that it takes.
    pub(super) fn height(&self) -> f64 {
        self.0.last().map_or(0.0, |(.., row)| row + Self::ROW + 6.0)
    }

    /// Draws it from `top` down.
    pub(super) fn draw(&self, sheet: &Canvas<'_>, top: f64) -> Result<(), Error> {
        for (name, color, left, row) in &self.0 {
            let middle = top + row + Self::ROW / 2.0;
            fill(
                sheet,
                [(*left, middle - 5.0), (left + Self::SWATCH, middle + 5.0)],
                color.to_rgba(),
            )?;
            write(
                sheet,
                name,
                &type_of(Self::SIZE, TEXT),
                (left + Self::SWATCH + 6.0, middle),
                Anchor::Left,
            )?;
        }
        Ok(())
    }
}

/// Moves rising `heights` apart until neighbors are `least` apart, keeping them within `range`
/// where that has room.
pub(super) fn spread(heights: &mut [f64], least: f64, range: Range<f64>) {
    let mut floor = range.start;
    for height in heights.iter_mut() {
        *height = height.max(floor);
        floor = *height + least;
    }
    let mut ceiling = range.end;
    for height in heights.iter_mut().rev() {
        *height = height.min(ceiling);
        ceiling = *height - least;
    }
}
