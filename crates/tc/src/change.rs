//! [`change_tree`]: changes to a running qdisc and to all below it, in the words of a `tc`
//! script.

use tautline_base::{Drops, Instant, Item};

use tautline_qdisc::ClassId;

use crate::discipline::{Change, Inspect, Target};
use crate::report::{self, Report};
use crate::tree::place::{Object, Position, Verb};
use crate::words::{ParseError, Problem, Word, Words, joined};

const CHANGE: &str = "change: qdiscs, classes and filters are added when a tree is built";
const WHAT: &str = "qdisc or class, or options of the root";
const KIND: &str = "the kind of the qdisc or class to change";
const CLASSID: &str = "classid CLASS, e.g. classid 1:10";

/// Changes `root` and what is below it, by commands as `tc` takes them:
///
/// - `qdisc change root fq_codel limit 500`, or just `limit 500`: options of the root;
/// - `qdisc change parent 1:10 fq_codel target 10ms`, or `handle 10:` in place of `parent 1:10`:
///   options of a qdisc below;
/// - `class change parent 1: classid 1:10 htb rate 5mbit`: options of a class, whichever qdisc
///   it belongs to.
///
/// Options that are not named keep their values. As in [`Change`], only a lowered limit drops
/// packets; they go to `drops`.
///
/// ```
/// use tautline_base::{Drops, Instant, Packet};
/// use tautline_tc::{build, change_tree};
///
/// let mut qdisc = build::<Packet<()>>("prio; qdisc parent 1:2 handle 20: codel")?;
/// let mut drops = Drops::new();
/// change_tree(&mut *qdisc, "qdisc change handle 20: codel target 10ms", Instant::ZERO, &mut drops)?;
/// assert!(qdisc.report().to_string().contains("qdisc codel 20: parent 1:2 limit 1000p target 10ms"));
/// # Ok::<(), tautline_tc::ParseError>(())
/// ```
///
/// # Errors
/// If a command cannot be parsed, names an unknown qdisc or class, or has a value that the qdisc
/// refuses. That command changes nothing; those before it have been carried out.
pub fn change_tree<P: Item, Q: Inspect + Change<P> + ?Sized>(
    root: &mut Q,
    text: &str,
    now: Instant,
    drops: &mut Drops<P>,
) -> Result<(), ParseError> {
    let text = joined(text);
    Words::commands(&text).try_for_each(|command| {
        let whole = command.clone();
        change(root, command, now, drops).map_err(|error| whole.locate(error))
    })
}

fn change<P: Item, Q: Inspect + Change<P> + ?Sized>(
    root: &mut Q,
    mut words: Words<'_>,
    now: Instant,
    drops: &mut Drops<P>,
) -> Result<(), ParseError> {
    let report = root.report();
    let object = Object::read(&mut words);
    if object.is_none() {
        words.accept(report.kind);
        return root.change(Target::Root, &mut words, now, drops);
    }
    let place = Position::read(&mut words)?;
    if let Some((word, Verb::Add | Verb::Delete)) = place.verb {
        return Err(word.misplaced(CHANGE));
    }
    match object {
        Some(Object::Qdisc) => match target(&report, &place)? {
            None => {
                read_kind(&mut words, report.kind)?;
                root.change(Target::Root, &mut words, now, drops)
            }
            Some((word, class, below)) => {
                read_kind(&mut words, below.kind)?;
                root.change(Target::Below(class), &mut words, now, drops)
                    .map_err(|error| match error.problem {
                        Problem::NoClass { .. } => word.no_class(class),
                        _ => error,
                    })
            }
        },
        Some(Object::Class) => {
            let handle = report.id.map_or(0, |id| id.major);
            let (word, id) = place.class(handle).ok_or_else(|| words.missing(CLASSID))?;
            let class = report.find_class(id).ok_or_else(|| word.no_class(id))?;
            let (whole, line) = (words.clone(), words.line());
            read_kind(&mut words, class.kind)
                .and_then(|()| root.change(Target::Class(id), &mut words, now, drops))
                .map_err(|error| whole.locate(error).in_class(id, line))
        }
        _ => Err(words.missing(WHAT)),
    }
}

