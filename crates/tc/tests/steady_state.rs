//! No qdisc allocates per packet once its backlog has been as large as it gets.

use allocation_counter::measure;
use tautline_base::{Bytes, Frame, HeapFrame, Instant, Item, Packet, Rate};
use tautline_qdisc::filter::{Filters, Verdict};
use tautline_qdisc::{
    ClassId, Drops, Drr, FlowStats, Htb, Ledger, Pfifo, Prio, Qdisc, Stats, Tbf, drr, htb, pfifo,
    prio, tbf,
};
use tautline_tc::{DynQdisc, Tree, Words, build, read_filter};

type Boxed = Box<dyn DynQdisc<Packet<()>>>;

/// Traffic that fills the queue above its limit, drains it, and meets CoDel's law on the way.
fn one_round(
    queue: &mut impl Qdisc<Packet<()>>,
    drops: &mut Drops<Packet<()>>,
    now: &mut u64,
) -> usize {
    let mut dropped = 0;
    for step in 0..4000u64 {
        let packets = if step < 2000 { 2 } else { 0 };
        for flow in 0..packets {
            let hash = (step * 2 + flow) % 300;
            let packet = Packet::new((), 1514)
                .with_hashes(hash, 0, 0)
                .with_tos(0, (hash % 16) as u8);
            queue.enqueue(packet, Instant::from_micros(*now), drops);
        }
        let _ = queue.dequeue(Instant::from_micros(*now), drops);
        dropped += drops.drain().count();
        *now += 1000;
    }
    dropped
}

#[test]
fn the_steady_state_allocates_nothing() {
    for words in [
        "pfifo limit 500",
        "fifo packets 500 bytes 1Mb",
        "bfifo limit 700Kb",
        "pfifo_head_drop limit 500",
        "red adaptive",
        "blue limit 500 ecn",
        "sfq limit 500 flows 300 perturb 1",
        "sfq limit 500 divisor 16 headdrop redflowlimit 100000 ecn",
        "red linux ecn nodrop limit 500000",
        "pfifo_fast limit 200",
        "pie limit 500",
        "fq_pie limit 500",
        "dualpi2 limit 500",
        "dualpi2 rfc9332 limit 500",
        "pie linux limit 500 ecn dq_rate_estimator",
        "codel limit 500",
        "cobalt limit 500",
        "cake memlimit 757000",
        "cake linux diffserv4 memlimit 757000 ack-filter",
        "fq_codel limit 500",
        "fq_codel linux limit 500 noecn",
        "tbf rate 13mbit burst 15140 limit 500000",
        "fq limit 50 flow_limit 3",
        "fq linux limit 500 maxrate 100mbit",
        "qdisc root handle 1: mq queues 2; qdisc parent 1:1 pfifo limit 100; qdisc parent 1:2 fq_codel limit 100",
        "qdisc root handle 1: ets strict 1 quanta 1514 3028; qdisc parent 1:2 pfifo limit 100; qdisc parent 1:3 codel limit 100",
        "netem limit 30 delay 10ms 5ms duplicate 10% loss 5% reorder 10% corrupt 10%",
        "netem limit 30 delay 10ms rate 10mbit slot 1ms 10ms packets 5",
    ] {
        // The longest backlog depends on which flows share a queue, so the hash key is the same in every run.
        let tree = words.parse::<Tree>().expect(words).with_hash_key(1985);
        let mut queue = Stats::new(Ledger::new(tree.build::<Packet<()>>().expect(words)));
        let (mut drops, mut now) = (Drops::new(), 1000);
        for _ in 0..2 {
            one_round(&mut queue, &mut drops, &mut now);
        }
        let mut dropped = 0;
        let calls = measure(|| dropped = one_round(&mut queue, &mut drops, &mut now));
        assert_eq!(calls.count_total, 0, "{words}");
        assert!(dropped > 0, "{words}: the round must meet the limit");
        assert!(queue.backlog().is_empty(), "{words}");
    }
}

