//! [`Grouped`]: boxes or bars, side by side in categories, categories side by side in panels.

use plotters::style::{Color as _, RGBColor, ShapeStyle};

use super::axis::{Axis, short};
use super::canvas::{
    self, Anchor, BASELINE, Canvas, Error, Legend, MUTED, PIXEL, Panel, Room, TEXT, WIDTH, fit,
    line, type_of, write,
};
use super::quantile::Quantiles;
use super::{Measure, PlotError};

/// A figure of boxes or bars.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Grouped {
    /// Stands above it; may be empty.
    pub title: String,
    /// Vertical axis, shared by all panels.
    pub measure: Measure,
    /// Title of the horizontal axis; may be empty.
    pub x: String,
    /// A line of explanation below, such as what the boxes cover; may be empty.
    pub legend: String,
    /// Names of the groups, distinguished by color. One group needs no name.
    pub groups: Vec<String>,
    /// The panels; as many as fit stand side by side.
    pub panels: Vec<GroupedPanel>,
}

/// One panel of a [`Grouped`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GroupedPanel {
    /// Stands above it; may be empty.
    pub title: String,
    /// The categories from left to right, each with a mark for each group in order; `None` where
    /// there are no samples.
    pub categories: Vec<(String, Vec<Option<Mark>>)>,
}

/// The mark drawn for the samples of one category and group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mark {
    /// A box with whiskers.
    Box(Quantiles),
    /// A bar of this height, with an interval around its end.
    Bar {
        /// Its height.
        mean: f64,
        /// Lower end of the interval.
        low: f64,
        /// Upper end of it.
        high: f64,
    },
}

impl Mark {
    /// The values that the axis must hold.
    fn extent(&self) -> [f64; 3] {
        match *self {
            Self::Box(q) => [q.whisker_low, q.median, q.whisker_high * HEADROOM],
            Self::Bar { mean, low, high } => [low, mean, high.max(mean) * HEADROOM],
        }
    }
}

/// Room above the highest mark for its number.
const HEADROOM: f64 = 1.07;
const PANEL_HEIGHT: f64 = 210.0;
const MARGIN_LEFT: f64 = 52.0;
const GAP: f64 = 26.0;
/// Room above a panel for what it measures.
const HEAD: f64 = 34.0;
/// More of it for the panel's title.
const PANEL_TITLE: f64 = 18.0;
/// Room below a panel for a line of names of its categories.
const FOOT: f64 = 26.0;
/// Distance of two such lines.
const NAME_LINE: f64 = 14.0;
/// Room for the title of the horizontal axis.
const AXIS_TITLE: f64 = 18.0;
const NAME: f64 = 11.5;
/// The minimum width of a category before panels wrap to the next row.
const CATEGORY_WIDTH: f64 = 44.0;
const MARK_WIDTH: f64 = 46.0;

impl Grouped {
    /// The figure.
    ///
    /// # Errors
    /// When it cannot be drawn.
    pub(crate) fn svg(&self) -> Result<String, PlotError> {
        let rows = self.rows();
        let count = self.groups.len().max(1);
        let named = if count > 1 {
            self.groups.as_slice()
        } else {
            &[]
        };
        let legend = Legend::new(
            named
                .iter()
                .enumerate()
                .map(|(i, name)| (name.clone(), canvas::color(i, count))),
        );
        let titled = self.panels.iter().any(|panel| !panel.title.is_empty());
        let head = if titled { HEAD + PANEL_TITLE } else { HEAD };
        let lines = rows.iter().map(|row| name_lines(row)).max().unwrap_or(1);
        let names = FOOT + NAME_LINE * (lines - 1) as f64;
        let foot = names + if self.x.is_empty() { 0.0 } else { AXIS_TITLE };
        let note = if self.legend.is_empty() { 4.0 } else { 22.0 };
        let height =
            legend.height() + rows.len().max(1) as f64 * (head + PANEL_HEIGHT + foot) + note;
        canvas::draw(&self.title, height as i32, |sheet, top| {
            legend.draw(sheet, top)?;
            let mut below = top + legend.height();
            for row in &rows {
                self.row(sheet, row, below + head, lines)?;
                let title_at = (
                    MARGIN_LEFT + (f64::from(WIDTH) - MARGIN_LEFT) / 2.0,
                    below + head + PANEL_HEIGHT + names + 3.0,
                );
                let style = type_of(NAME, MUTED);
                write(sheet, &self.x, &style, title_at, Anchor::Middle)?;
                below += head + PANEL_HEIGHT + foot;
            }
            if rows.is_empty() {
                let room = Room {
                    left: MARGIN_LEFT,
                    top: below,
                    width: f64::from(WIDTH) - MARGIN_LEFT,
                    height: PANEL_HEIGHT,
                };
                canvas::nothing(sheet, room)?;
            }
            let note_at = (12.0, top + height - note / 2.0 - 2.0);
            write(
                sheet,
                &fit(&self.legend, 11.0, f64::from(WIDTH) - 24.0),
                &type_of(11.0, MUTED),
                note_at,
                Anchor::Left,
            )
        })
    }

