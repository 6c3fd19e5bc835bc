//! A known state drawn on a terminal of memory.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tautline_base::HeapFrame;
use tautline_base::{Bytes, Instant, Packet};
use tautline_qdisc::{Drops, Qdisc, Stats};
use tautline_tc::{Inspect, build};

use super::{Key, View};
use crate::snapshot::{Counted, PortState, QdiscState, Snapshot, Talker};

/// A port whose shaper lets 1 Mbit/s pass: at each step of 100 ms it takes 10 packets of 1500
/// bytes.
struct Shaped {
    queue: Stats<Box<dyn tautline_tc::DynQdisc<Packet<HeapFrame>>>>,
    drops: Drops<Packet<HeapFrame>>,
}

impl Shaped {
    fn new(words: &str) -> Self {
        Self {
            queue: Stats::new(build(words).expect("words")),
            drops: Drops::new(),
        }
    }

    fn step(&mut self, now: Instant) -> PortState {
        for _ in 0..10 {
            self.queue
                .enqueue(Packet::new(HeapFrame::new(), 1500), now, &mut self.drops);
        }
        while self.queue.dequeue(now, &mut self.drops).is_some() {}
        self.drops.drain().for_each(drop);
        let stats = self.queue.stats();
        let dropped = stats.drops();
        PortState {
            name: "to right (eth1)".to_owned(),
            taken: Counted {
                packets: stats.enqueued.packets,
                bytes: stats.enqueued.bytes.get(),
            },
            sent: Counted {
                packets: stats.dequeued.packets,
                bytes: stats.dequeued.bytes.get(),
            },
            backlog: self.queue.backlog(),
            ring: tautline_qdisc::Backlog {
                packets: 3,
                bytes: Bytes::new(4500),
            },
            ring_limit: Some(Bytes::new(9000)),
            marks: 2,
            drops: if dropped > 0 {
                vec![("overlimit".to_owned(), dropped)]
            } else {
                Vec::new()
            },
            sojourn: stats.sojourn.clone(),
            qdisc: QdiscState::of(&self.queue.report()),
            hosts: (0..3)
                .map(|host| talker(host, stats.dequeued.packets))
                .collect(),
            flows: vec![Talker {
                name: "udp 10.0.0.1:9 > 10.0.0.2:53".to_owned(),
                ..talker(0, 0)
            }],
        }
    }
}

/// A host that sent every packet so far, each after 3 ms.
fn talker(host: u32, packets: u64) -> Talker {
    Talker {
        name: format!("10.0.0.{host} (source)"),
        sent: Counted {
            packets,
            bytes: packets * 1500,
        },
        drops: 7,
        marks: 5,
        sojourn_sum: Duration::from_millis(3 * packets),
    }
}

/// Two ports after `steps` of 100 ms.
fn view(words: &str, steps: u64) -> View {
    let (mut view, mut port) = (View::new("eth0 <-> eth1"), Shaped::new(words));
    for step in 1..=steps {
        let at = Duration::from_millis(100 * step);
        let right = port.step(Instant::ZERO + at);
        let left = PortState {
            name: "to left (eth0)".to_owned(),
            ..PortState::default()
        };
        view.push(Snapshot {
            at,
            ports: vec![right, left],
        });
    }
    view
}

/// Renders `view` on a terminal of this size.
fn drawn(view: &mut View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory");
    terminal.draw(|frame| view.draw(frame)).expect("memory");
    terminal.backend().to_string()
}

const SHAPER: &str = "tbf rate 1mbit burst 15kb latency 10s; pfifo limit 20";

#[test]
fn a_known_state_is_drawn_as_it_is() {
    let page = drawn(&mut view(SHAPER, 20), 110, 30);
    for wanted in [
        "eth0 <-> eth1  2.0 s",
        "q quit",
        "to right (eth1) · tbf",
        "to left (eth0) · ",
        "in      200 packets, 1.20 Mbit/s 100 /s",
        "queue   12 packets 18.0 kB, peak 12",
        "ring    3 packets 4.50 kB of 9.00 kB",
        "drops   20, marks 2",
        "overlimit 20",
        "to right (eth1): its qdisc",
        "tbf 1: rate 1Mbit burst 15Kb",
        "  pfifo 8001: limit 20p",
        "tokens  860 B of 15.4 kB (tbf 1: tokens)",
        "sojourn last 100 ms, p50 ≤ 134 ms, p99 ≤ 200 ms",
        "out     168 packets, 996 kbit/s 83 /s",
    ] {
        assert!(page.contains(wanted), "{wanted:?} in\n{page}");
    }
    assert!(page.contains('█'), "{page}");
}

