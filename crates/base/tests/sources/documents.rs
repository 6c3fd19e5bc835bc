//! Documents are true where a machine can tell: paths that exist, tables of modules that list all.

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
