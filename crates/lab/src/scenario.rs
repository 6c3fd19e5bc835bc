//! [`Scenario`]: a row of the papers as a file: topology, traffic, variations, and what the paper
//! found.
//!
//! A file is read in steps: its text and that of the files it is based on become one tree of values
//! that know where they stand; each combination of its axes' values sets some of them; the result
//! is read as a [`Document`] and checked. Every error names file, line, column and key, and says
//! what would be accepted.

mod check;
mod copies;
pub(crate) mod document;
mod error;
mod grid;
mod names;
mod node;
mod read;
pub(crate) mod shape;
mod source;
#[cfg(test)]
mod tests;
pub(crate) mod units;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cell::Cell;

pub(crate) use document::Document;
pub use error::ScenarioError;
pub use source::ScenarioDir;

use document::Axis;
use error::Fault;
use node::{Node, Step, listed};
use shape::Check;
use source::{Position, Sources};

/// Most cells that a scenario may have.
const MOST_CELLS: usize = 10_000;

/// Name of the flow whose congestion controller `--cc` sets.
const CANDIDATE: &str = "candidate";

/// A scenario, read and checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name of the file in errors.
    pub file: String,
    /// The variations: names, each with the names of its values.
    pub axes: Vec<(String, Vec<String>)>,
    /// Every combination of them, the last axis running fastest. Never empty.
    pub cells: Vec<Variation>,
    /// A finding of the paper.
    pub shapes: Vec<Expected>,
}

/// How a scenario is loaded. Default: as in its file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Form<'a> {
    /// With the settings of its table `quick`.
    pub quick: bool,
    /// Congestion controller of the flow `candidate` in every cell: `--cc`.
    pub candidate: Option<&'a str>,
}

/// One combination of the axes' values.
#[derive(Clone, Debug)]
pub struct Variation {
    /// Its values of the axes.
    pub cell: Cell,
    /// The file with these settings.
    pub document: Document,
    /// Canonical settings that a run depends on, equal for equal experiments.
    pub resolved: String,
}

impl Variation {
    /// The variation of scenario `id` with the settings `resolved`, without shapes and figures.
    /// Reads no file.
    ///
    /// # Errors
    /// A message with the key, if a setting is not valid.
    pub fn from_resolved(
        id: &str,
        cell: Cell,
        resolved: &serde_json::Value,
    ) -> Result<Self, String> {
        let message = |fault: Fault| {
            let key = fault.key.join(".");
            if key.is_empty() {
                fault.message
            } else {
                format!("{key}: {}", fault.message)
            }
        };
        let place = Position { file: 0, at: 0 };
        let mut root = Node::of_canonical(resolved, place).map_err(message)?;
        for (key, word) in [("id", id), ("title", id), ("paper", ""), ("claim", "")] {
            let word = Node {
                value: node::Value::String(word.to_owned()),
                place,
            };
            root.set(key, place, &word).map_err(message)?;
        }
        settle(&root, cell).map_err(message)
    }
}

/// A shape, and the line that states it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// In words.
    pub says: String,
    /// As an expression.
    pub check: String,
    /// The paper's numbers, by the expressions for ours.
    #[serde(default)]
    pub paper: BTreeMap<String, f64>,
    /// File of the expression.
    pub file: String,
    /// Its line.
    pub line: usize,
}

impl Scenario {
    /// Reads the file `name` of `scenario_dir`.
    ///
    /// # Errors
    /// If it or a file it names cannot be read, has an unknown key or an invalid value.
    pub fn load(scenario_dir: &ScenarioDir, name: &str) -> Result<Self, ScenarioError> {
        Self::load_in(scenario_dir, name, Form::default())
    }

    /// Like [`load`](Self::load), in another form.
    ///
    /// # Errors
    /// The same; a candidate in a scenario without that flow, an unknown controller.
    pub fn load_in(
        scenario_dir: &ScenarioDir,
        name: &str,
        form: Form<'_>,
    ) -> Result<Self, ScenarioError> {
        Self::open(scenario_dir, name, |root, sources| {
            if form.quick {
                // The table stays, so that its keys are checked.
                let quick = root.get("quick").cloned();
                for (key, (place, node)) in quick.iter().filter_map(Node::table).flatten() {
                    root.set(&format!("run.{key}"), *place, node)
                        .map_err(|fault| fault.at(*place))?;
                }
            }
            let Some(congestion) = form.candidate else {
                return Ok(());
            };
            let place = Position {
                file: sources.add_option(format!("--cc {congestion}")),
                at: 0,
            };
            let flows = root.get("flow").and_then(Node::array).unwrap_or_default();
            if !flows
                .iter()
                .any(|flow| flow.name().as_deref() == Some(CANDIDATE))
            {
                let why = format!("{name} has no flow `{CANDIDATE}`; rfc9743 has one");
                return Err(Fault::new(why).at(place));
            }
            let value = node::Value::String(congestion.to_owned());
            let key = format!("flow.{CANDIDATE}.tcp.congestion");
            root.set(&key, place, &Node { value, place })
                .map_err(|fault| fault.at(place))
        })
    }

