//! [`Aqm`]: the CoDel algorithm over any queue (RFC 8289 §5), split into parameters, per-queue
//! [`State`] and shared [`Stats`].
//!
//! All work happens at dequeue. A queue whose packets all waited at least `target` for at least
//! `interval` is in a standing state; CoDel then signals (drops or marks) one packet, and again
//! after interval / √count, until one packet waited less.

use core::time::Duration;

use tautline_base::{Bytes, ConfigError, DropReason, Drops, Instant, Item};

use super::law::InverseRoot;
use super::params::{CeThreshold, Params};

/// The queue that CoDel takes packets from.
pub trait Source<P> {
    /// Takes the packet at the head.
    fn pop(&mut self) -> Option<P>;

    /// Bytes that remain; CoDel lets a backlog of one MTU be.
    fn backlog(&self) -> Bytes;
}

/// The state machine of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The last packet waited less than the target, or left hardly anything behind.
    Below,
    /// Every packet since waited longer than the target; at `until` this has lasted an interval.
    Above {
        /// Time at which the queue will count as standing.
        until: Instant,
    },
    /// A standing queue is being signaled.
    Dropping {
        /// Time of the next signal.
        next: Instant,
        /// The count this episode began with.
        entry: u32,
    },
}

/// The state of one queue under CoDel: 32 bytes.
#[derive(Clone, Debug)]
pub struct State {
    phase: Phase,
    /// A new episode that begins before this resumes the pace of the last one. The epoch before the
    /// first episode.
    resume_before: Instant,
    /// While dropping, the count of the control law; else how far it rose in the last episode and
    /// since.
    count: u32,
    root: InverseRoot,
}

const _: () = assert!(size_of::<State>() <= 32);

/// An episode that begins within so many intervals of the last one's end resumes its pace (RFC 8289
/// §5, Linux).
const RESUME_INTERVALS: u64 = 16;

impl Default for State {
    fn default() -> Self {
        Self {
            phase: Phase::Below,
            resume_before: Instant::ZERO,
            count: 0,
            root: InverseRoot::ONE,
        }
    }
}

impl State {
    /// The phase of the queue.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// While dropping, the count of the control law; else how far it rose in the last episode and
    /// by [`count_drops`](Self::count_drops) since.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Counts packets dropped from this queue by others (a full fq_codel), so that it signals
    /// sooner.
    pub fn count_drops(&mut self, dropped: u32) {
        self.count = self.count.saturating_add(dropped);
    }
}

/// Counters of all queues that one [`Aqm`] governs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets the control law dropped.
    pub dropped: u64,
    /// Packets the control law marked or found marked.
    pub ecn_mark: u64,
    /// Packets marked, or found marked, above `ce_threshold`. One packet may count here and in
    /// `ecn_mark`, as in Linux.
    pub ce_mark: u64,
    /// Largest packet that came through.
    pub max_packet: Bytes,
    delay_nanos: u64,
}

impl Stats {
    /// Delay of the packet judged last.
    pub fn delay(&self) -> Duration {
        Duration::from_nanos(self.delay_nanos)
    }
}

/// The signal given to the sender of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Signal {
    Marked,
    Dropped,
}

/// CoDel with its parameters, ready to govern any number of queues.
#[derive(Clone, Debug)]
pub struct Aqm {
    params: Params,
    target: u64,
    interval: u64,
    /// [`Law::clock`](super::Law::clock).
    clock: u64,
    stats: Stats,
}

impl Aqm {
    /// CoDel with `params`.
    ///
    /// # Errors
    /// If the interval is shorter than the law's clock tick.
    pub fn new(params: Params) -> Result<Self, ConfigError> {
        params.check()?;
        let clock = params.law.clock();
        let ticks = |time: Duration| (Instant::ZERO + time).as_nanos() & clock;
        Ok(Self {
            target: ticks(params.target),
            interval: ticks(params.interval),
            clock,
            stats: Stats::default(),
            params,
        })
    }

