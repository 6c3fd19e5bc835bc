//! The disciplines and the classes of a [`Report`] in a row, as `tc` lists them.

use alloc::vec::Vec;

use super::Report;
use super::layout::Layout;
use crate::class::ClassId;

/// Where something stands in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A discipline of a device, or a class right below its discipline.
    Root,
    /// Below this class.
    Below(ClassId),
}

/// A discipline or a class, and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown<'a> {
    pub(super) report: &'a Report,
    pub(super) place: Place,
}

impl Report {
    /// This discipline and all below it, parents first.
    pub(super) fn qdiscs(&self) -> Vec<Shown<'_>> {
        let mut all = Vec::new();
        add_qdiscs(Shown { report: self, place: Place::Root }, &mut all);
        all
    }

    /// All classes of all disciplines.
    pub(super) fn shown_classes(&self) -> Vec<Shown<'_>> {
        let mut all = Vec::new();
        for Shown { report, .. } in self.qdiscs() {
            add_classes(&report.classes, Place::Root, &mut all);
        }
        all
    }
}

fn add_qdiscs<'a>(shown: Shown<'a>, all: &mut Vec<Shown<'a>>) {
    all.push(shown);
    if Layout::has_children(shown.report.kind) {
        add_below(shown.report, all);
    }
}

/// What stands below a discipline or a class: children without a class of their own are classes 1, 2, … by themselves.
fn add_below<'a>(report: &'a Report, all: &mut Vec<Shown<'a>>) {
    let id = report.id.unwrap_or_default();
    for (minor, child) in (1..).zip(&report.children) {
        let class = if id.minor == 0 { ClassId::new(id.major, minor) } else { id };
        add_qdiscs(Shown { report: child, place: Place::Below(class) }, all);
    }
    report.classes.iter().for_each(|class| add_below(class, all));
}

fn add_classes<'a>(classes: &'a [Report], outer: Place, all: &mut Vec<Shown<'a>>) {
    for report in classes.iter().filter(|class| class.id.is_some()) {
        all.push(Shown { report, place: report.parent.map_or(outer, Place::Below) });
        add_classes(&report.classes, report.id.map_or(outer, Place::Below), all);
    }
}
