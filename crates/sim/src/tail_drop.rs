//! [`TailDrop`]: the plain buffer of a switch or modem, bounded in packets and in bytes.

use std::collections::VecDeque;

use tautline_base::{Bytes, Instant, Item};
use tautline_qdisc::words::Problem;
use tautline_qdisc::{Backlog, Change, DropReason, Drops, Inspect, ParseError, Qdisc, Report, Value, Words};

/// First in, first out; a packet that does not fit is dropped.
#[derive(Debug)]
pub(crate) struct TailDrop<P> {
    packets: usize,
    bytes: Bytes,
    queue: VecDeque<P>,
    backlog: Backlog,
    dropped: u64,
}

impl<P> TailDrop<P> {
    /// An empty buffer of `packets` packets and `bytes` bytes, whichever is full first.
    pub(crate) fn new(packets: usize, bytes: Bytes) -> Self {
        Self { packets, bytes, queue: VecDeque::new(), backlog: Backlog::default(), dropped: 0 }
    }
}

impl<P: Item> Qdisc<P> for TailDrop<P> {
    fn enqueue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        if self.backlog.packets >= self.packets || self.backlog.bytes + packet.len() > self.bytes {
            self.dropped += 1;
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

impl<P> Inspect for TailDrop<P> {
    fn report(&self) -> Report {
        Report {
            kind: "tail_drop",
            options: vec![("packets", Value::Packets(self.packets as u64)), ("bytes", Value::Size(self.bytes))],
            counters: vec![("dropped", Value::Count(self.dropped))],
            ..Report::default()
        }
    }
}

impl<P: Item> Change<P> for TailDrop<P> {
    /// Its limits are the link's and fixed.
    fn change(&mut self, words: &mut Words<'_>, _now: Instant, _drops: &mut Drops<P>) -> Result<(), ParseError> {
        let at = words.here();
        let word = words.word().map_or_else(Default::default, |word| word.text.to_string());
        Err(ParseError { at, problem: Problem::UnknownOption { kind: "tail_drop", word, help: "nothing" } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_base::Packet;

    fn admitted(packets: usize, bytes: u64, offered: usize) -> usize {
        let (mut queue, mut drops) = (TailDrop::new(packets, Bytes::new(bytes)), Drops::new());
        for _ in 0..offered {
            queue.enqueue(Packet::new((), 100), Instant::ZERO, &mut drops);
        }
        assert_eq!(drops.drain().count() + queue.backlog().packets, offered);
        queue.backlog().packets
    }

    #[test]
    fn the_tighter_limit_holds() {
        assert_eq!(admitted(3, 10_000, 5), 3);
        assert_eq!(admitted(100, 499, 5), 4);
        assert_eq!(admitted(100, 500, 5), 5);
        assert_eq!(admitted(0, 500, 5), 0);
    }
}
