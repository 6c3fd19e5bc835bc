//! Results as CSV (RFC 4180): a line for each point, or for each number of each cell.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use super::{LineError, Outcome, ResultName};
use crate::cell::column;
use crate::summary::Estimate;

/// Results of several files, each once, in the order of their manifest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results(Vec<Outcome>);

impl Results {
    /// Joins what was read of files, each with its name.
    ///
    /// # Errors
    /// If two lines of one result differ: equal points have equal numbers.
    pub fn join(
        files: impl IntoIterator<Item = (String, Vec<(usize, Outcome)>)>,
    ) -> Result<Self, LineError> {
        let mut known: BTreeMap<ResultName, (String, usize, Outcome)> = BTreeMap::new();
        for (file, outcomes) in files {
            for (line, outcome) in outcomes {
                let name = outcome.name();
                match known.get(&name) {
                    None => {
                        known.insert(name, (file.clone(), line, outcome));
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

    /// The names of the results.
    pub fn results(&self) -> BTreeSet<ResultName> {
        self.0.iter().map(Outcome::name).collect()
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
    pub fn points(&self, out: impl Write) -> csv::Result<()> {
        let (axes, names) = (self.axes(), self.names());
        let mut out = csv::Writer::from_writer(out);
        out.write_field("id")?;
        write_head(&mut out, &axes, &["path", "seed"])?;
        out.write_record(&names)?;
        for outcome in &self.0 {
            out.write_field(&outcome.id)?;
            for field in outcome.place(&axes) {
                out.write_field(field)?;
            }
            out.write_field(outcome.seed.to_string())?;
            let number = |name: &&str| outcome.numbers.get(name).map(|number| number.to_string());
            out.write_record(names.iter().map(|name| number(name).unwrap_or_default()))?;
        }
        Ok(out.flush()?)
    }

    /// Writes a line for each number of each cell: scenario, a column for each axis, path, the
    /// number's name, its mean over the seeds, the ends of the mean's 95 % confidence interval
    /// (Student's t), and of how many.
    ///
    /// # Errors
    /// What `out` reports.
    pub fn cells(&self, out: impl Write) -> csv::Result<()> {
        let axes = self.axes();
        let mut order: Vec<Vec<&str>> = Vec::new();
        let mut cells: BTreeMap<Vec<&str>, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
        for outcome in &self.0 {
            let cell = outcome.place(&axes);
            if !cells.contains_key(&cell) {
                order.push(cell.clone());
            }
            let numbers = cells.entry(cell).or_default();
            for (name, value) in &outcome.numbers.0 {
                numbers.entry(name).or_default().push(*value);
            }
        }
        let mut out = csv::Writer::from_writer(out);
        let columns = ["path", "number", "mean", "lo", "hi", "count"];
        write_head(&mut out, &axes, &columns)?;
        out.write_record(None::<&[u8]>)?;
        for cell in &order {
            for (name, values) in &cells[cell] {
                if let Some(Estimate {
                    mean,
                    lo,
                    hi,
                    count,
                }) = Estimate::of(values)
                {
                    for field in cell.iter().chain([name]) {
                        out.write_field(field)?;
                    }
                    let numbers = [mean, lo, hi].map(|number| number.to_string());
                    out.write_record(numbers.into_iter().chain([count.to_string()]))?;
                }
            }
        }
        Ok(out.flush()?)
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

/// Writes the names of the columns of the scenario, of `axes`, and of `columns`.
fn write_head(
    out: &mut csv::Writer<impl Write>,
    axes: &[&str],
    columns: &[&str],
) -> csv::Result<()> {
    let taken = [&["id", "scenario"], columns].concat();
    out.write_field("scenario")?;
    for axis in axes {
        out.write_field(column(axis, &taken))?;
    }
    columns.iter().try_for_each(|name| out.write_field(name))
}

impl Outcome {
    /// Scenario, the values of `axes` (empty where the scenario has no such axis), and path.
    fn place(&self, axes: &[&str]) -> Vec<&str> {
        let value = |axis: &&str| {
            let known = self.cell.0.iter().find(|(known, _)| known == axis);
            known.map_or("", |(_, value)| value)
        };
        let values = axes.iter().map(value);
        let scenario = [self.scenario.as_str()].into_iter();
        scenario.chain(values).chain([self.path.name()]).collect()
    }
}
