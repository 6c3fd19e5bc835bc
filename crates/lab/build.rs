//! Lists the scenario files, so that the program carries them along.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let home = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let scenarios = home.join("scenarios");
    println!("cargo:rerun-if-changed={}", scenarios.display());
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
