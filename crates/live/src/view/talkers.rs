//! Draws the hosts or flows of a port that carry most.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Row};

use crate::amounts::{bytes, scaled, time};
use crate::history::History;
use crate::snapshot::{PortState, Talker};

/// Which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Hosts,
    Flows,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Self::Hosts => "host",
            Self::Flows => "flow",
        }
    }

    fn of(self, port: &PortState) -> &[Talker] {
        match self {
            Self::Hosts => &port.hosts,
            Self::Flows => &port.flows,
        }
    }
}

/// Draws a table with a row for each host or flow of port number `port`: bits in a second and mean
/// sojourn time over the last second; bytes, drops and marks since it is counted.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    history: &History,
    port: usize,
    table: Table,
) {
    let Some(now) = history.now().and_then(|now| now.ports.get(port)) else {
        return;
    };
    let right = |text: String| Text::from(Line::raw(text).right_aligned());
    let rows = history.talkers(port, |port| table.of(port));
    let rows = rows.into_iter().map(|(talker, rate, mean)| {
        Row::new([
            Text::raw(talker.name.as_str()),
            right(scaled(rate).trim_end().to_owned()),
            right(bytes(talker.sent.bytes)),
            right(mean.map_or_else(|| "–".to_owned(), time)),
            right(talker.drops.to_string()),
            right(talker.marks.to_string()),
        ])
    });
    let head = ["bit/s", "sent", "sojourn", "drops", "marks"];
    let head =
        std::iter::once(Text::raw(table.name())).chain(head.map(|name| right(name.to_owned())));
    let head = Row::new(head).style(Style::new().add_modifier(Modifier::DIM));
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(7),
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Length(6),
        Constraint::Length(6),
    ];
    let title = format!(" {}: {}s ", now.name, table.name());
    frame.render_widget(
        ratatui::widgets::Table::new(rows, widths)
            .header(head)
            .block(Block::bordered().title(title)),
        area,
    );
}
