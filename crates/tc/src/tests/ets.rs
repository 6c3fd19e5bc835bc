//! Words of `ets`, its classes, and changes below it.

use super::*;
use alloc::vec;
use tautline_base::{Drops, Instant, Qdisc};
use tautline_qdisc::ClassId;

/// `q_ets.c` and the kernel's messages.
#[test]
fn parameters_are_refused_by_name() {
    for (words, message) in [
        ("ets", "ets: `bands` must be from 1 to 16, not 0"),
        ("ets bands 17", "ets: `bands` must be from 1 to 16, not 17"),
        (
            "ets bands 2 strict 1 quanta 100 200",
            "ets: `bands` must be at least `strict` and the number of `quanta` together, not 2",
        ),
        (
            "ets quanta 100 0",
            "ets: `quanta` must be at least 1b each, not 0b",
        ),
        (
            "ets bands 3 priomap 0 3",
            "ets: `priomap` must be less than `bands`, not 3",
        ),
        (
            "ets quanta",
            "`quanta` lacks its value: a size, e.g. 1514, 32Mb",
        ),
        (
            "ets bands 3 priomap x",
            "`x` is no value for `priomap`: give a whole number, e.g. 64",
        ),
    ] {
        assert_eq!(build::<Probe>(words).expect_err(words).to_string(), message);
    }
}

