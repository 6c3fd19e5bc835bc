//! [`Names`]: which numbers the runs of a scenario will have, before any is run, so that a misspelled
//! name is found at once.

use std::collections::BTreeMap;

use super::document::{Document, Flow, FlowKind, Kind, Over};
use crate::quantity::{COUNTERS, Quantity, STATISTICS};

/// Names of the numbers that runs of a document will have.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// The flows or ports that each quantity is measured of.
    groups: BTreeMap<&'static str, Vec<String>>,
}

impl Names {
    /// The names of `document`.
    pub(super) fn of(document: &Document) -> Self {
        let mut groups: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        let mut add = |quantities: &[Quantity], of: &str| {
            for quantity in quantities {
                groups
                    .entry(quantity.name())
                    .or_default()
                    .push(of.to_owned());
            }
        };
        for flow in document.flow.iter().filter(|flow| flow.count != Some(0)) {
            add(of_flow(flow), &flow.name);
            let messages = flow.kind == FlowKind::Onoff;
            if messages || flow.one_way && flow.kind == FlowKind::Tcp {
                add(&[Quantity::OneWay], &flow.name);
            }
        }
        for host in &document.host {
            add(&OF_PORT, &host.name);
        }
        for link in &document.link {
            let (from, to) = &link.between;
            for (from, to) in [(from, to), (to, from)] {
                if document.router.iter().any(|router| router.name == *from) {
                    add(&OF_PORT, &format!("{from}>{to}"));
                }
            }
        }
        Self { groups }
    }

    /// Whether `path`, a number's name in steps, leads to a number or to several.
    ///
    /// # Errors
    /// What there is instead.
    pub(super) fn suit(&self, path: &[String]) -> Result<(), String> {
        let several = match path {
            [quantity] => self.groups.contains_key(quantity.as_str()),
            [quantity, group] => self
                .groups
                .get(quantity.as_str())
                .is_some_and(|groups| groups.contains(group)),
            _ => false,
        };
        if several {
            Ok(())
        } else {
            self.check(&path.join("."))
        }
    }

    /// Whether a figure of `kind` can show `entry`: a number if it is one of numbers, else a quantity,
    /// of all or of a flow, an instance of it (`upload-1`) or a port.
    ///
    /// # Errors
    /// What there is instead.
    pub(super) fn suit_figure(&self, kind: Kind, entry: &str) -> Result<(), String> {
        if matches!(kind, Kind::Bars | Kind::Trade) {
            return self.check(entry);
        }
        let (quantity, of) = match entry.split_once('.') {
            Some((quantity, of)) => (quantity, Some(of)),
            None => (entry, None),
        };
        let group = |of: &str| of.split_once('-').map_or(of, |(group, _)| group).to_owned();
        self.known_group(quantity, of.map(group).as_deref())
    }

    /// Whether `quantity` is measured, and of `group`.
    fn known_group(&self, quantity: &str, group: Option<&str>) -> Result<(), String> {
        let Some(groups) = self.groups.get(quantity) else {
            let known: Vec<_> = self.groups.keys().copied().collect();
            return Err(format!(
                "nothing is measured as `{quantity}` here; there is {}, counters",
                known.join(", ")
            ));
        };
        match group.filter(|group| groups.iter().all(|known| known != group)) {
            Some(group) => Err(format!(
                "`{quantity}` has no `{group}`; it has {}",
                groups.join(", ")
            )),
            None => Ok(()),
        }
    }

    /// Whether a run will have the number `name`, if there is anything to measure.
    ///
    /// # Errors
    /// What there is instead.
    pub(super) fn check(&self, name: &str) -> Result<(), String> {
        let parts: Vec<&str> = name.split('.').collect();
        let (quantity, group, statistic) = match parts[..] {
            ["counters", counter] if COUNTERS.contains(&counter) => return Ok(()),
            ["counters", counter] => {
                return Err(format!(
                    "nothing is counted as `{counter}`; there is {}",
                    COUNTERS.join(", ")
                ));
            }
            [quantity, statistic] => (quantity, None, statistic),
            [quantity, group, statistic] => (quantity, Some(group), statistic),
            _ => {
                return Err(format!(
                    "`{name}` names no number: write e.g. ping.p50 or goodput.upload.total"
                ));
            }
        };
        self.known_group(quantity, group)?;
        let known = |statistic: &&&str| match **statistic {
            "total" => {
                quantity == "goodput"
                    || Quantity::ALL
                        .iter()
                        .any(|known| known.name() == quantity && known.counts())
            }
            "fairness" => quantity == "goodput",
            "dips" | "dip_gap" => Quantity::ALL
                .iter()
                .any(|known| known.name() == quantity && known.dips()),
            _ => true,
        };
        if STATISTICS
            .iter()
            .filter(known)
            .all(|known| *known != statistic)
        {
            let known: Vec<_> = STATISTICS.iter().filter(known).copied().collect();
            return Err(format!(
                "`{statistic}` is no number of `{quantity}`; there is {}",
                known.join(", ")
            ));
        }
        Ok(())
    }
}

/// Quantities of every port.
const OF_PORT: [Quantity; 14] = [
    Quantity::Backlog,
    Quantity::BacklogBytes,
    Quantity::Ring,
    Quantity::RingBytes,
    Quantity::RingLimit,
    Quantity::Drops,
    Quantity::Marks,
    Quantity::Sent,
    Quantity::Sojourn,
    Quantity::DepartureRate,
    Quantity::DropProbability,
    Quantity::RingFull,
    Quantity::Burst,
    Quantity::Cycle,
];

fn of_flow(flow: &Flow) -> &'static [Quantity] {
    match flow.kind {
        FlowKind::Onoff if flow.over != Some(Over::Tcp) => &[Quantity::Goodput],
        FlowKind::Tcp | FlowKind::Onoff => &[
            Quantity::Goodput,
            Quantity::Rtt,
            Quantity::SmoothedRtt,
            Quantity::Cwnd,
            Quantity::PacingRate,
            Quantity::TsqCharge,
            Quantity::TsqLimit,
        ],
        FlowKind::Ping => &[Quantity::Ping],
        FlowKind::Udp => &[Quantity::Goodput, Quantity::OneWay],
        FlowKind::Web => &[Quantity::Goodput, Quantity::Fetch],
    }
}
