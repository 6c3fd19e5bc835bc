//! [`View`]: draws a [`History`]: a block for each port, and below them the report of the chosen
//! port's qdisc tree.

mod port;
mod talkers;
#[cfg(test)]
mod tests;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};

use crate::history::History;
use crate::snapshot::Snapshot;
use talkers::Table;

/// Minimum width of a port's block; narrower terminals show fewer side by side.
const COLUMNS: u16 = 46;
/// Rows reserved for the qdisc report before another row of ports is shown.
const LEAST_TREE: u16 = 5;
/// Rows below the ports from which on the report and a table are both shown.
const BOTH: u16 = 14;
/// Rows below the report from which on the hosts leave room for the flows.
const BOTH_TABLES: u16 = 10;

/// A user's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The next port.
    Next,
    /// The previous port.
    Previous,
    /// Scroll the qdisc report up.
    Up,
    /// Scroll it down.
    Down,
    /// Pause or resume.
    Pause,
    /// Show the next of qdisc report, hosts and flows.
    Table,
}

/// The content below the ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Below {
    #[default]
    Qdisc,
    Hosts,
    Flows,
}

/// A terminal view of ports.
#[derive(Clone, Debug, Default)]
pub struct View {
    title: String,
    history: History,
    /// The port whose qdisc is shown.
    chosen: usize,
    /// Lines of the report scrolled off the top.
    above: u16,
    paused: bool,
    below: Below,
}

