//! [`Line`]: a point as a line of JSON that needs no other file, so that a sweep can be spread over many machines; [`Shard`]: which of the
//! lines a machine takes.
//!
//! A line is known by its id, a hash of all that determines its run: who runs it twice writes the same bytes twice.

use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::plan::{Point, id};
use crate::run::{Cell, Path};
use crate::scenario::Document;

/// A point as a line of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The point's id.
    pub id: String,
    /// Id of its scenario.
    pub scenario: String,
    /// Which cell.
    pub cell: Cell,
    /// Its seed.
    pub seed: u64,
    /// The world.
    pub path: Path,
    /// The settings of the cell.
    pub experiment: Map<String, Value>,
}

/// Why a line is no point.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// It is no JSON, or not of this form.
    #[error("not a line of `lab sweep plan`: {0}")]
    Form(#[from] serde_json::Error),
    /// Its id is not that of what it says.
    #[error("its id is {said}, but what it says has {found}: it was changed, or planned by another version than {}", env!("CARGO_PKG_VERSION"))]
    Id {
        /// As written.
        said: String,
        /// As it should be.
        found: String,
    },
}

impl Line {
    /// The line of `point`.
    ///
    /// # Errors
    /// If its settings are no JSON, which they are.
    pub fn of(point: &Point) -> Result<Self, LineError> {
        let Point { id, scenario, cell, seed, path, resolved, .. } = point.clone();
        Ok(Self { id, scenario, cell, seed, path, experiment: serde_json::from_str(&resolved)? })
    }

    /// The point that the line is.
    ///
    /// # Errors
    /// If it was changed by hand, or comes from another version.
    pub fn point(self) -> Result<Point, LineError> {
        let resolved = Value::Object(self.experiment.clone()).to_string();
        let found = id(&resolved, self.seed, self.path);
        if found != self.id {
            return Err(LineError::Id { said: self.id, found });
        }
        let mut document = self.experiment;
        for key in ["title", "paper", "claim"] {
            document.insert(key.to_owned(), "".into());
        }
        document.insert("id".to_owned(), self.scenario.as_str().into());
        let document: Document = serde_json::from_value(Value::Object(document))?;
        let (resolved, document) = (resolved.into(), Arc::new(document));
        Ok(Point {
            id: found,
            scenario: self.scenario,
            cell: self.cell,
            number: 0,
            seed: self.seed,
            path: self.path,
            document,
            resolved,
        })
    }
}

/// Every so manieth line, beginning with one: `2/4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    which: usize,
    of: usize,
}

impl Shard {
    /// All lines.
    pub const ALL: Self = Self { which: 1, of: 1 };

    /// Whether line number `number`, from 0, is its.
    pub const fn has(self, number: usize) -> bool {
        number % self.of == self.which - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(which, of)| Some((which.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((which, of)) if 1 <= which && which <= of => Ok(Self { which, of }),
            _ => Err(format!("{text:?} is no shard: write e.g. 2/4, from 1/4 to 4/4")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Ask, plan};
    use crate::scenario::{Scenario, Shelf};

    #[test]
    fn a_line_is_its_point_again_unless_it_was_changed() {
        let names = Shelf::Shipped.names().expect("the program has them");
        let mut lines = 0;
        for name in names {
            let text = Shelf::Shipped.read(&name).expect("it is listed");
            if Scenario::ids_of(&text, &name).expect("it is TOML").is_empty() {
                continue;
            }
            let scenario = Scenario::load(&Shelf::Shipped, &name).unwrap_or_else(|error| panic!("{error}"));
            for point in plan(&scenario, Ask { repetitions: Some(1), ..Ask::default() }) {
                let text = serde_json::to_string(&Line::of(&point).expect("settings are JSON")).expect("a line");
                let line: Line = serde_json::from_str(&text).expect("it was written so");
                let again = line.clone().point().unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!((&again.id, &again.cell, again.seed), (&point.id, &point.cell, point.seed));
                let parts = |document: &Document| {
                    (
                        document.run.clone(),
                        document.host.clone(),
                        document.link.clone(),
                        document.flow.clone(),
                        document.tcp.clone(),
                    )
                };
                assert_eq!(parts(&again.document), parts(&point.document));
                let changed = Line { seed: line.seed + 1, ..line };
                assert!(matches!(changed.point(), Err(LineError::Id { .. })));
                lines += 1;
            }
        }
        assert!(lines > 0);
    }

    #[test]
    fn every_line_is_in_one_shard() {
        let shards: Vec<Shard> = ["1/3", "2/3", "3/3"].iter().map(|text| text.parse().expect("a shard")).collect();
        for number in 0..10 {
            assert_eq!(shards.iter().filter(|shard| shard.has(number)).count(), 1);
        }
        for text in ["", "1", "0/3", "4/3", "1/0", "a/b", "1/3/5"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
