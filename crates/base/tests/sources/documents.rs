//! Documents are true where a machine can tell: paths and anchors that exist, tables of modules that
//! list all, and Markdown that renders as it was meant.

use std::sync::LazyLock;

use regex::Regex;

use crate::tree::{Findings, files, root, sources};

/// A path below the workspace's root in backquotes, with globs and lists in braces.
static PATH: LazyLock<Regex> = LazyLock::new(|| {
    let tops = "crates|docs|scripts|examples|benches|fuzz|validation";
    Regex::new(&format!(r"`((?:{tops})/[\w./*{{}},-]+)")).expect("a pattern")
});
/// A link of Markdown to a file.
static LINK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\]\(([^)#\s]+)[^)]*\)").expect("a pattern"));
/// A link of Markdown to a heading, in this file or another one.
static ANCHOR: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\]\(([^)#\s]*)#([^)\s]+)\)").expect("a pattern"));
/// A place that can be linked to.
static IDENTIFIER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"<a id="([^"]+)">"#).expect("a pattern"));
/// A heading that goes on behind the end of a sentence.
static SWALLOWED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^#+ .*[a-z`)][.?!] [A-Z`]").expect("a pattern"));
/// A row of a table of modules.
static ROW: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^//! \| ([^|]+) \|").expect("a pattern"));
static QUOTED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`(\w+)`").expect("a pattern"));
static MODULE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(?:pub(?:\([a-z]+\))? )?mod (\w+);").expect("a pattern"));

pub(crate) fn paths(findings: &mut Findings) {
    for (path, text) in files(&["md"]) {
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        for (index, line) in text.lines().enumerate() {
            for found in PATH.captures_iter(line) {
                check(&found[1], &path, index + 1, findings);
            }
            for found in LINK.captures_iter(line) {
                let target = &found[1];
                if !target.contains("://") && !root().join(directory).join(target).exists() {
                    findings.add(&path, index + 1, format!("no file {target}"));
                }
            }
        }
    }
    for source in sources() {
        for (index, line) in source.text.lines().enumerate() {
            if line.trim_start().starts_with("//") {
                for found in PATH.captures_iter(line) {
                    check(&found[1], &source.path, index + 1, findings);
                }
            }
        }
    }
}

/// Headings that swallowed their paragraph, rows of tables that were cut in two or have another
/// number of cells than the row above, and links to headings that do not exist.
pub(crate) fn markdown(findings: &mut Findings) {
    for (path, text) in files(&["md"]) {
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        let mut cells_above = None;
        for (index, line) in unfenced(&text) {
            let mut add = |what: String| findings.add(&path, index + 1, what);
            if SWALLOWED.is_match(line) {
                add("a heading with text behind it: put the text on a line of its own".to_owned());
            }
            if line.starts_with('|') {
                let cells = cells(line);
                if !line.trim_end().ends_with('|') {
                    add("a row that does not end: put it on one line".to_owned());
                } else if cells_above.is_some_and(|above| above != cells) {
                    add(format!(
                        "a row of {cells} cells below one of another number"
                    ));
                }
                cells_above = Some(cells);
            } else {
                cells_above = None;
            }
            for found in ANCHOR.captures_iter(line) {
                let (target, anchor) = (&found[1], &found[2]);
                if target.contains("://") {
                    continue;
                }
                let elsewhere = std::fs::read_to_string(root().join(directory).join(target));
                let document = if target.is_empty() {
                    &text
                } else {
                    &elsewhere.unwrap_or_default()
                };
                if !anchors(document).any(|name| name == anchor) {
                    add(format!("no heading #{anchor} in {target}"));
                }
            }
        }
    }
}

/// The lines outside fenced code, with their numbers from zero.
fn unfenced(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        is_code ^= fence;
        !is_code && !fence
    })
}

/// Cells of a row; a bar in code or behind a backslash separates none.
fn cells(row: &str) -> usize {
    let mut bars = 0;
    let (mut is_code, mut is_escaped) = (false, false);
    for character in row.trim_end().chars() {
        match character {
            '`' => is_code = !is_code,
            '|' if !is_code && !is_escaped => bars += 1,
            _ => {}
        }
        is_escaped = character == '\\';
    }
    bars - 1
}

/// The names that can be linked to: identifiers in the text, and headings in lower case, punctuation
/// removed, hyphens for spaces.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let named = IDENTIFIER.captures_iter(text);
    let headings = unfenced(text).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then(|| title.trim())
    });
    let slugs = headings.map(|title| {
        let kept = title.chars().filter_map(|character| match character {
            ' ' => Some('-'),
            '-' | '_' => Some(character),
            _ if character.is_alphanumeric() => Some(character),
            _ => None,
        });
        kept.flat_map(char::to_lowercase).collect()
    });
    named.map(|found| found[1].to_owned()).chain(slugs)
}

/// Expands braces and looks each alternative up; a path with a glob counts if its directory exists.
fn check(path: &str, document: &str, line: usize, findings: &mut Findings) {
    for alternative in expand(path.trim_end_matches('.')) {
        let fixed = alternative.split('*').next().unwrap_or(&alternative);
        let fixed = match fixed.len() < alternative.len() {
            true => fixed
                .rsplit_once('/')
                .map_or("", |(directory, _)| directory),
            false => fixed,
        };
        if !root().join(fixed).exists() {
            findings.add(document, line, format!("no file {alternative}"));
        }
    }
}

fn expand(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else {
        return vec![path.to_owned()];
    };
    let Some((list, after)) = rest.split_once('}') else {
        return vec![path.to_owned()];
    };
    list.split(',')
        .flat_map(|item| expand(&format!("{before}{item}{after}")))
        .collect()
}

/// A table in a module's description that names three or more of its modules must name all.
pub(crate) fn module_tables(findings: &mut Findings) {
    for source in sources().iter().filter(|source| !source.is_test()) {
        let modules: Vec<&str> = source
            .text
            .lines()
            .filter_map(|line| MODULE.captures(line))
            .filter_map(|found| found.get(1))
            .map(|name| name.as_str())
            .filter(|name| *name != "tests")
            .collect();
        let rows: Vec<&str> = source
            .text
            .lines()
            .filter_map(|line| ROW.captures(line))
            .filter_map(|found| found.get(1))
            .flat_map(|cell| QUOTED.captures_iter(cell.as_str()))
            .filter_map(|found| found.get(1))
            .map(|name| name.as_str())
            .collect();
        let named = modules
            .iter()
            .filter(|module| rows.contains(module))
            .count();
        if named < 3 {
            continue;
        }
        for module in modules.iter().filter(|module| !rows.contains(module)) {
            findings.add(
                &source.path,
                1,
                format!("its table of modules lacks `{module}`"),
            );
        }
    }
}
