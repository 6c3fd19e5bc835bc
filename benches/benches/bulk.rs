//! Both ends of a bulk flow in one thread, beside smoltcp doing the same in the same run. The
//! figure of merit is the ratio, and the time per segment of 1448 bytes (criterion's throughput is
//! in segments).

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tautline_benches::{Bulk, SmoltcpBulk};
use tautline_stack::{Pacing, TcpConfig, TsqLimit};

const BYTES: u64 = 8 << 20;

fn bulk(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("bulk");
    group.throughput(Throughput::Elements(
        BYTES / tautline_benches::bulk::SEGMENT,
    ));
    let mut ours = Bulk::new(TcpConfig::default());
    group.bench_function("tautline", |bencher| bencher.iter(|| ours.transfer(BYTES)));
    let mut owned = Bulk::new(TcpConfig::default());
    owned.zero_copy = true;
    group.bench_function("tautline, zero-copy", |bencher| {
        bencher.iter(|| owned.transfer(BYTES))
    });
    let unpaced = TcpConfig {
        pacing: Pacing::Off,
        tsq: TsqLimit::Off,
        ..TcpConfig::default()
    };
    let mut bare = Bulk::new(unpaced);
    group.bench_function("tautline, no pacing, no TSQ", |bencher| {
        bencher.iter(|| bare.transfer(BYTES))
    });
    let mut theirs = SmoltcpBulk::new();
    group.bench_function("smoltcp", |bencher| bencher.iter(|| theirs.transfer(BYTES)));
    group.finish();
}

criterion_group!(benches, bulk);
criterion_main!(benches);
