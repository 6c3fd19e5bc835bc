//! The gallery: a page of Markdown for each paper, its figures as SVG files beside it; what
//! `docs/experiments/` holds.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::numbers::{columns, interval};
use super::plot::short;
use super::sheet::{ReportError, ReportRow, RowReport};
use crate::cell::Backend;
use crate::result::{Judgment, ShapeResult};

/// Titles of the pages. Other papers are titled by their number.
const PAPERS: [(&str, &str); 4] = [
    ("001", "TCP pacing and TCP Small Queues"),
    (
        "002",
        "Network traffic control: disciplines, rings, byte limits",
    ),
    ("003", "BBR with modern queue management on Wi-Fi"),
    ("004", "A queue emulator in user space"),
];

/// Pages and figures by file name, in order of name.
pub(crate) fn files(sheets: &[ReportRow]) -> Vec<(String, String)> {
    let papers: BTreeSet<&str> = sheets
        .iter()
        .map(|sheet| sheet.first().row.paper.as_str())
        .collect();
    let of_paper = |paper: &str| {
        sheets
            .iter()
            .filter(move |sheet| sheet.first().row.paper == paper)
            .collect::<Vec<_>>()
    };
    let mut files: Vec<(String, String)> = papers
        .iter()
        .map(|paper| (page_name(paper), page(paper, &of_paper(paper))))
        .collect();
    files.push(("README.md".to_owned(), index(&papers, sheets)));
    for drawn in sheets.iter().flat_map(|sheet| &sheet.worlds) {
        files.extend(
            drawn
                .figures
                .iter()
                .map(|picture| (figure_name(drawn, &picture.file), picture.svg.clone())),
        );
    }
    files.sort();
    files
}

/// Writes them into `directory`, in place of the pages and figures that were there.
///
/// # Errors
/// When a file cannot be written or removed.
pub(crate) fn write(sheets: &[ReportRow], directory: &Path) -> Result<(), ReportError> {
    let failed = |file: &Path| {
        let file = file.to_owned();
        |error| ReportError::File { file, error }
    };
    let figures = directory.join("figures");
    fs::create_dir_all(&figures).map_err(failed(&figures))?;
    for (directory, ending) in [(directory, "md"), (figures.as_path(), "svg")] {
        for entry in fs::read_dir(directory).map_err(failed(directory))? {
            let file = entry.map_err(failed(directory))?.path();
            if file
                .extension()
                .is_some_and(|extension| extension == ending)
            {
                fs::remove_file(&file).map_err(failed(&file))?;
            }
        }
    }
    for (name, content) in files(sheets) {
        let file = directory.join(name);
        fs::write(&file, content).map_err(failed(&file))?;
    }
    Ok(())
}

fn page_name(paper: &str) -> String {
    format!("paper-{}.md", file_name(paper))
}

fn figure_name(drawn: &RowReport, file: &str) -> String {
    let world = match drawn.row.path {
        Backend::Sim => "",
        Backend::Veth => "-veth",
    };
    format!("figures/{}{world}-{file}", file_name(&drawn.row.scenario))
}

/// `text` as part of a file's name.
fn file_name(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') {
                c
            } else {
                '_'
            }
        })
        .collect()
}

fn title(paper: &str) -> String {
    let known = PAPERS.iter().find(|(number, _)| *number == paper);
    known.map_or_else(
        || format!("Paper {}", escape(paper)),
        |(number, title)| format!("Paper {number}: {title}"),
    )
}

fn index(papers: &BTreeSet<&str>, sheets: &[ReportRow]) -> String {
    let mut page = String::from(
        "# Experiments\n\nWhat the source papers measured, run again here: each row is a scenario file of `crates/lab/scenarios`, one command and \
         one result. A row is reproduced when the *shape* holds that its paper found: the orderings and ratios, not the absolute \
         numbers.\n\nThese pages are written by `lab report --gallery docs/experiments`; equal seeds give equal pages.\n",
    );
    for paper in papers {
        let _ = write!(
            page,
            "\n## [{}]({})\n\n| row | | shapes |\n|---|---|---|\n",
            title(paper),
            page_name(paper)
        );
        for sheet in sheets
            .iter()
            .filter(|sheet| sheet.first().row.paper == *paper)
        {
            let row = &sheet.first().row;
            let scores: Vec<String> = sheet.worlds.iter().map(score).collect();
            let id = escape(&row.scenario);
            let _ = writeln!(
                page,
                "| [{id}]({}#{}) | {} | {} |",
                page_name(paper),
                anchor(&row.scenario),
                escape(&row.title),
                scores.join("<br>")
            );
        }
    }
    page
}

