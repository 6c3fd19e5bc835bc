//! Scripts in, trees out, and back again.

use super::*;
use crate::discipline::Inspect;
use crate::report::Report;
use crate::tree::build;
use alloc::string::{String, ToString};
use proptest::prelude::*;
use tautline_base::{Drops, Instant, Qdisc};
use tautline_testkit::Probe;

/// As one finds them: a device, comments, a line that goes on, the order of words that people like.
const SCRIPT: &str = "tc qdisc del dev eth0 root 2>/dev/null
tc qdisc add dev eth0 root handle 1: drr
tc class add dev eth0 parent 1: classid 1:1 drr quantum 3000   # twice its share
sudo tc class add dev eth0 parent 0x1: classid 1:0xa drr
/sbin/tc qdisc add dev eth0 parent 1:1 handle 10: prio bands 2 \\
    priomap 1 1 1 1 1 1 0 0 1 1 1 1 1 1 1 1
tc qdisc replace dev eth0 parent 10:2 codel limit 5
tc filter add dev eth0 protocol ip parent 1: prio 1 u32 match ip dport 80 0xffff flowid 1:1
tc filter add dev eth0 parent 10: handle 7 fw classid 10:1";

/// The same, in full.
const PRINTED: &str = "qdisc add root handle 1: drr
class add parent 1: classid 1:1 drr quantum 3000b
class add parent 1: classid 1:a drr quantum 1514b
filter add parent 1: protocol ip pref 1 u32 match u32 0x00000050 0x0000ffff at 20 flowid 1:1
qdisc add parent 1:1 handle 10: prio bands 2 priomap 1 1 1 1 1 1 0 0 1 1 1 1 1 1 1 1
filter add parent 10: protocol all pref 49152 handle 0x7/0xffffffff fw flowid 10:1
qdisc add parent 10:2 handle 8001: codel limit 5p target 5ms interval 100ms mtu 1514b law rfc8289 noecn";

fn tree(text: &str) -> Tree {
    text.parse()
        .unwrap_or_else(|error: ParseError| panic!("{}", error.pointing_at(text)))
}

fn report(text: &str) -> Report {
    tree(text).build::<Probe>().expect(text).report()
}

/// Which qdisc stands where: `codel 11: 1:1`.
fn places(text: &str) -> Vec<String> {
    let lines = report(text).qdisc_show().to_string();
    let first_words = |line: &str| {
        line.split(' ')
            .skip(1)
            .take(4)
            .collect::<Vec<_>>()
            .join(" ")
    };
    lines
        .lines()
        .filter(|line| line.starts_with("qdisc"))
        .map(first_words)
        .collect()
}

#[test]
fn scripts_for_tc_are_read_and_printed_in_full() {
    let tree = tree(SCRIPT);
    assert_eq!(tree.to_string(), PRINTED);
    assert_eq!(PRINTED.parse(), Ok(tree.clone()));
    assert_eq!(
        (tree.root().name(), tree.handle()),
        ("drr", ClassId::new(1, 0))
    );
    assert_eq!(
        places(SCRIPT),
        [
            "drr 1: root refcnt",
            "prio 10: parent 1:1",
            "codel 8001: parent 10:2"
        ]
    );
}

#[test]
fn a_kind_alone_stands_below_the_command_before() {
    let text = "tbf rate 12mbit burst 5kb latency 50ms; red limit 60000 avpkt 1000 burst 20; drr; class classid 8002:1 drr\ncodel ecn";
    let chain = [
        "tbf 1: root refcnt",
        "red 8001: parent 1:1",
        "drr 8002: parent 8001:1",
        "codel 8003: parent 8002:1",
    ];
    assert_eq!(places(text), chain);
    assert_eq!(tree(text).to_string().parse(), Ok(tree(text)));
    assert_eq!(
        tree("codel").to_string(),
        "codel limit 1000p target 5ms interval 100ms mtu 1514b law rfc8289 noecn"
    );
    assert_eq!(
        Ok(Tree::from(Kind::Codel(Default::default()))),
        "codel".parse()
    );
    assert_eq!(
        tree("qdisc root handle 8: codel").handle(),
        ClassId::new(8, 0)
    );
    // A qdisc that has one class goes by that class's name too.
    assert_eq!(
        places("tbf rate 1mbit burst 5kb latency 1s; qdisc parent 1: pfifo")[1],
        "pfifo 8001: parent 1:1"
    );
}

