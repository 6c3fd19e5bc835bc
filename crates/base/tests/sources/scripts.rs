//! Shell scripts with `pipefail`: a reader that ends early kills its writer by SIGPIPE now and then, and
//! the pipe fails though both did their work.

use std::sync::LazyLock;

use regex::Regex;

use crate::tree::{Findings, files};

/// A reader that may end before its writer: `head`, `grep -q`, `grep -m`, or `awk` that exits before
/// its end.
static EARLY: LazyLock<Regex> = LazyLock::new(|| {
    let readers = r"head|grep -\w*[qm]|awk [^|]*[^D] \{[^}]*exit|sed -n '?\d+q";
    Regex::new(&format!(r"[^|]\| *({readers})")).expect("a pattern")
});

pub(crate) fn pipes(findings: &mut Findings) {
    for (path, text) in files(&["", "sh"]) {
        // Scripts with `pipefail` source those that end in `.sh`.
        let fails = text.contains("pipefail") || path.ends_with(".sh");
        if !path.starts_with("scripts/") || !fails {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            if line.trim_start().starts_with('#') {
                continue;
            }
            if let Some(found) = EARLY.captures(line) {
                let what = format!(
                    "`| {}` may end before its writer: read all, or compare $(...)",
                    &found[1]
                );
                findings.add(&path, index + 1, what);
            }
        }
    }
}