/// "3 of 4 hold".
fn score(drawn: &RowReport) -> String {
    let world = match drawn.row.path {
        Backend::Sim => "",
        Backend::Veth => "on the wire: ",
    };
    let score = drawn.row.score();
    if score.all == 0 {
        format!("{world}–")
    } else {
        format!("{world}{score}")
    }
}

fn page(paper: &str, sheets: &[&ReportRow]) -> String {
    let mut page = format!("# {}\n\n[All papers](README.md)\n", title(paper));
    for sheet in sheets {
        section(&mut page, sheet);
    }
    page
}

fn section(page: &mut String, sheet: &ReportRow) {
    let row = &sheet.first().row;
    let _ = write!(
        page,
        "\n<a id=\"{}\"></a>\n## {}: {}\n\n> {}\n\n",
        anchor(&row.scenario),
        escape(&row.scenario),
        escape(&row.title),
        escape(row.claim.trim()).replace('\n', "\n> ")
    );
    let commands: Vec<String> = sheet.worlds.iter().map(RowReport::command).collect();
    let _ = write!(page, "```sh\n{}\n```\n\n", commands.join("\n"));
    for drawn in &sheet.worlds {
        if sheet.worlds.len() > 1 {
            page.push_str(match drawn.row.path {
                Backend::Sim => "### In virtual time\n\n",
                Backend::Veth => "### On the wire\n\n",
            });
        }
        for picture in &drawn.figures {
            let _ = write!(
                page,
                "![{}]({})\n\n",
                escape(&row.title),
                figure_name(drawn, &picture.file)
            );
            if !picture.caption.is_empty() {
                let _ = write!(page, "*{}*\n\n", escape(&picture.caption));
            }
        }
        shapes(page, &drawn.row.shapes);
        table(page, drawn);
        variance(page, drawn);
    }
    if let Some(note) = &row.note {
        let _ = write!(page, "**Where we differ.** {}\n\n", escape(note.trim()));
    }
}

fn shapes(page: &mut String, shapes: &[ShapeResult]) {
    if shapes.is_empty() {
        return;
    }
    page.push_str("| | shape | numbers |\n|---|---|---|\n");
    for shape in shapes {
        let (verdict, why) = match &shape.judged {
            Judgment::Holds => ("holds", String::new()),
            Judgment::DoesNotHold => ("**does not hold**", String::new()),
            Judgment::NotRun(cells) => (
                "not judged",
                format!(" (cells not run: {})", escape(&cells.join(", "))),
            ),
            Judgment::Error(why) => ("**error**", format!(" ({})", escape(why))),
        };
        let seen = shape
            .seen
            .iter()
            .map(|seen| format!("`{}` = {}", code(&seen.name), short(seen.value.mean)));
        let seen = seen.collect::<Vec<_>>().join("<br>");
        let _ = writeln!(
            page,
            "| {verdict} | {}{why} | {seen} |",
            escape(&shape.says)
        );
    }
    page.push('\n');
}

fn table(page: &mut String, drawn: &RowReport) {
    let row = &drawn.row;
    let columns = columns(row);
    if columns.is_empty() || row.cells.is_empty() {
        return;
    }
    let titles = columns.iter().map(|column| match column.unit {
        "" => escape(&column.title),
        unit => format!("{}, {unit}", escape(&column.title)),
    });
    let heads: Vec<String> = row
        .axes
        .iter()
        .map(|axis| escape(axis))
        .chain(titles)
        .collect();
    let _ = write!(
        page,
        "| {} |\n|{}{}\n",
        heads.join(" | "),
        "---|".repeat(row.axes.len()),
        "---:|".repeat(columns.len())
    );
    for cell in &row.cells {
        let number = |name: &String| match cell.numbers.get(name) {
            Some(value) if interval(value).is_empty() => short(value.mean),
            Some(value) => format!("{} ({})", short(value.mean), interval(value)),
            None => "–".to_owned(),
        };
        let fields: Vec<String> = cell
            .cell
            .values()
            .map(escape)
            .chain(columns.iter().map(|column| number(&column.name)))
            .collect();
        let _ = writeln!(page, "| {} |", fields.join(" | "));
    }
    page.push('\n');
}

