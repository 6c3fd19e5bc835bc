//! [`Manifest`]: points as lines of JSON.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{LineError, ResultName, Shard};
use crate::cell::{Backend, Cell};
use crate::plan::{self, Point};
use crate::scenario::Variation;

/// A point as a line. Everything that its run depends on is in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestLine {
    /// See [`Point::id`].
    id: String,
    /// The version that planned it, which alone gives the same run.
    lab: String,
    /// Id of the scenario.
    scenario: String,
    /// Its place in the manifest, from 0: tables are in this order.
    number: usize,
    /// The cell.
    cell: Cell,
    /// The seed.
    seed: u64,
    /// The backend.
    path: Backend,
    /// The settings of the cell.
    document: Value,
}

/// Writes `points` to `out`, a line each.
///
/// # Errors
/// What `out` reports.
pub fn write(points: &[Point], mut out: impl Write) -> io::Result<()> {
    for (number, point) in points.iter().enumerate() {
        let line = ManifestLine {
            id: point.id.clone(),
            lab: plan::VERSION.to_owned(),
            scenario: point.scenario.clone(),
            number,
            cell: point.cell.clone(),
            seed: point.seed,
            path: point.path,
            document: serde_json::from_str(&point.resolved)?,
        };
        serde_json::to_writer(&mut out, &line)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// A line that was read and found good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Line of the file, from 1.
    pub line: usize,
    /// The name of its result.
    pub result: ResultName,
    /// The backend it is for.
    pub path: Backend,
    /// The line itself, without its end.
    pub text: String,
}

/// The lines of a manifest that one process is to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Name in errors.
    pub file: String,
    /// Its lines.
    pub entries: Vec<Entry>,
}

impl Manifest {
    /// Reads those lines of `text` that are `shard`'s. Empty lines do not count; of several with
    /// one result the first counts.
    ///
    /// # Errors
    /// The first of these lines that is not one of a manifest, was planned by another version, or
    /// was changed.
    pub fn read(text: &str, file: &str, shard: Shard) -> Result<Self, LineError> {
        let lines = text
            .lines()
            .enumerate()
            .filter(|(_, text)| !text.trim().is_empty());
        let own = lines
            .enumerate()
            .filter(|(place, _)| shard.has(*place))
            .map(|(_, line)| line);
        let mut known = std::collections::BTreeSet::new();
        let mut entries = Vec::new();
        for (number, text) in own {
            let line = number + 1;
            let failed = |message| LineError {
                file: file.to_owned(),
                line,
                message,
            };
            let Planned { point, .. } = read(text).map_err(failed)?;
            let result = ResultName {
                point: point.id,
                scenario: point.scenario,
                cell: point.cell,
            };
            if known.insert(result.clone()) {
                entries.push(Entry {
                    line,
                    result,
                    path: point.path,
                    text: text.to_owned(),
                });
            }
        }
        Ok(Self {
            file: file.to_owned(),
            entries,
        })
    }
}

/// A point and its place in its manifest.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The point.
    pub point: Point,
    /// Its place, from 0.
    pub number: usize,
}

/// The point that `line` holds.
///
/// # Errors
/// In words, if it holds none, one of another version, or one that was changed.
pub fn read(line: &str) -> Result<Planned, String> {
    let value: Value =
        serde_json::from_str(line).map_err(|error| format!("not a line of JSON: {error}"))?;
    // Before anything else: a line of another version may hold other keys.
    let version = value
        .get("lab")
        .and_then(Value::as_str)
        .ok_or("no line that `lab sweep plan` writes: it has no `lab`")?;
    if version != plan::VERSION {
        return Err(format!(
            "planned by lab {version}, and this is lab {}: run it there, or plan it again here",
            plan::VERSION
        ));
    }
    let ManifestLine {
        id,
        scenario,
        number,
        cell,
        seed,
        path,
        document,
        ..
    } = serde_json::from_value(value)
        .map_err(|error| format!("no line that `lab sweep plan` writes: {error}"))?;
    let Variation {
        cell,
        document,
        resolved,
    } = Variation::from_resolved(&scenario, cell, &document)?;
    let found = plan::id(&resolved, seed, path);
    if found != id {
        return Err(format!(
            "it was changed after it was planned (its id is {id}, that of its contents {found}): plan it again"
        ));
    }
    let (document, resolved) = (document.into(), resolved.into());
    Ok(Planned {
        point: Point {
            id,
            scenario,
            cell,
            number: 0,
            seed,
            path,
            document,
            resolved,
        },
        number,
    })
}
