//! [`Ledger`]: the account that must balance after every call.

use tautline_base::{Backlog, Bytes, Drops, Instant, Item, MultiQueue, Qdisc, Tally};

/// Wraps any qdisc and asserts, in packets and in bytes, after every call:
///
/// *in + born = out + dropped + backlog*
///
/// A qdisc that loses, invents or miscounts a packet is caught in the call that does it. Wrap it
/// while it is empty.
///
/// ```
/// use tautline_base::{Instant, Packet};
/// use tautline_qdisc::{Drops, Ledger, Pfifo, Qdisc, pfifo::Config};
///
/// let (mut fifo, mut drops) = (Ledger::new(Pfifo::new(Config { limit: 1 })), Drops::new());
/// for _ in 0..2 {
///     fifo.enqueue(Packet::new((), 1514), Instant::ZERO, &mut drops); // 2 in = 1 dropped + 1 queued
/// }
/// ```
///
/// # Panics
/// Its `enqueue` and `dequeue` panic when the account does not balance.
#[derive(Debug)]
pub struct Ledger<Q> {
    inner: Q,
    entered: Tally,
    born: Tally,
    left: Tally,
    dropped: Tally,
    /// As of the last call, which verified it: what it takes to ask `inner` of many bands or classes
    /// is spent once a call.
    backlog: Backlog,
}

/// State of a sink before a call.
struct Mark {
    drops: usize,
    births: Tally,
}

impl Mark {
    fn of<P>(drops: &Drops<P>) -> Self {
        Self {
            drops: drops.len(),
            births: drops.births(),
        }
    }
}

impl<Q> Ledger<Q> {
    /// Opens an account around `inner`, which must be empty.
    pub fn new(inner: Q) -> Self {
        let zero = Tally::default();
        Self {
            inner,
            entered: zero,
            born: zero,
            left: zero,
            dropped: zero,
            backlog: Backlog::default(),
        }
    }

    /// The wrapped qdisc.
    pub fn inner(&self) -> &Q {
        &self.inner
    }

    /// The wrapped qdisc, to inspect or configure; packets that enter or leave behind the account's
    /// back break it, and neither [`backlog`](Qdisc::backlog) nor [`ready_at`](Qdisc::ready_at) knows of them.
    pub fn inner_mut(&mut self) -> &mut Q {
        &mut self.inner
    }

    /// Packets and bytes dropped since the account was opened.
    pub fn dropped(&self) -> Tally {
        self.dropped
    }

    /// Closes the account.
    pub fn into_inner(self) -> Q {
        self.inner
    }

    /// Books what `drops` received since `mark`, then balances.
    #[inline]
    #[track_caller]
    fn balance<P: Item>(&mut self, call: &str, now: Instant, drops: &Drops<P>, mark: &Mark)
    where
        Q: Qdisc<P>,
    {
        if drops.len() != mark.drops || drops.births() != mark.births {
            self.book(drops, mark);
        }
        self.backlog = self.inner.backlog();
        if !self.is_balanced() {
            self.refuse(call, now);
        }
    }

    /// Books the drops and births since `mark`.
    fn book<P: Item>(&mut self, drops: &Drops<P>, mark: &Mark) {
        for (packet, _) in drops.iter().skip(mark.drops) {
            self.dropped.add(packet.len());
        }
        let births = drops.births();
        self.born.packets += births.packets - mark.births.packets;
        self.born.bytes += births.bytes - mark.births.bytes;
    }

    fn is_balanced(&self) -> bool {
        let Self {
            entered,
            born,
            left,
            dropped,
            backlog,
            ..
        } = self;
        entered.packets + born.packets == left.packets + dropped.packets + backlog.packets as u64
            && entered.bytes + born.bytes == left.bytes + dropped.bytes + backlog.bytes
    }

    #[cold]
    #[track_caller]
    fn refuse(&self, call: &str, now: Instant) -> ! {
        let Self {
            entered,
            born,
            left,
            dropped,
            backlog: Backlog { packets, bytes },
            ..
        } = self;
        panic!(
            "packet ledger broken by {call} at {now}: in {entered} + born {born} is not out {left} + dropped {dropped} + \
             backlog {packets}p {bytes}",
        );
    }
}

impl<Q> Ledger<Q> {
    /// Calls `call` with the wrapped qdisc, then checks the books; `name` says in a panic which
    /// call broke them.
    ///
    /// # Panics
    /// If a packet or a byte was lost.
    #[track_caller]
    pub fn with_inner<P: Item, R>(
        &mut self,
        name: &'static str,
        now: Instant,
        drops: &mut Drops<P>,
        call: impl FnOnce(&mut Q, &mut Drops<P>) -> R,
    ) -> R
    where
        Q: Qdisc<P>,
    {
        let mark = Mark::of(drops);
        let result = call(&mut self.inner, drops);
        self.balance(name, now, drops, &mark);
        result
    }
}

impl<Q> Ledger<Q> {
    /// Calls `call`, which takes a packet out, and books it.
    #[track_caller]
    fn take<P: Item>(
        &mut self,
        name: &str,
        now: Instant,
        drops: &mut Drops<P>,
        call: impl FnOnce(&mut Q, &mut Drops<P>) -> Option<P>,
    ) -> Option<P>
    where
        Q: Qdisc<P>,
    {
        let mark = Mark::of(drops);
        let packet = call(&mut self.inner, drops);
        if let Some(packet) = &packet {
            self.left.add(packet.len());
        }
        self.balance(name, now, drops, &mark);
        packet
    }
}

