//! [`ScenarioDir`]: where scenario files are read from; [`Sources`]: those that were read; [`Position`]: a
//! place in one of them.

use std::fs;
use std::path::{Path, PathBuf};

/// Files that came with the program: name and text.
const SHIPPED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// Where scenario files and the files that they name are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScenarioDir {
    /// The built-in scenarios.
    Shipped,
    /// The scenarios in a directory.
    Directory(PathBuf),
}

impl ScenarioDir {
    /// Names of the scenario files, sorted. Base files are among them.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn names(&self) -> std::io::Result<Vec<String>> {
        let mut names: Vec<String> = match self {
            Self::Shipped => SHIPPED.iter().map(|(name, _)| (*name).to_owned()).collect(),
            Self::Directory(directory) => fs::read_dir(directory)?
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                .collect::<std::io::Result<_>>()?,
        };
        names.retain(|name| name.ends_with(".toml"));
        names.sort();
        Ok(names)
    }

    /// The text of file `name`.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn read(&self, name: &str) -> Result<String, String> {
        match self {
            Self::Shipped => SHIPPED
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, text)| (*text).to_owned())
                .ok_or_else(|| "no such file came with the program".to_owned()),
            Self::Directory(directory) => {
                fs::read_to_string(directory.join(name)).map_err(|error| error.to_string())
            }
        }
    }

    /// Name of file `name` in errors.
    pub fn shown(&self, name: &str) -> String {
        match self {
            Self::Shipped => Path::new("scenarios").join(name).display().to_string(),
            Self::Directory(directory) => directory.join(name).display().to_string(),
        }
    }
}

/// A place in one of the [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// Number of the file.
    pub(crate) file: usize,
    /// Byte in it.
    pub(crate) at: usize,
}

/// The files that make up one scenario: its own, then what it is based on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources(Vec<Source>);

#[derive(Clone, Debug)]
struct Source {
    shown: String,
    text: String,
    /// Words of the command line, which have no lines.
    is_option: bool,
}

impl Sources {
    /// Adds a file, and returns its number.
    pub(crate) fn add(&mut self, shown: String, text: String) -> usize {
        self.0.push(Source {
            shown,
            text,
            is_option: false,
        });
        self.0.len() - 1
    }

    /// Adds an option of the command line, and returns its number.
    pub(crate) fn add_option(&mut self, shown: String) -> usize {
        let number = self.add(shown, String::new());
        self.0[number].is_option = true;
        number
    }

    pub(crate) fn text(&self, file: usize) -> &str {
        &self.0[file].text
    }

    pub(crate) fn is_open(&self, shown: &str) -> bool {
        self.0.iter().any(|source| source.shown == shown)
    }

    pub(crate) fn is_option(&self, file: usize) -> bool {
        self.0[file].is_option
    }

    /// File, line and column of `place`, both from 1; columns count characters.
    pub(crate) fn locate(&self, place: Position) -> (&str, usize, usize) {
        let Source { shown, text, .. } = &self.0[place.file];
        let mut at = place.at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &text[..at];
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            + 1;
        (shown, line, column)
    }
}
