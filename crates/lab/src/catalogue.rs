//! [`Catalogue`]: which scenarios there are, by id.

use std::path::Path;

use crate::scenario::{Form, Scenario, ScenarioDir, ScenarioError};

/// The scenarios of a directory, or the built-in ones.
#[derive(Clone, Debug)]
pub(crate) struct Catalogue {
    scenario_dir: ScenarioDir,
    /// Id with aliases, and file; in order of id.
    entries: Vec<(Vec<String>, String)>,
}

impl Catalogue {
    /// Reads the ids in all files of `scenario_dir`.
    ///
    /// # Errors
    /// If it cannot be read, or one of its files is not valid TOML.
    pub(crate) fn read(scenario_dir: ScenarioDir) -> Result<Self, ScenarioError> {
        let names = scenario_dir
            .names()
            .map_err(|error| ScenarioError::whole(scenario_dir.shown(""), error))?;
        let mut entries = Vec::new();
        for name in names {
            let text = scenario_dir
                .read(&name)
                .map_err(|why| ScenarioError::whole(scenario_dir.shown(&name), why))?;
            let ids = Scenario::ids_of(&text, &scenario_dir.shown(&name))?;
            if !ids.is_empty() {
                entries.push((ids, name));
            }
        }
        entries.sort();
        Ok(Self {
            scenario_dir,
            entries,
        })
    }

    /// The ids, in order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(ids, _)| ids[0].as_str())
    }

    /// The scenario that `asked` means: an id, in any case, or the path of a file.
    ///
    /// # Errors
    /// If the scenario does not exist or is invalid.
    pub(crate) fn load(&self, asked: &str) -> Result<Scenario, ScenarioError> {
        self.load_in(asked, Form::default())
    }

    /// The same in another form.
    ///
    /// # Errors
    /// As [`Scenario::load_in`]; if the scenario does not exist.
    pub(crate) fn load_in(&self, asked: &str, form: Form<'_>) -> Result<Scenario, ScenarioError> {
        let (scenario_dir, name) = self.find(asked)?;
        Scenario::load_in(&scenario_dir, &name, form)
    }

    /// The same with more axes, for a sweep: see [`Scenario::grid`].
    ///
    /// # Errors
    /// If the scenario does not exist, or it or an axis is invalid.
    pub(crate) fn grid(&self, asked: &str, axes: &[String]) -> Result<Scenario, ScenarioError> {
        let (scenario_dir, name) = self.find(asked)?;
        Scenario::grid(&scenario_dir, &name, axes)
    }

    /// The directory and the name of the file that `asked` means.
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
            let message = if known.is_empty() {
                "there is no scenario here: no file *.toml has an `id`".to_owned()
            } else {
                format!(
                    "no scenario has the id `{asked}`; there are {known}; or name a file *.toml"
                )
            };
            return Err(ScenarioError::whole(self.scenario_dir.shown(""), message));
        };
        Ok((self.scenario_dir.clone(), name.clone()))
    }
}