/// A tree of every classful qdisc: TBF over HTB over DRR and prio.
#[test]
fn trees_allocate_nothing() {
    let class = |major, minor| ClassId::new(major, minor);
    let fifo = |limit| Boxed::from(Pfifo::new(pfifo::Config { limit }));
    let filters = |rules: &[&str]| {
        let mut filters = Filters::default();
        for rule in rules {
            filters
                .add(read_filter(&mut Words::new(rule)).expect(rule))
                .expect(rule);
        }
        filters
    };
    let mut drr = Drr::new(2);
    for minor in 1..=3 {
        drr.add_class(class(2, minor), drr::ClassConfig::default(), fifo(100))
            .expect("new");
    }
    drr.set_filters(filters(&[
        "handle 1 fw flowid 2:2",
        "handle 2 fw flowid 2:3",
    ]));
    let prio = Prio::new(
        3,
        prio::Config::default(),
        (0..3).map(|_| fifo(100)).collect(),
    )
    .expect("valid");
    let mut htb = Htb::new(
        1,
        htb::Config {
            default: Some(3),
            ..htb::Config::default()
        },
    )
    .expect("valid");
    let config = |mbit, ceil| htb::ClassConfig::new(Rate::mbit(mbit), Rate::mbit(ceil));
    htb.add_class(class(1, 1), None, config(13, 13), fifo(1))
        .expect("new");
    for (minor, child) in [(2, Box::new(drr) as Boxed), (3, Box::new(prio))] {
        htb.add_class(
            class(1, minor),
            Some(class(1, 1)),
            config(3, 12 + u64::from(minor)),
            child,
        )
        .expect("new");
    }
    htb.set_filters(filters(&[
        "handle 1 fw classid 1:2",
        "handle 2 fw classid 1:2",
    ]));
    let mut tbf = Tbf::new(
        tbf::Config {
            rate: Rate::mbit(14),
            burst: Bytes::new(3000),
            ..tbf::Config::default()
        },
        htb,
    )
    .expect("valid");
    let (mut drops, mut now, mut left) = (Drops::new(), 0, 0);
    let mut round = || {
        for step in 0..4000u32 {
            if step < 2000 {
                for mark in 0..3 {
                    let mut packet = Packet::new((), 1514).with_tos(0, (step % 16) as u8);
                    packet.set_mark(mark);
                    tbf.enqueue(packet, Instant::from_micros(now), &mut drops);
                }
            }
            left += usize::from(tbf.dequeue(Instant::from_micros(now), &mut drops).is_some());
            drops.drain().for_each(drop);
            now += 1000;
        }
    };
    round();
    assert_eq!(measure(round).count_total, 0);
    assert!(left > 4000 && tbf.backlog().is_empty());
}

/// Three hundred flows, room for 64.
#[test]
fn counting_flows_allocates_nothing() {
    let mut queue = FlowStats::new(
        build::<Packet<()>>("fq_codel limit 500").expect("fq_codel"),
        64,
    );
    let (mut drops, mut now) = (Drops::new(), 1000);
    one_round(&mut queue, &mut drops, &mut now);
    let calls = measure(|| {
        one_round(&mut queue, &mut drops, &mut now);
    });
    assert_eq!(calls.count_total, 0);
    assert!(queue.others().dequeued.packets > 0);
}

/// Rules of every kind, links and actions on the way.
#[test]
fn classifying_allocates_nothing() {
    let mut filters = Filters::default();
    for rule in [
        "prio 1 handle 1: u32 divisor 16",
        "prio 1 protocol ip u32 match ip protocol 17 0xff link 1: hashkey mask 0xf at 12 offset at 0 mask 0xf00 shift 6",
        "prio 1 u32 ht 1:0: match udp dst 53 0xffff flowid 1:1",
        "prio 2 flower ip_proto udp dst_port 1-9 action skbedit priority 3 continue",
        "prio 3 matchall flowid 1:2 action police rate 1mbit burst 3k conform-exceed reclassify/pass",
    ] {
        filters
            .add(read_filter(&mut Words::new(rule)).expect(rule))
            .expect(rule);
    }
    let mut frame = HeapFrame::new();
    let bytes = frame.bytes_mut();
    bytes[12] = 8;
    (bytes[14], bytes[23], bytes[37]) = (0x45, 17, 5);
    let mut packet = Packet::new(frame, 1514);
    let mut verdicts = [0; 2];
    let calls = measure(|| {
        for now in 0..1000 {
            match filters.classify(&mut packet, Instant::from_millis(now)) {
                Verdict::Class(_) => verdicts[0] += 1,
                _ => verdicts[1] += 1,
            }
        }
    });
    assert_eq!(calls.count_total, 0);
    assert!(
        verdicts[0] > 50 && verdicts[1] > 50 && packet.priority() == 3,
        "{verdicts:?}"
    );
}

#[test]
fn the_counter_counts() {
    assert_eq!(
        measure(|| drop(std::hint::black_box(Box::new(1)))).count_total,
        1
    );
}
