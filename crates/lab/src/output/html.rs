//! The report: one HTML file that needs nothing beside itself, each row with what its paper found,
//! what was seen here, whether each shape holds with the numbers compared, and the command that
//! runs it again. No scripts; readable on a phone and on paper.

use std::fmt::Write as _;

use super::numbers::{Column, columns, interval};
use super::plot::short;
use super::sheet::{ReportRow, RowReport};
use crate::cell::Backend;
use crate::result::{Anova, CellResult, Judgment, Score, ShapeResult};
use crate::summary::Estimate;

const STYLE: &str = include_str!("html/style.css");

/// The page of all `sheets`.
pub(crate) fn report(sheets: &[ReportRow]) -> String {
    let mut page = String::new();
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>tautline lab: report</title>\n<style>\n{STYLE}</style>\n\
         </head>\n<body>\n"
    );
    let drawn = || sheets.iter().flat_map(|sheet| &sheet.worlds);
    let total: Score = drawn().map(|drawn| drawn.row.score()).sum();
    let _ = writeln!(
        page,
        "<header class=\"page\">\n<h1>Experiments of the source papers</h1>\n<p class=\"lead\">Rows: {}. Shapes that \
         the papers found: {total}.</p>\n<nav class=\"rows\">",
        sheets.len()
    );
    for sheet in sheets {
        let row = &sheet.first().row;
        let _ = write!(
            page,
            "<a href=\"#{0}\"><span class=\"id\">{0}</span><span class=\"what\">{1}</span>",
            escape(&row.scenario),
            escape(&row.title)
        );
        for drawn in &sheet.worlds {
            page.push_str(&score(drawn));
        }
        page.push_str("</a>\n");
    }
    page.push_str("</nav>\n</header>\n<main>\n");
    for sheet in sheets {
        article(&mut page, sheet);
    }
    page.push_str(
        "</main>\n<footer>Numbers are means over repetitions, with the 95 % confidence interval of the mean below. ",
    );
    page.push_str("Equal seeds give equal bytes in virtual time.</footer>\n</body>\n</html>\n");
    page
}

/// "3 of 4 hold", colored.
fn score(drawn: &RowReport) -> String {
    let score = drawn.row.score();
    let (class, text) = match score {
        Score { all: 0, .. } => ("none", "nothing to hold".to_owned()),
        Score { holds, all, .. } => (if holds == all { "all" } else { "some" }, score.to_string()),
    };
    let world = match drawn.row.path {
        Backend::Sim => "",
        Backend::Veth => "wire: ",
    };
    format!(" <span class=\"score {class}\">{world}{text}</span>")
}

fn article(page: &mut String, sheet: &ReportRow) {
    let row = &sheet.first().row;
    let _ = write!(
        page,
        "<article id=\"{0}\">\n<header><span class=\"id\">{0}</span><h2>{1}</h2>",
        escape(&row.scenario),
        escape(&row.title)
    );
    for drawn in &sheet.worlds {
        page.push_str(&score(drawn));
    }
    page.push_str("</header>\n<div class=\"beside\">\n<div>\n");
    let _ = writeln!(
        page,
        "<div class=\"claim\"><span class=\"label\">Paper {}</span>{}</div>",
        escape(&row.paper),
        paragraphs(&row.claim)
    );
    for drawn in &sheet.worlds {
        heading(page, sheet, drawn, "Does it hold?");
        shapes(page, &drawn.row.shapes);
    }
    if let Some(note) = &row.note {
        let _ = writeln!(
            page,
            "<div class=\"note\"><span class=\"label\">Where we differ</span>{}</div>",
            paragraphs(note)
        );
    }
    page.push_str("<h3>Run it again</h3>\n<pre><code>");
    for drawn in &sheet.worlds {
        let _ = writeln!(page, "{}", escape(&drawn.command()));
    }
    page.push_str("</code></pre>\n</div>\n<div>\n");
    for drawn in &sheet.worlds {
        if sheet.worlds.len() > 1 {
            heading(page, sheet, drawn, "Measured");
        }
        for picture in &drawn.figures {
            let _ = writeln!(page, "<figure>{}", picture.svg.trim_end());
            if !picture.caption.is_empty() {
                let _ = write!(
                    page,
                    "<figcaption>{}</figcaption>",
                    escape(&picture.caption)
                );
            }
            page.push_str("</figure>\n");
        }
    }
    page.push_str("</div>\n</div>\n");
    numbers(page, sheet);
    for drawn in &sheet.worlds {
        variance(page, &drawn.row.anova);
    }
    page.push_str("</article>\n");
}

/// A heading that names the world where there are two.
fn heading(page: &mut String, sheet: &ReportRow, drawn: &RowReport, text: &str) {
    let world = if sheet.worlds.len() == 1 {
        String::new()
    } else {
        format!(", {}", world(drawn.row.path))
    };
    let _ = writeln!(page, "<h3>{text}{world}</h3>");
}

fn world(path: Backend) -> &'static str {
    match path {
        Backend::Sim => "in virtual time",
        Backend::Veth => "on the wire (veth)",
    }
}

