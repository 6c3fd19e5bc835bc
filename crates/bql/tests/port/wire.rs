//! A device that transmits at line rate and reports completions only when asked, and a FIFO.

use std::collections::VecDeque;
use std::time::Duration;

use tautline_base::{Bytes, Device, Frame, Instant, Item, Packet, Rate, Received};
use tautline_qdisc::{Backlog, Drops, Qdisc};

/// A wire with a ring of `capacity` descriptors.
pub(crate) struct Wire<F> {
    capacity: usize,
    rate: Rate,
    /// Put, and waiting for the doorbell.
    quiet: VecDeque<Packet<F>>,
    /// On their way, with the time at which each has left.
    leaving: VecDeque<(Instant, Packet<F>)>,
    free_at: Instant,
    pub(crate) doorbells: usize,
    /// How long it had nothing to send, between its first packet and the last doorbell.
    pub(crate) idle: Duration,
}

impl<F: Frame> Wire<F> {
    pub(crate) fn new(rate: Rate, capacity: usize) -> Self {
        let (quiet, leaving) = (VecDeque::new(), VecDeque::new());
        Self {
            capacity,
            rate,
            quiet,
            leaving,
            free_at: Instant::ZERO,
            doorbells: 0,
            idle: Duration::ZERO,
        }
    }
}

impl<F: Frame> Device for Wire<F> {
    type Frame = F;

    fn mtu(&self) -> usize {
        1500
    }

    fn room(&self) -> usize {
        self.capacity - self.in_flight()
    }

    fn put(&mut self, packet: Packet<F>, _now: Instant) {
        assert!(self.room() > 0, "put without room");
        self.quiet.push_back(packet);
    }

    fn doorbell(&mut self, now: Instant) {
        self.doorbells += 1;
        if self.free_at > Instant::ZERO {
            self.idle += now.max(self.free_at) - self.free_at;
        }
        for packet in self.quiet.drain(..) {
            self.free_at = self.free_at.max(now) + packet.len() / self.rate;
            self.leaving.push_back((self.free_at, packet));
        }
    }

    fn reap(&mut self, now: Instant, done: &mut Vec<Packet<F>>) {
        let left = self.leaving.iter().take_while(|(at, _)| *at <= now).count();
        done.extend(self.leaving.drain(..left).map(|(_, packet)| packet));
    }

    fn in_flight(&self) -> usize {
        self.quiet.len() + self.leaving.len()
    }

    fn receive(&mut self, _now: Instant) -> Option<Received<F>> {
        None
    }

    fn recycle(&mut self, _frame: F) {}

    fn reset(&mut self, lost: &mut Vec<Packet<F>>) {
        lost.extend(self.leaving.drain(..).map(|(_, packet)| packet));
        lost.extend(self.quiet.drain(..));
        self.free_at = Instant::ZERO;
    }
}

/// First in, first out, without limit.
#[derive(Default)]
pub(crate) struct Fifo<F>(VecDeque<Packet<F>>);

impl<F> Fifo<F> {
    pub(crate) fn new() -> Self {
        Self(VecDeque::new())
    }
}

impl<F: Frame> Qdisc<Packet<F>> for Fifo<F> {
    fn enqueue(&mut self, packet: Packet<F>, _now: Instant, _drops: &mut Drops<Packet<F>>) {
        self.0.push_back(packet);
    }

    fn dequeue(&mut self, _now: Instant, _drops: &mut Drops<Packet<F>>) -> Option<Packet<F>> {
        self.0.pop_front()
    }

    fn ready_at(&self) -> Option<Instant> {
        self.0.front().map(|_| Instant::ZERO)
    }

    fn backlog(&self) -> Backlog {
        Backlog {
            packets: self.0.len(),
            bytes: self.0.iter().map(Item::len).sum::<Bytes>(),
        }
    }
}

/// A full Ethernet frame, told from others by its flow hash.
pub(crate) fn packet(number: u64) -> Packet<()> {
    Packet::new((), 1514).with_hashes(number, 0, 0)
}
