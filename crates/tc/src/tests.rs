//! Words in, qdiscs out, and back again; one module for each kind of qdisc, one for filters.

mod blue;
mod cake;
mod cake_mq;
mod cobalt;
mod drr;
mod dualpi2;
mod ets;
mod fifo;
mod filter;
mod fq;
mod fq_pie;
mod htb;
mod mq;
mod netem;
mod pie;
mod prio;
mod red;
mod sfq;
mod tbf;

use super::*;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;
use tautline_base::{Bytes, Drops, Instant};
use tautline_qdisc::codel::{self, CeThreshold, Law, Params};
use tautline_qdisc::fq_codel::{self, BacklogScope, Emptied};
use tautline_testkit::Probe;

/// tdc's defaults: fq_codel limit 10240p flows 1024 target 5ms interval 100ms memory_limit 32Mb ecn
/// drop_batch 64.
#[test]
fn defaults_are_those_of_tc() {
    for (name, words) in [
        ("pfifo", "pfifo limit 1000p"),
        ("pfifo_fast", "pfifo_fast limit 1000p places at-once"),
        (
            "codel",
            "codel limit 1000p target 5ms interval 100ms mtu 1514b law rfc8289 noecn",
        ),
        (
            "fq_codel",
            "fq_codel limit 10240p flows 1024 quantum 1514b memory_limit 32Mb drop_batch 64 backlog queue emptied waits \
             target 5ms interval 100ms mtu 1514b law rfc8289 ecn",
        ),
        (
            "pie",
            "pie limit 1000p target 15ms tupdate 15ms alpha 2 beta 20 noecn nobytemode no_dq_rate_estimator dq_threshold 16Kb ecn_prob 10 \
             max_burst 150ms mtu 1514b law rfc8033 active_above 0b hz 0 first_update 15ms seed 0",
        ),
        (
            "fq_pie",
            "fq_pie limit 10240p flows 1024 quantum 1514b memory_limit 32Mb emptied waits target 15ms tupdate 15ms alpha 2 beta 20 noecn \
             nobytemode no_dq_rate_estimator dq_threshold 16Kb ecn_prob 10 max_burst 150ms mtu 1514b law rfc8033 active_above 0b hz 0 \
             first_update 15ms seed 0",
        ),
        (
            "dualpi2",
            "dualpi2 limit 10000p coupling_factor 2 drop_on_overload step_thresh 1ms min_qlen_step 0p drop_dequeue l4s_ect no_nqb \
             classic_protection 10% target 15ms tupdate 16ms alpha 0.16 beta 3.2 split_gso mtu 1514b seed 0",
        ),
    ] {
        assert_eq!(name.parse::<Kind>().expect(name).to_string(), words);
    }
}

/// `get_unsigned` in iproute2: 0x is hexadecimal, 0 octal.
#[test]
fn numbers_are_those_of_c() {
    for (words, plain) in [
        (
            "fq_codel limit 0x400 flows 02000",
            "fq_codel limit 1024 flows 1024",
        ),
        ("sfq divisor 0x80 depth 0x10", "sfq divisor 128 depth 16"),
    ] {
        let kind: Kind = words.parse().expect(words);
        assert_eq!(plain.parse(), Ok(kind), "{words}");
    }
    assert!("fq_codel flows 08".parse::<Kind>().is_err());
    assert!("prio bands 256".parse::<Kind>().is_err());
}

#[test]
fn what_is_printed_is_read_again() {
    for words in [
        "pfifo limit 7",
        "pfifo_fast limit 0p",
        "codel linux limit 50 target 20ms interval 1s ecn ce_threshold 1ms ce_threshold_selector 0x1/0x3",
        "fq_codel linux limit 7 flows 3 quantum 300 memory_limit 5Kb drop_batch 1 noecn mtu 0 ce_threshold 0ms",
    ] {
        let kind: Kind = words.parse().expect(words);
        assert_eq!(kind.to_string().parse(), Ok(kind), "{words}");
    }
    let Ok(Kind::FqCodel(config)) = "fq_codel linux".parse() else {
        panic!("fq_codel parses")
    };
    assert_eq!(config, fq_codel::Config::linux());
    let Ok(Kind::Codel(config)) = "codel linux".parse() else {
        panic!("codel parses")
    };
    assert_eq!(config, codel::Config::linux());
}

