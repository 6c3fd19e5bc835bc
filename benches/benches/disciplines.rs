//! The cost of a packet in every qdisc: one enqueue and one dequeue with 1000 packets waiting,
//! whose flows go round 1, 1000 or 65 536. Built from words, so behind one `Box<dyn>`; trees have
//! one more below. Instructions: `scripts/bench-qdisc`.
//!
//! Budgets (docs/DESIGN.md): fq_codel at most 50 ns with 1000 flows and at most twice that with 65
//! 536; pfifo_fast and CoDel at most 15.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tautline_benches::queue::{Backlogged, CASES, Pkt, takes};

fn disciplines(c: &mut Criterion) {
    let mut group = c.benchmark_group("discipline");
    group.throughput(Throughput::Elements(1));
    for (name, script) in CASES {
        for flows in [1, 1000, 65_536]
            .into_iter()
            .filter(|&flows| takes(name, flows))
        {
            let tree: tautline_tc::Tree = script.parse().expect("the cases are tested");
            let queue = tree.with_hash_key(0).build::<Pkt>();
            let queue = queue.expect("the cases are tested");
            let mut standing = Backlogged::new(queue, flows);
            group.bench_function(BenchmarkId::new(*name, flows), |b| {
                b.iter(|| black_box(standing.pair()))
            });
        }
    }
    group.finish();
}

criterion_group!(benches, disciplines);
criterion_main!(benches);
