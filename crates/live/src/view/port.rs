//! Draws one port.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, LineGauge, Sparkline};

use crate::amounts::{bytes, rate, scaled, time};
use crate::history::{History, Throughput};
use crate::snapshot::{Counted, PortState};

/// Rows of a port's block, including the border.
pub(super) const ROWS: u16 = 13;
/// Rows of the queue-length sparkline.
const COURSE: u16 = 3;

pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    history: &History,
    number: usize,
    chosen: bool,
) {
    let Some(port) = history.now().and_then(|now| now.ports.get(number)) else {
        return;
    };
    let style = if chosen {
        Style::new().fg(Color::Cyan)
    } else {
        Style::new()
    };
    let title = format!(" {} · {} ", port.name, port.qdisc.kind);
    let block = Block::bordered()
        .border_style(style)
        .title(Line::styled(title, style.add_modifier(Modifier::BOLD)));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let rows = [1, 1, 1, COURSE, 1, 1, 1, 1, 1].map(Constraint::Length);
    let [taken, sent, queue, course, ring, tokens, times, drops, more] =
        Layout::vertical(rows).areas(inside);
    line(
        frame,
        taken,
        "in",
        passed(port.taken, history.throughput(number, |port| port.taken)),
    );
    line(
        frame,
        sent,
        "out",
        passed(port.sent, history.throughput(number, |port| port.sent)),
    );
    let lengths = history.course(number, usize::from(course.width));
    let longest = lengths.iter().copied().max().unwrap_or_default();
    let load = format!(
        "{} packets {}",
        port.backlog.packets,
        bytes(port.backlog.bytes.get())
    );
    line(frame, queue, "queue", format!("{load}, peak {longest}"));
    frame.render_widget(
        Sparkline::default()
            .data(lengths)
            .style(Style::new().fg(Color::Yellow)),
        course,
    );
    self::ring(frame, ring, port);
    self::tokens(frame, tokens, port);
    sojourn(frame, times, history, number, port);
    drop_counters(frame, [drops, more], port);
}

fn sojourn(frame: &mut Frame<'_>, area: Rect, history: &History, number: usize, port: &PortState) {
    let sojourn = history.sojourn(number);
    let [half, most] = [50, 99].map(|percent| time(sojourn.percentile(percent)));
    let shares = if sojourn.count() > 0 {
        format!(", p50 ≤ {half}, p99 ≤ {most}")
    } else {
        String::new()
    };
    line(
        frame,
        area,
        "sojourn",
        format!("last {}{shares}", time(port.sojourn.last)),
    );
}

fn drop_counters(frame: &mut Frame<'_>, [drops, more]: [Rect; 2], port: &PortState) {
    let all: u64 = port.drops.iter().map(|(_, count)| count).sum();
    line(
        frame,
        drops,
        "drops",
        format!("{all}, marks {}", port.marks),
    );
    let reasons: Vec<String> = port
        .drops
        .iter()
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    line(frame, more, "", reasons.join(", "));
}

/// `12345 packets 18.2 Mbit/s 1.52 k/s`.
fn passed(counted: Counted, throughput: Throughput) -> String {
    format!(
        "{} packets, {} {}/s",
        counted.packets,
        rate(throughput.bits),
        scaled(throughput.packets)
    )
}

/// Draws a labeled line.
fn line(frame: &mut Frame<'_>, area: Rect, name: &str, text: String) {
    frame.render_widget(Line::from(vec![label(name), Span::raw(text)]), area);
}

fn label(name: &str) -> Span<'static> {
    Span::styled(
        format!("{name:<8}"),
        Style::new().add_modifier(Modifier::DIM),
    )
}

/// Draws the ring's occupancy and limit.
fn ring(frame: &mut Frame<'_>, area: Rect, port: &PortState) {
    let held = format!(
        "{} packets {}",
        port.ring.packets,
        bytes(port.ring.bytes.get())
    );
    match port.ring_limit {
        None => line(frame, area, "ring", held),
        Some(limit) => {
            let text = format!("{held} of {} ", bytes(limit.get()));
            share(
                frame,
                area,
                ("ring", text),
                port.ring.bytes.get() as f64,
                limit.get() as f64,
            );
        }
    }
}

/// Draws the fill and depth of the qdisc's first token bucket; a dash if unknown, nothing if it has
/// no bucket.
fn tokens(frame: &mut Frame<'_>, area: Rect, port: &PortState) {
    let buckets = &port.qdisc.buckets;
    let Some(bucket) = buckets.first() else {
        return;
    };
    let others = if buckets.len() > 1 {
        format!(" and {} more below", buckets.len() - 1)
    } else {
        String::new()
    };
    let name = &bucket.name;
    match bucket.bytes.zip(bucket.depth) {
        Some((held, depth)) => {
            let (held, depth) = (held.get(), depth.get());
            let text = format!("{} of {} ({name}){others} ", bytes(held), bytes(depth));
            share(frame, area, ("tokens", text), held as f64, depth as f64);
        }
        None => {
            let text = format!("{} ({name}){others}", bucket.text);
            line(frame, area, "tokens", text);
        }
    }
}

/// Draws a labeled text and a gauge of `part` / `whole`.
fn share(frame: &mut Frame<'_>, area: Rect, (name, text): (&str, String), part: f64, whole: f64) {
    let ratio = if whole > 0.0 {
        (part / whole).clamp(0.0, 1.0)
    } else {
        0.0
    };
    let gauge = LineGauge::default()
        .label(Line::from(vec![label(name), Span::raw(text)]))
        .filled_style(Style::new().fg(Color::Green))
        .unfilled_style(Style::new().add_modifier(Modifier::DIM))
        .filled_symbol("━")
        .unfilled_symbol("─")
        .ratio(ratio);
    frame.render_widget(gauge, area);
}