    /// Replaces the parameters; the counters go on, and so do the queues' states.
    ///
    /// # Errors
    /// As [`new`](Self::new); then nothing changes.
    pub fn set_params(&mut self, params: Params) -> Result<(), ConfigError> {
        let stats = self.stats.clone();
        *self = Self {
            stats,
            ..Self::new(params)?
        };
        Ok(())
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The next packet of `source` to transmit, after whatever CoDel dropped ahead of it.
    ///
    /// A clock that steps back makes the packets look young that are queued: CoDel then waits, it does
    /// not drop. What arrives after the step is judged as ever, an interval later at most. A clock that leaps makes every due signal of the leap happen at once, as the RFC's algorithm
    /// does; a backlog of one MTU remains.
    pub fn dequeue<P: Item>(
        &mut self,
        state: &mut State,
        source: &mut impl Source<P>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Option<P> {
        let now = now.as_nanos() & self.clock;
        // The packet stays in one place, the result: moving it costs more than judging it.
        let mut head = source.pop();
        if self.is_standing(state, head.as_ref(), source.backlog(), now) {
            match state.phase {
                Phase::Dropping { .. } => self.signal_due(state, &mut head, source, now, drops),
                Phase::Below | Phase::Above { .. } => {
                    self.begin(state, &mut head, source, now, drops)
                }
            }
        }
        if let (Some(threshold), Some(packet)) = (self.params.ce_threshold, &mut head) {
            self.mark_above(threshold, packet, now);
        }
        head
    }

    /// Whether the queue stood above the target for an interval, now that `head` left it with
    /// `backlog` bytes.
    #[inline]
    fn is_standing<P: Item>(
        &mut self,
        state: &mut State,
        head: Option<&P>,
        backlog: Bytes,
        now: u64,
    ) -> bool {
        let Some(packet) = head else {
            self.fall_below(state);
            return false;
        };
        self.stats.max_packet = self.stats.max_packet.max(packet.len());
        let delay = self.delay(packet, now);
        self.stats.delay_nanos = delay;
        if delay < self.target || backlog <= self.params.mtu {
            self.fall_below(state);
            return false;
        }
        match state.phase {
            Phase::Below => {
                state.phase = Phase::Above {
                    until: Instant::from_nanos(now.saturating_add(self.interval)),
                };
                false
            }
            Phase::Above { until } => {
                let until = self.bounded(until, now);
                state.phase = Phase::Above { until };
                self.params.law.reached(until, now)
            }
            Phase::Dropping { .. } => true,
        }
    }

    /// A packet was young or the queue ran empty: ends the episode, remembering its pace.
    #[inline]
    fn fall_below(&self, state: &mut State) {
        if let Phase::Dropping { next, entry } = state.phase {
            state.resume_before = next.after_nanos(self.interval.saturating_mul(RESUME_INTERVALS));
            state.count -= entry;
        }
        state.phase = Phase::Below;
    }

    /// Begins an episode: one signal, and the pace of the episode before if that was recent.
    #[cold]
    fn begin<P: Item>(
        &mut self,
        state: &mut State,
        head: &mut Option<P>,
        source: &mut impl Source<P>,
        now: u64,
        drops: &mut Drops<P>,
    ) {
        let at = Instant::from_nanos(now);
        if state.count > 1 && at < state.resume_before {
            state.root = state.root.step(state.count);
        } else {
            state.count = 1;
            state.root = InverseRoot::ONE;
        }
        state.phase = Phase::Dropping {
            next: self.next_signal(at, state),
            entry: state.count,
        };
        if self.signal(head, drops) == Signal::Dropped {
            *head = source.pop();
            self.is_standing(state, head.as_ref(), source.backlog(), now);
        }
    }

    /// Signals as often as is due, until a packet may leave.
    #[cold]
    fn signal_due<P: Item>(
        &mut self,
        state: &mut State,
        head: &mut Option<P>,
        source: &mut impl Source<P>,
        now: u64,
        drops: &mut Drops<P>,
    ) {
        if let Phase::Dropping { next, .. } = &mut state.phase {
            *next = self.bounded(*next, now);
        }
        while let Phase::Dropping { next, entry } = state.phase
            && now >= next.as_nanos()
        {
            state.count = state.count.saturating_add(1);
            state.root = state.root.step(state.count);
            let following = Phase::Dropping {
                next: self.next_signal(next, state),
                entry,
            };
            if self.signal(head, drops) == Signal::Marked {
                state.phase = following;
                return;
            }
            *head = source.pop();
            if self.is_standing(state, head.as_ref(), source.backlog(), now) {
                state.phase = following;
            }
        }
    }

    /// Marks the packet if it allows that, else drops it.
    fn signal<P: Item>(&mut self, head: &mut Option<P>, drops: &mut Drops<P>) -> Signal {
        if self.params.ecn && head.as_mut().is_some_and(Item::set_ce) {
            self.stats.ecn_mark += 1;
            return Signal::Marked;
        }
        if let Some(packet) = head.take() {
            self.stats.dropped += 1;
            drops.push(packet, DropReason::Target);
        }
        Signal::Dropped
    }

    /// Apart from [`dequeue`](Self::dequeue): inlined, it has the packet copied field by field.
    #[inline(never)]
    fn mark_above<P: Item>(&mut self, threshold: CeThreshold, packet: &mut P, now: u64) {
        let delay = Duration::from_nanos(self.delay(packet, now));
        if delay > threshold.delay && threshold.selects(packet.tos()) && packet.set_ce() {
            self.stats.ce_mark += 1;
        }
    }

    /// Sojourn time of the packet, in nanoseconds on the law's clock.
    #[inline]
    fn delay<P: Item>(&self, packet: &P, now: u64) -> u64 {
        now.saturating_sub(packet.enqueued().as_nanos() & self.clock)
    }

    /// A signal is due within an interval: one that is later was planned before the clock stepped
    /// back.
    #[inline]
    fn bounded(&self, due: Instant, now: u64) -> Instant {
        due.min(Instant::from_nanos(now).after_nanos(self.interval))
    }

    /// Time of the signal after one at `from`.
    fn next_signal(&self, from: Instant, state: &State) -> Instant {
        from.after_nanos(self.params.law.gap(self.interval, state.count, state.root))
    }
}