#[test]
fn each_class_counts_and_measures() {
    let report = report("drr; class classid 1:1 drr; class classid 1:2 drr; fq_codel");
    for (class, kind) in report.classes.iter().zip(["pfifo", "fq_codel"]) {
        let child = &class.children[0];
        assert_eq!(child.kind, kind);
        assert!(child.common.is_some() && child.sojourn.is_some());
    }
    assert!(
        report.common.is_none(),
        "the root is counted by whoever wraps it"
    );
}

#[test]
fn handles_are_given_in_order_and_never_twice() {
    let bands = "prio; qdisc parent 1:1 handle 8001: pfifo; qdisc parent 1:2 pfifo; qdisc parent 1:3 handle 3 pfifo";
    assert_eq!(
        places(bands)[1..],
        [
            "pfifo 8001: parent 1:1",
            "pfifo 8002: parent 1:2",
            "pfifo 3: parent 1:3"
        ]
    );
}

#[test]
fn errors_point_at_the_word() {
    for (text, message, words) in [
        (
            "tc",
            "the name of a queueing discipline is missing: choose",
            "",
        ),
        (
            "tc qdisc add dev eth0 root fqcodel",
            "`fqcodel` is no queueing discipline: choose",
            "fqcodel",
        ),
        (
            "qdisc add dev",
            "`dev` lacks its value: a device's name",
            "dev",
        ),
        (
            "qdisc root handle x: prio",
            "`x:` is no value for `handle`: give a handle, e.g. 1:",
            "x:",
        ),
        (
            "prio; qdisc dev a parent 1:1 pfifo; qdisc dev b parent 1:2 pfifo",
            "`b` does not fit here: give the device of",
            "b",
        ),
        (
            "qdisc parent 1:1 pfifo",
            "`1:1` does not fit here: give first the root",
            "1:1",
        ),
        (
            "prio; qdisc root pfifo",
            "`root` does not fit here: give parent CLASS: there is a root already",
            "root",
        ),
        (
            "qdisc change root pfifo",
            "`change` does not fit here: give add or replace",
            "change",
        ),
        (
            "prio; qdisc del parent 1:1",
            "something is missing: root: only all can be deleted",
            "qdisc del parent 1:1",
        ),
        (
            "prio; qdisc parent 1:4 pfifo",
            "the tree has no class 1:4",
            "1:4",
        ),
        (
            "prio; qdisc parent 2:1 pfifo",
            "the tree has no class 2:1",
            "2:1",
        ),
        (
            "prio; qdisc parent 1:1 pfifo; qdisc parent 1:1 codel",
            "class 1:1 has a qdisc already",
            "1:1",
        ),
        (
            "prio; qdisc parent 1:1 handle 1: pfifo",
            "`1:` does not fit here: give a handle that no other",
            "1:",
        ),
        (
            "prio; pfifo",
            "something is missing: parent CLASS, e.g. parent 1:10",
            "pfifo",
        ),
        (
            "codel; pfifo",
            "something is missing: parent CLASS, e.g. parent 1:10",
            "pfifo",
        ),
        (
            "prio; class classid 1:1 prio",
            "class 1:1 in line 1: `1:1` does not fit here: give a class of a discipline to which classes",
            "1:1",
        ),
        (
            "drr; class classid 2:1 drr",
            "class 2:1 in line 1: the tree has no class 2:",
            "2:1",
        ),
        (
            "drr; class parent 1: drr",
            "something is missing: classid CLASS, e.g. classid 1:10",
            "class parent 1: drr",
        ),
        (
            "drr; class classid 1:1",
            "class 1:1 in line 1: something is missing: the name of a queueing discipline",
            "class classid 1:1",
        ),
        (
            "drr; class classid 1:1 prio",
            "class 1:1 in line 1: `prio` does not fit here: give the kind of the qdisc that",
            "prio",
        ),
        (
            "drr; class parent 1:7 classid 1:1 drr",
            "class 1:1 in line 1: the tree has no class 1:7",
            "1:7",
        ),
        (
            "drr; class classid 1:1 drr quantum",
            "class 1:1 in line 1: `quantum` lacks its value: a size",
            "quantum",
        ),
        (
            "drr; class classid 1:1 drr rate 5",
            "class 1:1 in line 1: `rate` is no option of drr, which takes: quantum SIZE",
            "rate",
        ),
        (
            "drr; class change classid 1:1 drr",
            "class 1:1 in line 1: the tree has no class 1:1",
            "1:1",
        ),
        // What a qdisc refuses when it is made.
        (
            "# first\ndrr \\\n\nclass classid 1:1 drr\n\n class replace \\\r\n classid 1:1 \\\n drr quantum 0b",
            "class 1:1 in line 6: drr: `quantum` must be at least 1b, not 0b",
            "0b",
        ),
        (
            "drr; class classid 1:1 drr quantum 0b",
            "class 1:1 in line 1: drr: `quantum` must be at least 1b, not 0b",
            "0b",
        ),
        (
            "drr; class classid 1:1 drr; class classid 1:1 drr",
            "class 1:1 in line 1: class 1:1 exists already: replace or change sets",
            "1:1",
        ),
        (
            "prio; qdisc parent 1:2 fq_codel flows 65537 limit 5",
            "fq_codel: `flows` must be from 1 to 65536, not 65537",
            "65537",
        ),
        ("prio bands 1", "prio: `bands` must be", "1"),
        (
            "filter parent 1: matchall flowid 1:1",
            "the tree has no class 1:",
            "1:",
        ),
        (
            "filter matchall flowid 1:1",
            "something is missing: the handle of a discipline with filters",
            "filter matchall flowid 1:1",
        ),
        (
            "pfifo; filter matchall flowid 1:1",
            "something is missing: the handle of a discipline",
            "filter matchall flowid 1:1",
        ),
        (
            "prio; filter parent 1:1 matchall flowid 1:1",
            "the tree has no class 1:1",
            "1:1",
        ),
        (
            "prio; filter matchal flowid 1:1",
            "`matchal` is no value for `filter`: give matchall",
            "matchal",
        ),
    ] {
        let error = text.parse::<Tree>().expect_err(text);
        assert!(error.to_string().starts_with(message), "{text}: {error}");
        assert_eq!(&text[error.at.clone()], words, "{text}: {error}");
        assert_eq!(build::<Probe>(text).err(), Some(error), "{text}");
    }
}

