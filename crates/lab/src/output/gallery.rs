//! The gallery: a page of Markdown for each paper, its figures as SVG files beside it; what
//! `docs/experiments/` holds.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use askama::Template;
use askama::filters::Escaper;

use super::plot::short;
use super::report::{ReportError, ReportRow, RowReport, order};
use crate::cell::Backend;
use crate::plan::provenance;
use crate::result::Judgment;
use crate::scenario::document::{Elsewhere, OWN};
use crate::scenario::{Document, Scenario};

/// Titles of the pages. Other papers are titled by their number.
const PAPERS: [(&str, &str); 4] = [
    ("001", "TCP pacing and TCP Small Queues"),
    ("002", "Network traffic control: qdiscs, rings, byte limits"),
    ("003", "BBR with modern queue management on Wi-Fi"),
    ("004", "A queue emulator in user space"),
];

/// The list of all papers and their rows.
#[derive(Template)]
#[template(path = "index.md.jinja", escape = "md")]
struct Index<'a> {
    papers: &'a [PaperPage<'a>],
    provenance: String,
}

/// The rows of one paper.
#[derive(Template)]
#[template(path = "paper.md.jinja", escape = "md")]
struct PaperPage<'a> {
    paper: String,
    title: String,
    rows: Vec<Entry<'a>>,
}

/// A row of a page.
enum Entry<'a> {
    Here(&'a ReportRow),
    /// Shown by another command: the scenario says what that measured.
    Elsewhere(&'a Document, &'a Elsewhere),
}

impl Entry<'_> {
    fn id(&self) -> &str {
        match self {
            Self::Here(row) => &row.first().row.scenario,
            Self::Elsewhere(header, _) => &header.id,
        }
    }

    fn paper(&self) -> &str {
        match self {
            Self::Here(row) => &row.first().row.paper,
            Self::Elsewhere(header, _) => &header.paper,
        }
    }
}

impl<'a> PaperPage<'a> {
    fn new(paper: String, mut rows: Vec<Entry<'a>>) -> Self {
        let known = PAPERS.iter().find(|(number, _)| *number == paper);
        let title = match known {
            Some((number, title)) => format!("Paper {number}: {title}"),
            None if paper == OWN => "Experiments of one's own".to_owned(),
            None if paper.starts_with("RFC ") => paper.clone(),
            None => format!("Paper {paper}"),
        };
        rows.sort_by_cached_key(|row| order(row.id()));
        Self { paper, title, rows }
    }

    fn name(&self) -> String {
        format!("paper-{}.md", file_name(&self.paper))
    }
}

/// Pages and figures by file name, in order of name; of the scenarios `all`, those that another
/// command shows.
pub(crate) fn files(rows: &[ReportRow], all: &[Scenario]) -> askama::Result<Vec<(String, String)>> {
    let other = all.iter().map(Scenario::header);
    let elsewhere =
        other.filter_map(|header| Some(Entry::Elsewhere(header, header.elsewhere.as_ref()?)));
    let mut papers: BTreeMap<String, Vec<Entry<'_>>> = BTreeMap::new();
    for entry in rows.iter().map(Entry::Here).chain(elsewhere) {
        let paper = papers.entry(entry.paper().to_owned());
        paper.or_default().push(entry);
    }
    let papers: Vec<PaperPage<'_>> = papers
        .into_iter()
        .map(|(paper, rows)| PaperPage::new(paper, rows))
        .collect();
    let index = Index {
        papers: &papers,
        provenance: provenance(),
    };
    let mut files = vec![("README.md".to_owned(), index.render()?)];
    for page in &papers {
        files.push((page.name(), page.render()?));
    }
    for report in rows.iter().flat_map(|row| &row.reports) {
        files.extend(
            report
                .figures
                .iter()
                .map(|figure| (figure_name(report, &figure.file), figure.svg.clone())),
        );
    }
    files.sort();
    Ok(files)
}

/// Writes them into `directory`, in place of the pages and figures that were there.
///
/// # Errors
/// When a file cannot be written or removed.
pub(crate) fn write(
    rows: &[ReportRow],
    all: &[Scenario],
    directory: &Path,
) -> Result<(), ReportError> {
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
    for (name, content) in files(rows, all)? {
        let file = directory.join(name);
        fs::write(&file, content).map_err(failed(&file))?;
    }
    Ok(())
}

fn figure_name(drawn: &RowReport, file: &str) -> String {
    let backend = match drawn.row.path {
        Backend::Sim => "",
        Backend::Veth => "-veth",
    };
    format!("figures/{}{backend}-{file}", file_name(&drawn.row.scenario))
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

fn anchor(id: &str) -> String {
    file_name(id).to_lowercase()
}

/// Escapes text as Markdown shows it, in a table too.
#[derive(Clone, Copy)]
pub(crate) struct Markdown;

impl Escaper for Markdown {
    fn write_escaped_str<W: fmt::Write>(&self, mut out: W, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '&' => out.write_str("&amp;")?,
                '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' => write!(out, "\\{c}")?,
                c => out.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// `text` between backticks, in a table.
fn code(text: &str) -> String {
    text.replace('`', "'").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fixture;
    use crate::scenario::ScenarioDir;

    fn report_rows() -> Vec<ReportRow> {
        vec![ReportRow {
            reports: vec![RowReport::new(fixture::row(), &fixture::runs()).expect("drawn")],
        }]
    }

    fn page() -> String {
        files(&report_rows(), &[])
            .expect("rendered")
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
        write(&report_rows(), &[], directory.path()).expect("written");
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
    fn rows_of_other_commands_stand_in_order_with_their_verdicts() {
        let load = |name: &str| Scenario::load(&ScenarioDir::Shipped, name).expect("valid");
        let all = ["004-f8.toml", "002-f2.2.toml"].map(load);
        let files = files(&report_rows(), &all).expect("rendered");
        let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[..2], ["README.md", "figures/001-F4-figure-1.svg"]);
        let text = |wanted: &str| {
            &files
                .iter()
                .find(|(name, _)| name == wanted)
                .expect("there")
                .1
        };
        let index = text("README.md");
        assert!(index.contains("[004-F8](paper-004.md#004-f8)"), "{index}");
        assert!(index.contains("limits | holds |\n"), "{index}");
        let page = text("paper-004.md");
        for wanted in [
            "## 004-F8, 004-F9: Ping",
            "scripts/bench-middlebox f8\n```\n\nNeeds wall-clock time",
            "| | ping | TCP |",
        ] {
            assert!(page.contains(wanted), "{wanted} in {page}");
        }
    }

    #[test]
    fn equal_results_are_equal_files_in_order() {
        let [one, two] = [(); 2].map(|()| files(&report_rows(), &[]).expect("rendered"));
        assert_eq!(one, two);
        assert!(one.is_sorted_by(|a, b| a.0 < b.0));
    }
}
