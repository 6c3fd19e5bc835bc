//! [`Pfifo`]: first in, first out, bounded in packets, dropping the newcomer when full (`tc`'s `pfifo`).

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Instant, Item};

use crate::discipline::{Backlog, Inspect, Qdisc, Report};
use crate::drops::{DropReason, Drops};
use crate::words::units;

/// Parameters of [`Pfifo`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Packets it holds at most. Default 1000, the transmit queue length of a Linux Ethernet device.
    pub limit: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { limit: 1000 }
    }
}

impl Config {
    pub(crate) fn options(&self) -> Vec<(&'static str, String)> {
        vec![("limit", units::packets(self.limit))]
    }
}

/// A bounded FIFO.
#[derive(Debug)]
pub struct Pfifo<P> {
    config: Config,
    queue: VecDeque<P>,
    backlog: Backlog,
    drop_overlimit: u64,
}

impl<P> Pfifo<P> {
    /// An empty FIFO. Every configuration is valid; with limit 0 it drops everything.
    pub fn new(config: Config) -> Self {
        Self { config, queue: VecDeque::new(), backlog: Backlog::default(), drop_overlimit: 0 }
    }
}

impl<P: Item> Qdisc<P> for Pfifo<P> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        if self.queue.len() >= self.config.limit as usize {
            self.drop_overlimit += 1;
            return drops.push(packet, DropReason::Overlimit);
        }
        packet.set_enqueued(now);
        self.backlog.add(packet.len());
        self.queue.push_back(packet);
    }

    fn dequeue(&mut self, _now: Instant, _drops: &mut Drops<P>) -> Option<P> {
        let packet = self.queue.pop_front()?;
        self.backlog.remove(packet.len());
        Some(packet)
    }

    fn ready_at(&self) -> Option<Instant> {
        (!self.queue.is_empty()).then_some(Instant::ZERO)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

impl<P> Inspect for Pfifo<P> {
    fn report(&self) -> Report {
        Report {
            kind: "pfifo",
            options: self.config.options(),
            counters: vec![("drop_overlimit", self.drop_overlimit)],
            children: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Probe, ids};
    use tautline_base::Bytes;

    /// spec/qdisc.md §3, worked: limit 2, three packets of 100 bytes.
    #[test]
    fn the_packet_above_the_limit_is_dropped() {
        let (mut fifo, mut drops) = (Pfifo::new(Config { limit: 2 }), Drops::new());
        for id in 0..3 {
            fifo.enqueue(Probe::new(id).sized(100), Instant::ZERO, &mut drops);
        }
        assert_eq!(fifo.backlog(), Backlog { packets: 2, bytes: Bytes::new(200) });
        assert_eq!(ids(drops.drain().map(|(packet, _)| packet)), [2]);
        assert_eq!(ids(core::iter::from_fn(|| fifo.dequeue(Instant::ZERO, &mut drops))), [0, 1]);
        assert_eq!(fifo.ready_at(), None);
    }
}
