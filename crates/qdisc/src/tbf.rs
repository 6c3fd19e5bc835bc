//! [`Tbf`]: token bucket filter, a shaper for a whole link (`net/sched/sch_tbf.c`; `tc`'s `tbf`).
//!
//! Time fills a bucket; a packet leaves when the bucket holds the time it takes at the rate. A
//! pause so earns a burst, never more than the bucket. A second bucket, if there is one, bounds the
//! speed within a burst. The arithmetic is Linux's to the nanosecond.

mod params;
#[cfg(test)]
mod tests;

use alloc::format;
use alloc::vec;
use core::time::Duration;

use tautline_base::{Backlog, Bytes, ConfigError, DropReason, Drops, Instant, Item, Qdisc, Rate};

use crate::class::ClassId;
use crate::discipline::{Change, Inspect};
use crate::flush::flush;
use crate::parked::Parked;
use crate::rate::{Cost, Framing};
use crate::report::{Report, Value};
use crate::words::{Options, ParseError, Problem, Words};

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

    /// Its fill at the last departure, as bytes at `rate`.
    fn holds(&self, rate: Rate) -> Value {
        let bytes = (u128::from(self.tokens.unsigned_abs()) * u128::from(rate.as_bytes_per_sec())
            + 500_000_000)
            / 1_000_000_000;
        Value::Size(Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX)))
    }

    /// Fills for `elapsed`, then pays for `len`.
    fn pay(&mut self, len: Bytes, elapsed: i64) {
        self.tokens = ((self.tokens + elapsed).min(self.depth) - self.cost.nanos(len)).max(0);
    }
}

