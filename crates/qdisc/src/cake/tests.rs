//! CAKE against `net/sched/sch_cake.c`: worked numbers, invariants, and the kernel bugs it must not
//! share.

mod acks;
mod isolation;
mod memory;
mod properties;
mod shaping;
mod words;

use super::*;
use crate::dialect::*;
use crate::ledger::Ledger;
use core::time::Duration;
use tautline_testkit::Probe;

const ECT0: u8 = 2;

/// The configuration that `tc` would make of `words`.
fn config(words: &str) -> Config {
    match std::format!("cake {words}").parse() {
        Ok(Kind::Cake(config)) => config,
        other => panic!("{words}: {other:?}"),
    }
}

fn cake(words: &str) -> Ledger<Cake<Probe>> {
    let mut config = config(words);
    config.perturbation.get_or_insert(0);
    Ledger::new(Cake::new(config).expect(words))
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

/// The counter `name` of the tin `tin`, counted as shown.
fn counter(queue: &impl Inspect, tin: usize, name: &str) -> Value {
    let report = queue.report();
    let found = report.classes[tin]
        .counters
        .iter()
        .find(|(counter, _)| *counter == name);
    found.unwrap_or_else(|| panic!("no {name}")).1.clone()
}

fn count(queue: &impl Inspect, tin: usize, name: &str) -> u64 {
    match counter(queue, tin, name) {
        Value::Count(count) => count,
        Value::Size(size) => size.get(),
        other => panic!("{name}: {other:?}"),
    }
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
