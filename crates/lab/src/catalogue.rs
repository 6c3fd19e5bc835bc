//! [`Catalogue`]: which scenarios there are, by id.

use std::path::Path;

use crate::scenario::{Scenario, ScenarioDir, ScenarioError};

/// The scenarios of a shelf.
#[derive(Clone, Debug)]
pub(crate) struct Catalogue {
    shelf: ScenarioDir,
    /// Id with aliases, and file; in order of id.
    entries: Vec<(Vec<String>, String)>,
}

impl Catalogue {
    /// Looks through `shelf`.
    ///
    /// # Errors
    /// If it cannot be read, or a file of it is no TOML.
    pub(crate) fn read(shelf: ScenarioDir) -> Result<Self, ScenarioError> {
        let failed = |file: String, message: String| ScenarioError {
            file,
            at: None,
            key: String::new(),
            message,
        };
        let names = shelf
            .names()
            .map_err(|error| failed(shelf.shown(""), error.to_string()))?;
        let mut entries = Vec::new();
        for name in names {
            let text = shelf
                .read(&name)
                .map_err(|message| failed(shelf.shown(&name), message))?;
            let ids = Scenario::ids_of(&text, &shelf.shown(&name))?;
            if !ids.is_empty() {
                entries.push((ids, name));
            }
        }
        entries.sort();
        Ok(Self { shelf, entries })
    }

    /// The ids, in order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(ids, _)| ids[0].as_str())
    }

    /// The scenario that `asked` means: an id, in any case, or the path of a file.
    ///
    /// # Errors
    /// If there is none, or it is wrong.
    pub(crate) fn load(&self, asked: &str) -> Result<Scenario, ScenarioError> {
        let (shelf, name) = self.find(asked)?;
        Scenario::load(&shelf, &name)
    }

    /// The same with more axes, for a sweep: see [`Scenario::grid`].
    ///
    /// # Errors
    /// If there is none, or it or an axis is wrong.
    pub(crate) fn grid(&self, asked: &str, axes: &[String]) -> Result<Scenario, ScenarioError> {
        let (shelf, name) = self.find(asked)?;
        Scenario::grid(&shelf, &name, axes)
    }

    /// Where the file is that `asked` means, and its name there.
    fn find(&self, asked: &str) -> Result<(ScenarioDir, String), ScenarioError> {
        if asked.ends_with(".toml") {
            let path = Path::new(asked);
            let directory = path.parent().unwrap_or_else(|| Path::new(""));
            let name = path
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            return Ok((ScenarioDir::Directory(directory.into()), name));
        }
        let Some((_, name)) = self
            .entries
            .iter()
            .find(|(ids, _)| ids.iter().any(|id| id.eq_ignore_ascii_case(asked)))
        else {
            let known = self.ids().collect::<Vec<_>>().join(", ");
            let message = format!(
                "no scenario has the id `{asked}`; there are {known}; or name a file *.toml"
            );
            return Err(ScenarioError {
                file: self.shelf.shown(""),
                at: None,
                key: String::new(),
                message,
            });
        };
        Ok((self.shelf.clone(), name.clone()))
    }
}
