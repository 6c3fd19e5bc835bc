//! [`Check`]: the expression of a shape, parsed and validated. Shapes are expressions of CEL, the
//! Common Expression Language: comparisons, arithmetic, `&&`, `||`, `all`, `exists` over
//! `cell["L100M"]["TSQ"].ping.p50`.

mod cost;
mod expression;

use std::collections::{BTreeMap, HashMap};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::{fmt, thread};

use cel::common::ast::IdedExpr;
use cel::parser::Parser;
use cel::{Context, ExecutionError, Value};

use super::Variation;
use super::names::Names;

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
/// Deepest nesting of brackets and of `?:` in one, for the stack of the parser.
const DEEPEST: u16 = 32;
/// Stack of the thread that parses. The parser recurses for each of many operators in a row, `1 + 1 + 1 …`,
/// before their number is known; of those, [`LONGEST`] bytes hold 2000. Only what is touched takes memory.
const STACK: usize = 64 << 20;
/// Deepest nesting of operators and steps, `a + b + c` being three deep, for the stack on which they are
/// computed.
const DEEPEST_TREE: usize = 64;
/// Most steps of a computation, and most elements of its values: some milliseconds.
const MOST_STEPS: u64 = 100_000;
/// The name that all numbers are under.
pub(crate) const ROOT: &str = "cell";
/// The name that analyses of variance are under, by the values of the other axes.
pub(crate) const ANOVA: &str = "anova";

/// A shape's expression, read.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    expression: IdedExpr,
    /// Paths from `cell` and `anova` that it names literally, in order of appearance.
    pub(crate) paths: Vec<Vec<String>>,
    /// Whether it names others too, by names that are put together while it is computed.
    pub(crate) has_computed_names: bool,
}

impl Check {
    /// Reads `text`.
    ///
    /// # Errors
    /// What is not understood.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST || brackets(text) > usize::from(DEEPEST) {
            return Err(format!(
                "an expression has at most {LONGEST} bytes, and brackets at most {DEEPEST} deep"
            ));
        }
        let mut expression = thread::scope(|scope| {
            let parser = thread::Builder::new().stack_size(STACK);
            let parsed = parser
                .spawn_scoped(scope, || parse(text))
                .map_err(|error| format!("no thread to read it on: {error}"))?;
            parsed.join().unwrap_or_else(|panic| resume_unwind(panic))
        })?;
        let cost = cost::cost(&expression, &mut HashMap::new());
        if cost.steps.max(cost.size) > MOST_STEPS {
            return Err(format!(
                "it would take more than {MOST_STEPS} steps: nest `all`, `exists` and `map` less, or over shorter lists"
            ));
        }
        expression::whole_numbers_as_numbers(&mut expression);
        let (mut paths, mut has_computed_names) = (Vec::new(), false);
        expression::paths(&expression, &mut BTreeMap::new(), &mut |path| {
            let ours = path[0] == ROOT || path[0] == ANOVA;
            if ours && path.len() == 1 {
                has_computed_names = true;
            } else if ours && !paths.contains(&path) {
                paths.push(path);
            }
        });
        Ok(Self {
            expression,
            paths,
            has_computed_names,
        })
    }

    /// Checks that what it names there will be, and that it says yes or no, or else a number.
    ///
    /// # Errors
    /// What there is instead.
    pub(crate) fn suits(
        &self,
        axes: &[(String, Vec<String>)],
        cells: &[Variation],
        says_yes_or_no: bool,
    ) -> Result<(), String> {
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
        let ones = self.paths.iter().map(|path| (path.clone(), 1.0));
        let computed = if says_yes_or_no {
            self.compute(ones).map(|_| ())
        } else {
            self.number(ones).map(|_| ())
        };
        match computed {
            // A name that is put together while it is computed may be missing among the ones.
            Ok(()) | Err(EvalError::Missing(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(crate) fn compute(
        &self,
        numbers: impl Iterator<Item = (Vec<String>, f64)>,
    ) -> Result<bool, EvalError> {
        match self.value(numbers)? {
            Value::Bool(answer) => Ok(answer),
            _ => Err(EvalError::Other(
                "it must say yes or no: compare something".to_owned(),
            )),
        }
    }

    /// The value of an expression for a number.
    pub(crate) fn number(
        &self,
        numbers: impl Iterator<Item = (Vec<String>, f64)>,
    ) -> Result<f64, EvalError> {
        match self.value(numbers)? {
            Value::Float(number) => Ok(number),
            _ => Err(EvalError::Other("it must be a number".to_owned())),
        }
    }

    fn value(&self, numbers: impl Iterator<Item = (Vec<String>, f64)>) -> Result<Value, EvalError> {
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
            Ok(value) => Ok(value),
            Err(ExecutionError::NoSuchKey(name)) => Err(EvalError::Missing(name.to_string())),
            Err(error) => Err(EvalError::Other(error.to_string())),
        }
    }
}

/// Parses `text`, on a stack of [`STACK`].
fn parse(text: &str) -> Result<IdedExpr, String> {
    let parsed = Parser::default().max_recursion_depth(DEEPEST).parse(text);
    let expression = parsed.map_err(|errors| {
        let messages = errors
            .errors
            .iter()
            .map(|error| format!("at column {}: {}", error.pos.1, error.msg));
        format!(
            "the expression is not understood: {}",
            messages.collect::<Vec<_>>().join("; ")
        )
    })?;
    // Here, for a deep one needs the stack to be dropped, too.
    if expression::depth(&expression) > DEEPEST_TREE {
        return Err(format!(
            "operators and steps nest at most {DEEPEST_TREE} deep: write fewer in a row, or more brackets"
        ));
    }
    Ok(expression)
}

/// How deep brackets nest in `text`. Those in strings count, too, so that closing ones there may make it
/// less than it is: the parser counts again.
fn brackets(text: &str) -> usize {
    let mut depth = 0usize;
    let depths = text.chars().map(|c| {
        depth = match c {
            '(' | '[' | '{' => depth + 1,
            ')' | ']' | '}' => depth.saturating_sub(1),
            _ => depth,
        };
        depth
    });
    depths.max().unwrap_or(0)
}

/// Why an expression cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EvalError {
    Missing(String),
    Other(String),
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "there is no number `{name}`: nothing was measured"),
            Self::Other(message) => f.write_str(message),
        }
    }
}

/// Numbers of an analysis of variance.
pub(crate) const FIELDS: [&str; 3] = ["f", "f_crit", "p"];

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
