//! Scenario files of the lab: any text, and shipped files with a line replaced, doubled or left out.
//! What is refused names its file and, where it has one, its place.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use arbitrary::Arbitrary;
use tautline_lab::{Scenario, ScenarioDir};

/// A case.
#[derive(Arbitrary, Debug)]
pub enum Input<'a> {
    /// Any text.
    Any(&'a str),
    /// A shipped file with changed lines.
    Changed { file: u16, changes: Vec<Change<'a>> },
}

/// A change of a file.
#[derive(Arbitrary, Debug)]
pub enum Change<'a> {
    Remove(u16),
    Double(u16),
    Replace(u16, &'a str),
    /// The value after `=` becomes this.
    Value(u16, &'a str),
}

/// The built-in scenario files.
fn shipped() -> &'static [String] {
    static SHIPPED: OnceLock<Vec<String>> = OnceLock::new();
    SHIPPED.get_or_init(|| {
        let all = ScenarioDir::Shipped;
        let names = all.names().expect("the list is in the program");
        let read = |name: &String| all.read(name).expect("a shipped file");
        names.iter().map(read).collect()
    })
}

/// A directory for the cases of one thread, removed when it ends. A base of a case is found among the
/// built-in files.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let (process, thread) = (std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(format!("scenarios-{process}-{thread:?}"));
        fs::create_dir_all(&path).expect("a temporary directory");
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _nothing_else_to_do = fs::remove_dir_all(&self.0);
    }
}

thread_local! {
    static DIRECTORY: Directory = Directory::new();
}

/// Runs one case.
pub fn run(input: Input<'_>) {
    let text = match input {
        Input::Any(text) => text.to_owned(),
        Input::Changed { file, changes } => {
            let text = &shipped()[usize::from(file) % shipped().len()];
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            changes
                .iter()
                .take(8)
                .for_each(|change| change.apply(&mut lines));
            lines.join("\n")
        }
    };
    let name = "case.toml";
    let directory = DIRECTORY.with(|directory| directory.0.clone());
    fs::write(directory.join(name), &text).expect("a temporary file");
    let _ = Scenario::ids_of(&text, name);
    match Scenario::load(&ScenarioDir::Directory(directory), name) {
        Ok(scenario) => assert!(!scenario.cells.is_empty(), "a scenario without cells"),
        Err(error) => {
            assert!(!error.message.is_empty(), "an error without words");
            assert!(error.to_string().contains(".toml"), "{error}");
        }
    }
}

impl Change<'_> {
    fn apply(&self, lines: &mut Vec<String>) {
        if lines.is_empty() {
            return;
        }
        let place = |at: u16| usize::from(at) % lines.len();
        match *self {
            Self::Remove(at) => drop(lines.remove(place(at))),
            Self::Double(at) => {
                let at = place(at);
                lines.insert(at, lines[at].clone());
            }
            Self::Replace(at, text) => {
                let at = place(at);
                lines[at] = text.to_owned();
            }
            Self::Value(at, text) => {
                let at = place(at);
                if let Some((key, _)) = lines[at].split_once('=') {
                    lines[at] = format!("{key}= {text}");
                }
            }
        }
    }
}
