//! The cost of a packet with idle connections beside its own: the same conversation alone, and
//! among 100 000. The two must be within 10 %. (What the idle ones hold is `cargo test --release -p
//! tautline-stack --test idle_connections`.)

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tautline_benches::AmongIdle;

const REQUESTS: usize = 200;

fn idle_connections(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("idle_connections");
    group.throughput(Throughput::Elements(REQUESTS as u64));
    for connections in [1, 100_000] {
        let mut rig = AmongIdle::new(connections);
        group.bench_function(
            format!("request and answer among {connections}"),
            |bencher| {
                bencher.iter(|| rig.converse(REQUESTS));
            },
        );
    }
    group.finish();
}

criterion_group!(benches, idle_connections);
criterion_main!(benches);