/// As `tc -s -d qdisc show` and `class show` print them (tc-testing's `ets.json`).
#[test]
fn words_and_lines_are_those_of_tc() {
    for (words, line) in [
        (
            "ets bands 4 strict 2",
            "qdisc ets 1: root refcnt 2 bands 4 strict 2 quanta 1514 1514 priomap 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3",
        ),
        (
            "ets quanta 4000 3000 2000 priomap 0 0 1 1 2",
            "qdisc ets 1: root refcnt 2 bands 3 quanta 4000 3000 2000 priomap 0 0 1 1 2 2 2 2 2 2 2 2 2 2 2 2",
        ),
        (
            "ets strict 3",
            "qdisc ets 1: root refcnt 2 bands 3 strict 3 priomap 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2",
        ),
    ] {
        let report = build::<Probe>(words).expect(words).report().to_string();
        assert!(report.lines().any(|shown| shown == line), "{report}");
        let kind: Kind = words.parse().expect(words);
        assert_eq!(kind.to_string(), words);
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    let tree = "qdisc root handle 1: ets strict 1 quanta 4000; qdisc parent 1:2 handle 20: codel";
    let report = build::<Probe>(tree).expect("a tree").report().to_string();
    for line in [
        "class ets 1:1 root",
        "class ets 1:2 root leaf 20: quantum 4000",
    ] {
        assert!(report.lines().any(|shown| shown == line), "{report}");
    }
    let report = build::<Probe>(tree).expect("a tree").report();
    let json = serde_json::to_value(report.qdisc_show()).expect("serializes");
    let options = &json[0]["options"];
    let expected =
        serde_json::json!({"bands": 2, "strict": 1, "quanta": [4000], "priomap": vec![1; 16]});
    assert_eq!(options, &expected);
}

#[test]
fn filters_and_priorities_choose_the_band() {
    let tree = "qdisc root handle 1: ets strict 1 quanta 1514 1514 priomap 2 1
        filter parent 1: protocol all prio 1 handle 7 fw flowid 1:1";
    let (mut queue, mut drops) = (build::<Probe>(tree).expect("a tree"), Drops::new());
    for (priority, mark) in [(0, 0), (0, 7), (1, 0), (9, 0)] {
        let packet = Probe::new(0).with_priority(priority).marked(mark);
        queue.enqueue(packet, Instant::ZERO, &mut drops);
    }
    let report = queue.report();
    let backlogs = report.classes.iter().filter_map(|class| class.common);
    let backlogs: Vec<_> = backlogs.map(|common| common.backlog.packets).collect();
    assert_eq!(backlogs, [1, 1, 2]);
}

/// As `tc` and Linux 6.1 take and refuse them.
#[test]
fn a_script_sets_the_quantum_of_a_class() {
    let tree = |commands: &str| ["ets bands 4 strict 1 quanta 3000", commands].concat();
    let changed = "; class change classid 1:2 ets quantum 4000; class replace classid 1:4 ets \
                   quantum 700; class change classid 1:1 ets; codel";
    let same = "ets bands 4 strict 1 quanta 4000 1514 700; qdisc parent 1:1 codel";
    assert_eq!(tree(changed).parse::<Tree>(), same.parse());
    for (command, message, words) in [
        (
            "change classid 1:1 ets quantum 5",
            "ets: `quantum` must be left out",
            "5",
        ),
        (
            "change classid 1:2 ets quantum 0",
            "ets: `quantum` must be at least 1b",
            "0",
        ),
        (
            "change classid 1:5 ets quantum 5",
            "the tree has no class 1:5",
            "1:5",
        ),
        (
            "change classid 1: ets quantum 5",
            "the tree has no class 1:",
            "1:",
        ),
        (
            "add classid 1:2 ets quantum 5",
            "class 1:2 exists already",
            "1:2",
        ),
        (
            "change classid 1:2 drr quantum 5",
            "`drr` does not fit here",
            "drr",
        ),
    ] {
        let text = tree(&["; class ", command].concat());
        let error = text.parse::<Tree>().expect_err(&text);
        let (_, said) = error
            .to_string()
            .split_once("line 1: ")
            .map(|(at, said)| (at.to_string(), said.to_string()))
            .expect("the class");
        assert!(said.starts_with(message), "{text}: {said}");
        assert_eq!(&text[error.at], words, "{text}");
    }
}

#[test]
fn bands_come_and_go_by_words() {
    let (mut queue, mut drops, now) = (
        build::<Probe>("ets strict 1 quanta 3000 1500").expect("valid"),
        Drops::new(),
        Instant::ZERO,
    );
    for id in 0..4 {
        queue.enqueue(Probe::new(id), now, &mut drops);
    }
    let mut change = |words, drops: &mut Drops<Probe>| change_tree(&mut *queue, words, now, drops);
    change("class change classid 1:3 ets quantum 700", &mut drops).expect("a class");
    for (words, message) in [
        (
            "class change classid 1:1 ets quantum 700",
            "class 1:1 in line 1: ets: `quantum` must be left out: a strict band has none, not 700b",
        ),
        (
            "class change classid 1:4 ets quantum 700",
            "the tree has no class 1:4",
        ),
        (
            "bands 2",
            "ets: `bands` must be at least `strict` and the number of `quanta` together, not 2",
        ),
    ] {
        let error = change(words, &mut drops).expect_err(words);
        assert_eq!(error.to_string(), message);
    }
    change("bands 5", &mut drops).expect("more bands");
    assert!(drops.is_empty());
    let child = Target::Below(ClassId::new(1, 5));
    queue
        .change(child, &mut Words::new("limit 3"), now, &mut drops)
        .expect("the child of a new band");
    let text = queue.report().to_string();
    assert!(
        text.contains("bands 5 strict 1 quanta 3000 700 1514 1514 priomap 4 4"),
        "{text}"
    );
    let child = &queue.report().classes[4].children[0];
    assert_eq!(child.options, [("limit", Value::Packets(3))]);
    let mut change = |words, drops: &mut Drops<Probe>| change_tree(&mut *queue, words, now, drops);
    change("bands 2 quanta 900", &mut drops).expect("fewer bands");
    assert_eq!(drops.len(), 4, "those of the third");
    assert_eq!(queue.report().classes.len(), 2);
    let class = Target::Class(ClassId::new(1, 2));
    let error = queue.change(class, &mut Words::new("quantum 0"), now, &mut drops);
    assert_eq!(error.expect_err("zero").at, 8..9);
}
