//! [`Check`]: whether a shape that a paper found shows in the numbers. Shapes are expressions of
//! CEL, the Common Expression Language: comparisons, arithmetic, `&&`, `||`, `all`, `exists` over
//! `cell["L100M"]["TSQ"].ping.p50`.
//!
//! | module | holds |
//! |---|---|
//! | `expression` | which numbers an expression names; whole numbers as numbers |
//! | `variance` | analysis of variance |

mod expression;
#[cfg(test)]
mod tests;
mod variance;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use cel::common::ast::IdedExpr;
use cel::parser::Parser;
use cel::{Context, ExecutionError, Value};

use crate::result::{Anova, CellResult, Judged, Seen, Verdict};
use crate::scenario::{Expected, Variation};
use crate::summary::{Estimate, Names};

pub use variance::variance;

/// Functions that shapes have beyond the language's own.
fn functions(context: &mut Context<'_, '_>) {
    let numbers = |list: Arc<Vec<Value>>| -> Vec<f64> {
        let number = |value: &Value| {
            if let Value::Float(number) = value {
                Some(*number)
            } else {
                None
            }
        };
        list.iter().filter_map(number).collect()
    };
    let added = [
        context.add_function("abs", f64::abs),
        context.add_function("max", move |list| {
            numbers(list).into_iter().fold(f64::NAN, f64::max)
        }),
        context.add_function("min", move |list| {
            numbers(list).into_iter().fold(f64::NAN, f64::min)
        }),
    ];
    added
        .into_iter()
        .for_each(|added| added.expect("the language has no such function"));
}

/// Longest expression.
const LONGEST: usize = 4096;
/// Deepest nesting of brackets in one.
const DEEPEST: usize = 32;
/// The name that all numbers are under.
const ROOT: &str = "cell";
/// The name that analyses of variance are under, by the values of the other axes.
const ANOVA: &str = "anova";

/// A shape's expression, read.
#[derive(Clone, Debug)]
pub struct Check {
    expression: IdedExpr,
    /// Paths from `cell` and `anova` that it names literally, in order of appearance.
    paths: Vec<Vec<String>>,
    /// Whether it names others too, by names that are put together while it is computed.
    others: bool,
}

impl Check {
    /// Reads `text`.
    ///
    /// # Errors
    /// What is not understood.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut depth = 0usize;
        let deepest = text.chars().map(|c| {
            depth = match c {
                '(' | '[' | '{' => depth + 1,
                ')' | ']' | '}' => depth.saturating_sub(1),
                _ => depth,
            };
            depth
        });
        if text.len() > LONGEST || deepest.max().is_some_and(|deepest| deepest > DEEPEST) {
            return Err(format!(
                "an expression has at most {LONGEST} bytes, and brackets at most {DEEPEST} deep"
            ));
        }
        let parsed = Parser::default().parse(text);
        let mut expression = parsed.map_err(|errors| {
            let messages = errors
                .errors
                .iter()
                .map(|error| format!("at column {}: {}", error.pos.1, error.msg));
            format!(
                "the expression is not understood: {}",
                messages.collect::<Vec<_>>().join("; ")
            )
        })?;
        expression::whole_numbers_as_numbers(&mut expression);
        let (mut paths, mut others) = (Vec::new(), false);
        expression::paths(&expression, &mut BTreeMap::new(), &mut |path| {
            let ours = path[0] == ROOT || path[0] == ANOVA;
            if ours && path.len() == 1 {
                others = true;
            } else if ours && !paths.contains(&path) {
                paths.push(path);
            }
        });
        Ok(Self {
            expression,
            paths,
            others,
        })
    }

    /// Checks that what it names there will be, and that it says yes or no.
    ///
    /// # Errors
    /// What there is instead.
    pub fn suits(&self, axes: &[(String, Vec<String>)], cells: &[Variation]) -> Result<(), String> {
        if self.paths.is_empty() {
            return Err(format!("it names no number: write e.g. {}", example(axes)));
        }
        for path in &self.paths {
            match &path[..] {
                [root, path @ ..] if root == ROOT => suits(path, axes, cells)?,
                [.., last] if FIELDS.contains(&last.as_str()) => {}
                _ => {
                    return Err(format!(
                        "an analysis of variance has {}: write e.g. anova.p",
                        FIELDS.join(", ")
                    ));
                }
            }
        }
        match self.compute(self.paths.iter().map(|path| (path.clone(), 1.0))) {
            // A name that is put together while it is computed may be missing among the ones.
            Ok(_) | Err(Trouble::Missing(_)) => Ok(()),
            Err(trouble) => Err(trouble.to_string()),
        }
    }

    /// Judges it over `cells` and their analyses of variance.
    pub fn judge(&self, expected: &Expected, cells: &[CellResult], anova: &[Anova]) -> Verdict {
        let numbers = cells.iter().flat_map(|cell| {
            cell.numbers
                .iter()
                .map(move |(name, value)| (path_of(cell, name), *value))
        });
        // Of several with the same name the first is seen.
        let analyses = anova.iter().rev().flat_map(paths_of);
        let known: BTreeMap<Vec<String>, Estimate> = numbers.chain(analyses).collect();
        let missing = self.missing(cells, &known);
        let judged =
            match self.compute(known.iter().map(|(path, value)| (path.clone(), value.mean))) {
                _ if !missing.is_empty() => Judged::NotRun(missing),
                Ok(true) => Judged::Holds,
                Ok(false) => Judged::DoesNotHold,
                Err(trouble) => Judged::Error(trouble.to_string()),
            };
        let seen = self.paths.iter().filter_map(|path| {
            let from = usize::from(path[0] == ROOT);
            Some(Seen {
                name: path[from..].join("."),
                value: *known.get(path)?,
            })
        });
        let Expected {
            says,
            check,
            file,
            line,
        } = expected.clone();
        Verdict {
            says,
            check,
            file,
            line,
            judged,
            seen: seen.collect(),
        }
    }

    /// The cells that it looks at and that were not run. Whatever names are put together while it
    /// is computed may be of any cell, and so may an analysis of variance that there is not.
    fn missing(
        &self,
        cells: &[CellResult],
        known: &BTreeMap<Vec<String>, Estimate>,
    ) -> Vec<String> {
        let looks_at = |cell: &CellResult| {
            self.others
                || self.paths.iter().any(|path| match &path[..] {
                    // A path may end before the last axis: it means all cells below.
                    [root, steps @ ..] if root == ROOT => cell
                        .cell
                        .values()
                        .zip(steps)
                        .all(|(value, step)| value == step),
                    _ => !known.contains_key(path),
                })
        };
        cells
            .iter()
            .filter(|cell| !cell.was_run() && looks_at(cell))
            .map(|cell| cell.cell.to_string())
            .collect()
    }

    fn compute(&self, numbers: impl Iterator<Item = (Vec<String>, f64)>) -> Result<bool, Trouble> {
        let mut tree = Branch::default();
        for (path, value) in numbers {
            tree.put(&path, value);
        }
        let mut below = |root: &str| tree.below.remove(root).unwrap_or_default().into_value();
        let mut context = Context::default();
        context.add_variable_from_value(ROOT, below(ROOT));
        context.add_variable_from_value(ANOVA, below(ANOVA));
        functions(&mut context);
        match Value::resolve(&self.expression, &context) {
            Ok(Value::Bool(answer)) => Ok(answer),
            Ok(_) => Err(Trouble::Other(
                "it must say yes or no: compare something".to_owned(),
            )),
            Err(ExecutionError::NoSuchKey(name)) => Err(Trouble::Missing(name.to_string())),
            Err(error) => Err(Trouble::Other(error.to_string())),
        }
    }
}

