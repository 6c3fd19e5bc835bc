//! Words of `mq`.

use super::*;
use tautline_base::{Drops, Instant, MultiQueue, Qdisc};
use tautline_qdisc::mq::{ByFlow, Config};
use tautline_qdisc::{ClassId, Common, Mq, Pfifo, pfifo};

#[test]
fn words_say_how_many_queues() {
    let kind: Kind = "mq queues 3".parse().expect("valid");
    assert_eq!(
        (kind.to_string().as_str(), kind.clone()),
        ("mq queues 3", Kind::Mq(Config { queues: 3 }))
    );
    assert_eq!(
        kind.build::<Probe>().expect("valid").report().classes.len(),
        3
    );
    for queues in [0, 4097] {
        let refused = Kind::Mq(Config { queues })
            .build::<Probe>()
            .expect_err("refused")
            .to_string();
        assert!(
            refused.contains("`queues` must be from 1 to 4096"),
            "{refused}"
        );
    }
}

#[test]
fn a_script_fills_the_queues() {
    let words = "qdisc root handle 1: mq queues 2; qdisc parent 1:2 handle 9: fq_codel";
    let report = build::<Probe>(words).expect("valid").report();
    let kinds: Vec<_> = report
        .classes
        .iter()
        .map(|class| class.children[0].kind)
        .collect();
    assert_eq!(kinds, ["pfifo_fast", "fq_codel"]);
    let error = build::<Probe>("qdisc root handle 1: mq queues 2; qdisc parent 1:3 pfifo").err();
    assert!(error.is_some(), "there is no third queue");
}

#[test]
fn a_driver_chooses_the_queue() {
    let tree: Tree = "qdisc root handle 1: mq queues 2; qdisc parent 1:2 handle 9: fq_codel"
        .parse()
        .expect("a tree");
    let last = |_: &Probe, queues: usize| queues - 1;
    let (mut mq, mut drops, now) = (
        tree.build_mq(last).expect("valid").expect("an mq"),
        Drops::new(),
        Instant::ZERO,
    );
    let kinds: Vec<_> = mq
        .classes()
        .map(|(_, child, _)| child.report().kind)
        .collect();
    assert_eq!(kinds, ["pfifo_fast", "fq_codel"]);
    mq.enqueue(Probe::new(0), now, &mut drops);
    assert!(mq.dequeue_from(0, now, &mut drops).is_none());
    assert!(mq.dequeue_from(1, now, &mut drops).is_some());
    let fifo: Tree = "pfifo".parse().expect("a tree");
    assert!(fifo.build_mq(last).expect("valid").is_none());
}

#[test]
fn children_can_be_changed() {
    let tree = "qdisc root handle 1: mq queues 4; qdisc parent 1:3 pfifo limit 1";
    let (mut mq, mut drops, now) = (
        build::<Probe>(tree).expect("a tree"),
        Drops::new(),
        Instant::ZERO,
    );
    let mut change = |target, words| mq.change(target, &mut Words::new(words), now, &mut drops);
    change(Target::Root, "queues 4").expect("as it is");
    assert_eq!(
        change(Target::Root, "queues 5")
            .expect_err("fixed")
            .to_string(),
        "mq: `queues` must be what it was at creation, not 5"
    );
    let class = ClassId::new(1, 3);
    change(Target::Below(class), "limit 2").expect("a class");
    for class in [class, ClassId::new(7, 1)] {
        change(Target::Class(class), "limit 2").expect_err("no options");
    }
    let report = mq.report();
    assert_eq!(
        report.classes[2].children[0].options,
        [("limit", Value::Packets(2))]
    );
}

#[test]
fn a_report_sums_the_children() {
    let fifos = (0..4)
        .map(|_| Pfifo::new(pfifo::Config { limit: 2 }))
        .collect();
    let by_mark: ByFlow<Probe> = |packet, _| packet.mark() as usize;
    let mut mq = Mq::choosing(1, fifos, by_mark).expect("valid");
    let (mut drops, now) = (Drops::new(), Instant::ZERO);
    for (id, mark) in [0, 0, 0, 1, 2].into_iter().enumerate() {
        mq.enqueue(Probe::new(id as u32).marked(mark), now, &mut drops);
    }
    for queue in [0, 2] {
        mq.dequeue_from(queue, now, &mut drops).expect("queued");
    }
    let report = mq.report();
    let expected = Common {
        sent_bytes: Bytes::new(3028),
        sent_packets: 2,
        drops: 1,
        backlog: mq.backlog(),
    };
    assert_eq!(report.common, Some(expected));
    assert_eq!(
        (report.classes.len(), report.classes[2].id),
        (4, Some(ClassId::new(1, 3)))
    );
    assert_eq!(expected.backlog.packets, 2);
}