/// `fq_codel_change`: a new threshold is for the packets selected before.
#[test]
fn a_new_threshold_keeps_the_selector() {
    for kind in ["codel", "fq_codel"] {
        let built = format!("{kind} ce_threshold 1ms ce_threshold_selector 0x1/0x3");
        let (mut queue, mut drops) = (build::<Probe>(&built).expect("valid"), Drops::new());
        change_tree(&mut *queue, "ce_threshold 2ms", Instant::ZERO, &mut drops).expect("valid");
        let report = queue.report().to_string();
        for kept in ["ce_threshold 2ms", "ce_threshold_selector 0x1/0x3"] {
            assert!(report.contains(kept), "{report}");
        }
    }
}

#[test]
fn every_word_sets_its_parameter() {
    let words = "fq_codel limit 7p flows 3 quantum 300 memory_limit 5Kb drop_batch 2 backlog qdisc emptied forgotten perturbation 0x2a \
                 target 1ms interval 2s mtu 9 law linux noecn ce_threshold 3us ce_threshold_selector 1/3";
    let Ok(Kind::FqCodel(config)) = words.parse() else {
        panic!("fq_codel parses")
    };
    let codel = Params {
        target: Duration::from_millis(1),
        interval: Duration::from_secs(2),
        mtu: Bytes::new(9),
        ecn: false,
        ce_threshold: Some(CeThreshold {
            delay: Duration::from_micros(3),
            mask: 3,
            selector: 1,
        }),
        law: Law::Linux,
    };
    let expected = fq_codel::Config {
        limit: 7,
        flows: 3,
        quantum: Bytes::new(300),
        memory_limit: Bytes::kib(5),
        drop_batch: 2,
        codel,
        backlog: BacklogScope::Qdisc,
        emptied: Emptied::Forgotten,
        perturbation: Some(42),
    };
    assert_eq!(config, expected);
    let Ok(Kind::Codel(config)) = "codel noecn ecn".parse() else {
        panic!("codel parses")
    };
    assert!(config.codel.ecn);
}

#[test]
fn errors_name_the_word_and_the_remedy() {
    for (words, message) in [
        (
            "pfifo limits 5",
            "`limits` is no option of pfifo, which takes: limit PACKETS; did you mean `limit`?",
        ),
        (
            "codel target",
            "`target` lacks its value: a time, e.g. 5ms, 500us",
        ),
        (
            "codel target 5parsec",
            "`5parsec` is no value for `target`: give a time, e.g. 5ms, 500us",
        ),
        (
            "fq_codel flows -1",
            "`-1` is no value for `flows`: give a whole number, e.g. 64",
        ),
        (
            "fq_codel flows 65537",
            "fq_codel: `flows` must be from 1 to 65536, not 65537",
        ),
        (
            "fq_codel quantum 2Mb",
            "fq_codel: `quantum` must be from 64b to 1Mb, not 2Mb",
        ),
        (
            "fq_codel quantum 0b",
            "fq_codel: `quantum` must be from 64b to 1Mb, not 0b",
        ),
        (
            "codel ce_threshold_selector 1/3",
            "`ce_threshold_selector` needs `ce_threshold` before it",
        ),
        (
            "codel interval 0ns",
            "codel: `interval` must be longer than the tick of the control law's clock (1ns, or 1024ns with law linux), not 0ns",
        ),
    ] {
        let error = build::<Probe>(words).expect_err(words);
        assert_eq!(error.to_string(), message);
    }
    let kinds: Vec<_> = Kind::all().map(|kind| kind.name()).collect();
    for (word, intro) in [
        ("", "the name of a queueing discipline is missing"),
        ("bloat", "`bloat` is no queueing discipline"),
    ] {
        let error = build::<Probe>(word).expect_err("no kind").to_string();
        assert!(error.lines().all(|line| line.len() <= 100), "{error}");
        assert_eq!(
            error.replace("\n ", ""),
            format!("{intro}: choose {}", kinds.join(", "))
        );
    }
    for (words, suggestion) in [
        ("fq_code limit 5", "; did you mean `fq_codel`?"),
        ("fq_codel quantums 5", "; did you mean `quantum`?"),
        ("codel law linus", "; did you mean `linux`?"),
        ("pfifo bloat", "takes: limit PACKETS"),
    ] {
        let error = build::<Probe>(words).expect_err(words).to_string();
        assert!(error.ends_with(suggestion), "{error}");
    }
    let error = build::<Probe>("fq_codel red")
        .expect_err("unknown")
        .to_string();
    assert!(
        error.contains("quantum SIZE") && error.contains("target TIME"),
        "{error}"
    );
}

