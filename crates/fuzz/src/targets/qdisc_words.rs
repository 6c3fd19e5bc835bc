//! Any text as a tc script, then any traffic, time and changes through what it describes: nothing
//! panics, spins, or loses a packet.

use arbitrary::Arbitrary;
use tautline_base::{Bytes, Instant, Item};
use tautline_qdisc::{Drops, Ledger, Qdisc, Stats};
use tautline_tc::Inspect;
use tautline_tc::{Tree, change_tree};

use crate::steps::Steps;

/// A case.
#[derive(Arbitrary, Debug)]
pub struct Input<'a> {
    script: Script<'a>,
    steps: Steps<Step<'a>>,
}

#[derive(Arbitrary, Debug)]
enum Script<'a> {
    Any(&'a str),
    /// A script that is known to parse, and words behind it.
    Known(u8, &'a str),
}

/// One for each qdisc, and trees.
const KNOWN: &[&str] = &[
    "pfifo limit 20",
    "bfifo limit 20000",
    "pfifo_head_drop limit 5",
    "pfifo_fast",
    "red limit 60000 min 5000 max 15000 avpkt 1000 ecn",
    "codel ecn",
    "cobalt",
    "fq_codel limit 20 flows 16",
    "pie ecn",
    "fq_pie limit 20 flows 16",
    "sfq divisor 16",
    "fq maxrate 8mbit",
    "dualpi2",
    "blue",
    "cake bandwidth 10mbit diffserv4 ack-filter",
    "tbf rate 8mbit burst 5kb latency 50ms; fq_codel",
    "prio; qdisc parent 1:1 codel; qdisc parent 1:2 netem delay 5ms",
    "netem delay 10ms 5ms loss 5% duplicate 5% reorder 10%",
    "drr; class classid 1:1 drr; class classid 1:2 drr quantum 300; filter parent 1: protocol all prio 1 matchall flowid 1:2",
    "ets strict 1 quanta 3000 1500 priomap 2 1 1 0; filter parent 1: protocol all prio 1 handle 1 fw flowid 1:2; qdisc parent 1:3 codel",
    "htb default 2; class classid 1:1 htb rate 8mbit; class parent 1:1 classid 1:2 htb rate 1mbit ceil 8mbit; qdisc parent 1:2 sfq",
];

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    Enqueue {
        flow: u8,
        len: u16,
        tos: u8,
        priority: u8,
        departure: u32,
        headers: &'a [u8],
    },
    Dequeue,
    Wait,
    Advance(u32),
    Back(u16),
    Change(&'a str),
    Report,
}

#[derive(Clone, Debug)]
struct Packet {
    len: u32,
    flow: u8,
    tos: u8,
    priority: u8,
    departure: Instant,
    enqueued: Instant,
    headers: Vec<u8>,
}

impl Item for Packet {
    fn len(&self) -> Bytes {
        Bytes::new(self.len.into())
    }

    fn enqueued(&self) -> Instant {
        self.enqueued
    }

    fn set_enqueued(&mut self, now: Instant) {
        self.enqueued = now;
    }

    fn flow_hash(&self) -> u64 {
        u64::from(self.flow).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn host_hashes(&self) -> (u32, u32) {
        (u32::from(self.flow / 8), u32::from(self.flow % 8))
    }

    fn tos(&self) -> u8 {
        self.tos
    }

    fn set_tos(&mut self, tos: u8) {
        self.tos = tos;
    }

    fn priority(&self) -> u8 {
        self.priority & 15
    }

    fn set_priority(&mut self, priority: u8) {
        self.priority = priority;
    }

    fn departure(&self) -> Instant {
        self.departure
    }

    fn headers(&self) -> &[u8] {
        &self.headers
    }

    fn duplicate(&self) -> Option<Self> {
        Some(self.clone())
    }
}

/// Runs one case.
pub fn run(input: Input<'_>) {
    let script = match input.script {
        Script::Any(text) => text.to_owned(),
        Script::Known(which, more) => format!("{} {more}", KNOWN[usize::from(which) % KNOWN.len()]),
    };
    let tree: Tree = match script.parse() {
        Ok(tree) => tree,
        Err(error) => {
            let _ = (error.to_string(), error.pointing_at(&script).to_string());
            assert!(
                script.get(error.at.clone()).is_some(),
                "an error points into the text"
            );
            return;
        }
    };
    let printed = tree.to_string();
    assert_eq!(printed.parse::<Tree>().as_ref(), Ok(&tree), "{printed}");
    let Ok(built) = tree.clone().with_hash_key(0).build::<Packet>() else {
        return;
    };
    let (mut queue, mut drops, mut now) = (
        Stats::new(Ledger::new(built)),
        Drops::new(),
        Instant::from_millis(1),
    );
    for step in input.steps.0 {
        match step {
            Step::Enqueue {
                flow,
                len,
                tos,
                priority,
                departure,
                headers,
            } => {
                let departure = if departure % 4 == 0 {
                    now + std::time::Duration::from_nanos(departure.into())
                } else {
                    Instant::ZERO
                };
                let packet = Packet {
                    len: u32::from(len),
                    flow,
                    tos,
                    priority,
                    departure,
                    enqueued: Instant::ZERO,
                    headers: headers.to_vec(),
                };
                queue.enqueue(packet, now, &mut drops);
            }
            Step::Dequeue => {
                if queue.dequeue(now, &mut drops).is_none() && !queue.backlog().is_empty() {
                    let ready = queue.ready_at().expect("something is queued");
                    assert!(
                        ready > now,
                        "{script}: asks to be called again at once, for ever"
                    );
                }
            }
            Step::Wait => now = queue.ready_at().map_or(now, |at| at.max(now)),
            Step::Advance(nanos) => now += std::time::Duration::from_nanos(u64::from(nanos) * 16),
            Step::Back(micros) => now = now - std::time::Duration::from_micros(micros.into()),
            Step::Change(words) => {
                let _ = change_tree(&mut queue, words, now, &mut drops);
            }
            Step::Report => {
                let report = queue.report();
                let _ = report.to_string();
            }
        }
        drops.drain().for_each(drop);
    }
}