    /// Like [`load`](Self::load), for a sweep: with more axes behind its own,
    /// `[NAME:]KEY=VALUE,VALUE…` each, and without shapes and figures, which belong to the file's
    /// own cells.
    ///
    /// # Errors
    /// The same, also of the axes.
    pub fn grid(
        scenario_dir: &ScenarioDir,
        name: &str,
        axes: &[String],
    ) -> Result<Self, ScenarioError> {
        Self::open(scenario_dir, name, |root, sources| {
            grid::extend(root, axes, sources)
        })
    }

    fn open(
        scenario_dir: &ScenarioDir,
        name: &str,
        change: impl FnOnce(&mut Node, &mut Sources) -> Result<(), Fault>,
    ) -> Result<Self, ScenarioError> {
        let mut sources = Sources::default();
        let shown = scenario_dir.shown(name);
        let text = scenario_dir
            .read(name)
            .map_err(|why| ScenarioError::whole(shown.clone(), why))?;
        let file = sources.add(shown.clone(), text);
        let root = open(scenario_dir, &mut sources, file).and_then(|mut root| {
            change(&mut root, &mut sources)?;
            Ok(root)
        });
        root.and_then(|root| build(&root, shown, &sources))
            .map_err(|fault| fault.resolve(&sources))
    }

    /// The id and aliases of the scenario in `text`; empty if it is only a base for others. Errors
    /// name it `shown`.
    ///
    /// # Errors
    /// If it is not valid TOML.
    pub fn ids_of(text: &str, shown: &str) -> Result<Vec<String>, ScenarioError> {
        let mut sources = Sources::default();
        let file = sources.add(shown.to_owned(), text.to_owned());
        let root = Node::parse(text, file).map_err(|fault| fault.resolve(&sources))?;
        let Some(id) = root.get("id").and_then(Node::string) else {
            return Ok(Vec::new());
        };
        let aliases = root
            .get("aliases")
            .and_then(Node::array)
            .into_iter()
            .flatten();
        Ok([id]
            .into_iter()
            .chain(aliases.filter_map(Node::string))
            .map(str::to_owned)
            .collect())
    }

    /// Settings common to all cells.
    pub fn header(&self) -> &Document {
        &self.cells[0].document
    }
}

/// The tree of file number `file` over that of the file it is based on, which lies beside it or came with
/// the program.
fn open(scenario_dir: &ScenarioDir, sources: &mut Sources, file: usize) -> Result<Node, Fault> {
    let mut root = Node::parse(sources.text(file), file)?;
    let Some(base) = root.take("base") else {
        return Ok(root);
    };
    let refuse = |message: String| Fault::new(message).at(base.place).under("base");
    let name = base
        .string()
        .ok_or_else(|| refuse("the name of a file in quotes is wanted".to_owned()))?;
    let shown = scenario_dir.shown(name);
    if sources.is_open(&shown) {
        return Err(refuse(format!("{shown} would be its own base")));
    }
    let (found, text) = match (scenario_dir.read(name), ScenarioDir::Shipped.read(name)) {
        (Ok(text), _) => (scenario_dir, text),
        (Err(_), Ok(text)) => (&ScenarioDir::Shipped, text),
        (Err(why), Err(_)) => {
            let why = format!("{shown}: {why}; nor did it come with the program");
            return Err(refuse(why));
        }
    };
    let file = sources.add(found.shown(name), text);
    root.inherit(open(found, sources, file)?, &check::VARIABLE);
    Ok(root)
}