fn shapes(page: &mut String, shapes: &[ShapeResult]) {
    page.push_str("<ol class=\"shapes\">\n");
    for shape in shapes {
        let (class, mark, word) = match &shape.judged {
            Judgment::Holds => ("holds", "✓", String::new()),
            Judgment::DoesNotHold => (
                "fails",
                "✗",
                "<span class=\"word\">Does not hold:</span> ".to_owned(),
            ),
            Judgment::NotRun(cells) => {
                let cells = cells
                    .iter()
                    .map(|cell| escape(cell))
                    .collect::<Vec<_>>()
                    .join(", ");
                (
                    "unknown",
                    "?",
                    format!("<span class=\"word\">Not judged, cells not run ({cells}):</span> "),
                )
            }
            Judgment::Error(why) => (
                "error",
                "!",
                format!(
                    "<span class=\"word\">Cannot be computed ({}):</span> ",
                    escape(why)
                ),
            ),
        };
        let _ = write!(
            page,
            "<li class=\"{class}\"><span class=\"mark\">{mark}</span><div>{word}{}",
            escape(&shape.says)
        );
        if !shape.seen.is_empty() {
            let seen = shape.seen.iter().map(|seen| {
                format!(
                    "<span>{} <b>{}</b></span>",
                    escape(&seen.name),
                    spread(&seen.value)
                )
            });
            let _ = write!(
                page,
                "<div class=\"seen\">{}</div>",
                seen.collect::<String>()
            );
        }
        let _ = writeln!(
            page,
            "<details><summary>{}:{}</summary><pre><code>{}</code></pre></details></div></li>",
            escape(&shape.file),
            shape.line,
            escape(shape.check.trim())
        );
    }
    page.push_str("</ol>\n");
}

/// "117 (105 to 129)"; the interval only if there is one.
fn spread(estimate: &Estimate) -> String {
    let interval = interval(estimate);
    if interval.is_empty() {
        short(estimate.mean)
    } else {
        format!("{} ({interval})", short(estimate.mean))
    }
}

/// The table of the row: a line for each cell, both worlds beside each other.
fn numbers(page: &mut String, sheet: &ReportRow) {
    let row = &sheet.first().row;
    let columns = columns(row);
    if columns.is_empty() || row.cells.is_empty() {
        return;
    }
    page.push_str("<h3>Numbers</h3>\n<div class=\"wide\"><table>\n<thead><tr>");
    for axis in &row.axes {
        let _ = write!(page, "<th class=\"key\">{}</th>", escape(axis));
    }
    let two = sheet.worlds.len() > 1;
    for Column { title, unit, .. } in &columns {
        for drawn in &sheet.worlds {
            let unit = if unit.is_empty() {
                String::new()
            } else {
                format!("<br><span class=\"unit\">{}</span>", escape(unit))
            };
            let world = if two {
                format!("<br><span class=\"unit\">{}</span>", world(drawn.row.path))
            } else {
                String::new()
            };
            let _ = write!(page, "<th>{}{unit}{world}</th>", escape(title));
        }
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for cell in &row.cells {
        page.push_str("<tr>");
        for value in cell.cell.values() {
            let _ = write!(page, "<td class=\"key\">{}</td>", escape(value));
        }
        for Column { name, .. } in &columns {
            for drawn in &sheet.worlds {
                let same = |other: &&CellResult| other.cell == cell.cell;
                match drawn
                    .row
                    .cells
                    .iter()
                    .find(same)
                    .and_then(|cell| cell.numbers.get(name))
                {
                    Some(value) => {
                        let _ = write!(
                            page,
                            "<td>{}<small>{}</small></td>",
                            short(value.mean),
                            interval(value)
                        );
                    }
                    None => page.push_str("<td>–</td>"),
                }
            }
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

fn variance(page: &mut String, all: &[Anova]) {
    if all.is_empty() {
        return;
    }
    page.push_str(
        "<h3>Analysis of variance</h3>\n<div class=\"wide\"><table>\n<thead><tr><th class=\"key\">of</th><th class=\"key\">over</th>\
         <th class=\"key\">at</th><th class=\"key\">means</th><th>F</th><th>F-crit</th><th>p</th><th class=\"key\">at α</th></tr></thead>\n<tbody>\n",
    );
    for anova in all {
        let at: Vec<&str> = anova.at.iter().map(|(_, value)| value.as_str()).collect();
        let means: Vec<String> = anova
            .groups
            .iter()
            .map(|(name, mean)| format!("{} {}", escape(name), short(*mean)))
            .collect();
        let verdict = if anova.p < anova.alpha {
            "differ"
        } else {
            "no difference shown"
        };
        let _ = writeln!(
            page,
            "<tr><td class=\"key\">{}</td><td class=\"key\">{}</td><td class=\"key\">{}</td><td class=\"key\">{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td class=\"key\">{}: {verdict}</td></tr>",
            escape(&anova.metric),
            escape(&anova.over),
            escape(&at.join(", ")),
            means.join("<br>"),
            short(anova.f),
            short(anova.f_crit),
            short(anova.p),
            short(anova.alpha),
        );
    }
    page.push_str("</tbody></table></div>\n");
}

/// Text with blank lines as paragraphs.
fn paragraphs(text: &str) -> String {
    let parts = text
        .split("\n\n")
        .map(str::trim)
        .filter(|part| !part.is_empty());
    parts
        .map(|part| format!("<p>{}</p>", escape(part)))
        .collect()
}

/// `text` as HTML shows it, in elements and in attributes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