#[test]
fn what_the_bucket_holds_is_shown() {
    for words in [
        SHAPER,
        "htb default 1; class parent 1: classid 1:1 htb rate 1mbit",
    ] {
        let page = drawn(&mut view(words, 3), 110, 30);
        // In a line of its own, which says whose it is; the report below may have it too.
        assert!(page.contains(" tokens)"), "{words}\n{page}");
    }
    assert!(!drawn(&mut view("fq_codel", 3), 110, 30).contains("tokens"));
}

#[test]
fn long_lines_of_the_report_are_wrapped() {
    let page = drawn(&mut view("fq_codel", 3), 60, 40);
    let report: Vec<_> = page
        .lines()
        .skip_while(|line| !line.contains("its qdisc"))
        .collect();
    assert!(report[1].contains("fq_codel"), "{page}");
    // The last option of the line, which 60 columns have no room for.
    assert!(
        report[2..].iter().any(|line| line.contains("│    ")),
        "{page}"
    );
    assert!(page.contains("ecn"), "{page}");
}

#[test]
fn hosts_and_flows_share_the_screen_with_the_qdisc_or_take_turns() {
    let mut view = view(SHAPER, 20);
    let row = "10.0.0.1 (source)";
    let tall = drawn(&mut view, 80, 48);
    assert!(tall.contains("its qdisc") && tall.contains(row), "{tall}");
    assert!(tall.contains("udp 10.0.0.1:9 > 10.0.0.2:53 "), "{tall}");
    let row = tall.lines().find(|line| line.contains(row)).expect("found");
    let cells: Vec<_> = row.split_whitespace().skip(2).collect();
    assert_eq!(
        cells,
        ["996", "k", "252", "kB", "3.00", "ms", "7", "5│\""],
        "{row}"
    );
    let low = drawn(&mut view, 80, 24);
    assert!(low.contains("its qdisc") && !low.contains("hosts"), "{low}");
    view.key(Key::Table);
    let low = drawn(&mut view, 80, 24);
    assert!(!low.contains("its qdisc") && low.contains("hosts"), "{low}");
    view.key(Key::Table);
    let low = drawn(&mut view, 80, 24);
    assert!(low.contains("udp 10.0.0.1:9 > 10.0.0.2:53 "), "{low}");
}

#[test]
fn the_chosen_port_is_shown_even_where_there_is_room_for_one() {
    let mut view = view(SHAPER, 3);
    let first = drawn(&mut view, 60, 20);
    assert!(
        first.contains("to right (eth1) · tbf") && !first.contains("to left (eth0) ·"),
        "{first}"
    );
    assert!(first.contains("─ 1 of 2 ┐"), "{first}");
    view.key(Key::Next);
    let second = drawn(&mut view, 60, 20);
    assert!(second.contains("─ 2 of 2 ┐"), "{second}");
    assert!(!drawn(&mut view, 110, 20).contains(" of 2 "));
    assert!(
        second.contains("to left (eth0) ·") && !second.contains("to right (eth1) ·"),
        "{second}"
    );
    view.key(Key::Previous);
    assert_eq!(drawn(&mut view, 60, 20), first);
}

#[test]
fn a_long_report_scrolls_and_no_further_than_its_end() {
    let tree = "qdisc root handle 1: prio; qdisc parent 1:1 fq_codel; qdisc parent 1:2 red limit 400000 avpkt 1000; qdisc parent 1:3 codel";
    let mut view = view(tree, 2);
    let top = drawn(&mut view, 110, 24);
    assert!(
        top.contains("0 of ") && !top.contains("codel 8003: limit 1000p"),
        "{top}"
    );
    (0..1000).for_each(|_| view.key(Key::Down));
    let end = drawn(&mut view, 110, 24);
    assert!(
        end.contains("0 below") && end.contains(" codel 8003: limit 1000p"),
        "{end}"
    );
    view.key(Key::Up);
    assert!(drawn(&mut view, 110, 24).contains("1 below"));
}

#[test]
fn pause_keeps_what_was_seen() {
    let mut view = view(SHAPER, 3);
    view.key(Key::Pause);
    let before = drawn(&mut view, 110, 30);
    view.push(Snapshot {
        at: Duration::from_secs(9),
        ports: Vec::new(),
    });
    assert_eq!(drawn(&mut view, 110, 30), before);
    assert!(before.contains("0.3 s, paused"));
}

#[test]
fn every_size_and_nothing_at_all_are_drawn() {
    assert!(drawn(&mut View::new("eth0"), 80, 24).contains("eth0: nothing yet"));
    let mut some = view("cake bandwidth 1mbit", 3);
    let mut none = View::new("");
    none.push(Snapshot::default());
    for (width, height) in [(1, 1), (5, 40), (200, 2), (46, 13), (80, 24), (300, 100)] {
        drawn(&mut some, width, height);
        drawn(&mut none, width, height);
        [Key::Next, Key::Down]
            .into_iter()
            .for_each(|key| some.key(key));
    }
}