fn build(root: &Node, file: String, sources: &Sources) -> Result<Scenario, Fault> {
    let axes: Vec<Axis> = match root.get("axis") {
        Some(node) => read::read(node).map_err(|fault| fault.under("axis"))?,
        None => Vec::new(),
    };
    check::axes(root, &axes)?;
    let count = axes
        .iter()
        .try_fold(1usize, |count, axis| count.checked_mul(axis.value.len()));
    if count.is_none_or(|count| count > MOST_CELLS) {
        let place = root.place_of(&[Step::Key("axis")]);
        return Err(
            Fault::new(format_args!("the axes make more than {MOST_CELLS} cells"))
                .at(place)
                .under("axis"),
        );
    }
    let cells = (0..count.unwrap_or_default())
        .map(|number| vary(root, &axes, number))
        .collect::<Result<Vec<_>, _>>()?;
    let values = |axis: Axis| {
        (
            axis.name,
            axis.value.into_iter().map(|value| value.name).collect(),
        )
    };
    let axes: Vec<(String, Vec<String>)> = axes.into_iter().map(values).collect();
    check::shown(root, &cells)?;
    let shapes = (0..cells[0].document.shape.len())
        .map(|number| expected(root, number, &axes, &cells, sources))
        .collect::<Result<_, Fault>>()?;
    Ok(Scenario {
        file,
        axes,
        cells,
        shapes,
    })
}

/// Shape `number`, its expressions checked.
fn expected(
    root: &Node,
    number: usize,
    axes: &[(String, Vec<String>)],
    cells: &[Variation],
    sources: &Sources,
) -> Result<Expected, Fault> {
    let shape = &cells[0].document.shape[number];
    let check = |expression: &str, says_yes_or_no: bool, path: &[Step<'_>]| {
        Check::read(expression)
            .and_then(|check| check.suits(axes, cells, says_yes_or_no))
            .map_err(|why| Fault {
                key: root.key_of(path),
                ..Fault::new(why).at(root.place_of(path))
            })
    };
    let at = [Step::Key("shape"), Step::Number(number), Step::Key("check")];
    check(&shape.check, true, &at)?;
    for expression in shape.paper.keys() {
        let at = [at[0], at[1], Step::Key("paper"), Step::Key(expression)];
        check(expression, false, &at)?;
    }
    let (file, line, _) = sources.locate(root.place_of(&at));
    Ok(Expected {
        says: shape.says.clone(),
        check: shape.check.clone(),
        paper: shape.paper.clone(),
        file: file.to_owned(),
        line,
    })
}

/// Cell `number`, which counts through the axes' values, the last one running fastest.
fn vary(root: &Node, axes: &[Axis], number: usize) -> Result<Variation, Fault> {
    let mut root = root.clone();
    let (mut rest, mut chosen) = (number, Vec::new());
    for axis in axes.iter().rev() {
        chosen.push(rest % axis.value.len());
        rest /= axis.value.len();
    }
    chosen.reverse();
    let cell = axes
        .iter()
        .zip(&chosen)
        .map(|(axis, value)| (axis.name.clone(), axis.value[*value].name.clone()));
    let cell = Cell(cell.collect());
    for (axis, value) in chosen.iter().enumerate() {
        apply(&mut root, &axes[axis], axis, *value)?;
    }
    let in_cell = |fault: Fault| {
        if axes.is_empty() {
            fault
        } else {
            Fault {
                message: format!("{} (cell {cell})", fault.message),
                ..fault
            }
        }
    };
    copies::expand(&mut root).map_err(in_cell)?;
    settle(&root, cell.clone()).map_err(in_cell)
}

/// The variation of `root`, whose settings are applied and whose copies are made.
fn settle(root: &Node, cell: Cell) -> Result<Variation, Fault> {
    let document: Document = read::read(root)?;
    check::document(root, &document)?;
    let resolved: serde_json::Map<_, _> = check::VARIABLE
        .iter()
        .filter_map(|part| Some(((*part).to_owned(), root.get(part)?.canonical())))
        .collect();
    Ok(Variation {
        cell,
        document,
        resolved: serde_json::Value::Object(resolved).to_string(),
    })
}

/// Applies what value number `value` of axis number `number` sets.
fn apply(root: &mut Node, axis: &Axis, number: usize, value: usize) -> Result<(), Fault> {
    let path = [
        Step::Key("axis"),
        Step::Number(number),
        Step::Key("value"),
        Step::Number(value),
        Step::Key("set"),
    ];
    let Some(set) = root.at(&path).and_then(Node::table).cloned() else {
        return Ok(());
    };
    for (key, (place, to)) in &set {
        let fault = |fault: Fault| {
            let key = [
                axis.name.as_str(),
                axis.value[value].name.as_str(),
                "set",
                key,
            ];
            key.into_iter()
                .rev()
                .fold(fault, |fault, step| fault.under(step))
                .under("axis")
                .at(*place)
        };
        let first = key.split('.').next().unwrap_or_default();
        if !check::VARIABLE.contains(&first) {
            let allowed = listed(check::VARIABLE);
            return Err(fault(Fault::new(format_args!(
                "an axis cannot set `{first}`; it can set keys of {allowed}"
            ))));
        }
        root.set(key, *place, to).map_err(fault)?;
    }
    Ok(())
}
