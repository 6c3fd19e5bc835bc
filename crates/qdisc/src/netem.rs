//! [`Netem`]: an emulated path: delay, loss, duplicates, corruption, reordering, a link, windows
//! (`net/sched/sch_netem.c`; `tc`'s `netem`).
//!
//! For every packet, in this order: it may come twice; it may be lost, or marked instead; one bit
//! of it may be flipped; it is dropped if the path is full; then it is given the time at which it
//! leaves. Packets leave in order of these times, so jitter reorders them. When a packet is due it
//! moves to the inner qdisc, if there is one, which decides what leaves.
//!
//! A packet carries one time of entry, and the inner qdisc stamps it again: sojourn times of the
//! whole, as [`Stats`](crate::Stats) measures them, are then those in the inner qdisc, without the
//! time on the path. Its AQM needs that time; the path's is what the parameters say.
//!
//! Each packet has its time on the caller's clock: if that steps back, the packets on the way arrive later
//! by the step.
//!
//! Everything random follows from the seed.

mod delay;
mod params;
mod rng;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use tautline_base::{Backlog, Bytes, ConfigError, DropReason, Drops, Instant, Item, Qdisc};

use crate::class::ClassId;
use crate::classful::Classful;
use crate::flush::flush;
use crate::random::Random;
use crate::timed::{Timed, Timeline};

use delay::Spread;
use rng::Rng;

pub use delay::{Distribution, NoDistribution};
pub use params::{
    Cells, Chance, Config, Draw, GilbertElliott, Link, Loss, Reorder, Slots, Spacing, States,
};

/// An emulated path, with or without a qdisc at its end.
///
/// ```
/// use core::time::Duration;
/// use tautline_base::{Instant, Packet};
/// use tautline_qdisc::{Drops, Netem, Pfifo, Qdisc, netem::Config, pfifo};
///
/// let config = Config { delay: Duration::from_millis(20), ..Config::default() };
/// let mut path = Netem::with_child(config, Pfifo::new(pfifo::Config::default()))?;
/// let mut drops = Drops::new();
/// path.enqueue(Packet::new((), 1514), Instant::ZERO, &mut drops);
/// assert!(path.dequeue(Instant::from_millis(19), &mut drops).is_none());
/// assert!(path.dequeue(Instant::from_millis(20), &mut drops).is_some());
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Netem<P, Q> {
    handle: u16,
    config: Config,
    rng: Rng,
    delay: Spread,
    /// Packets since one overtook.
    since_overtaking: u32,
    /// Packets that overtook all others.
    overtaking: VecDeque<P>,
    packets: Timed<P>,
    queue: Timeline,
    /// Departure time of the last packet in `queue`, if any.
    last_leaves: Instant,
    window: Option<Window>,
    /// Backlog of `overtaking` and `queue`.
    backlog: Backlog,
    /// Packets that a parent has dequeued to learn their length: none or one.
    peeked: usize,
    /// The pieces of a packet that was split, but for the first; empty between calls.
    pieces: VecDeque<P>,
    child: Option<Q>,
    stats: Stats,
}

/// Counters of the impairments applied to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets lost.
    pub lost: u64,
    /// Packets marked instead of lost.
    pub ecn_mark: u64,
    /// Packets duplicated.
    pub duplicated: u64,
    /// Packets with a flipped bit.
    pub corrupted: u64,
    /// Packets sent ahead of others.
    pub reordered: u64,
    /// Large packets cut, so that one segment could be corrupted.
    pub split: u64,
}

/// A time at which packets leave, and what may leave then.
#[derive(Debug)]
struct Window {
    spacing: Spread,
    packets: Option<u32>,
    bytes: Option<Bytes>,
    opens: Instant,
    packets_left: u32,
    bytes_left: Bytes,
}

impl Window {
    /// The first one is open.
    fn new(slots: &Slots, draw: Draw) -> Self {
        let Slots {
            every,
            packets,
            bytes,
        } = *slots;
        let spacing = match every {
            Spacing::Range { min, max } => {
                let half = (max - min) / 2;
                Spread::new(min + half, half, Distribution::Uniform, draw)
            }
            Spacing::Spread {
                distribution,
                delay,
                jitter,
            } => Spread::new(delay, jitter, distribution, draw),
        };
        let mut window = Self {
            spacing,
            packets,
            bytes,
            opens: Instant::ZERO,
            packets_left: 0,
            bytes_left: Bytes::ZERO,
        };
        window.refill();
        window
    }

    fn refill(&mut self) {
        self.packets_left = self.packets.unwrap_or(u32::MAX);
        self.bytes_left = self.bytes.unwrap_or(Bytes::MAX);
    }

    /// Closes it; the next one opens some time after `now`.
    fn next(&mut self, now: Instant, random: &mut Random) {
        self.opens = offset_by(now, self.spacing.at(random.bits32()));
        self.refill();
    }