/// The error about an unknown option lists all options.
#[test]
fn help_names_every_option() {
    for mut kind in Kind::all() {
        let error = format!("{} bloat", kind.name())
            .parse::<Kind>()
            .expect_err("no option")
            .to_string();
        assert!(error.lines().all(|line| line.len() <= 100), "{error}");
        let (_, help) = error.split_once("which takes: ").expect("the options");
        for (option, _) in kind.options_mut().options() {
            assert!(
                help.contains(option),
                "{}: {option} is not among {help}",
                kind.name()
            );
        }
    }
}

/// A qdisc's report shows the kind and the options it was built from.
#[test]
fn kind_and_options_are_reported() {
    for mut kind in Kind::all() {
        if kind.name() == "tbf" {
            kind = "tbf rate 1mbit burst 2kb limit 9kb mpu 64 overhead 4 linklayer atm"
                .parse()
                .expect("valid");
        }
        if kind.name() == "ets" {
            kind = "ets bands 2 strict 1 quanta 9 priomap 1 1 1 1 1 1 0 0 1 1 1 1 1 1 1 1"
                .parse()
                .expect("valid");
        }
        let report = kind.clone().build::<Probe>().expect("valid").report();
        assert_eq!(report.kind, kind.name());
        for option in kind.options_mut().options() {
            assert!(
                report.options.contains(&option),
                "{kind}: {option:?} is not among {:?}",
                report.options
            );
        }
    }
}

/// Zero is no value for `tc`, which passes no such parameter on. With the unit that reports print it
/// is one.
#[test]
fn a_zero_without_a_unit_is_no_value() {
    for kind in ["codel", "fq_codel", "pie", "fq_pie"] {
        let (zero, words) = (
            format!("{kind} limit 0 target 0"),
            format!("{kind} limit 0p target 0ns"),
        );
        assert_eq!(zero.parse::<Kind>(), kind.parse(), "{kind}");
        let literal: Kind = words.parse().expect(&words);
        assert!(literal.to_string().contains("limit 0p"), "{literal}");
        assert!(literal.to_string().contains("target 0ns"), "{literal}");
        assert_eq!(literal.to_string().parse(), Ok(literal), "{kind}");
    }
    for (words, same) in [
        ("codel interval 1s interval 0x0", "codel interval 1s"),
        ("fq_codel flows 0 quantum 0 drop_batch 00", "fq_codel"),
        ("fq_codel limit 7 limit 0", "fq_codel limit 7"),
        ("pie tupdate 0", "pie"),
        ("fq_pie flows 0 quantum 0 memory_limit 0", "fq_pie"),
        ("sfq quantum 0 depth 0 flows 0 divisor 0", "sfq"),
        ("fq buckets 0", "fq"),
        ("red min 0 max 0 burst 0 bandwidth 0", "red"),
        ("ets bands 0 quanta 9", "ets quanta 9"),
        ("htb r2q 0", "htb r2q 1"),
    ] {
        assert_eq!(words.parse::<Kind>(), same.parse(), "{words}");
    }
    let zero = "htb; class classid 1:1 htb rate 1mbit ceil 0 quantum 0 burst 0 cburst 0";
    let same = "htb; class classid 1:1 htb rate 1mbit";
    assert_eq!(zero.parse::<Tree>(), same.parse());
}

