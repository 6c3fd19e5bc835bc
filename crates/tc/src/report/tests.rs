//! Reports beside what `tc -s -d qdisc show`, `tc -s -d -j qdisc show` and `tc -s -d class show` of
//! iproute2 6.1.0 print for the same qdiscs on Linux 6.1.192, recorded by `recorded.txt`'s
//! commands on a device that is down.

use super::*;
use crate::discipline::Inspect;
use crate::tree::Tree;
use alloc::string::ToString;
use serde_json::Value as Json;
use std::{format, println};
use tautline_base::{Drops, Instant, Qdisc};
use tautline_qdisc::stats::{FlowStats, Stats};
use tautline_testkit::Probe;

const RECORDED: &str = include_str!("recorded.txt");

/// Words of `tc` that ours say otherwise: its internals, and what Linux 6.1 cuts to ticks of 64 ns
/// (of 1024 ns in CoDel).
const NOT_OURS: [(&str, &str); 13] = [
    ("  2ms", " 2ms"),
    ("1517b/1 mpu 0b", "1514b"),
    ("15337b/1", "15Kb"),
    ("20462b/1", "20Kb"),
    ("/1", ""),
    ("999us", "1ms"),
    ("Kb mpu 0b level", "Kb level"),
    ("Kb mpu 64b level", "Kb level"),
    (" ewma 8", ""),
    (" ewma 6", ""),
    (" ewma 5", ""),
    (" Scell_log 18", ""),
    (" Scell_log 15", ""),
];

/// Values in `tc`'s JSON that ours has otherwise, and why.
const OTHERWISE: [(&str, &str); 8] = [
    ("ewma", "a logarithm; ours is told avpkt and burst"),
    ("Scell_log", "a logarithm; ours is told the bandwidth"),
    ("horizon_drop", "null"),
    ("horizon_cap", "null"),
    ("burst", "text"),
    ("mtu", "text"),
    ("mpu", "ours is silent about what is as always"),
    ("linklayer", "ours is silent about what is as always"),
];

/// The report of `words`, as one sees it who wraps the root.
fn report(words: &str) -> Report {
    let words = format!(" {words} ")
        .replace(" fq ", " fq linux ")
        .replace("htb default 12", "htb default 12 depth ticks");
    let tree: Tree = words
        .parse()
        .unwrap_or_else(|error: crate::words::ParseError| panic!("{}", error.pointing_at(&words)));
    let handle = if words.starts_with(" qdisc") {
        tree.handle()
    } else {
        ClassId::new(0x8001, 0)
    };
    Stats::new(tree.build::<Probe>().expect(&words))
        .named(handle)
        .report()
}

/// The first words of a block say what it is about: `qdisc codel 11:`.
fn blocks(text: &str) -> Vec<Vec<&str>> {
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match blocks.last_mut() {
            Some(block) if !line.starts_with(['q', 'c']) => block.push(line),
            _ => blocks.push(alloc::vec![line]),
        }
    }
    blocks
}

fn name(line: &str) -> Vec<&str> {
    line.split(' ').take(3).collect()
}

/// Every line of `theirs` begins a line of the same block of `ours`.
fn same_text(ours: &str, theirs: &str) {
    // The one class of TBF, of which `tc` has nothing to tell, is no class of ours.
    for block in blocks(theirs)
        .iter()
        .filter(|block| !block[0].starts_with("class tbf"))
    {
        let all = blocks(ours);
        let mine = all
            .iter()
            .find(|mine| name(mine[0]) == name(block[0]))
            .unwrap_or_else(|| panic!("{}: {ours}", block[0]));
        for (at, line) in block.iter().enumerate() {
            let line = NOT_OURS
                .iter()
                .fold(line.to_string(), |line, (tc, us)| line.replace(tc, us));
            let same = mine.get(at).is_some_and(|mine| mine.starts_with(&line));
            assert!(
                same,
                "tc: {line}\nwe: {}",
                mine.get(at).unwrap_or(&"nothing")
            );
        }
    }
}

