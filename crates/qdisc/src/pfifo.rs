//! [`Pfifo`]: first in, first out, bounded in packets, dropping the newcomer when full (`tc`'s `pfifo`).

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Instant, Item};

use crate::discipline::{Backlog, Change, Inspect, Qdisc};
use crate::drops::{DropReason, Drops};
use crate::report::{Report, Value};
use crate::words::{Options, PACKETS, ParseError, Word, Words, units};

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

impl Options for Config {
    fn kind(&self) -> &'static str {
        "pfifo"
    }

    fn help(&self) -> &'static str {
        "limit PACKETS"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "limit" => self.limit = words.value(option, units::parse_packets, PACKETS)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        vec![("limit", Value::Packets(self.limit.into()))]
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

    /// Takes new parameters. Packets above a lowered limit stay.
    pub fn reconfigure(&mut self, config: Config) {
        self.config = config;
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
            counters: vec![("drop_overlimit", Value::Count(self.drop_overlimit))],
            ..Report::default()
        }
    }
}

impl<P: Item> Change<P> for Pfifo<P> {
    fn change(&mut self, words: &mut Words<'_>, _now: Instant, _drops: &mut Drops<P>) -> Result<(), ParseError> {
        let mut config = self.config.clone();
        words.apply(&mut config)?;
        self.reconfigure(config);
        Ok(())
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