/// As `tc class show` shows them after the same commands (iproute2 6.1, Linux 6.1).
#[test]
fn a_class_that_is_set_again_gets_what_linux_gives_it() {
    let tree = |text: &str| text.parse::<Tree>().expect(text);
    for verb in ["replace", "change"] {
        let twice = alloc::format!(
            "htb; class classid 1:1 htb rate 1mbit ceil 9mbit prio 3 quantum 5000
             class parent 1:1 classid 1:2 htb rate 1mbit
             class {verb} parent 1: classid 1:2 htb rate 3mbit; pfifo
             class {verb} classid 1:1 htb rate 2mbit"
        );
        let once = "htb; class classid 1:1 htb rate 2mbit
             class parent 1:1 classid 1:2 htb rate 3mbit; pfifo";
        assert_eq!(
            tree(&twice),
            tree(once),
            "{verb}: all anew, below its parent"
        );
        let twice = alloc::format!(
            "drr; class classid 1:1 drr quantum 5000; class {verb} classid 1:1 drr
             class classid 1:2 drr quantum 5000; class {verb} classid 1:2 drr quantum 6000"
        );
        let once = "drr; class classid 1:1 drr quantum 5000; class classid 1:2 drr quantum 6000";
        assert_eq!(tree(&twice), tree(once), "{verb}: a quantum stays");
    }
    assert_eq!(
        tree("drr; class replace classid 1:1 drr"),
        tree("drr; class classid 1:1 drr")
    );
}

