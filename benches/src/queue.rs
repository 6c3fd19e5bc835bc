//! [`Backlogged`]: a qdisc with a standing backlog, through which packets pass one by one; and
//! [`CASES`], every qdisc in a configuration that neither drops nor waits under that load, so
//! that what is measured is queueing.

use tautline_base::{Frame, Instant, Packet};
use tautline_qdisc::{Drops, Qdisc};

/// A frame as large as a UMEM descriptor, so that packets have their real size, but without memory
/// behind it.
#[derive(Debug)]
pub struct Chunk {
    _address: u64,
}

impl Frame for Chunk {
    fn bytes(&self) -> &[u8] {
        &[]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut []
    }
}

/// The packet of the benches.
pub type Pkt = Packet<Chunk>;

/// Packets that wait.
pub const BACKLOG: u64 = 1000;
/// Time between two packets: 10 Gbit/s of full frames. The standing backlog then lasts 1.3 ms,
/// which no AQM minds.
const SPACING: u64 = 1300;

/// Every qdisc: its name, and a script with which [`BACKLOG`] packets of up to 65 536 flows
/// may wait.
pub const CASES: &[(&str, &str)] = &[
    ("pfifo", "pfifo limit 10000"),
    ("bfifo", "bfifo limit 100mb"),
    ("pfifo_head_drop", "pfifo_head_drop limit 10000"),
    ("pfifo_fast", "pfifo_fast limit 10000"),
    (
        "red",
        "red limit 100mb min 20mb max 60mb avpkt 1500 burst 20000 bandwidth 10gbit",
    ),
    ("blue", "blue limit 10000"),
    ("codel", "codel limit 10000"),
    ("cobalt", "cobalt limit 10000"),
    ("pie", "pie limit 10000"),
    ("dualpi2", "dualpi2 limit 10000"),
    ("sfq", "sfq limit 10000 divisor 65536 flows 65000"),
    (
        "fq_codel",
        "fq_codel limit 100000 flows 65536 memory_limit 1gb",
    ),
    ("fq_pie", "fq_pie limit 100000 flows 65536 memory_limit 1gb"),
    ("fq", "fq limit 100000 flow_limit 100000"),
    ("cake besteffort", "cake unlimited besteffort"),
    (
        "cake shaped",
        "cake bandwidth 100gbit diffserv4 memlimit 1gb",
    ),
    ("tbf", "tbf rate 100gbit burst 1mb limit 100mb"),
    ("prio", "prio; qdisc parent 1:2 pfifo limit 10000"),
    (
        "ets",
        "ets strict 1 quanta 1514 1514; qdisc parent 1:3 pfifo limit 10000",
    ),
    (
        "drr",
        "drr; class parent 1: classid 1:1 drr; filter parent 1: protocol all prio 1 matchall flowid 1:1; qdisc parent 1:1 pfifo limit 10000",
    ),
    (
        "htb",
        "htb default 2; class parent 1: classid 1:1 htb rate 100gbit; class parent 1:1 classid 1:2 htb rate 100gbit; qdisc parent 1:2 pfifo limit 10000",
    ),
    ("netem", "netem limit 10000"),
    (
        "mq",
        "mq queues 2; qdisc parent 1:1 pfifo limit 10000; qdisc parent 1:2 pfifo limit 10000",
    ),
    (
        "cake_mq",
        "cake_mq queues 2 bandwidth 100gbit besteffort memlimit 1gb",
    ),
];

/// Whether [`BACKLOG`] packets of so many flows may wait in the qdisc: SFQ holds at most 127
/// packets of one flow.
pub fn takes(name: &str, flows: u64) -> bool {
    name != "sfq" || flows > 1
}

/// A flow hash as a parser would give: spread over 64 bits.
pub fn spread(flow: u64) -> u64 {
    flow.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

/// A qdisc in which [`BACKLOG`] packets wait, while packets come and go. Each flow is between
/// two hosts of its own: CAKE divides the quantum of a host's flows by their number, so a thousand
/// flows of one host take a thousand turns for each packet, here as in Linux.
#[derive(Debug)]
pub struct Backlogged<Q> {
    queue: Q,
    drops: Drops<Pkt>,
    now: Instant,
    flow: u64,
    flows: u64,
}

impl<Q: Qdisc<Pkt>> Backlogged<Q> {
    /// Fills `queue`; arrivals go round `flows` flows.
    pub fn new(queue: Q, flows: u64) -> Self {
        let mut standing = Self {
            queue,
            drops: Drops::new(),
            now: Instant::from_millis(1),
            flow: 0,
            flows,
        };
        for _ in 0..BACKLOG {
            standing.enqueue();
        }
        standing
    }

    /// One packet in, one out; true if one came out and none was dropped.
    pub fn pair(&mut self) -> bool {
        self.now = self.now.after_nanos(SPACING);
        self.enqueue();
        let out = self.queue.dequeue(self.now, &mut self.drops);
        out.is_some() && self.drops.is_empty()
    }

    fn enqueue(&mut self) {
        let packet = Packet::new(
            Chunk {
                _address: self.flow,
            },
            1514,
        )
        .with_hashes(spread(self.flow), self.flow as u32, self.flow as u32);
        self.queue.enqueue(packet, self.now, &mut self.drops);
        self.flow = if self.flow + 1 == self.flows {
            0
        } else {
            self.flow + 1
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measures queueing alone: no case drops or holds back a packet.
    #[test]
    fn every_case_passes_every_packet() {
        for (name, script) in CASES {
            for flows in [1, 1000, 65_536]
                .into_iter()
                .filter(|&flows| takes(name, flows))
            {
                let tree: tautline_tc::Tree = script.parse().expect(name);
                let queue = tree.with_hash_key(0).build::<Pkt>().expect(name);
                let mut standing = Backlogged::new(queue, flows);
                assert!((0..5000).all(|_| standing.pair()), "{name}, {flows} flows");
                assert_eq!(
                    standing.queue.backlog().packets as u64,
                    BACKLOG,
                    "{name}, {flows} flows"
                );
            }
        }
    }
}
