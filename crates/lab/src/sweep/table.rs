//! Results as CSV (RFC 4180): a line for each point, or for each number of each cell.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::{LineError, Outcome};
use crate::output::csv::field;
use crate::summary::Estimate;

/// Results of several files, each point once, in the order of their manifest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results(Vec<Outcome>);

impl Results {
    /// Joins what was read of files, each with its name.
    ///
    /// # Errors
    /// If two lines of one point differ: equal points have equal results.
    pub fn join(
        files: impl IntoIterator<Item = (String, Vec<(usize, Outcome)>)>,
    ) -> Result<Self, LineError> {
        let mut known: BTreeMap<String, (String, usize, Outcome)> = BTreeMap::new();
        for (file, outcomes) in files {
            for (line, outcome) in outcomes {
                match known.get(&outcome.id) {
                    None => {
                        known.insert(outcome.id.clone(), (file.clone(), line, outcome));
                    }
                    // Its place may differ: the same point may be in several manifests.
                    Some((_, _, other)) if other.numbers == outcome.numbers => {}
                    Some((other, place, _)) => {
                        let message = format!(
                            "point {} has other numbers here than at {other}:{place}; remove the wrong one",
                            outcome.id
                        );
                        return Err(LineError {
                            file,
                            line,
                            message,
                        });
                    }
                }
            }
        }
        let mut outcomes: Vec<Outcome> =
            known.into_values().map(|(_, _, outcome)| outcome).collect();
        outcomes.sort_by(|one, two| {
            (&one.scenario, one.number, &one.id).cmp(&(&two.scenario, two.number, &two.id))
        });
        Ok(Self(outcomes))
    }

    /// The points that there are results of.
    pub fn ids(&self) -> BTreeSet<&str> {
        self.0.iter().map(|outcome| outcome.id.as_str()).collect()
    }

    /// Keeps only the numbers `wanted`.
    ///
    /// # Errors
    /// In words, if no point has one of them.
    pub fn keep(&mut self, wanted: &[String]) -> Result<(), String> {
        let names = self.names();
        if let Some(unknown) = wanted.iter().find(|name| !names.contains(name.as_str())) {
            let names: Vec<_> = names.into_iter().collect();
            return Err(format!(
                "no point has the number `{unknown}`; numbers: {}",
                names.join(", ")
            ));
        }
        for outcome in &mut self.0 {
            outcome.numbers.0.retain(|name, _| wanted.contains(name));
        }
        Ok(())
    }

    /// Writes a line for each point: id, scenario, a column for each axis, path, seed, a column for
    /// each number.
    ///
    /// # Errors
    /// What `out` reports.
    pub fn points(&self, mut out: impl Write) -> io::Result<()> {
        let (axes, names) = (self.axes(), self.names());
        write!(out, "id,scenario,{}path,seed", columns(&axes))?;
        for name in &names {
            write!(out, ",{}", field(name))?;
        }
        writeln!(out)?;
        for outcome in &self.0 {
            let Outcome {
                id,
                scenario,
                path,
                seed,
                ..
            } = outcome;
            write!(
                out,
                "{},{},{}{},{seed}",
                field(id),
                field(scenario),
                values(outcome, &axes),
                path.name()
            )?;
            for name in &names {
                match outcome.numbers.get(name) {
                    Some(value) => write!(out, ",{value}")?,
                    None => write!(out, ",")?,
                }
            }
            writeln!(out)?;
        }
        out.flush()
    }

    /// Writes a line for each number of each cell: scenario, a column for each axis, path, the
    /// number's name, its mean over the seeds, the ends of the mean's 95 % confidence interval
    /// (Student's t), and of how many.
    ///
    /// # Errors
    /// What `out` reports.
    pub fn cells(&self, mut out: impl Write) -> io::Result<()> {
        let axes = self.axes();
        let mut order: Vec<String> = Vec::new();
        let mut cells: BTreeMap<String, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
        for outcome in &self.0 {
            let cell = format!(
                "{},{}{}",
                field(&outcome.scenario),
                values(outcome, &axes),
                outcome.path.name()
            );
            if !cells.contains_key(&cell) {
                order.push(cell.clone());
            }
            let numbers = cells.entry(cell).or_default();
            for (name, value) in &outcome.numbers.0 {
                numbers.entry(name).or_default().push(*value);
            }
        }
        writeln!(
            out,
            "scenario,{}path,number,mean,lo,hi,count",
            columns(&axes)
        )?;
        for cell in &order {
            for (name, values) in &cells[cell] {
                if let Some(Estimate {
                    mean,
                    lo,
                    hi,
                    count,
                }) = Estimate::of(values)
                {
                    writeln!(out, "{cell},{},{mean},{lo},{hi},{count}", field(name))?;
                }
            }
        }
        out.flush()
    }

    /// All axes, in the order in which they first appear.
    fn axes(&self) -> Vec<&str> {
        let mut axes = Vec::new();
        for (axis, _) in self.0.iter().flat_map(|outcome| &outcome.cell.0) {
            if !axes.contains(&axis.as_str()) {
                axes.push(axis.as_str());
            }
        }
        axes
    }

    /// All numbers, by name.
    fn names(&self) -> BTreeSet<&str> {
        self.0
            .iter()
            .flat_map(|outcome| outcome.numbers.0.keys().map(String::as_str))
            .collect()
    }
}

/// The heads of the columns of `axes`, each with a comma behind.
fn columns(axes: &[&str]) -> String {
    axes.iter()
        .map(|axis| format!("{},", field(axis)))
        .collect()
}

/// The values of `axes`, each with a comma behind; empty where the scenario has no such axis.
fn values(outcome: &Outcome, axes: &[&str]) -> String {
    let value = |axis: &str| {
        outcome
            .cell
            .0
            .iter()
            .find(|(known, _)| known == axis)
            .map_or("", |(_, value)| value)
    };
    axes.iter()
        .map(|axis| format!("{},", field(value(axis))))
        .collect()
}