/// Everything in `theirs` is in `ours` too and has the same value.
fn same_json(path: &str, ours: &Json, theirs: &Json) {
    match theirs {
        Json::Object(theirs) => {
            let comparable = |(key, _): &(&alloc::string::String, &Json)| {
                OTHERWISE.iter().all(|(other, _)| key != other)
            };
            for (key, value) in theirs.iter().filter(comparable) {
                let mine = ours
                    .get(key)
                    .unwrap_or_else(|| panic!("{path}: {key} is missing in {ours}"));
                same_json(&format!("{path} {key}"), mine, value);
            }
        }
        Json::Number(theirs) => {
            let [mine, theirs] =
                [ours.as_f64(), theirs.as_f64()].map(|number| number.expect("a number"));
            // What Linux cuts to ticks.
            let cut = theirs > 900.0 && mine - theirs <= 2.0 && mine > theirs;
            assert!(mine == theirs || cut, "{path}: {mine}, not {theirs}");
        }
        Json::Array(theirs) => {
            assert_eq!(ours.as_array().map(Vec::len), Some(theirs.len()), "{path}");
            theirs
                .iter()
                .enumerate()
                .for_each(|(at, theirs)| same_json(&format!("{path} {at}"), &ours[at], theirs));
        }
        theirs => assert_eq!(ours, theirs, "{path}"),
    }
}

#[test]
fn reports_are_those_of_tc() {
    let known: Vec<&str> = crate::kind::Kind::all().map(|kind| kind.name()).collect();
    for case in RECORDED.split("=== ").skip(1) {
        let (words, printed) = case.split_once('\n').expect("a line of words");
        if !words.starts_with("qdisc")
            && !known
                .iter()
                .any(|kind| words.split(' ').next() == Some(*kind))
        {
            println!("no {words}");
            continue;
        }
        println!("{words}");
        let report = report(words);
        let (json, text): (Vec<_>, Vec<_>) =
            printed.lines().partition(|line| line.starts_with('['));
        same_text(&report.to_string(), &text.join("\n"));
        let theirs: Json = serde_json::from_str(json[0]).expect("what tc printed");
        let ours = serde_json::to_value(report.qdisc_show()).expect("serializes");
        for theirs in theirs.as_array().expect("a list") {
            let ours = ours
                .as_array()
                .expect("a list")
                .iter()
                .find(|ours| ours["handle"] == theirs["handle"]);
            same_json(words, ours.expect("the same disciplines"), theirs);
        }
    }
}

/// Parameters and counters that `tc` lacks follow those it prints.
#[test]
fn all_parameters_and_counters_are_told() {
    let text = "\
qdisc fq_codel 8001: root refcnt 2 limit 10240p flows 1024 quantum 1514 target 5ms interval 100ms memory_limit 32Mb ecn drop_batch 64 \
backlog queue emptied waits mtu 1514b law rfc8289
 Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
  maxpacket 0 drop_overlimit 0 new_flow_count 0 ecn_mark 0
  new_flows_len 0 old_flows_len 0";
    assert_eq!(report("fq_codel").to_string(), text);
    let json = serde_json::to_value(report("codel noecn")).expect("serializes");
    assert_eq!(
        (&json["options"]["ecn"], &json["options"]["law"]),
        (&false.into(), &"rfc8289".into())
    );
    // Sizes of a class are cut as `tc` cuts them, and JSON has them in full.
    let class = report("qdisc root handle 1: drr; class classid 1:7 drr quantum 20465");
    let line = class.class_show().to_string();
    assert!(line.contains("class drr 1:7 root quantum 20Kb"), "{line}");
    let json = serde_json::to_value(class.class_show()).expect("serializes");
    assert_eq!(json[0]["quantum"], 20_465);
    // Classes and qdiscs below are nested in a report, in a row in a list.
    let tree = report(
        "qdisc root handle 1: drr; class classid 1:7 drr; qdisc parent 1:7 handle 70: codel",
    );
    let json = serde_json::to_value(&tree).expect("serializes");
    let class = &json["classes"][0];
    assert_eq!(
        (&class["class"], &class["handle"], &class["leaf"]),
        (&"drr".into(), &"1:7".into(), &"70:".into())
    );
    assert_eq!(
        (&class["stats"]["bytes"], &class["children"][0]["kind"]),
        (&0.into(), &"codel".into())
    );
    let json = serde_json::to_value(tree.class_show()).expect("serializes");
    assert_eq!(
        (&json[0]["root"], &json[0]["quantum"]),
        (&true.into(), &1514.into())
    );
}

