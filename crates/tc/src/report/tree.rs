//! The qdiscs and the classes of a [`Report`] in a row, as `tc` lists them.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Report;
use tautline_qdisc::ClassId;

/// The parent of a qdisc or a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// A qdisc of a device, or a class right below its qdisc.
    Root,
    /// Below this class.
    Below(ClassId),
}

/// A qdisc or a class, and its parent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) report: &'a Report,
    pub(crate) place: Parent,
}

impl Report {
    /// This qdisc and all below it, parents first.
    pub(crate) fn qdiscs(&self) -> Vec<Shown<'_>> {
        let mut all = Vec::new();
        add_qdiscs(
            Shown {
                report: self,
                place: Parent::Root,
            },
            &mut all,
        );
        all
    }

    /// All classes of all qdiscs.
    pub(crate) fn shown_classes(&self) -> Vec<Shown<'_>> {
        let mut all = Vec::new();
        for Shown { report, .. } in self.qdiscs() {
            // Bands exist implicitly below their qdisc; classes that were added are roots.
            let outer = report
                .id
                .filter(|_| report.kind == "prio")
                .map_or(Parent::Root, Parent::Below);
            add_classes(&report.classes, outer, &mut all);
        }
        all
    }
}

impl Report {
    /// The name of the qdisc below a class, if it has one.
    pub(crate) fn leaf(&self) -> Option<ClassId> {
        self.children.first()?.id
    }

    /// The class `id`, of this qdisc or of one below.
    pub fn find_class(&self, id: ClassId) -> Option<&Self> {
        self.shown_classes()
            .into_iter()
            .map(|shown| shown.report)
            .find(|class| class.id == Some(id))
    }
}

fn add_qdiscs<'a>(shown: Shown<'a>, all: &mut Vec<Shown<'a>>) {
    all.push(shown);
    add_below(shown.report, all);
}

/// Adds the qdiscs below a qdisc or a class. Children without a class of their own are classes 1,
/// 2, …. FIFOs without a name are parts of their parent, as in Linux.
fn add_below<'a>(report: &'a Report, all: &mut Vec<Shown<'a>>) {
    let id = report.id.unwrap_or_default();
    for (minor, child) in (1..).zip(&report.children) {
        let class = if id.minor == 0 {
            ClassId::new(id.major, minor)
        } else {
            id
        };
        if child.id.is_some() || !matches!(child.kind, "pfifo" | "bfifo") {
            add_qdiscs(
                Shown {
                    report: child,
                    place: Parent::Below(class),
                },
                all,
            );
        }
    }
    report
        .classes
        .iter()
        .for_each(|class| add_below(class, all));
}

fn add_classes<'a>(classes: &'a [Report], outer: Parent, all: &mut Vec<Shown<'a>>) {
    for report in classes.iter().filter(|class| class.id.is_some()) {
        all.push(Shown {
            report,
            place: report.parent.map_or(outer, Parent::Below),
        });
        add_classes(&report.classes, report.id.map_or(outer, Parent::Below), all);
    }
}

/// A name; `0:` without one, as in `tc`.
pub(super) fn handle(id: Option<ClassId>) -> String {
    id.unwrap_or_default().to_string()
}

/// Whether `tc` shows this counter among the parameters.
pub(super) fn is_among_parameters(kind: &str, counter: &str) -> bool {
    match kind {
        "htb" => counter == "direct_packets_stat",
        "sfq" => counter.starts_with("prob_") || counter.starts_with("forced_"),
        _ => false,
    }
}
