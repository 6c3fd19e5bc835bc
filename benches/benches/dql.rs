//! The limit's cost per packet: one DQL update alone, and a packet's whole way through a port.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tautline_base::{Bytes, Device, Instant, Packet, Received};
use tautline_bql::{Dql, Limit, LimitKind, Port, Ring, Unlimited, dql};
use tautline_qdisc::{Drops, FqCodel, Pfifo, Qdisc, fq_codel, pfifo};

const FRAME: Bytes = Bytes::new(1514);
const BURST: u64 = 32;
const FLOWS: u64 = 1_000;

/// A device that completes everything at once, so that only the path to it is measured.
struct Sink {
    packets: Vec<Packet<()>>,
}

impl Device for Sink {
    type Frame = ();

    fn mtu(&self) -> usize {
        1500
    }

    fn room(&self) -> usize {
        self.packets.capacity() - self.packets.len()
    }

    fn put(&mut self, packet: Packet<()>, _now: Instant) {
        self.packets.push(packet);
    }

    fn doorbell(&mut self, _now: Instant) {}

    fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<()>>) {
        done.append(&mut self.packets);
    }

    fn in_flight(&self) -> usize {
        self.packets.len()
    }

    fn receive(&mut self, _now: Instant) -> Option<Received<()>> {
        None
    }

    fn recycle(&mut self, (): ()) {}

    fn reset(&mut self, lost: &mut Vec<Packet<()>>) {
        lost.append(&mut self.packets);
    }
}

fn updates(c: &mut Criterion) {
    let mut group = c.benchmark_group("dql");
    group.bench_function("available + queued + completed", |b| {
        bench_update(b, Dql::default())
    });
    let watching = dql::Config {
        stall_threshold: Some(Duration::from_millis(100)),
        ..dql::Config::default()
    };
    group.bench_function("available + queued + completed, looking for stalls", |b| {
        bench_update(b, Dql::new(watching).expect("in range"));
    });
    group.throughput(Throughput::Elements(BURST));
    group.bench_function("burst of 32, one completion", |b| {
        let mut dql = Dql::default();
        let mut now = 0;
        b.iter(|| {
            now += 1_000;
            for _ in 0..BURST {
                black_box(dql.available(Instant::from_nanos(now)));
                dql.queued(black_box(FRAME), Instant::from_nanos(now));
            }
            dql.completed(black_box(FRAME * BURST), Instant::from_nanos(now));
        });
    });
    group.finish();
}

/// One packet in and out.
fn bench_update(b: &mut criterion::Bencher<'_>, mut dql: Dql) {
    let mut now = 0;
    b.iter(|| {
        now += 1_000;
        if black_box(dql.available(Instant::from_nanos(now))) {
            dql.queued(black_box(FRAME), Instant::from_nanos(now));
        }
        dql.completed(black_box(FRAME), Instant::from_nanos(now));
    });
}

fn ports(c: &mut Criterion) {
    let mut group = c.benchmark_group("port");
    group.throughput(Throughput::Elements(BURST));
    let fair = || FqCodel::new(fq_codel::Config::default()).expect("defaults are valid");
    let fifo = || Pfifo::new(pfifo::Config::default());
    group.bench_function("pfifo, no limit", |b| {
        bench_port(b, fifo(), Unlimited::default())
    });
    group.bench_function("pfifo, dql", |b| bench_port(b, fifo(), Dql::default()));
    group.bench_function("pfifo, dql chosen at run time", |b| {
        bench_port(
            b,
            fifo(),
            LimitKind::default().build().expect("the default is valid"),
        );
    });
    group.bench_function("fq_codel, dql, 1000 flows", |b| {
        bench_port(b, fair(), Dql::default())
    });
    group.finish();
}

/// Enqueues a burst, then transmits and reaps until all of it is done.
fn bench_port(b: &mut criterion::Bencher<'_>, qdisc: impl Qdisc<Packet<()>>, limit: impl Limit) {
    let sink = Sink {
        packets: Vec::with_capacity(256),
    };
    let mut port = Port::new(qdisc, Ring::new(sink, limit));
    let (mut drops, mut done) = (Drops::new(), Vec::new());
    let (mut now, mut flow) = (0, 0_u64);
    b.iter(|| {
        now += 10_000;
        let at = Instant::from_nanos(now);
        for _ in 0..BURST {
            flow = (flow + 1) % FLOWS;
            let packet =
                Packet::new((), 1514).with_hashes(flow.wrapping_mul(0x9e37_79b9_7f4a_7c15), 0, 0);
            port.enqueue(packet, at, &mut drops);
        }
        while port.transmit(at, 64, &mut drops, |_| {}) > 0 {
            port.reap(at, &mut done);
            done.drain(..).for_each(drop);
        }
    });
}

criterion_group!(benches, updates, ports);
criterion_main!(benches);
