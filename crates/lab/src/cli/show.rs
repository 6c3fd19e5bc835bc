//! `lab show`: the parameters of a row, and what its paper found.

use clap::Args;
use serde_json::Value;

use super::{ExitStatus, Failure, Library};

/// Arguments of `lab show`.
#[derive(Args, Debug)]
pub(super) struct Show {
    /// Row, or a scenario file
    id: String,
    #[command(flatten)]
    library: Library,
}

impl Show {
    pub(super) fn show(&self) -> Result<ExitStatus, Failure> {
        let scenario = self.library.open()?.load(&self.id)?;
        let header = scenario.header();
        say!(
            "{}  {}\npaper {}, {}",
            header.id,
            header.title,
            header.paper,
            scenario.file
        );
        if !header.claim.is_empty() {
            say!("\n{}", header.claim.trim());
        }
        if let Some(note) = &header.note {
            say!("\n{}", note.trim());
        }
        if let Some(other) = &header.elsewhere {
            say!("\nneeds {}: {}", other.needs, other.command);
            return Ok(ExitStatus::Holds);
        }
        say!(
            "\nparameters{}",
            if scenario.axes.is_empty() {
                ""
            } else {
                " of the first cell"
            }
        );
        let resolved: Value = serde_json::from_str(&scenario.cells[0].resolved)?;
        print(&resolved, &mut Vec::new());
        for axis in &header.axis {
            say!("\naxis {}", axis.name);
            for value in &axis.value {
                say!("  {}", value.name);
                value
                    .set
                    .iter()
                    .for_each(|(key, to)| say!("    {key} = {to}"));
            }
        }
        if !scenario.axes.is_empty() {
            say!("\ncells, of which `lab run --cell` runs some");
            scenario
                .cells
                .iter()
                .for_each(|variation| say!("  {}", variation.cell));
        }
        say!("\nshapes");
        for shape in &scenario.shapes {
            say!(
                "  {}\n    {}",
                shape.says,
                shape.check.trim().replace('\n', "\n    ")
            );
        }
        Ok(ExitStatus::Holds)
    }
}

/// Prints what is below `path`, one key a line, as an axis would write it.
fn print(value: &Value, path: &mut Vec<String>) {
    match value {
        Value::Object(table) => {
            for (key, value) in table
                .iter()
                .filter(|(key, _)| *key != "name" && *key != "between")
            {
                path.push(key.clone());
                print(value, path);
                path.pop();
            }
        }
        Value::Array(array) if array.iter().all(Value::is_object) => {
            for (number, value) in array.iter().enumerate() {
                path.push(name(value).unwrap_or_else(|| (number + 1).to_string()));
                if value.as_object().is_some_and(|table| table.len() == 1) {
                    say!("  {}", path.join("."));
                }
                print(value, path);
                path.pop();
            }
        }
        plain => say!("  {} = {plain}", path.join(".")),
    }
}

fn name(value: &Value) -> Option<String> {
    if let Some(name) = value.get("name") {
        return name.as_str().map(str::to_owned);
    }
    let ends = value.get("between")?.as_array()?;
    Some(
        ends.iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join("-"),
    )
}