    /// The panels of each row: as many as fit with their categories.
    fn rows(&self) -> Vec<&[GroupedPanel]> {
        let needs = |panel: &GroupedPanel| {
            let marks = self.groups.len().max(1) as f64;
            panel.categories.len().max(1) as f64 * CATEGORY_WIDTH.max(marks * 14.0) + GAP
        };
        let (mut rows, mut begin, mut used) = (Vec::new(), 0, 0.0);
        for (number, panel) in self.panels.iter().enumerate() {
            let width = needs(panel);
            if number > begin && used + width > f64::from(WIDTH) - MARGIN_LEFT {
                rows.push(&self.panels[begin..number]);
                (begin, used) = (number, 0.0);
            }
            used += width;
        }
        if begin < self.panels.len() {
            rows.push(&self.panels[begin..]);
        }
        rows
    }

    /// Draws panels side by side, each as wide as its categories are many, with the names of the
    /// categories in `lines` lines.
    fn row(
        &self,
        sheet: &Canvas<'_>,
        panels: &[GroupedPanel],
        top: f64,
        lines: usize,
    ) -> Result<(), Error> {
        let values = self
            .panels
            .iter()
            .flat_map(|p| &p.categories)
            .flat_map(|(_, marks)| marks)
            .flatten()
            .flat_map(Mark::extent);
        let y = Axis::over(values, self.measure.log, true, 5);
        let category = category_width(panels);
        let mut left = MARGIN_LEFT;
        for (number, panel) in panels.iter().enumerate() {
            let width = category * panel.categories.len().max(1) as f64;
            let room = Room {
                left,
                top,
                width,
                height: PANEL_HEIGHT,
            };
            let frame = Panel {
                room,
                x: Axis::names(panel.categories.len()),
                y: y.clone(),
            };
            self.panel(sheet, &frame, panel, number == 0, lines)?;
            left += width + GAP;
        }
        Ok(())
    }

    fn panel(
        &self,
        sheet: &Canvas<'_>,
        frame: &Panel,
        panel: &GroupedPanel,
        first: bool,
        lines: usize,
    ) -> Result<(), Error> {
        let room = frame.room;
        frame.grid(sheet, false, first)?;
        if first {
            canvas::caption(sheet, room, &self.measure)?;
        }
        write(
            sheet,
            &fit(&panel.title, 12.5, room.width),
            &type_of(12.5, TEXT),
            (room.left, room.top - 36.0),
            Anchor::Left,
        )?;
        let width = room.width / panel.categories.len().max(1) as f64;
        let count = panel
            .categories
            .iter()
            .map(|(_, marks)| marks.len())
            .max()
            .unwrap_or(0)
            .max(1);
        let slot = (width * 0.86 / count as f64).min(MARK_WIDTH * 1.3);
        for (number, (name, marks)) in panel.categories.iter().enumerate() {
            let middle = frame.across(number as f64);
            let label = fit(name, NAME, width * lines as f64 - 4.0);
            let line = NAME_LINE * (number % lines) as f64;
            write(
                sheet,
                &label,
                &type_of(NAME, TEXT),
                (middle, room.bottom() + 13.0 + line),
                Anchor::Middle,
            )?;
            self.marks(sheet, frame, marks, middle, slot)?;
        }
        if panel.categories.is_empty() {
            canvas::nothing(sheet, room)
        } else {
            Ok(())
        }
    }

    /// Draws the marks of a category around `middle`, each in a slot of that width.
    fn marks(
        &self,
        sheet: &Canvas<'_>,
        frame: &Panel,
        marks: &[Option<Mark>],
        middle: f64,
        slot: f64,
    ) -> Result<(), Error> {
        for (group, mark) in marks.iter().enumerate() {
            let at = middle + (group as f64 - (marks.len() - 1) as f64 / 2.0) * slot;
            let color = canvas::color(group, self.groups.len().max(1));
            match mark {
                Some(mark) => {
                    draw_mark(sheet, frame, mark, at, (slot * 0.8).min(MARK_WIDTH), color)?
                }
                None => write(
                    sheet,
                    "–",
                    &type_of(11.0, MUTED),
                    (at, frame.room.bottom() - 8.0),
                    Anchor::Middle,
                )?,
            }
        }
        Ok(())
    }
}

