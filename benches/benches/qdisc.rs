//! The cost of a packet in each qdisc: one enqueue and one dequeue, with a standing backlog.
//!
//! Budgets (docs/DESIGN.md): fq_codel at most 50 ns with 1 000 flows and at most twice that with 65
//! 536; pfifo_fast and CoDel at most 15 ns. Each qdisc is measured as a concrete type, behind
//! `Box<dyn>`, and inside a `Ledger`.
//!
//! `spread`: every packet belongs to another flow than the one before, and every flow has one
//! packet queued, so that each call meets a flow and a packet that have left the nearest caches:
//! the worst case. `turns`: the backlog stays at 1 000 packets while arrivals go round all the
//! flows. `overlimit`: every arrival exceeds the limit and costs the fattest flow a packet.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tautline_base::{Frame, Instant, Packet};
use tautline_qdisc::{
    Codel, Drops, FqCodel, Ledger, Pfifo, PfifoFast, Qdisc, Stats, codel, fq_codel, pfifo,
    pfifo_fast,
};
use tautline_tc::{Change, DynQdisc, Inspect};

/// A frame as large as a UMEM descriptor, so that packets have their real size, but without memory
/// behind it.
struct Chunk {
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

type Pkt = Packet<Chunk>;

fn packet(flow: u64) -> Pkt {
    Packet::new(Chunk { _address: flow }, 1514).with_hashes(spread(flow), 0, 0)
}

/// A flow hash as a parser would give: spread over 64 bits.
fn spread(flow: u64) -> u64 {
    flow.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

/// A queue with `backlog` packets, whose packets and arrivals go round `flows` flows.
struct Rig<Q> {
    queue: Q,
    drops: Drops<Pkt>,
    now: u64,
    flow: u64,
    flows: u64,
}

impl<Q: Qdisc<Pkt>> Rig<Q> {
    fn new(queue: Q, backlog: u64, flows: u64) -> Self {
        let mut rig = Self {
            queue,
            drops: Drops::new(),
            now: 0,
            flow: 0,
            flows,
        };
        for _ in 0..backlog {
            rig.enqueue();
        }
        rig
    }

    fn enqueue(&mut self) {
        self.queue.enqueue(
            packet(self.flow),
            Instant::from_nanos(self.now),
            &mut self.drops,
        );
        self.flow = if self.flow + 1 == self.flows {
            0
        } else {
            self.flow + 1
        };
    }

    /// One packet in, one out; a nanosecond passes, so that no AQM has a standing queue to act on.
    fn pair(&mut self) {
        self.now += 1;
        self.enqueue();
        black_box(
            self.queue
                .dequeue(Instant::from_nanos(self.now), &mut self.drops),
        );
        debug_assert!(self.drops.is_empty());
    }

    /// One packet in, and one dropped for it.
    fn overlimit(&mut self) {
        self.enqueue();
        black_box(self.drops.drain().count());
    }
}

fn bench<Q: Qdisc<Pkt>>(c: &mut Criterion, id: BenchmarkId, queue: Q, backlog: u64, flows: u64) {
    let mut rig = Rig::new(queue, backlog, flows);
    let mut group = c.benchmark_group("qdisc");
    group.throughput(Throughput::Elements(1));
    group.bench_function(id, |b| b.iter(|| rig.pair()));
    group.finish();
}

/// Measures a qdisc as itself, boxed, and in the two wrappers.
fn forms<Q>(
    c: &mut Criterion,
    name: &str,
    case: &str,
    make: impl Fn() -> Q,
    backlog: u64,
    flows: u64,
) where
    Q: Qdisc<Pkt> + Inspect + Change<Pkt> + Send + 'static,
{
    let id = |form: &str| BenchmarkId::new(format!("{name}/{form}"), case);
    bench(c, id("concrete"), make(), backlog, flows);
    let boxed: Box<dyn DynQdisc<Pkt>> = Box::new(make());
    bench(c, id("boxed"), boxed, backlog, flows);
    bench(c, id("ledger"), Ledger::new(make()), backlog, flows);
    bench(c, id("stats"), Stats::new(make()), backlog, flows);
}

fn fq_codel(flows: u32, limit: u32) -> FqCodel<Pkt> {
    let memory_limit = tautline_base::Bytes::mib(1024);
    FqCodel::new(fq_codel::Config {
        flows,
        limit,
        memory_limit,
        perturbation: Some(0),
        ..fq_codel::Config::default()
    })
    .expect("valid")
}

fn pairs(c: &mut Criterion) {
    let codel_config = || codel::Config {
        limit: 10_000,
        ..codel::Config::default()
    };
    forms(
        c,
        "pfifo",
        "1000 queued",
        || Pfifo::new(pfifo::Config { limit: 10_000 }),
        1000,
        1000,
    );
    forms(
        c,
        "pfifo_fast",
        "1000 queued",
        || {
            PfifoFast::new(pfifo_fast::Config {
                limit: 10_000,
                ..pfifo_fast::Config::default()
            })
        },
        1000,
        1000,
    );
    forms(
        c,
        "codel",
        "1000 queued",
        || Codel::new(codel_config()).expect("valid"),
        1000,
        1000,
    );
    for (flows, queues) in [(1000, 1024), (65_536, 65_536)] {
        forms(
            c,
            "fq_codel",
            &format!("{flows} flows, turns"),
            || fq_codel(queues, 100_000),
            1000,
            flows,
        );
        forms(
            c,
            "fq_codel",
            &format!("{flows} flows, spread"),
            || fq_codel(queues, 100_000),
            flows,
            flows,
        );
    }
}

fn overlimit(c: &mut Criterion) {
    let mut group = c.benchmark_group("qdisc");
    for (flows, queues) in [(1000, 1024), (65_536, 65_536)] {
        let mut rig = Rig::new(fq_codel(queues, 10_000), 10_000, flows);
        let id = BenchmarkId::new("fq_codel/overlimit", format!("{flows} flows"));
        group.bench_function(id, |b| b.iter(|| rig.overlimit()));
    }
    group.finish();
}

criterion_group!(benches, pairs, overlimit);
criterion_main!(benches);
