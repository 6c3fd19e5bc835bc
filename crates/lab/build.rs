//! Lists the scenario files, so that the program carries them along, and names the commit that it is built from.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let home = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let scenarios = home.join("scenarios");
    println!("cargo:rerun-if-changed={}", scenarios.display());
    if let Some(commit) = git(&home, &["log", "-1", "--format=%h of %cs"]) {
        println!("cargo:rustc-env=TAUTLINE_COMMIT={commit}");
    }
    if let Some(log) = git(&home, &["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={}", home.join(log).display());
    }
    let entries = fs::read_dir(scenarios)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    let mut files: Vec<_> = entries.into_iter().filter(|path| path.is_file()).collect();
    files.sort();
    let mut list = String::from("&[\n");
    for file in files {
        let name = file
            .file_name()
            .expect("a file has a name")
            .to_string_lossy();
        writeln!(list, "({name:?}, include_str!({file:?})),").expect("a string takes everything");
    }
    list.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("shipped.rs"), list)
}

/// The trimmed output of a git command; `None` outside a repository.
fn git(home: &Path, words: &[&str]) -> Option<String> {
    let said = Command::new("git").current_dir(home).args(words).output();
    let said = said.ok().filter(|said| said.status.success())?;
    Some(String::from_utf8(said.stdout).ok()?.trim().to_owned())
}