    /// Pays for a packet of `len`.
    fn pay(&mut self, len: Bytes, now: Instant, random: &mut Random) {
        if self.packets.is_some() {
            self.packets_left -= 1;
        }
        if self.bytes.is_some() {
            self.bytes_left = self.bytes_left.saturating_sub(len);
        }
        if self.packets_left == 0 || self.bytes_left == Bytes::ZERO {
            self.next(now, random);
        }
    }
}

/// `now` and `nanos` nanoseconds, which may be negative.
fn offset_by(now: Instant, nanos: i64) -> Instant {
    let shift = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 { now - shift } else { now + shift }
}

impl<P: Item, Q: Qdisc<P>> Netem<P, Q> {
    /// A path with nothing at its end; a qdisc can be grafted later.
    ///
    /// # Errors
    /// If a share is not from 0 to 1, or a parameter makes no sense without another.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Self::make(config, None)
    }

    /// A path that ends in `child`: packets enter it when they have passed the path.
    ///
    /// # Errors
    /// If a share is not from 0 to 1, or a parameter makes no sense without another.
    pub fn with_child(config: Config, child: Q) -> Result<Self, ConfigError> {
        Self::make(config, Some(child))
    }

    fn make(config: Config, child: Option<Q>) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            handle: 0,
            rng: Rng::new(&config),
            delay: Spread::new(
                config.delay,
                config.jitter,
                config.distribution,
                config.draw,
            ),
            since_overtaking: 0,
            peeked: 0,
            overtaking: VecDeque::new(),
            packets: Timed::new(),
            queue: Timeline::default(),
            last_leaves: Instant::ZERO,
            window: config
                .slots
                .as_ref()
                .map(|slots| Window::new(slots, config.draw)),
            backlog: Backlog::default(),
            pieces: VecDeque::new(),
            child,
            stats: Stats::default(),
            config,
        })
    }

    /// Gives it a name in a tree: its one class is then `handle:1`.
    pub fn with_handle(self, handle: u16) -> Self {
        Self { handle, ..self }
    }

    /// Its parameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Counters of the impairments applied.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The qdisc at the end of the path.
    pub fn child(&self) -> Option<&Q> {
        self.child.as_ref()
    }

    /// Replaces the parameters. Packets on the way keep their times, also above a lowered limit.
    ///
    /// # Errors
    /// As [`new`](Netem::new). Then nothing changes.
    pub fn reconfigure(&mut self, config: Config) -> Result<(), ConfigError> {
        config.check()?;
        if config.seed != self.config.seed {
            self.rng = Rng::new(&config);
        }
        self.rng.set(&config);
        self.delay = Spread::new(
            config.delay,
            config.jitter,
            config.distribution,
            config.draw,
        );
        if (config.slots, config.draw) != (self.config.slots, self.config.draw) {
            self.window = config
                .slots
                .as_ref()
                .map(|slots| Window::new(slots, config.draw));
        }
        self.config = config;
        Ok(())
    }

    /// Schedules `packet`, the duplicate if `is_copy`: copies are not copied again.
    fn send(&mut self, packet: P, is_copy: bool, now: Instant, drops: &mut Drops<P>) {
        let twice = !is_copy && self.rng.duplicate.happens(&mut self.rng.random);
        let mut packet = packet;
        let mut lost = self.rng.loses();
        if lost && self.config.ecn && packet.set_ce() {
            self.stats.ecn_mark += 1;
            lost = false;
        }
        if lost && !twice {
            self.stats.lost += 1;
            return drops.push(packet, DropReason::Loss);
        }
        // A loss of a duplicated packet removes one copy.
        let copy = if twice && !lost {
            packet.duplicate()
        } else {
            None
        };
        if self.rng.corrupt.happens(&mut self.rng.random) {
            packet = self.corrupted(packet, drops);
        }
        self.queue(packet, now, drops);
        // DIVERGES: in Linux the other pieces draw all random numbers again.
        while let Some(piece) = self.pieces.pop_front() {
            self.queue(piece, now, drops);
        }
        if let Some(copy) = copy {
            drops.note_births(1, copy.len());
            self.stats.duplicated += 1;
            self.send(copy, true, now, drops);
        }
    }

    /// `packet` with one bit flipped. In a packet of several segments only the first is corrupted:
    /// the others wait in `pieces`.
    fn corrupted(&mut self, packet: P, drops: &mut Drops<P>) -> P {
        let (whole, mut bytes) = (packet.len(), Bytes::ZERO);
        let pieces = &mut self.pieces;
        let split = packet.split(&mut |piece: P| {
            bytes += piece.len();
            pieces.push_back(piece);
        });
        let mut first = match split {
            Ok(()) => {
                self.stats.split += 1;
                drops.note_births(
                    (pieces.len() as u64).saturating_sub(1),
                    bytes.saturating_sub(whole),
                );
                pieces.pop_front().expect("a packet is split into some")
            }
            Err(packet) => packet,
        };
        let bits = first.len() * 8;
        self.stats.corrupted += u64::from(first.corrupt(self.rng.random.below(bits.get())));
        first
    }

    /// Gives `packet` its time.
    fn queue(&mut self, mut packet: P, now: Instant, drops: &mut Drops<P>) {
        if Qdisc::<P>::backlog(self).packets + self.peeked >= self.config.limit as usize {
            return drops.push(packet, DropReason::Overlimit);
        }
        packet.set_enqueued(now);
        let len = packet.len();
        if self.overtakes() {
            self.backlog.add(len);
            return self.overtaking.push_front(packet);
        }
        let number = if self.delay.is_fixed() {
            0
        } else {
            self.rng.delay.next(&mut self.rng.random)
        };
        let mut leaves = offset_by(now, self.delay.at(number));
        let empty = self.packets.front(self.queue).is_none();
        if let Some(link) = &self.config.link {
            // The link is busy until the last packet left. Waiting for it counts as part of the
            // delay.
            if !empty {
                leaves = leaves.max(self.last_leaves);
            }
            leaves += link.time(len);
        }
        self.last_leaves = if empty {
            leaves
        } else {
            leaves.max(self.last_leaves)
        };
        self.backlog.add(len);
        self.packets.push(&mut self.queue, leaves, packet);
    }

    /// Whether the next packet is one that overtakes.
    fn overtakes(&mut self) -> bool {
        let Some(Reorder { gap, .. }) = self.config.reorder else {
            return false;
        };
        let overtakes =
            self.since_overtaking >= gap - 1 && self.rng.reorder.happens(&mut self.rng.random);
        self.since_overtaking = if overtakes {
            0
        } else {
            self.since_overtaking.saturating_add(1)
        };
        self.stats.reordered += u64::from(overtakes);
        overtakes
    }

    /// The first packet of the queue, if its time has come and a window is open.
    fn due(&mut self, now: Instant) -> Option<P> {
        let (leaves, head) = self.packets.front(self.queue)?;
        if let Some(window) = &mut self.window {
            if window.opens < leaves {
                window.next(now, &mut self.rng.random);
            }
            if leaves <= now && window.opens <= now {
                window.pay(head.len(), now, &mut self.rng.random);
            } else {
                return None;
            }
        } else if leaves > now {
            return None;
        }
        self.packets.pop(&mut self.queue)
    }
}