impl<P: Item, Q: Qdisc<P>> Qdisc<P> for Ledger<Q> {
    #[track_caller]
    fn enqueue(&mut self, packet: P, now: Instant, drops: &mut Drops<P>) {
        let mark = Mark::of(drops);
        self.entered.add(packet.len());
        self.inner.enqueue(packet, now, drops);
        self.balance("enqueue", now, drops, &mark);
    }

    #[track_caller]
    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        self.take("dequeue", now, drops, |inner, drops| {
            inner.dequeue(now, drops)
        })
    }

    fn ready_at(&self) -> Option<Instant> {
        if self.backlog.is_empty() {
            None
        } else {
            self.inner.ready_at()
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    #[track_caller]
    fn peek_len(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<Bytes> {
        self.with_inner("peek_len", now, drops, |inner, drops| {
            inner.peek_len(now, drops)
        })
    }

    fn set_peeked(&mut self, peeked: bool) {
        self.inner.set_peeked(peeked);
    }
}

impl<P: Item, Q: MultiQueue<P>> MultiQueue<P> for Ledger<Q> {
    fn queues(&self) -> usize {
        self.inner.queues()
    }

    fn queue_of(&self, packet: &P) -> usize {
        self.inner.queue_of(packet)
    }

    #[track_caller]
    fn dequeue_from(&mut self, queue: usize, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        self.take("dequeue_from", now, drops, |inner, drops| {
            inner.dequeue_from(queue, now, drops)
        })
    }

    fn ready_at_of(&self, queue: usize) -> Option<Instant> {
        self.inner.ready_at_of(queue)
    }

    fn backlog_of(&self, queue: usize) -> Backlog {
        self.inner.backlog_of(queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pfifo::{Config, Pfifo};
    use alloc::boxed::Box;
    use tautline_base::DropReason;
    use tautline_testkit::Probe;

    /// A qdisc with a fault of choice.
    struct Faulty {
        fifo: Pfifo<Probe>,
        fault: Fault,
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Fault {
        Swallows,
        Duplicates { told: bool },
        Shrinks,
    }

    impl Qdisc<Probe> for Faulty {
        fn enqueue(&mut self, packet: Probe, now: Instant, drops: &mut Drops<Probe>) {
            if let Fault::Duplicates { told } = self.fault {
                self.fifo.enqueue(packet.clone(), now, drops);
                if told {
                    drops.note_births(1, packet.len());
                }
            }
            if self.fault != Fault::Swallows {
                self.fifo.enqueue(packet, now, drops);
            }
        }

        fn dequeue(&mut self, now: Instant, drops: &mut Drops<Probe>) -> Option<Probe> {
            let packet = self.fifo.dequeue(now, drops)?;
            Some(if self.fault == Fault::Shrinks {
                packet.sized(1)
            } else {
                packet
            })
        }

        fn ready_at(&self) -> Option<Instant> {
            None
        }

        fn backlog(&self) -> Backlog {
            self.fifo.backlog()
        }
    }

    impl MultiQueue<Probe> for Faulty {
        fn queues(&self) -> usize {
            1
        }

        fn queue_of(&self, _: &Probe) -> usize {
            0
        }

        fn dequeue_from(
            &mut self,
            _: usize,
            now: Instant,
            drops: &mut Drops<Probe>,
        ) -> Option<Probe> {
            self.dequeue(now, drops)
        }

        fn ready_at_of(&self, _: usize) -> Option<Instant> {
            None
        }

        fn backlog_of(&self, _: usize) -> Backlog {
            self.backlog()
        }
    }

    fn one_in_one_out(fault: Fault) {
        let fifo = Pfifo::new(Config { limit: 1 });
        let (mut ledger, mut drops) = (Ledger::new(Faulty { fifo, fault }), Drops::new());
        ledger.enqueue(Probe::new(0), Instant::ZERO, &mut drops);
        ledger.dequeue(Instant::ZERO, &mut drops);
    }

    #[test]
    #[should_panic(
        expected = "packet ledger broken by enqueue at 0.000000000s: in 1p 1514b + born 0p 0b is not \
                               out 0p 0b + dropped 0p 0b + backlog 0p 0b"
    )]
    fn a_lost_packet_is_caught() {
        one_in_one_out(Fault::Swallows);
    }

    #[test]
    #[should_panic(expected = "packet ledger broken by enqueue")]
    fn an_invented_packet_is_caught() {
        one_in_one_out(Fault::Duplicates { told: false });
    }

    #[test]
    fn a_noted_birth_balances() {
        one_in_one_out(Fault::Duplicates { told: true });
    }

    #[test]
    #[should_panic(expected = "packet ledger broken by dequeue")]
    fn a_lost_byte_is_caught() {
        one_in_one_out(Fault::Shrinks);
    }

    #[test]
    #[should_panic(expected = "packet ledger broken by dequeue_from")]
    fn a_byte_that_one_transmit_queue_loses_is_caught() {
        let (fifo, fault) = (Pfifo::new(Config { limit: 1 }), Fault::Shrinks);
        let (mut ledger, mut drops) = (Ledger::new(Faulty { fifo, fault }), Drops::new());
        ledger.enqueue(Probe::new(0), Instant::ZERO, &mut drops);
        ledger.dequeue_from(0, Instant::ZERO, &mut drops);
    }

    #[test]
    fn drops_that_were_there_before_are_not_counted() {
        let mut drops = Drops::new();
        drops.push(Probe::new(9), DropReason::Reset);
        let boxed: Box<dyn Qdisc<Probe>> = Box::new(Pfifo::new(Config { limit: 0 }));
        let mut ledger = Ledger::new(boxed);
        ledger.enqueue(Probe::new(0), Instant::ZERO, &mut drops);
        assert_eq!(
            ledger.dropped,
            Tally {
                packets: 1,
                bytes: Bytes::new(1514)
            }
        );
    }
}