/// The width of a category where `panels` stand side by side.
fn category_width(panels: &[GroupedPanel]) -> f64 {
    let categories = panels.iter().map(|panel| panel.categories.len().max(1));
    let gaps = GAP * panels.len().saturating_sub(1) as f64;
    (f64::from(WIDTH) - MARGIN_LEFT - 12.0 - gaps) / categories.sum::<usize>().max(1) as f64
}

/// Lines that the names of the categories take turns on, so that none reaches into the next: three
/// at most.
fn name_lines(panels: &[GroupedPanel]) -> usize {
    let names = panels.iter().flat_map(|panel| &panel.categories);
    let widest = names
        .map(|(name, _)| canvas::width_of(name, NAME))
        .fold(0.0, f64::max);
    ((widest + 4.0) / category_width(panels))
        .ceil()
        .clamp(1.0, 3.0) as usize
}

/// Draws one mark around `at`, with its middle value above it if it fits.
fn draw_mark(
    sheet: &Canvas<'_>,
    frame: &Panel,
    mark: &Mark,
    at: f64,
    width: f64,
    color: RGBColor,
) -> Result<(), Error> {
    let (value, top) = match *mark {
        Mark::Box(quantiles) => draw_box(sheet, frame, quantiles, at, width / 2.0, color)?,
        Mark::Bar { mean, low, high } => {
            draw_bar(sheet, frame, [mean, low, high], at, width / 2.0, color)?
        }
    };
    let text = short(value);
    // Digits are wider than a mean character, and the next mark's value stands beside it.
    if canvas::width_of(&text, 10.0) * 1.15 > width / 0.8 {
        return Ok(());
    }
    write(
        sheet,
        &text,
        &type_of(10.0, if frame.room.top > top { BASELINE } else { TEXT }),
        (at, top - 7.0),
        Anchor::Middle,
    )
}

fn stroke(width: f64, color: RGBColor) -> ShapeStyle {
    color.stroke_width((width * f64::from(PIXEL)) as u32)
}

/// Draws a box with whiskers; returns its median and the height of its top.
fn draw_box(
    sheet: &Canvas<'_>,
    frame: &Panel,
    q: Quantiles,
    at: f64,
    half: f64,
    color: RGBColor,
) -> Result<(f64, f64), Error> {
    let [whisker_low, low, median, high, whisker_high] =
        [q.whisker_low, q.low, q.median, q.high, q.whisker_high].map(|v| frame.height(v));
    for (from, to) in [(whisker_low, low), (high, whisker_high)] {
        line(sheet, &[(at, from), (at, to)], stroke(1.2, color))?;
    }
    for end in [whisker_low, whisker_high] {
        line(
            sheet,
            &[(at - half * 0.4, end), (at + half * 0.4, end)],
            stroke(1.2, color),
        )?;
    }
    canvas::fill(
        sheet,
        [(at - half, high), (at + half, low)],
        color.mix(0.22),
    )?;
    let corners = [
        (at - half, high),
        (at + half, high),
        (at + half, low),
        (at - half, low),
        (at - half, high),
    ];
    line(sheet, &corners, stroke(1.2, color))?;
    line(
        sheet,
        &[(at - half, median), (at + half, median)],
        stroke(2.6, color),
    )?;
    Ok((q.median, whisker_high))
}

/// Draws a bar with its confidence interval; returns its mean and the height of its top.
fn draw_bar(
    sheet: &Canvas<'_>,
    frame: &Panel,
    [mean, low, high]: [f64; 3],
    at: f64,
    half: f64,
    color: RGBColor,
) -> Result<(f64, f64), Error> {
    let ends @ [_, to] = [low, high].map(|v| frame.height(v));
    canvas::fill(
        sheet,
        [
            (at - half, frame.height(mean)),
            (at + half, frame.height(0.0)),
        ],
        color.mix(0.8),
    )?;
    if (ends[0] - to).abs() > 0.5 {
        line(sheet, &[(at, ends[0]), (at, to)], stroke(1.2, TEXT))?;
        for end in ends {
            line(
                sheet,
                &[(at - 4.0, end), (at + 4.0, end)],
                stroke(1.2, TEXT),
            )?;
        }
    }
    Ok((mean, to.min(frame.height(mean))))
}