/// A shaper around one qdisc, which decides what leaves next.
#[derive(Debug)]
pub struct Tbf<P, Q> {
    handle: u16,
    config: Config,
    lasting: Bucket,
    peak: Option<Bucket>,
    /// When the buckets were last filled.
    filled: Instant,
    child: Parked<P, Q>,
    /// When the buckets hold enough for the packet peeked last; until something comes or leaves,
    /// that is the next.
    opens: Option<Instant>,
    overlimits: u64,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    too_long: u64,
    split: u64,
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
        let (child, filled) = (Parked::new(child), Instant::ZERO);
        Ok(Self {
            handle: 0,
            config,
            lasting,
            peak,
            filled,
            child,
            opens: None,
            overlimits: 0,
            counters: Counters::default(),
        })
    }

    /// Gives it a name in a tree: its one class is then `handle:1`.
    pub fn with_handle(self, handle: u16) -> Self {
        Self { handle, ..self }
    }

    /// Replaces the parameters. The buckets keep what they hold, as far as it fits. What waits
    /// stays, but for packets that no longer fit the bucket: they are dropped when their turn
    /// comes.
    ///
    /// # Errors
    /// As [`new`](Self::new). Then nothing changes.
    pub fn reconfigure(&mut self, config: Config) -> Result<(), ConfigError> {
        config.check()?;
        let (mut lasting, mut peak) = buckets(&config);
        lasting.tokens = lasting.depth.min(self.lasting.tokens);
        if let (Some(new), Some(old)) = (&mut peak, &self.peak) {
            new.tokens = new.depth.min(old.tokens);
        }
        (self.config, self.lasting, self.peak) = (config, lasting, peak);
        self.opens = None;
        Ok(())
    }

    /// Replaces the qdisc below; the packets queued there go to `drops`.
    ///
    /// # Errors
    /// If `class` is not its class, `handle:1`. Then nothing changes.
    pub fn graft(
        &mut self,
        class: ClassId,
        child: Q,
        drops: &mut Drops<P>,
    ) -> Result<(), ConfigError> {
        ConfigError::check(
            class == ClassId::new(self.handle, 1),
            "parent",
            class,
            "the one class of tbf, handle:1",
        )?;
        flush(&mut self.child, drops);
        self.child = Parked::new(child);
        self.opens = None;
        Ok(())
    }

    /// When a packet of `len` may leave.
    fn opens(&self, len: Bytes) -> Instant {
        let lacks = self
            .lasting
            .lacks(len)
            .max(self.peak.as_ref().map_or(0, |peak| peak.lacks(len)));
        if lacks == 0 {
            Instant::ZERO
        } else {
            self.filled + Duration::from_nanos(lacks.unsigned_abs())
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

impl<P: Item, Q: Qdisc<P>> Qdisc<P> for Tbf<P, Q> {
    fn enqueue(&mut self, packet: P, now: Instant, drops: &mut Drops<P>) {
        self.opens = None;
        let (len, most) = (packet.len(), self.config.max_size());
        if len <= most {
            return self.child.enqueue(packet, now, drops);
        }
        let (mut pieces, mut bytes) = (0u64, Bytes::ZERO);
        let Self {
            child, counters, ..
        } = self;
        let whole = packet.split(&mut |piece| {
            pieces += 1;
            bytes += piece.len();
            if piece.len() <= most {
                return child.enqueue(piece, now, drops);
            }
            counters.too_long += 1;
            drops.push(piece, DropReason::TooLong);
        });
        match whole {
            Ok(()) => {
                counters.split += 1;
                drops.note_births(pieces.saturating_sub(1), bytes.saturating_sub(len));
            }
            Err(packet) => {
                counters.too_long += 1;
                drops.push(packet, DropReason::TooLong);
            }
        }
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        // A clock that stepped back fills the buckets from where it is now.
        self.filled = self.filled.min(now);
        self.opens = None;
        loop {
            let len = self.child.peek_len(now, drops)?;
            if len > self.config.max_size() {
                self.counters.too_long += 1;
                let packet = self.child.dequeue(now, drops)?;
                drops.push(packet, DropReason::TooLong);
                continue;
            }
            let opens = self.opens(len);
            if now < opens {
                self.overlimits += 1;
                self.opens = Some(opens);
                return None;
            }
            let elapsed = i64::try_from((now - self.filled).as_nanos())
                .unwrap_or(i64::MAX)
                .min(self.lasting.depth);
            self.lasting.pay(len, elapsed);
            if let Some(peak) = &mut self.peak {
                peak.pay(len, elapsed);
            }
            self.filled = now;
            return self.child.dequeue(now, drops);
        }
    }

    fn ready_at(&self) -> Option<Instant> {
        self.opens.or_else(|| self.child.ready_at())
    }

    fn backlog(&self) -> Backlog {
        self.child.backlog()
    }
}

impl<P, Q: Inspect> Inspect for Tbf<P, Q> {
    fn report(&self) -> Report {
        let Counters { too_long, split } = self.counters;
        let mut counters = vec![
            ("drop_too_long", Value::Count(too_long)),
            ("split", Value::Count(split)),
            ("tokens", self.lasting.holds(self.config.rate)),
        ];
        if let (Some(bucket), Some(config)) = (&self.peak, self.config.peak) {
            counters.push(("peak_tokens", bucket.holds(config.rate)));
        }
        Report {
            kind: "tbf",
            id: (self.handle > 0).then_some(ClassId::new(self.handle, 0)),
            options: self.config.options(),
            overlimits: self.overlimits,
            counters,
            children: vec![self.child.report()],
            ..Report::default()
        }
    }
}

impl<P: Item, Q: Qdisc<P> + Inspect + Change<P>> Change<P> for Tbf<P, Q> {
    /// As
    /// [`reconfigure`](Self::reconfigure); the limit is told to the qdisc below if that is a `bfifo`,
    /// as in Linux.
    fn change(
        &mut self,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        let mut config = self.config.clone();
        words.apply(&mut config)?;
        self.reconfigure(config)
            .map_err(|error| words.refused("tbf", error))?;
        if self.child.report().kind == "bfifo" {
            let limit = format!("limit {}", self.config.limit().get());
            self.child.change(&mut Words::new(&limit), now, drops)?;
        }
        Ok(())
    }

    /// Its one class has no options of its own; classes below may.
    fn change_class(
        &mut self,
        class: ClassId,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        if class.major == self.handle {
            return Err(ParseError {
                at: words.here(),
                problem: Problem::NoClass { kind: "tbf", class },
            });
        }
        self.opens = None;
        self.child.change_class(class, words, now, drops)
    }

    fn change_below(
        &mut self,
        class: ClassId,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        self.opens = None;
        if class == ClassId::new(self.handle, 1) {
            return self.child.change(words, now, drops);
        }
        self.child.change_below(class, words, now, drops)
    }
}
