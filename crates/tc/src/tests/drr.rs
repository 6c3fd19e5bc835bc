//! Changes of `drr`, its classes, and what is below them.

use super::*;
use tautline_base::{Drops, Instant};
use tautline_qdisc::ClassId;

#[test]
fn classes_and_what_is_below_them_change_by_words() {
    let tree = "qdisc root handle 1: drr; class classid 1:1 drr; class classid 1:2 drr
        qdisc parent 1:1 pfifo; qdisc parent 1:2 handle 2: drr; class classid 2:1 drr quantum 7
        qdisc parent 2:1 pfifo";
    let (mut drr, mut drops, now) = (
        build::<Probe>(tree).expect("a tree"),
        Drops::new(),
        Instant::ZERO,
    );
    let mut change = |target, words| drr.change(target, &mut Words::new(words), now, &mut drops);
    let class = |major, minor| Target::Class(ClassId::new(major, minor));
    change(class(1, 1), "quantum 2000").expect("valid");
    change(class(2, 1), "quantum 3000").expect("further down");
    assert_eq!(
        change(class(1, 1), "quantum 0").expect_err("refused").at,
        8..9
    );
    assert_eq!(
        change(class(3, 1), "quantum 1")
            .expect_err("unknown")
            .to_string(),
        "drr has no class 3:1"
    );
    let below = |major, minor| Target::Below(ClassId::new(major, minor));
    change(below(1, 1), "limit 1").expect("valid");
    change(below(2, 1), "limit 2").expect("further down");
    change(below(2, 2), "limit 2").expect_err("no such class");
    let report = drr.report();
    assert_eq!(
        report.classes[0].options,
        [("quantum", Value::Size(Bytes::new(2000)))]
    );
    assert_eq!(
        report.classes[0].children[0].options,
        [("limit", Value::Packets(1))]
    );
    let inner = &report.classes[1].children[0].classes[0];
    assert_eq!(inner.options, [("quantum", Value::Size(Bytes::new(3000)))]);
    assert_eq!(inner.children[0].options, [("limit", Value::Packets(2))]);
}
