//! Reports beside what `tc -s -d qdisc show` and `tc -s -d -j qdisc show` of iproute2 6.1.0 print for the same discipline on
//! Linux 6.1.192. Ours shows more after `tc`'s words, and no blanks at line ends.

use super::*;
use crate::discipline::Qdisc;
use crate::drops::Drops;
use crate::stats::Stats;
use crate::testing::Probe;
use alloc::string::ToString;
use serde_json::Value as Json;
use tautline_base::Instant;

/// The report of `words` after one packet of 42 bytes passed, as in the recordings.
fn after_one_packet(words: &str) -> Report {
    let mut qdisc = Stats::new(crate::build::<Probe>(words).expect(words));
    let mut drops = Drops::new();
    qdisc.enqueue(Probe::new(0).sized(42), Instant::ZERO, &mut drops);
    qdisc.dequeue(Instant::ZERO, &mut drops);
    Report { id: Some(ClassId::new(0x8001, 0)), sojourn: None, ..crate::Inspect::report(&qdisc) }
}

fn text(words: &str) -> String {
    after_one_packet(words).to_string()
}

/// Checks that everything in `recorded`, printed by `tc`, is in our JSON too and has the same value, but for `other`: what Linux
/// cuts to its ticks of 1024 ns, and what we do not know.
fn agrees(words: &str, recorded: &str, other: &[&str]) {
    let ours = serde_json::to_value(after_one_packet(words).qdisc_show()).expect("serializes");
    let theirs: Json = serde_json::from_str(recorded).expect("what tc printed");
    check(words, &ours[0], &theirs, other);
}

fn check(path: &str, ours: &Json, theirs: &Json, other: &[&str]) {
    let Json::Object(theirs) = theirs else { return assert_eq!(ours, theirs, "{path}") };
    for (key, value) in theirs.iter().filter(|(key, _)| *key != "refcnt" && !other.contains(&key.as_str())) {
        let ours = ours.get(key).unwrap_or_else(|| panic!("{path}: {key} is missing in {ours}"));
        check(&std::format!("{path}: {key}"), ours, value, other);
    }
}

const SENT: &str = "
 Sent 42 bytes 1 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0";

#[test]
fn fifos_print_as_tc_prints_them() {
    for (words, line) in [
        ("pfifo limit 7", "qdisc pfifo 8001: root refcnt 2 limit 7p"),
        (
            "pfifo_fast",
            "qdisc pfifo_fast 8001: root refcnt 2 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1 limit 1000p places at-once",
        ),
    ] {
        assert_eq!(text(words), [line, SENT].concat());
    }
    agrees(
        "pfifo limit 7",
        r#"{"kind":"pfifo","handle":"8001:","root":true,"refcnt":2,"options":{"limit":7},"bytes":42,"packets":1,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0}"#,
        &[],
    );
}

#[test]
fn codel_prints_as_tc_prints_it() {
    assert_eq!(
        text("codel linux ecn ce_threshold 1ms limit 7"),
        "\
qdisc codel 8001: root refcnt 2 limit 7p target 5ms ce_threshold 1ms interval 100ms ecn mtu 1514b law linux
 Sent 42 bytes 1 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
  count 0 lastcount 0 ldelay 0us drop_next 0us
  maxpacket 42 ecn_mark 0 drop_overlimit 0"
    );
    agrees(
        "codel linux ecn ce_threshold 1ms limit 7",
        r#"{"kind":"codel","handle":"8001:","root":true,"refcnt":2,"options":{"limit":7,"target":4999,"ce_threshold":999,"interval":99999,"ecn":true},"bytes":42,"packets":1,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0,"count":0,"lastcount":0,"ldelay":0,"drop_next":0,"maxpacket":42,"ecn_mark":0,"drop_overlimit":0}"#,
        &["target", "interval", "ce_threshold", "lastcount", "drop_next"],
    );
}

#[test]
fn fq_codel_prints_as_tc_prints_it() {
    assert_eq!(
        text("fq_codel"),
        "\
qdisc fq_codel 8001: root refcnt 2 limit 10240p flows 1024 quantum 1514 target 5ms interval 100ms memory_limit 32Mb ecn drop_batch 64 \
         backlog queue emptied waits mtu 1514b law rfc8289
 Sent 42 bytes 1 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
  maxpacket 42 drop_overlimit 0 new_flow_count 1 ecn_mark 0
  new_flows_len 1 old_flows_len 0"
    );
    agrees(
        "fq_codel linux",
        r#"{"kind":"fq_codel","handle":"8001:","root":true,"refcnt":2,"options":{"limit":10240,"flows":1024,"quantum":1514,"target":4999,"interval":99999,"memory_limit":33554432,"ecn":true,"drop_batch":64},"bytes":42,"packets":1,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0,"maxpacket":42,"drop_overlimit":0,"new_flow_count":1,"ecn_mark":0,"new_flows_len":1,"old_flows_len":0}"#,
        &["target", "interval"],
    );
}

#[test]
fn times_of_stay_are_told() {
    let mut qdisc = Stats::new(crate::build::<Probe>("pfifo").expect("pfifo"));
    let mut drops = Drops::new();
    for millis in 1..=100 {
        qdisc.enqueue(Probe::new(0).sized(42), Instant::ZERO, &mut drops);
        qdisc.dequeue(Instant::from_millis(millis), &mut drops);
    }
    let report = crate::Inspect::report(&qdisc);
    assert!(report.to_string().ends_with("\n  sojourn last 100ms p50 67.1ms p95 100ms p99 100ms max 100ms"), "{report}");
    let json = serde_json::to_value(&report).expect("serializes");
    assert_eq!(json["sojourn"]["p50"], 67_108.863);
    assert_eq!((&json["sojourn"]["count"], &json["sojourn"]["max"]), (&100.into(), &100_000.into()));
    let histogram = json["sojourn"]["log2_ns"].as_array().expect("a list");
    assert_eq!((histogram.len(), &histogram[26]), (27, &33.into()));
}
