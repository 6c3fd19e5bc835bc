//! [`select`]: which cells of a row the words of a command line mean.
//!
//! A word is the name of a cell as its directory has it (`L100M_TSQ`), one of its values (`L100M`),
//! or an axis with a value (`tsq=NoTSQ`), in any case. Several with commas between them must all be
//! true of a cell; of several words one.

use std::collections::BTreeSet;

use crate::cell::Cell;
use crate::scenario::Scenario;

/// The numbers of the cells of `scenario` that one of `words` means.
///
/// # Errors
/// If a word means none: what there is.
pub(crate) fn select(scenario: &Scenario, words: &[String]) -> Result<BTreeSet<usize>, String> {
    let mut chosen = BTreeSet::new();
    for word in words {
        let cells = || {
            scenario
                .cells
                .iter()
                .map(|variation| &variation.cell)
                .enumerate()
        };
        let named = cells()
            .filter(|(_, cell)| cell.to_string().eq_ignore_ascii_case(word))
            .map(|(number, _)| number);
        let mut found: Vec<usize> = named.collect();
        if found.is_empty() {
            found = cells()
                .filter(|(_, cell)| suits(cell, word))
                .map(|(number, _)| number)
                .collect();
        }
        if found.is_empty() {
            return Err(format!(
                "{} has no cell `{word}`; {}",
                scenario.header().id,
                known(scenario)
            ));
        }
        chosen.extend(found);
    }
    Ok(chosen)
}

/// Whether all parts of `word` are true of `cell`.
fn suits(cell: &Cell, word: &str) -> bool {
    word.split(',')
        .map(str::trim)
        .all(|part| match part.split_once('=') {
            Some((axis, value)) => {
                let same = |(own, is): &(String, String)| {
                    own.eq_ignore_ascii_case(axis) && is.eq_ignore_ascii_case(value)
                };
                cell.0.iter().any(same)
            }
            // Values hold no `_`: it joins them.
            None => part
                .split('_')
                .all(|value| cell.values().any(|own| own.eq_ignore_ascii_case(value))),
        })
}

/// The axes with their values, and how a cell is called.
fn known(scenario: &Scenario) -> String {
    let axes: Vec<String> = scenario
        .axes
        .iter()
        .map(|(axis, values)| format!("{axis} is {}", values.join(", ")))
        .collect();
    let example = scenario
        .cells
        .last()
        .map(|variation| variation.cell.to_string())
        .unwrap_or_default();
    match axes.is_empty() {
        true => "it has no axes, and one cell, `all`".to_owned(),
        false => format!("{}; a cell is called e.g. {example}", axes.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ScenarioDir;

    fn chosen(words: &[&str]) -> Result<Vec<String>, String> {
        let scenario = Scenario::load(&ScenarioDir::Shipped, "001-f4.toml")
            .expect("it comes with the program");
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let numbers = select(&scenario, &words)?;
        Ok(numbers
            .into_iter()
            .map(|number| scenario.cells[number].cell.to_string())
            .collect())
    }

    #[test]
    fn a_cell_a_value_and_an_axis_with_a_value_are_understood() {
        assert_eq!(chosen(&["L100M_TSQ"]), Ok(vec!["L100M_TSQ".to_owned()]));
        assert_eq!(chosen(&["l100m_notsq"]), Ok(vec!["L100M_NoTSQ".to_owned()]));
        assert_eq!(chosen(&["R100M"]), chosen(&["bottleneck=R100M"]));
        assert_eq!(chosen(&["R100M"]).map(|cells| cells.len()), Ok(2));
        assert_eq!(chosen(&["tsq=TSQ,R100M"]), Ok(vec!["R100M_TSQ".to_owned()]));
        assert_eq!(
            chosen(&["TSQ", "NoTSQ"]).map(|cells| cells.len()),
            Ok(4),
            "several words are a choice"
        );
    }

    #[test]
    fn what_is_no_cell_is_refused_with_what_there_is() {
        for wrong in [
            "L10M",
            "TSQ,NoTSQ",
            "tsq=L100M",
            "bottleneck",
            "",
            "=",
            "L100M_TSQ_",
        ] {
            let why = chosen(&["TSQ", wrong]).expect_err(wrong);
            assert!(
                why.contains(&format!("no cell `{wrong}`"))
                    && why.contains("bottleneck is ")
                    && why.contains("L100M"),
                "{why}"
            );
        }
    }
}
