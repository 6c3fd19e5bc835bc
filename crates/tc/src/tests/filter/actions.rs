//! Actions of rules on the packets they match.

use core::time::Duration;

use tautline_base::{Bytes, Rate};

use super::*;

fn verdicts(filters: &mut Filters, count: usize) -> Vec<Verdict> {
    (0..count)
        .map(|_| filters.classify(&mut Probe::new(1), Instant::ZERO))
        .collect()
}

#[test]
fn controls_steer() {
    let one = Verdict::Class(ClassId::new(1, 1));
    let two = Verdict::Class(ClassId::new(1, 2));
    for (words, expected) in [
        ("action pass", one),
        ("action ok", one),
        ("action pipe", one),
        ("action gact pipe action drop", Verdict::Drop),
        ("action pass action drop", one),
        ("action drop", Verdict::Drop),
        ("action shot", Verdict::Drop),
        ("action continue", two),
        ("action reclassify", Verdict::Drop),
        ("", one),
    ] {
        let first = std::format!("prio 1 matchall classid 1:1 {words}");
        let mut filters = rules(&[&first, "prio 2 matchall classid 1:2"]);
        assert_eq!(verdicts(&mut filters, 1), [expected], "{words}");
    }
    // A rule that decides but names no class leaves it to the qdisc.
    assert_eq!(
        verdicts(
            &mut rules(&["prio 1 matchall action ok", "prio 2 matchall classid 1:2"]),
            1
        ),
        [Verdict::Continue]
    );
}

/// Sixteen times again, then the packet is dropped: the rule sees it seventeen times.
#[test]
fn reclassification_ends() {
    let mut filters = rules(&["matchall action reclassify"]);
    assert_eq!(verdicts(&mut filters, 1), [Verdict::Drop]);
    assert_eq!(filters.hits().collect::<Vec<_>>(), [17]);
}

#[test]
fn a_rewritten_mark_is_seen_by_the_next_round() {
    let mut filters = rules(&[
        "prio 1 handle 0x10/0xf0 fw classid 1:5",
        "prio 2 matchall action skbedit priority 7 mark 0x1f/0xf0 reclassify",
    ]);
    let mut packet = Probe::new(1).marked(0xa2);
    assert_eq!(
        filters.classify(&mut packet, Instant::ZERO),
        Verdict::Class(ClassId::new(1, 5))
    );
    assert_eq!((packet.mark(), packet.priority()), (0x12, 7));
}

/// The TOS byte that an action set is the one that later rules see, though the packet's bytes are
/// rewritten only when it leaves.
#[test]
fn a_rewritten_dscp_keeps_ecn_and_is_seen_by_the_next_rule() {
    let mut filters = rules(&[
        "prio 1 matchall action pedit ex munge ip dsfield set 0xff retain 0xfc continue",
        "prio 2 u32 match ip dsfield 0xfc 0xfc action pedit munge ip dsfield set CS1 continue",
        "prio 3 flower ip_tos 0x21 classid 1:3",
        "prio 4 u32 match ip6 dsfield 0x21 0xff classid 1:4",
    ]);
    let mut packet = probe(0x0800, &udp4()).tos(0x01);
    assert_eq!(
        filters.classify(&mut packet, Instant::ZERO),
        Verdict::Class(ClassId::new(1, 3))
    );
    assert_eq!(packet.tos, 0x21);
    let mut six = probe(0x86dd, &ipv6(17, [1, 2], &[])).tos(0x21);
    let mut filters = rules(&["protocol ipv6 u32 match ip6 dsfield 0x21 0xff classid 1:4"]);
    assert_eq!(
        filters.classify(&mut six, Instant::ZERO),
        Verdict::Class(ClassId::new(1, 4))
    );
}

#[test]
fn every_so_many_packets_fare_differently() {
    let mut filters = rules(&["matchall classid 1:1 action pass random determ drop 3"]);
    let dropped: Vec<bool> = verdicts(&mut filters, 7)
        .iter()
        .map(|verdict| *verdict == Verdict::Drop)
        .collect();
    assert_eq!(dropped, [false, false, true, false, false, true, false]);
    let mut filters = rules(&["matchall classid 1:1 action gact pass random netrand drop 4"]);
    let dropped = verdicts(&mut filters, 4000)
        .iter()
        .filter(|verdict| **verdict == Verdict::Drop)
        .count();
    assert!((900..1100).contains(&dropped), "{dropped}");
    let mut same = rules(&["matchall classid 1:1 action gact pass random netrand drop 4"]);
    let again = verdicts(&mut same, 4000)
        .iter()
        .filter(|verdict| **verdict == Verdict::Drop)
        .count();
    assert_eq!(dropped, again);
}

/// 8 Mbit/s are a byte per µs: of full-size packets every 757 µs, half conform.
#[test]
fn a_police_lets_the_rate_pass() {
    let mut filters = rules(&[
        "matchall classid 1:1 action police rate 8mbit burst 1514 conform-exceed drop/pass",
    ]);
    let mut conforming = 0;
    for packet in 0..1000 {
        let now = Instant::ZERO + Duration::from_micros(757) * packet;
        conforming += usize::from(filters.classify(&mut Probe::new(1), now) != Verdict::Drop);
    }
    assert_eq!(conforming, 500);
}

#[test]
fn bad_actions_are_refused() {
    let add = |action| {
        Filters::default().add(Filter {
            actions: std::vec![action],
            ..Filter::new(Matcher::All, None)
        })
    };
    let named = |action| add(action).expect_err("refused").parameter;
    let share = Some(Share {
        choice: Choice::Counted,
        one_in: 0,
        control: Control::Drop,
    });
    assert_eq!(
        named(Action::Gact {
            control: Control::Pass,
            share
        }),
        "random"
    );
    assert_eq!(
        named(Action::Skbedit {
            priority: Some(16),
            mark: None,
            control: Control::Pipe
        }),
        "priority"
    );
    assert_eq!(
        named(Action::Dsfield {
            set: Masked::new(1, 1),
            control: Control::Pipe
        }),
        "retain"
    );
    assert_eq!(
        named(Action::Police(Police::new(Rate::ZERO, Bytes::new(1)))),
        "rate"
    );
    assert_eq!(
        named(Action::Police(Police::new(Rate::mbit(1), Bytes::ZERO))),
        "burst"
    );
    assert_eq!(
        add(Action::Skbedit {
            priority: Some(15),
            mark: None,
            control: Control::Pipe
        }),
        Ok(())
    );
}
