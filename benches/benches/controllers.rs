//! The cost of an acknowledgment in every controller, behind one `Box<dyn Controller>` as in a
//! connection: one `on_ack` and one `verdict` on a steady path of a hundred segments. Instructions:
//! `scripts/bench-cc`.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tautline_benches::acks::Acks;
use tautline_cc::Algorithm;

fn controllers(c: &mut Criterion) {
    let mut group = c.benchmark_group("on_ack");
    group.throughput(Throughput::Elements(1));
    for algorithm in Algorithm::ALL {
        let mut acks = Acks::new(algorithm);
        group.bench_function(algorithm.name(), |b| b.iter(|| black_box(acks.ack())));
    }
    group.finish();
}

criterion_group!(benches, controllers);
criterion_main!(benches);
