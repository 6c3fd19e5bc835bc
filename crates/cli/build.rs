//! The version that `tautline --version` prints: the package's, and the commit where there is a Git
//! checkout of this repository.

use std::process::Command;

fn main() {
    // HEAD moves with every commit on this branch and every change of branch.
    println!("cargo:rerun-if-changed=../../.git/logs/HEAD");
    let version = env!("CARGO_PKG_VERSION");
    let version = describe().map_or_else(|| version.to_owned(), |at| format!("{version} ({at})"));
    println!("cargo:rustc-env=TAUTLINE_VERSION={version}");
}

/// The output of `git describe` in this package's own repository; nothing for a package from a registry
/// that lies below somebody else's.
fn describe() -> Option<String> {
    if !std::path::Path::new("../../.git").exists() {
        return None;
    }
    let output = Command::new("git")
        .args(["describe", "--tags", "--always", "--dirty"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