fn variance(page: &mut String, drawn: &RowReport) {
    if drawn.row.anova.is_empty() {
        return;
    }
    page.push_str(
        "| analysis of variance | at | F | F-crit | p | |\n|---|---|---:|---:|---:|---|\n",
    );
    for anova in &drawn.row.anova {
        let at: Vec<String> = anova.at.iter().map(|(_, value)| escape(value)).collect();
        let verdict = if anova.p < anova.alpha {
            "the means differ"
        } else {
            "no difference shown"
        };
        let (f, f_crit, p) = (short(anova.f), short(anova.f_crit), short(anova.p));
        let of = format!("{} over {}", escape(&anova.metric), escape(&anova.over));
        let _ = writeln!(
            page,
            "| {of} | {} | {f} | {f_crit} | {p} | {verdict} |",
            at.join(", ")
        );
    }
    page.push('\n');
}

fn anchor(id: &str) -> String {
    file_name(id).to_lowercase()
}

/// `text` as Markdown shows it, in a table too.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

/// `text` between backticks, in a table.
fn code(text: &str) -> String {
    text.replace('`', "'").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fixture;

    fn sheets() -> Vec<ReportRow> {
        vec![ReportRow {
            worlds: vec![RowReport::new(fixture::row(), &fixture::runs()).expect("drawn")],
        }]
    }

    fn page() -> String {
        files(&sheets())
            .into_iter()
            .find(|(name, _)| name == "paper-001.md")
            .expect("the page")
            .1
    }

    #[test]
    fn a_page_has_claim_command_figures_verdicts_numbers_and_the_note() {
        let page = page();
        for wanted in [
            "# Paper 001: TCP pacing and TCP Small Queues",
            "## 001-F4: TSQ against NoTSQ &lt;throughput &amp; round trip&gt;",
            "> With TSQ the round trip collapses",
            "lab run 001-F4 --seed 0\n",
            "](figures/001-F4-figure-3-2.svg)",
            "| holds | with TSQ the round trip",
            "`cell[\"L100M\"][\"NoTSQ\"].ping.p50` = 117",
            "| **does not hold** | and on the remote one |",
            "| **error** | and of page fetches (no \\`fetch\\`) |",
            "| bottleneck | tsq | Goodput, total, Mbit/s | Ping, median, ms |",
            "| the means differ |",
            "**Where we differ.** The paper's access point",
        ] {
            assert!(page.contains(wanted), "{wanted:?} in\n{page}");
        }
    }

    #[test]
    fn every_figure_that_a_page_shows_is_written_and_the_old_ones_are_gone() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(directory.path().join("figures")).expect("made");
        for old in ["paper-000.md", "figures/old.svg", "kept.txt"] {
            fs::write(directory.path().join(old), "old").expect("written");
        }
        write(&sheets(), directory.path()).expect("written");
        for shown in page()
            .split("](")
            .filter_map(|part| part.split_once(".svg)"))
            .map(|(name, _)| format!("{name}.svg"))
        {
            assert!(directory.path().join(&shown).is_file(), "{shown}");
        }
        let there = |name: &str| directory.path().join(name).exists();
        assert!(
            there("README.md")
                && there("kept.txt")
                && !there("paper-000.md")
                && !there("figures/old.svg")
        );
    }

    #[test]
    fn equal_results_are_equal_files_in_order() {
        assert_eq!(files(&sheets()), files(&sheets()));
        assert!(files(&sheets()).is_sorted_by(|a, b| a.0 < b.0));
    }
}