/// The script of this module's documentation: what a web server sends has a class of its own.
#[test]
fn filters_and_defaults_choose_the_class() {
    let script = "tc qdisc add dev eth0 root handle 1: htb default 10
        tc class add dev eth0 parent 1: classid 1:1 htb rate 100mbit
        tc class add dev eth0 parent 1:1 classid 1:10 htb rate 80mbit ceil 100mbit
        tc class add dev eth0 parent 1:1 classid 1:12 htb rate 20mbit ceil 100mbit prio 1
        tc qdisc add dev eth0 parent 1:12 handle 12: fq_codel
        tc filter add dev eth0 parent 1: prio 1 handle 6 fw flowid 1:12";
    let mut qdisc = tree(script).build::<Probe>().expect(script);
    let mut drops = Drops::new();
    for (id, mark) in [6, 7, 6].into_iter().enumerate() {
        qdisc.enqueue(
            Probe::new(id as u32).marked(mark),
            Instant::ZERO,
            &mut drops,
        );
    }
    for _ in 0..3 {
        qdisc
            .dequeue(Instant::ZERO, &mut drops)
            .expect("within the burst");
    }
    let report = qdisc.report();
    let classes = report.class_show().to_string();
    let of = |class: &str| {
        classes
            .lines()
            .skip_while(|line| !line.contains(class))
            .take(2)
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert!(
        of("class htb 1:12 parent 1:1 leaf 12: prio 1").contains("\n Sent 3028 bytes 2 pkt"),
        "{classes}"
    );
    assert!(
        of("class htb 1:10 parent 1:1 prio 0").contains("\n Sent 1514 bytes 1 pkt"),
        "{classes}"
    );
    assert!(
        of("class htb 1:1 root rate 100Mbit").contains("\n Sent 4542 bytes 3 pkt"),
        "{classes}"
    );
    assert_eq!(tree(script).to_string().parse(), Ok(tree(script)));
    // Classless qdiscs take filters too, if they have queues to choose from.
    assert_eq!(
        tree("cake; filter matchall flowid 1:3")
            .to_string()
            .lines()
            .count(),
        2
    );
    assert_eq!(
        tree("dualpi2; filter matchall flowid 1:1")
            .to_string()
            .lines()
            .count(),
        2
    );
}

/// Scripts that tests below corrupt: every kind, with most of its words.
const SCRIPTS: [&str; 6] = [
    SCRIPT,
    "htb r2q 10 default 12 direct_qlen 7; class classid 1:1 htb rate 9mbit ceil 10mbit burst 15k cburst 20k prio 1 quantum 3000
     class parent 1:1 classid 1:12 htb rate 64kbit overhead 4 mpu 64 linklayer atm; sfq perturb 10 depth 20 flows 100 headdrop
     filter parent 1: protocol ip prio 2 flower ip_proto tcp dst_port 80 classid 1:12",
    "cake bandwidth 20mbit diffserv4 dual-srchost nat wash ingress ack-filter rtt 50ms atm overhead 18 mpu 64 memlimit 4mb fwmark 0xf",
    "netem limit 77 delay 20ms 2ms 25% loss gemodel 1% 10% 70% 0.1% duplicate 1% corrupt 0.1% rate 10mbit 10 48 5 slot 1ms 2ms
     pie limit 5 target 20ms tupdate 30ms alpha 2 beta 20 ecn bytemode",
    "tbf rate 12mbit burst 5kb latency 50ms peakrate 20mbit mtu 1514; red limit 60000 min 5000 max 15000 avpkt 1000 burst 20 ecn
     fq limit 7 flow_limit 3 buckets 64 quantum 3000 maxrate 10mbit horizon 5s",
    "mq queues 3; qdisc parent 1:1 fq_pie flows 16; qdisc parent 1:2 dualpi2 limit 9; qdisc parent 1:3 cobalt ecn",
];

#[test]
fn what_is_spoiled_is_right_before() {
    for script in SCRIPTS {
        tree(script);
    }
}

/// Below each other, as deep as may be, and one deeper.
#[test]
fn depth_is_bounded() {
    let script = |depth| std::vec!["tbf rate 1mbit burst 5kb latency 50ms"; depth].join(";");
    assert_eq!(places(&script(MAX_DEPTH)).len(), MAX_DEPTH);
    let error = script(MAX_DEPTH + 1).parse::<Tree>().expect_err("too deep");
    assert_eq!(error.to_string(), "no more than 16 qdiscs may be nested");
}

proptest! {
    /// Any text is read or refused, and what is refused has a place.
    #[test]
    fn no_text_panics(text in prop_oneof![".*", "([a-z0-9:#;\n]{1,6} ?){0,30}"]) {
        if let Err(error) = text.parse::<Tree>() {
            let _ = error.pointing_at(&text).to_string();
            prop_assert!(text.get(error.at).is_some());
        }
    }

    /// Scripts with words exchanged, left out, doubled, spoiled: read or refused; what is read can
    /// be printed, read again, and built.
    #[test]
    fn no_spoiled_script_panics(
        script in proptest::sample::select(&SCRIPTS[..]),
        edits in proptest::collection::vec((0..120usize, 0..120usize, 0..6u8), 1..6),
    ) {
        let mut words: Vec<String> = script.split_inclusive([' ', '\n']).map(String::from).collect();
        for (at, other, edit) in edits {
            let (at, other) = (at % words.len(), other % words.len());
            match edit {
                0 => words.swap(at, other),
                1 => words[at] = words[other].clone(),
                2 => words[at] = words[at].replace(|c: char| c.is_ascii_digit(), "9"),
                3 => words[at].insert(0, '-'),
                4 => words[at].clear(),
                _ => words.insert(at, words[other].clone()),
            }
        }
        let text = words.concat();
        match text.parse::<Tree>() {
            Ok(tree) => {
                let report = tree.build::<Probe>().expect("a tree that was read").report();
                let _ = (report.to_string(), serde_json::to_string(&report));
                prop_assert!(tree.build::<Probe>().is_ok());
                prop_assert_eq!(tree.to_string().parse(), Ok(tree));
            }
            Err(error) => prop_assert!(text.get(error.at).is_some()),
        }
    }
}