#[test]
fn times_of_stay_are_told() {
    let mut qdisc = Stats::new(FlowStats::new(
        crate::tree::build::<Probe>("pfifo").expect("pfifo"),
        8,
    ));
    let mut drops = Drops::new();
    for millis in 1..=100 {
        qdisc.enqueue(
            Probe::new(0).flow(0xab).sized(42),
            Instant::ZERO,
            &mut drops,
        );
        qdisc.dequeue(Instant::from_millis(millis), &mut drops);
    }
    let report = qdisc.report();
    let text = "
  sojourn last 100ms p50 67.1ms p95 100ms p99 100ms max 100ms
  flow 0xab sent 4200 bytes 100 pkt dropped 0 sojourn last 100ms p50 67.1ms p95 100ms p99 100ms max 100ms";
    assert!(report.to_string().ends_with(text), "{report}");
    let json = serde_json::to_value(&report).expect("serializes");
    assert_eq!(json["sojourn"]["p50"], 67_108.863);
    assert_eq!(
        (&json["sojourn"]["count"], &json["sojourn"]["max"]),
        (&100.into(), &100_000.into())
    );
    let histogram = json["sojourn"]["log2_ns"].as_array().expect("a list");
    assert_eq!((histogram.len(), &histogram[26]), (27, &33.into()));
    assert_eq!(
        (&json["flows"][0]["flow"], &json["flows"][0]["bytes"]),
        (&"0xab".into(), &4200.into())
    );
}

/// The unit of `tc` 6.1 with Linux 6.1: of these times of `fq` nanoseconds, of the others
/// microseconds.
#[test]
fn some_times_of_fq_are_in_nanoseconds() {
    let words = "fq linux timer_slack 10us horizon 10s maxrate 1mbit";
    let (mut qdisc, mut drops) = (
        crate::tree::build::<Probe>(words).expect("fq"),
        Drops::new(),
    );
    for id in 0..40 {
        qdisc.enqueue(Probe::new(id).flow(1), Instant::ZERO, &mut drops);
    }
    while qdisc.dequeue(Instant::ZERO, &mut drops).is_some() {}
    let late = qdisc.ready_at().expect("paced") + Duration::from_micros(300);
    qdisc.dequeue(late, &mut drops).expect("a packet");
    let json = serde_json::to_value(qdisc.report()).expect("serializes");
    let options = &json["options"];
    assert_eq!(
        (&options["timer_slack"], &options["horizon"]),
        (&10_000.into(), &10_000_000.into())
    );
    assert_eq!(
        (&options["pacing"], &options["nopacing"]),
        (&true.into(), &Json::Null)
    );
    let nanos = json["latency"].as_u64().expect("a number");
    assert!((30_000..400_000).contains(&nanos), "{json}");
}

#[test]
fn a_time_of_a_full_queue_stands_for_the_limit_of_tbf() {
    let report = report("tbf rate 1mbit burst 5kb limit 9kb peakrate 1.2mbit mtu 1600");
    let line = report.to_string();
    assert!(
        line.contains(" lat 50.8ms linklayer ethernet limit 9Kb"),
        "{line}"
    );
    let json = serde_json::to_value(&report).expect("serializes");
    assert_eq!(
        (&json["options"]["lat"], &json["options"]["minburst"]),
        (&50_773.into(), &1600.into())
    );
}