/// `matches` in iproute2.
#[test]
fn words_may_be_cut_short_where_tc_takes_them() {
    for (words, same) in [
        ("netem lim 5 del 9ms la 8ms", "netem limit 5 delay 8ms"),
        (
            "netem l 5 d 9ms lo 1% ra 1mbit",
            "netem limit 5 delay 9ms loss 1% rate 1mbit",
        ),
        (
            "netem d 9ms 1ms re 5% g 3 c 1% du 2% dist normal lo 1% e s 1ms",
            "netem delay 9ms 1ms reorder 5% gap 3 corrupt 1% duplicate 2% distribution normal loss 1% ecn slot 1ms",
        ),
        (
            "tbf rate 1mbit bu 2000 lat 9ms peak 2mbit mtu 1600 over 4 link a",
            "tbf rate 1mbit burst 2000 latency 9ms peakrate 2mbit mtu 1600 overhead 4 linklayer atm",
        ),
        ("htb def 1f r 5 dir 7", "htb default 1f r2q 5 direct_qlen 7"),
        (
            "htb; class classid 1:1 htb rate 1mbit pri 3 quant 2000 bur 3k c 4k m 9000 mp 64 ov 4 li ads",
            "htb; class classid 1:1 htb rate 1mbit prio 3 quantum 2000 burst 3k cburst 4k mtu 9000 mpu 64 overhead 4 linklayer atm",
        ),
    ] {
        assert_eq!(words.parse::<Tree>(), same.parse(), "{words}");
        words.parse::<Tree>().expect(words);
    }
    let filter = |words: &str| {
        [
            "prio; filter ",
            words,
            " u32 match ip dport 80 0xffff flowid 1:1",
        ]
        .concat()
    };
    for (words, same) in [
        ("proto ip pri 3 parent 1:", "protocol ip prio 3 parent 1:"),
        (
            "parent 1: pre 3 prot ipv6",
            "parent 1: pref 3 protocol ipv6",
        ),
    ] {
        let [read, expected] = [words, same].map(|words| filter(words).parse::<Tree>());
        assert_eq!(read, expected, "{words}");
        read.expect(words);
    }
    // The others compare whole words.
    for words in [
        "codel lim 5",
        "fq_codel q 300",
        "netem lx 5",
        "tbf ra 1mbit",
        "htb default 1 de",
    ] {
        words.parse::<Tree>().expect_err(words);
    }
    for (text, at) in [
        ("netem lim", "lim"),
        ("netem lim x", "x"),
        ("netem delay 1ms sl 2ms 1ms", "2ms"),
        ("tbf rate 1mbit burst 2000 peak 1mbit mtu 1600", "1mbit"),
    ] {
        let error = build::<Probe>(text).expect_err(text);
        assert_eq!(&text[error.at.clone()], at, "{text}: {error}");
    }
}

/// `fq_codel_change` and `fq_pie_change` in Linux 6.1.
#[test]
fn linux_raises_small_quanta() {
    for kind in ["fq_codel", "fq_pie"] {
        for words in [
            "linux quantum 64",
            "quantum 255b linux",
            "linux quantum 256",
        ] {
            let words = format!("{kind} {words}");
            let raised: Kind = words.parse().expect(&words);
            assert!(raised.to_string().contains("quantum 256b"), "{raised}");
        }
        let words = format!("{kind} quantum 64");
        let taken: Kind = words.parse().expect(&words);
        assert!(taken.to_string().contains("quantum 64b"), "{taken}");
        let linux = format!("{kind} linux");
        let (mut queue, mut drops) = (build::<Probe>(&linux).expect("valid"), Drops::new());
        change_tree(&mut *queue, "quantum 99", Instant::ZERO, &mut drops).expect("valid");
        let quantum = ("quantum", Value::Size(Bytes::new(256)));
        assert!(queue.report().options.contains(&quantum), "{kind}");
    }
}

/// `tc_ctl_tclass` in Linux: the number of the parent's qdisc, or of the root.
#[test]
fn a_class_may_lack_the_number_of_its_qdisc() {
    for parent in ["", "parent 7: ", "parent 7:0 "] {
        let text = format!("qdisc root handle 7: drr; class {parent}classid :a drr; fq_codel");
        let same = "qdisc root handle 7: drr; class parent 7: classid 7:a drr; fq_codel";
        assert_eq!(text.parse::<Tree>(), same.parse(), "{parent}");
        let (mut queue, mut drops) = (build::<Probe>(&text).expect("valid"), Drops::new());
        let change = format!("class change {parent}classid :a drr quantum 700");
        change_tree(&mut *queue, &change, Instant::ZERO, &mut drops).expect("a class");
        let report = queue.report().to_string();
        assert!(
            report.contains("class drr 7:a root leaf 8001: quantum 700b"),
            "{report}"
        );
    }
}
