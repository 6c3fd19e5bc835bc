//! The tree under test: its Rust files, parsed once, its documents, and a list of findings.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{self, Sender};
use std::sync::{LazyLock, Mutex};
use std::thread;

use crate::known::KNOWN;

/// A Rust source file of the workspace.
pub(crate) struct Source {
    /// Path from the workspace's root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// Whether the file holds tests only.
    pub(crate) fn is_test(&self) -> bool {
        ["/tests/", "/tests.rs", "fuzz/", "/benches/"]
            .iter()
            .any(|part| self.path.contains(part))
    }

    /// The crate's directory, for example `crates/base`.
    pub(crate) fn package(&self) -> &str {
        let parts = if self.path.starts_with("crates/") {
            2
        } else {
            1
        };
        let end = self.path.match_indices('/').nth(parts - 1);
        end.map_or("", |(end, _)| &self.path[..end])
    }

    /// The crate's top-level module that the file belongs to, for example `crates/stack/src/tcp`.
    pub(crate) fn area(&self) -> &str {
        let after = self.package().len() + "/src/".len();
        let inside = self.path.get(after..).unwrap_or_default();
        let end = inside.find(['/', '.']).unwrap_or(inside.len());
        &self.path[..after + end]
    }

    /// Its syntax, which a thread reads once.
    pub(crate) fn parse(&self) -> Rc<syn::File> {
        thread_local! {
            static PARSED: RefCell<BTreeMap<String, Rc<syn::File>>> = RefCell::default();
        }
        let parse = || match syn::parse_file(&self.text) {
            Ok(file) => Rc::new(file),
            Err(error) => panic!("{}: {error}", self.path),
        };
        PARSED.with_borrow_mut(|parsed| {
            Rc::clone(parsed.entry(self.path.clone()).or_insert_with(parse))
        })
    }
}

/// A rule that runs on the thread that reads syntax.
type Job = Box<dyn FnOnce() + Send>;

/// Findings of one rule, one line each.
pub(crate) struct Findings {
    rule: &'static str,
    lines: Vec<String>,
}

impl Findings {
    /// Runs a rule.
    pub(crate) fn of(name: &'static str, rule: fn(&mut Self)) -> Self {
        let mut findings = Self {
            rule: name,
            lines: Vec::new(),
        };
        rule(&mut findings);
        findings
    }

    /// Runs a rule that reads syntax, on the thread of all these: syntax cannot leave its thread, and
    /// reading all files without optimization takes seconds.
    pub(crate) fn of_syntax(name: &'static str, rule: fn(&mut Self)) -> Self {
        static READER: LazyLock<Mutex<Sender<Job>>> = LazyLock::new(|| {
            let (jobs, asked) = mpsc::channel::<Job>();
            thread::spawn(move || asked.iter().for_each(|job| job()));
            Mutex::new(jobs)
        });
        let (done, findings) = mpsc::channel();
        let job = move || {
            let findings = Self::of(name, rule);
            done.send(findings).expect("its test waits");
        };
        let reader = READER.lock().expect("no sender panics");
        reader.send(Box::new(job)).expect("no rule has panicked");
        drop(reader);
        findings.recv().expect("the rule does not panic")
    }

    pub(crate) fn add(&mut self, path: &str, line: usize, what: impl AsRef<str>) {
        self.lines.push(format!("{path}:{line}: {}", what.as_ref()));
    }

    /// Fails on every finding beyond those that [`KNOWN`] still allows, and on a count there that is
    /// too high by now.
    pub(crate) fn assert_only_known(self) {
        let mut counts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for line in &self.lines {
            counts.entry(package(line)).or_default().push(line);
        }
        let known = KNOWN.iter().filter(|(rule, ..)| *rule == self.rule);
        let known: BTreeMap<&str, usize> = known.map(|&(_, at, count)| (at, count)).collect();
        let mut failures = Vec::new();
        for (at, found) in &counts {
            let allowed = known.get(at).copied().unwrap_or(0);
            if found.len() > allowed {
                let (count, list) = (found.len(), found.join("\n"));
                failures.push(format!("{at}: {count} findings, {allowed} known:\n{list}"));
            }
        }
        for (at, allowed) in known {
            let found = counts.get(at).map_or(0, Vec::len);
            if found < allowed {
                failures.push(format!("{at}: lower the known count {allowed} to {found}"));
            }
        }
        assert!(
            failures.is_empty(),
            "{}: {}",
            self.rule,
            failures.join("\n")
        );
    }
}

/// The package a path lies in: the first two parts below `crates`, else the first.
fn package(path: &str) -> &str {
    let parts = if path.starts_with("crates/") { 2 } else { 1 };
    let end = path.match_indices(['/', ':']).nth(parts - 1);
    end.map_or(path, |(end, _)| &path[..end])
}

pub(crate) fn root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    Path::new(&package).join("../..")
}

/// Every Rust file of the workspace, in order of its path.
pub(crate) fn sources() -> &'static [Source] {
    static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
        files(&["rs"])
            .map(|(path, text)| Source { path, text })
            .collect()
    });
    &SOURCES
}

/// Path and text of every file below the root with one of `extensions`.
pub(crate) fn files(extensions: &'static [&str]) -> impl Iterator<Item = (String, String)> {
    let mut found = Vec::new();
    collect(&root(), "", &mut found);
    found.sort();
    found
        .into_iter()
        .filter(|path| {
            let name = path.rsplit('/').next().unwrap_or(path);
            let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
            extensions.contains(&extension)
        })
        .map(|path| {
            let text = fs::read_to_string(root().join(&path)).expect("text in UTF-8");
            (path, text)
        })
}

fn collect(directory: &Path, prefix: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "target" || name == "corpus" || name == "artifacts" {
            continue;
        }
        if entry.file_type().expect("a type").is_dir() {
            collect(&entry.path(), &format!("{prefix}{name}/"), found);
        } else {
            found.push(format!("{prefix}{name}"));
        }
    }
}