impl View {
    /// An empty view with this title.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            ..Self::default()
        }
    }

    /// Shows `snapshot`, unless paused.
    pub fn push(&mut self, snapshot: Snapshot) {
        if !self.paused {
            self.history.push(snapshot);
        }
    }

    /// Handles a user's command.
    pub fn key(&mut self, key: Key) {
        let ports = self.history.now().map_or(0, |now| now.ports.len()).max(1);
        match key {
            Key::Next => (self.chosen, self.above) = ((self.chosen + 1) % ports, 0),
            Key::Previous => (self.chosen, self.above) = ((self.chosen + ports - 1) % ports, 0),
            Key::Up => self.above = self.above.saturating_sub(1),
            Key::Down => self.above = self.above.saturating_add(1),
            Key::Pause => self.paused = !self.paused,
            Key::Table => {
                self.below = match self.below {
                    Below::Qdisc => Below::Hosts,
                    Below::Hosts => Below::Flows,
                    Below::Flows => Below::Qdisc,
                }
            }
        }
    }

    /// Draws the view on the whole frame.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let [head, body] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(frame.area());
        let Some(now) = self.history.now() else {
            return frame
                .render_widget(Paragraph::new(format!("{}: nothing yet", self.title)), head);
        };
        self.chosen = self.chosen.min(now.ports.len().saturating_sub(1));
        let time = format!(
            "  {:.1} s{}",
            now.at.as_secs_f64(),
            if self.paused { ", paused" } else { "" }
        );
        let keys = "q quit  tab port  t table  ↑↓ scroll  space pause";
        let [left, right] =
            Layout::horizontal([Constraint::Min(0), Constraint::Length(50)]).areas(head);
        let title = Span::styled(
            self.title.as_str(),
            Style::new().add_modifier(Modifier::BOLD),
        );
        frame.render_widget(Line::from(vec![title, Span::raw(time)]), left);
        frame.render_widget(
            Line::styled(keys, Style::new().add_modifier(Modifier::DIM)).right_aligned(),
            right,
        );
        let rest = self.ports(frame, body);
        self.below(frame, rest);
    }

    /// Draws the blocks of as many ports as fit, including the chosen one; returns the area below.
    fn ports(&self, frame: &mut Frame<'_>, area: Rect) -> Rect {
        let count = self.history.now().map_or(0, |now| now.ports.len());
        let beside = usize::from(area.width / COLUMNS).clamp(1, count.max(1));
        let most = usize::from(area.height.saturating_sub(LEAST_TREE) / port::ROWS).max(1);
        let rows = count.div_ceil(beside).min(most);
        // The chosen one is in the last row at the latest.
        let first_row = (self.chosen / beside + 1).saturating_sub(rows);
        let [blocks, rest] = Layout::vertical([
            Constraint::Length(port::ROWS * rows as u16),
            Constraint::Min(0),
        ])
        .areas(area);
        let lines = Layout::vertical(vec![Constraint::Length(port::ROWS); rows]).split(blocks);
        for (row, line) in lines.iter().enumerate() {
            let cells = Layout::horizontal(vec![Constraint::Fill(1); beside]).split(*line);
            for (column, cell) in cells.iter().enumerate() {
                let number = (first_row + row) * beside + column;
                port::draw(frame, *cell, &self.history, number, number == self.chosen);
            }
        }
        if count > beside * rows && !blocks.is_empty() {
            let place = format!(" {} of {count} ", self.chosen + 1);
            let border = Rect {
                width: blocks.width.saturating_sub(1),
                height: 1,
                ..blocks
            };
            frame.render_widget(Line::raw(place).right_aligned(), border);
        }
        rest
    }

    /// Draws the report of the chosen port's qdisc tree, its hosts and its flows, as many of them as
    /// there is room for.
    fn below(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let Some(port) = self
            .history
            .now()
            .and_then(|now| now.ports.get(self.chosen))
        else {
            return;
        };
        if port.hosts.is_empty() {
            return self.tree(frame, area);
        }
        let lines = wrapped(&port.qdisc.lines, area.width.saturating_sub(2).into());
        let (lines, hosts) = (lines.len() as u16 + 2, port.hosts.len());
        let table = match self.below {
            Below::Qdisc | Below::Hosts => Table::Hosts,
            Below::Flows => Table::Flows,
        };
        if area.height >= BOTH {
            let most = area.height / 2;
            let [above, rest] =
                Layout::vertical([Constraint::Length(lines.min(most)), Constraint::Min(0)])
                    .areas(area);
            self.tree(frame, above);
            let rest = if table == Table::Hosts && rest.height >= BOTH_TABLES {
                let hosts = (hosts as u16).saturating_add(3).min(rest.height / 2);
                let [hosts, flows] =
                    Layout::vertical([Constraint::Length(hosts), Constraint::Min(0)]).areas(rest);
                talkers::draw(frame, flows, &self.history, self.chosen, Table::Flows);
                hosts
            } else {
                rest
            };
            talkers::draw(frame, rest, &self.history, self.chosen, table);
        } else if self.below == Below::Qdisc {
            self.tree(frame, area);
        } else {
            talkers::draw(frame, area, &self.history, self.chosen, table);
        }
    }

    /// Draws the report of the chosen port's qdisc tree.
    fn tree(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let Some(port) = self
            .history
            .now()
            .and_then(|now| now.ports.get(self.chosen))
        else {
            return;
        };
        let lines = wrapped(&port.qdisc.lines, area.width.saturating_sub(2).into());
        let hidden = (lines.len() as u16).saturating_sub(area.height.saturating_sub(2));
        self.above = self.above.min(hidden);
        let title = match hidden {
            0 => format!(" {}: its qdisc ", port.name),
            more => {
                format!(
                    " {}: its qdisc, {} of {} lines above, ",
                    port.name,
                    self.above,
                    lines.len()
                ) + &format!("{} below ", more - self.above)
            }
        };
        let text: Vec<Line<'_>> = lines.into_iter().map(Line::raw).collect();
        frame.render_widget(
            Paragraph::new(text)
                .scroll((self.above, 0))
                .block(Block::bordered().title(title)),
            area,
        );
    }
}

/// The lines cut at spaces to at most `width` columns; what is cut off is indented.
fn wrapped(lines: &[String], width: usize) -> Vec<String> {
    let mut all = Vec::new();
    for line in lines {
        let indent = line.len() - line.trim_start().len();
        let mut row = " ".repeat(indent);
        for word in line.split_whitespace() {
            let is_first = row.trim_start().is_empty();
            if !is_first && row.chars().count() + 1 + word.chars().count() > width {
                all.push(std::mem::replace(&mut row, " ".repeat(indent + 4)));
            } else if !is_first {
                row.push(' ');
            }
            row += word;
        }
        all.push(row);
    }
    all
}
