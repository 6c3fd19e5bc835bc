//! [`Tbf`]: token bucket filter, a shaper for a whole link (`net/sched/sch_tbf.c`; `tc`'s `tbf`).
//!
//! Time fills a bucket; a packet leaves when the bucket holds the time it takes at the rate. A
//! pause so earns a burst, never more than the bucket. A second bucket, if there is one, bounds the
//! rate within a burst. The arithmetic is Linux's to the nanosecond.

mod params;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{
    Backlog, Bytes, CallerClock, ConfigError, DropReason, Drops, Instant, Item, Qdisc, Rate,
};

use crate::class::ClassId;
use crate::classful::Classful;
use crate::flush::flush;
use crate::parked::Parked;
use crate::rate::{Cost, Framing};

pub use params::{Config, Limit, Peak};

/// One bucket, in nanoseconds at its rate.
#[derive(Debug)]
struct Bucket {
    cost: Cost,
    depth: i64,
    tokens: i64,
}

impl Bucket {
    /// A full bucket of `burst` bytes.
    fn new(rate: Rate, burst: Bytes, framing: Framing) -> Self {
        let cost = Cost::new(rate, framing);
        let depth = cost.nanos(burst);
        Self {
            cost,
            depth,
            tokens: depth,
        }
    }

    /// Nanoseconds until it holds enough for `len`.
    fn lacks(&self, len: Bytes) -> i64 {
        (self.cost.nanos(len) - self.tokens).max(0)
    }

    /// Tokens at the last departure, as bytes at `rate`.
    fn holds(&self, rate: Rate) -> Bytes {
        let bytes = (u128::from(self.tokens.unsigned_abs()) * u128::from(rate.as_bytes_per_sec())
            + 500_000_000)
            / 1_000_000_000;
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// Holds as many bytes at the rate `to` as `old` does at `from`, as far as they fit.
    fn keep(&mut self, old: &Self, from: Rate, to: Rate) {
        let [from, to] = [from, to].map(|rate| u128::from(rate.as_bytes_per_sec()));
        let tokens = u128::try_from(old.tokens).unwrap_or(0) * from / to;
        self.tokens = i64::try_from(tokens).unwrap_or(i64::MAX).min(self.depth);
    }

    /// Fills for `elapsed`, then pays for `len`.
    fn pay(&mut self, len: Bytes, elapsed: i64) {
        self.tokens = ((self.tokens + elapsed).min(self.depth) - self.cost.nanos(len)).max(0);
    }
}

/// A shaper around one qdisc, which decides what leaves next.
///
/// ```
/// use tautline_base::{Bytes, Instant, Packet, Rate};
/// use tautline_qdisc::{Bfifo, Drops, Qdisc, Tbf, bfifo, tbf::Config};
///
/// let config = Config { rate: Rate::mbit(8), burst: Bytes::new(1514), ..Config::default() };
/// let child = Bfifo::new(bfifo::Config { limit: config.limit() });
/// let (mut shaper, mut drops) = (Tbf::new(config, child)?, Drops::new());
/// let now = Instant::from_secs(1);
/// for _ in 0..2 {
///     shaper.enqueue(Packet::new((), 1514), now, &mut drops);
/// }
/// assert!(shaper.dequeue(now, &mut drops).is_some()); // the burst
/// assert!(shaper.dequeue(now, &mut drops).is_none());
/// assert_eq!(shaper.ready_at(), Some(Instant::from_micros(1_001_514))); // a byte a microsecond
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Tbf<P, Q> {
    handle: u16,
    config: Config,
    lasting: Bucket,
    peak: Option<Bucket>,
    /// When the buckets were last filled.
    filled: Instant,
    clock: CallerClock,
    child: Parked<P, Q>,
    /// The rest of a packet that was cut after it had been queued; it leaves before the next.
    pieces: VecDeque<P>,
    /// Backlog of `pieces`.
    cut: Backlog,
    /// When the buckets hold enough for the packet peeked last; until something comes or leaves,
    /// that is the next.
    opens: Option<Instant>,
    stats: Stats,
}

/// Counters of packets that [`Tbf`] delayed, dropped and split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets longer than the bucket, dropped.
    pub too_long: u64,
    /// Large packets cut into segments that fit.
    pub split: u64,
    /// Times a packet had to wait for tokens.
    pub overlimits: u64,
}