/// The qdisc that a command changes: its parent class and its report. `None` for the root.
fn target<'a, 'r>(
    root: &'r Report,
    place: &Position<'a>,
) -> Result<Option<(Word<'a>, ClassId, &'r Report)>, ParseError> {
    let (word, wanted) = match (place.parent, place.handle) {
        (Some((word, class)), _) => (word, class),
        (None, Some((word, handle))) => (word, ClassId::new(handle, 0)),
        (None, None) => return Ok(None),
    };
    if place.parent.is_none() && root.id == Some(wanted) {
        return Ok(None);
    }
    let found = root.qdiscs().into_iter().find_map(|shown| {
        let report::Parent::Below(class) = shown.place else {
            return None;
        };
        // The one class of a qdisc that has one may go by the qdisc's own name.
        let lone = wanted.minor == 0 && class == ClassId::new(wanted.major, 1);
        let meant = if place.parent.is_some() {
            class == wanted || lone
        } else {
            shown.report.id == Some(wanted)
        };
        meant.then_some((word, class, shown.report))
    });
    found.map(Some).ok_or_else(|| word.no_class(wanted))
}

/// Reads the name of a kind, which must be `expected`.
fn read_kind(words: &mut Words<'_>, expected: &str) -> Result<(), ParseError> {
    match words.word() {
        None => Err(words.missing(KIND)),
        Some(word) if word.text == expected => Ok(()),
        Some(word) => Err(word.misplaced(KIND)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discipline::DynQdisc;
    use crate::tree::build;
    use alloc::boxed::Box;
    use alloc::string::ToString;
    use proptest::prelude::*;
    use tautline_base::Qdisc;
    use tautline_testkit::Probe;

    const TREE: &str = "qdisc root handle 1: drr; class classid 1:1 drr; class classid 1:2 drr
        qdisc parent 1:1 handle 10: prio; qdisc parent 10:1 codel
        qdisc parent 1:2 handle 20: tbf rate 1mbit burst 5kb latency 50ms; qdisc parent 20: handle 21: pfifo
        filter prio 1 handle 1 fw flowid 1:1; filter prio 2 matchall flowid 1:2";

    fn root() -> Box<dyn DynQdisc<Probe>> {
        build(TREE).expect("a tree")
    }

    /// Report of the tree after the commands of `text`.
    fn report_after(text: &str) -> alloc::string::String {
        let (mut root, mut drops) = (root(), Drops::new());
        if let Err(error) = change_tree(&mut *root, text, Instant::ZERO, &mut drops) {
            panic!("{}", error.pointing_at(text));
        }
        root.report().to_string()
    }

    #[test]
    fn changes_reach_what_they_name() {
        for (text, shown) in [
            (
                "tc class change dev eth0 parent 1: classid 1:2 drr quantum 99",
                "class drr 1:2 root leaf 20: quantum 99b",
            ),
            (
                "class change classid 1:1 drr quantum 7b",
                "class drr 1:1 root leaf 10: quantum 7b",
            ),
            (
                "qdisc change parent 1:1 prio priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
                "1:1 bands 3 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1",
            ),
            (
                "qdisc change handle 21: pfifo limit 3",
                "qdisc pfifo 21: parent 20:1 limit 3p",
            ),
            (
                "qdisc replace parent 20: pfifo limit 4",
                "qdisc pfifo 21: parent 20:1 limit 4p",
            ),
            (
                "qdisc change parent 10:1 codel ecn; qdisc change parent 10:1 codel limit 9",
                "10:1 limit 9p target 5ms interval 100ms ecn",
            ),
            (
                "qdisc change root drr; drr; qdisc change handle 1: drr",
                "qdisc drr 1: root",
            ),
        ] {
            let report = report_after(text);
            assert!(report.contains(shown), "{text}: {report}");
        }
        let mut htb = build::<Probe>(
            "htb; class classid 1:1 htb rate 9mbit; class parent 1:1 classid 1:10 htb rate 9mbit",
        )
        .expect("htb");
        change_tree(
            &mut *htb,
            "class change classid 1:10 htb rate 5mbit",
            Instant::ZERO,
            &mut Drops::new(),
        )
        .expect("a class");
        assert!(
            htb.report()
                .to_string()
                .contains("class htb 1:10 parent 1:1 prio 0 quantum 62500 rate 5Mbit"),
            "{}",
            htb.report()
        );
        let mut alone = build::<Probe>("fq_codel").expect("fq_codel");
        for (text, limit) in [
            ("limit 5", "limit 5p"),
            ("fq_codel limit 6", "limit 6p"),
            ("qdisc change root fq_codel limit 7", "limit 7p"),
        ] {
            change_tree(&mut *alone, text, Instant::ZERO, &mut Drops::new()).expect(text);
            assert!(alone.report().to_string().contains(limit), "{text}");
        }
    }

    #[test]
    fn packets_stay_and_what_no_longer_fits_is_dropped() {
        let (mut root, mut drops) = (root(), Drops::new());
        for id in 0..10 {
            root.enqueue(Probe::new(id).marked(id % 2), Instant::ZERO, &mut drops);
        }
        let before = root.backlog().packets + drops.len();
        change_tree(
            &mut *root,
            "qdisc change parent 10:1 codel limit 0p; qdisc change handle 20: tbf rate 2mbit",
            Instant::ZERO,
            &mut drops,
        )
        .expect("valid");
        assert_eq!(root.backlog().packets + drops.len(), before);
    }

    #[test]
    fn errors_point_at_the_word() {
        for (text, message, words) in [
            (
                "qdisc add parent 1:1 pfifo",
                "`add` does not fit here: give change",
                "add",
            ),
            (
                "filter change matchall",
                "something is missing: qdisc or class",
                "filter change matchall",
            ),
            (
                "qdisc change parent 1:3 pfifo",
                "the tree has no class 1:3",
                "1:3",
            ),
            (
                "qdisc change handle 9: pfifo",
                "the tree has no class 9:",
                "9:",
            ),
            (
                "qdisc change parent 1:1 codel",
                "`codel` does not fit here: give the kind of the qdisc or class to change",
                "codel",
            ),
            (
                "qdisc change parent 1:1",
                "something is missing: the kind",
                "qdisc change parent 1:1",
            ),
            (
                "qdisc change root pfifo",
                "`pfifo` does not fit here",
                "pfifo",
            ),
            (
                "class change classid 1:3 drr",
                "the tree has no class 1:3",
                "1:3",
            ),
            (
                "class change drr",
                "something is missing: classid CLASS",
                "class change drr",
            ),
            (
                "class change classid 1:1 htb",
                "class 1:1 in line 1: `htb` does not fit here",
                "htb",
            ),
            (
                "class change classid 1:1 drr quantum 0b",
                "class 1:1 in line 1: drr: `quantum` must be at least 1b",
                "0b",
            ),
            (
                "qdisc change parent 10:1 codel; qdisc change parent 10:1 codel interval 0ms",
                "codel: `interval` must be",
                "0ms",
            ),
            ("limit 5", "`limit` is no option of drr", "limit"),
        ] {
            let (mut root, mut drops) = (root(), Drops::new());
            let error = change_tree(&mut *root, text, Instant::ZERO, &mut drops).expect_err(text);
            assert!(error.to_string().starts_with(message), "{text}: {error}");
            assert_eq!(&text[error.at], words, "{text}");
            assert_eq!(
                root.report(),
                self::root().report(),
                "{text}: nothing changed"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in prop_oneof![".*", "(qdisc|class|change|parent|1:1|10:1|20:|drr|codel|tbf|limit|5|;| ){0,15}"]) {
            let (mut root, mut drops) = (root(), Drops::new());
            if let Err(error) = change_tree(&mut *root, &text, Instant::ZERO, &mut drops) {
                prop_assert!(text.get(error.at).is_some());
            }
        }
    }
}