/// Why an expression cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trouble {
    Missing(String),
    Other(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "there is no number `{name}`: nothing was measured"),
            Self::Other(message) => f.write_str(message),
        }
    }
}

/// What an analysis of variance has.
const FIELDS: [&str; 3] = ["f", "f_crit", "p"];

fn path_of(cell: &CellResult, name: &str) -> Vec<String> {
    [ROOT]
        .into_iter()
        .chain(cell.cell.values())
        .chain(name.split('.'))
        .map(str::to_owned)
        .collect()
}

/// Where the numbers of `anova` are, by the values of the other axes.
fn paths_of(anova: &Anova) -> impl Iterator<Item = (Vec<String>, Estimate)> {
    let exact = |value: f64| Estimate {
        mean: value,
        lo: value,
        hi: value,
        count: 1,
    };
    let place: Vec<String> = [ANOVA]
        .into_iter()
        .chain(anova.at.iter().map(|(_, value)| value.as_str()))
        .map(str::to_owned)
        .collect();
    let values = FIELDS.into_iter().zip([anova.f, anova.f_crit, anova.p]);
    values.map(move |(field, value)| ([&place[..], &[field.to_owned()]].concat(), exact(value)))
}

/// Whether `path` leads to a number of one of `cells`, or to several.
fn suits(
    path: &[String],
    axes: &[(String, Vec<String>)],
    cells: &[Variation],
) -> Result<(), String> {
    for ((axis, values), step) in axes.iter().zip(path) {
        if !values.contains(step) {
            return Err(format!(
                "axis `{axis}` has no value `{step}`; it has {}",
                values.join(", ")
            ));
        }
    }
    let (Some(chosen), Some(name)) = (path.get(..axes.len()), path.get(axes.len()..)) else {
        return Ok(());
    };
    let cell = cells
        .iter()
        .find(|cell| cell.cell.values().eq(chosen.iter().map(String::as_str)));
    match cell {
        Some(cell) if !name.is_empty() => Names::of(&cell.document).suit(name),
        _ => Ok(()),
    }
}

fn example(axes: &[(String, Vec<String>)]) -> String {
    let steps = axes
        .iter()
        .filter_map(|(_, values)| Some(format!("[{:?}]", values.first()?)));
    format!("{ROOT}{}.ping.p50", steps.collect::<String>())
}

/// Numbers by path.
#[derive(Debug, Default)]
struct Branch {
    value: Option<f64>,
    below: HashMap<String, Self>,
}

impl Branch {
    fn put(&mut self, path: &[String], value: f64) {
        match path {
            [] => self.value = Some(value),
            [step, rest @ ..] => self.below.entry(step.clone()).or_default().put(rest, value),
        }
    }

    fn into_value(self) -> Value {
        match self.value {
            Some(value) if self.below.is_empty() => Value::Float(value),
            _ => {
                let below = self
                    .below
                    .into_iter()
                    .map(|(step, branch)| (step, branch.into_value()));
                below.collect::<HashMap<String, Value>>().into()
            }
        }
    }
}
