//! The tree under test: its Rust files, parsed once, its documents, and a list of findings.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

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

    pub(crate) fn parse(&self) -> syn::File {
        syn::parse_file(&self.text).unwrap_or_else(|error| panic!("{}: {error}", self.path))
    }
}

/// What a rule found, one line each.
#[derive(Default)]
pub(crate) struct Findings(Vec<String>);

impl Findings {
    pub(crate) fn of(rule: fn(&mut Self)) -> Self {
        let mut findings = Self::default();
        rule(&mut findings);
        findings
    }

    pub(crate) fn add(&mut self, path: &str, line: usize, what: impl AsRef<str>) {
        self.0.push(format!("{path}:{line}: {}", what.as_ref()));
    }

    pub(crate) fn assert_none(self) {
        let Self(findings) = self;
        assert!(
            findings.is_empty(),
            "{} findings:\n{}",
            findings.len(),
            findings.join("\n")
        );
    }
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
