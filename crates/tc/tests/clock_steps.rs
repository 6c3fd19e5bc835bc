//! A caller's clock that steps back by any amount does not close a shaper or an AQM: everything queued
//! leaves within the time it would have needed, and a second more at most. fq and netem are not here: their
//! packets have times of departure, which a step back does not move. And callers whose clocks differ by
//! microseconds get no more than the rate.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tautline_base::{CallerClock, Instant};
use tautline_qdisc::{Drops, Ledger, Qdisc};
use tautline_tc::{DynQdisc, Tree};
use tautline_testkit::Probe;

/// Every kind, shaped where it can be, and shapers below parents. No AQM has a reason to drop: fewer
/// packets would need less time.
const QDISCS: &[&str] = &[
    "fifo",
    "pfifo",
    "bfifo",
    "pfifo_head_drop",
    "pfifo_fast",
    "red limit 4mb min 1mb max 3mb avpkt 1000",
    "blue",
    "codel target 100s interval 1000s",
    "cobalt target 100s interval 1000s",
    "pie target 100s",
    "dualpi2",
    "sfq perturb 1",
    "fq_codel target 100s interval 1000s",
    "fq_pie target 100s",
    "cake bandwidth 1mbit rtt 1000s",
    "cake linux bandwidth 1mbit diffserv4 rtt 1000s",
    "cake_mq queues 2 bandwidth 1mbit rtt 1000s",
    "tbf rate 1mbit burst 2kb limit 4mb",
    "tbf rate 1mbit burst 2kb limit 4mb peakrate 2mbit mtu 2000",
    "prio; qdisc parent 1:1 tbf rate 1mbit burst 2kb limit 4mb; qdisc parent 1:2 cake bandwidth 1mbit rtt 1000s",
    "ets strict 1 quanta 1000 1000; qdisc parent 1:1 tbf rate 1mbit burst 2kb limit 4mb; qdisc parent 1:3 cake bandwidth 1mbit rtt 1000s",
    "drr; class classid 1:1 drr; class classid 1:2 drr; filter prio 1 handle 1 fw flowid 1:1; filter prio 2 matchall flowid 1:2;
     qdisc parent 1:1 cake bandwidth 1mbit rtt 1000s; qdisc parent 1:2 tbf rate 1mbit burst 2kb limit 4mb",
    "htb default 2; class classid 1:1 htb rate 1mbit; class parent 1:1 classid 1:2 htb rate 1kbit ceil 1mbit",
];

/// A packet: flow, length, priority, mark, and by how much later than its arrival it departs.
type Recipe = (u64, u32, u8, u32, Option<u64>);

const START: Instant = Instant::from_secs(100_000);

fn filled(words: &str, packets: &[Recipe]) -> Ledger<Box<dyn DynQdisc<Probe>>> {
    let tree: Tree = words.parse().expect(words);
    let mut queue = Ledger::new(tree.with_hash_key(7).build::<Probe>().expect(words));
    let mut drops = Drops::new();
    for (id, &(flow, len, priority, mark, later)) in (0..).zip(packets) {
        let mut packet = Probe::new(id)
            .flow(flow)
            .sized(len)
            .with_priority(priority)
            .marked(mark);
        if let Some(later) = later {
            packet = packet.departing(START + Duration::from_millis(later));
        }
        queue.enqueue(packet, START, &mut drops);
    }
    assert!(drops.is_empty(), "{words}");
    queue
}

/// Dequeues all, waiting as the qdisc says; the time from `now` to the last packet.
fn drain(queue: &mut impl Qdisc<Probe>, mut now: Instant) -> Duration {
    let (start, mut last, mut drops) = (now, now, Drops::new());
    while !queue.backlog().is_empty() {
        match queue.dequeue(now, &mut drops) {
            Some(_) => last = now,
            None => {
                let ready = queue.ready_at().expect("packets are queued");
                now = ready.max(now + Duration::from_nanos(1));
            }
        }
    }
    assert!(drops.is_empty());
    last - start
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_step_back_closes_no_qdisc(
        packets in vec((0..4u64, 40..1515u32, 0..16u8, 0..3u32, proptest::option::of(0..900u64)), 1..20),
        before in 0..300_000_000u64,
        step in prop_oneof![0..1_000_000_000u64, Just(3_600_000_000_000), 0..=START.as_nanos()],
    ) {
        for words in QDISCS {
            let now = START + Duration::from_nanos(before);
            let [needed, taken] = [0, step].map(|step| {
                let (mut queue, mut drops) = (filled(words, &packets), Drops::new());
                while queue.dequeue(now, &mut drops).is_some() {}
                drain(&mut queue, now - Duration::from_nanos(step))
            });
            let step = Duration::from_nanos(step);
            // To a shaper a clock that steps back by little stands.
            let stands = if step > CallerClock::JITTER { Duration::ZERO } else { step };
            prop_assert!(taken <= needed + stands, "{}: {:?}, not {:?}", words, taken, needed);
        }
    }
}

/// Two callers in turns, one of which has read the clock 100 µs before.
#[test]
fn callers_out_of_turn_get_no_more_than_the_rate() {
    let packets: Vec<Recipe> = (0..400).map(|flow| (flow % 4, 1000, 0, 0, None)).collect();
    for words in QDISCS.iter().filter(|words| words.contains("1mbit")) {
        let (mut queue, mut drops, mut left) = (filled(words, &packets), Drops::new(), 0);
        for call in 0..50_000 {
            let late = Duration::from_micros(if call % 2 == 0 { 0 } else { 100 });
            let now = START + Duration::from_micros(20 * call) - late;
            left += u64::from(queue.dequeue(now, &mut drops).is_some());
        }
        // Above, each qdisc has one or two shapers of a megabit, and buckets of two packets.
        let shapers = words.matches("1mbit").count().min(2) as u64;
        assert!(left <= shapers * 129, "{words}: {left} packets in a second");
    }
}