impl<P: Item, Q: Qdisc<P>> Qdisc<P> for Netem<P, Q> {
    fn enqueue(&mut self, packet: P, now: Instant, drops: &mut Drops<P>) {
        self.send(packet, false, now, drops);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        loop {
            if let Some(packet) = self.overtaking.pop_front() {
                self.backlog.remove(packet.len());
                return Some(packet);
            }
            let due = self.due(now);
            if let Some(packet) = &due {
                self.backlog.remove(packet.len());
            }
            match (&mut self.child, due) {
                (None, due) => return due,
                (Some(child), Some(packet)) => child.enqueue(packet, now, drops),
                (Some(child), None) => return child.dequeue(now, drops),
            }
        }
    }

    fn ready_at(&self) -> Option<Instant> {
        if !self.overtaking.is_empty() {
            return Some(Instant::ZERO);
        }
        let opens = self
            .window
            .as_ref()
            .map_or(Instant::ZERO, |window| window.opens);
        let first = self
            .packets
            .front(self.queue)
            .map(|(leaves, _)| leaves.max(opens));
        let below = self.child.as_ref().and_then(Q::ready_at);
        first.into_iter().chain(below).min()
    }

    fn backlog(&self) -> Backlog {
        let Backlog { packets, bytes } = self
            .child
            .as_ref()
            .map_or_else(Backlog::default, Q::backlog);
        Backlog {
            packets: self.backlog.packets + packets,
            bytes: self.backlog.bytes + bytes,
        }
    }

    fn set_peeked(&mut self, peeked: bool) {
        self.peeked = usize::from(peeked);
    }
}

impl<P: Item, Q: Qdisc<P>> Classful<P> for Netem<P, Q> {
    type Child = Q;

    fn handle(&self) -> u16 {
        self.handle
    }

    fn leaves(&self) -> Vec<ClassId> {
        self.child
            .iter()
            .map(|_| ClassId::new(self.handle, 1))
            .collect()
    }

    fn graft(&mut self, class: ClassId, child: Q, drops: &mut Drops<P>) -> Result<(), ConfigError> {
        ConfigError::check(
            class == ClassId::new(self.handle, 1),
            "parent",
            class,
            "the one class of netem, handle:1",
        )?;
        if let Some(mut old) = self.child.replace(child) {
            flush(&mut old, drops);
        }
        Ok(())
    }

    fn with_child<R>(
        &mut self,
        class: ClassId,
        drops: &mut Drops<P>,
        call: impl FnOnce(&mut Q, &mut Drops<P>) -> R,
    ) -> Option<R> {
        if class != ClassId::new(self.handle, 1) {
            return None;
        }
        self.child.as_mut().map(|child| call(child, drops))
    }
}
