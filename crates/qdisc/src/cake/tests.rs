//! CAKE against `net/sched/sch_cake.c`: worked numbers, invariants, and the kernel bugs it must not
//! share.

mod acks;
mod isolation;
mod memory;
mod properties;
mod shaping;

use super::*;
use crate::ledger::Ledger;
use crate::testing::Edit;
use core::time::Duration;
use tautline_base::Rate;
use tautline_testkit::Probe;

const ECT0: u8 = 2;

/// One tin, unlimited.
fn best_effort() -> Config {
    Config {
        tins: Tins::BestEffort,
        ..Config::default()
    }
}

/// One tin at a rate; 12 112 kbit/s are a full frame per millisecond.
fn shaped(kbit: u64) -> Config {
    Config {
        bandwidth: Bandwidth::Shaped(Rate::kbit(kbit)),
        ..best_effort()
    }
}

/// One tin whose queues never signal.
fn patient() -> Config {
    Config {
        rtt: Duration::from_secs(1000),
        ..best_effort()
    }
}

fn cake(mut config: Config) -> Ledger<Cake<Probe>> {
    config.perturbation.get_or_insert(0);
    Ledger::new(Cake::new(config).expect("valid"))
}

/// The statistics of tin number `at`.
fn tin(queue: &Ledger<Cake<Probe>>, at: usize) -> TinStats {
    queue.inner().tins().nth(at).expect("a tin")
}

/// Hits of other ways, misses and collisions of the tin number `at`.
fn ways(queue: &Ledger<Cake<Probe>>, at: usize) -> [u64; 3] {
    let tin = tin(queue, at);
    [tin.way_hits, tin.way_misses, tin.way_collisions]
}

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// The packets that leave until `end`, each as soon as it may, and their times.
fn departures(
    queue: &mut impl Qdisc<Probe>,
    mut now: Instant,
    end: Instant,
    drops: &mut Drops<Probe>,
) -> Vec<(Instant, Probe)> {
    let mut left = Vec::new();
    while let Some(ready) = queue.ready_at().filter(|&ready| ready <= end) {
        now = now.max(ready);
        match queue.dequeue(now, drops) {
            Some(packet) => left.push((now, packet)),
            None => assert!(
                queue.ready_at().is_none_or(|ready| ready > now),
                "no spinning"
            ),
        }
    }
    left
}

impl<P: Item> Cake<P> {
    /// Panics unless every count is what a walk over everything finds.
    fn verify(&self) {
        self.tins.iter().for_each(Tin::verify);
        assert_eq!(
            self.tins.iter().map(|tin| tin.bytes).sum::<Bytes>(),
            self.backlog.bytes
        );
        let (mut packets, mut memory) = (0, Bytes::ZERO);
        for flow in self.tins.iter().flat_map(|tin| tin.flows.iter()) {
            let items: Vec<&Weighed<P>> = self
                .packets
                .iter(flow.queue)
                .map(|(_, item)| item)
                .collect();
            packets += items.len();
            memory += items.iter().map(|item| item.packet.memory()).sum();
            assert_eq!(
                items.iter().filter(|item| item.pure_ack).count(),
                flow.pure_acks as usize
            );
        }
        assert_eq!((packets, memory), (self.backlog.packets, self.memory.used));
        assert!(
            memory <= self.memory.limit
                && self.memory.used <= self.memory.most.max(self.memory.limit)
        );
    }
}