impl<P: Item, Q: Qdisc<P>> Tbf<P, Q> {
    /// A shaper with full buckets around `child`. In Linux that is a `bfifo` of [`Config::limit`]
    /// bytes.
    ///
    /// # Errors
    /// If there is no `rate`, a bucket holds less than one `frame`, or `peakrate` is not above
    /// `rate`.
    pub fn new(config: Config, child: Q) -> Result<Self, ConfigError> {
        config.check()?;
        let (lasting, peak) = buckets(&config);
        let (child, clock) = (Parked::new(child), CallerClock::default());
        Ok(Self {
            handle: 0,
            config,
            lasting,
            peak,
            filled: Instant::ZERO,
            clock,
            child,
            pieces: VecDeque::new(),
            cut: Backlog::default(),
            opens: None,
            stats: Stats::default(),
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

    /// The qdisc that decides what leaves next.
    pub fn child(&self) -> &Q {
        self.child.inner()
    }

    /// Packets held back, dropped and cut.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Tokens of the bucket, and of the peak rate's, at the last departure.
    pub fn tokens(&self) -> (Bytes, Option<Bytes>) {
        let peak = self.peak.as_ref().zip(self.config.peak);
        (
            self.lasting.holds(self.config.rate),
            peak.map(|(bucket, config)| bucket.holds(config.rate)),
        )
    }

    /// Replaces the parameters. The buckets keep the bytes they held at the last departure, as far as
    /// they fit, and have filled since at the new rate. DIVERGES: Linux fills the buckets, so that
    /// each change grants a burst; a rate that is changed often would be exceeded by as much.
    ///
    /// Queued packets stay. A packet that no longer fits the bucket is split when its turn comes, or dropped if a
    /// segment does not fit either. DIVERGES: in Linux it blocks the queue.
    ///
    /// # Errors
    /// As [`new`](Self::new). Then nothing changes.
    pub fn reconfigure(&mut self, config: Config) -> Result<(), ConfigError> {
        config.check()?;
        let (mut lasting, mut peak) = buckets(&config);
        lasting.keep(&self.lasting, self.config.rate, config.rate);
        if let (Some((new, to)), Some((old, from))) = (
            peak.as_mut().zip(config.peak),
            self.peak.as_ref().zip(self.config.peak),
        ) {
            new.keep(old, from.rate, to.rate);
        }
        (self.config, self.lasting, self.peak) = (config, lasting, peak);
        self.opens = None;
        Ok(())
    }

    /// Departure time of a packet of `len`.
    fn opens(&self, len: Bytes) -> Instant {
        let lacks = self
            .lasting
            .lacks(len)
            .max(self.peak.as_ref().map_or(0, |peak| peak.lacks(len)));
        if lacks == 0 {
            Instant::ZERO
        } else {
            self.filled.after_nanos(lacks.unsigned_abs())
        }
    }
}

fn buckets(config: &Config) -> (Bucket, Option<Bucket>) {
    let bucket = |rate, burst| Bucket::new(rate, burst, config.framing);
    (
        bucket(config.rate, config.burst),
        config.peak.map(|peak| bucket(peak.rate, peak.mtu)),
    )
}

impl<P: Item, Q: Qdisc<P>> Tbf<P, Q> {
    /// Length of the next packet.
    fn peek(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<Bytes> {
        match self.pieces.front() {
            Some(piece) => Some(piece.len()),
            None => self.child.peek_len(now, drops),
        }
    }

    /// Takes the next packet.
    fn take(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        let Some(piece) = self.pieces.pop_front() else {
            return self.child.dequeue(now, drops);
        };
        self.cut.remove(piece.len());
        Some(piece)
    }

    /// Cuts a packet that was queued before a change made the bucket smaller. A piece is a single
    /// segment and cannot be cut again, so `pieces` is empty if this adds to it.
    #[cold]
    fn cut_queued(&mut self, packet: P, drops: &mut Drops<P>) {
        let most = self.config.max_size();
        let Self {
            pieces, cut, stats, ..
        } = self;
        split(packet, most, stats, drops, |piece, _| {
            cut.add(piece.len());
            pieces.push_back(piece);
        });
    }

    /// Splits a packet longer than a bucket, or drops it.
    #[cold]
    fn enqueue_pieces(&mut self, packet: P, now: Instant, drops: &mut Drops<P>) {
        let most = self.config.max_size();
        let Self { child, stats, .. } = self;
        split(packet, most, stats, drops, |piece, drops| {
            child.enqueue(piece, now, drops);
        });
    }
}

/// Hands the segments of `packet` that are no longer than `most` to `keep` and drops the others; a
/// packet that cannot be split is dropped.
fn split<P: Item>(
    packet: P,
    most: Bytes,
    stats: &mut Stats,
    drops: &mut Drops<P>,
    mut keep: impl FnMut(P, &mut Drops<P>),
) {
    let len = packet.len();
    let (mut pieces, mut bytes) = (0u64, Bytes::ZERO);
    let whole = packet.split(&mut |piece| {
        pieces += 1;
        bytes += piece.len();
        if piece.len() <= most {
            return keep(piece, drops);
        }
        stats.too_long += 1;
        drops.push(piece, DropReason::TooLong);
    });
    match whole {
        Ok(()) => {
            stats.split += 1;
            drops.note_births(pieces.saturating_sub(1), bytes.saturating_sub(len));
        }
        Err(packet) => {
            stats.too_long += 1;
            drops.push(packet, DropReason::TooLong);
        }
    }
}

impl<P: Item, Q: Qdisc<P>> Qdisc<P> for Tbf<P, Q> {
    fn enqueue(&mut self, packet: P, now: Instant, drops: &mut Drops<P>) {
        self.opens = None;
        if packet.len() <= self.config.max_size() {
            return self.child.enqueue(packet, now, drops);
        }
        self.enqueue_pieces(packet, now, drops);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        // If the clock stepped back, what had flowed into the buckets before stays in them.
        if let Some(step) = self.clock.step_back(now) {
            self.filled = self.filled - step;
        }
        let now = self.clock.latest();
        self.opens = None;
        loop {
            let len = self.peek(now, drops)?;
            if len > self.config.max_size() {
                let packet = self.take(now, drops)?;
                self.cut_queued(packet, drops);
                continue;
            }
            let opens = self.opens(len);
            if now < opens {
                self.stats.overlimits += 1;
                self.opens = Some(opens);
                return None;
            }
            let elapsed = i64::try_from(now.nanos_since(self.filled))
                .unwrap_or(i64::MAX)
                .min(self.lasting.depth);
            self.lasting.pay(len, elapsed);
            if let Some(peak) = &mut self.peak {
                peak.pay(len, elapsed);
            }
            self.filled = now;
            return self.take(now, drops);
        }
    }

    fn ready_at(&self) -> Option<Instant> {
        let piece = self.pieces.front().map(|_| Instant::ZERO);
        self.opens.or(piece).or_else(|| self.child.ready_at())
    }

    fn backlog(&self) -> Backlog {
        let Backlog { packets, bytes } = self.child.backlog();
        Backlog {
            packets: self.cut.packets + packets,
            bytes: self.cut.bytes + bytes,
        }
    }
}

impl<P: Item, Q: Qdisc<P>> Classful<P> for Tbf<P, Q> {
    type Child = Q;

    fn handle(&self) -> u16 {
        self.handle
    }

    fn leaves(&self) -> Vec<ClassId> {
        vec![ClassId::new(self.handle, 1)]
    }

    fn graft(&mut self, class: ClassId, child: Q, drops: &mut Drops<P>) -> Result<(), ConfigError> {
        ConfigError::check(
            class == ClassId::new(self.handle, 1),
            "parent",
            class,
            "the one class of tbf, handle:1",
        )?;
        for piece in self.pieces.drain(..) {
            drops.push(piece, DropReason::Reset);
        }
        self.cut = Backlog::default();
        flush(&mut self.child, drops);
        self.child = Parked::new(child);
        self.opens = None;
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
        self.opens = None;
        Some(call(self.child.inner_mut(), drops))
    }
}
