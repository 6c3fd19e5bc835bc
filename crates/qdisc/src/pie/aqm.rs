//! [`Aqm`]: the PIE algorithm over any queue, split into parameters, per-queue [`State`] and shared
//! [`Stats`].
//!
//! Packets are judged when they arrive. A probability that a timer updates determines the drops;
//! here nothing waits for a timer: the next call makes the updates that have fallen due, which see
//! what the timer would have seen, since nothing changes between touches.

use core::time::Duration;

use tautline_base::{Bytes, ConfigError, Instant, Item, Log2Histogram};

use super::controller::{Controller, Input, ONE};
use super::meter::Meter;
use super::params::{DelaySource, Law, Params};
use crate::codel::Source;
use crate::random::Random;
use crate::ticker::Ticker;

/// The decision about a packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is queued.
    Pass,
    /// It is queued, and now carries CE.
    Marked,
    /// It is dropped.
    Dropped,
}

/// The state of one queue under PIE.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    probability: u64,
    /// Probabilities of the packets since the last one chosen.
    accumulated: u64,
    /// The delay last seen, and the one at the last update; in the law's ticks.
    delay: u64,
    old: u64,
    /// Used part of the burst allowance.
    spent: u64,
    activity: Activity,
    meter: Meter,
    /// Number of the last update made.
    updated: u64,
}

/// Whether RFC 8034's PIE acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Activity {
    /// The queue has been short.
    #[default]
    Inactive,
    /// It may drop; has been quiet for so many ticks.
    Quiescent { quiet: u64 },
    /// It has dropped.
    Active,
}

impl State {
    /// The probability with which packets are dropped, from 0 to 1; with [`Law::Rfc8034`] up to
    /// 13.6, for packets of 1024 bytes, with [`Law::Linux`] up to 256.
    pub fn probability(&self) -> f64 {
        self.probability as f64 / ONE as f64
    }
}

#[cfg(test)]
impl State {
    pub(crate) fn set(&mut self, probability: u64, delay: u64) {
        (self.probability, self.delay, self.old) = (probability, delay, delay);
    }

    pub(crate) fn set_accumulated(&mut self, sum: u64) {
        self.accumulated = sum;
    }
}

/// Counters of all queues that one [`Aqm`] governs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets dropped to hold the delay down.
    pub dropped: u64,
    /// Packets marked, or found marked, instead.
    pub ecn_mark: u64,
    /// Durations of the departure-rate measurements (`dtime` in `include/net/pie.h`), in
    /// nanoseconds. The last bucket counts those of 2³⁸ ns (four minutes) and longer.
    pub cycles: Log2Histogram<40>,
}

/// Updates made one by one when many are due; what is then still changing changes steadily.
const MAX_UPDATES: u64 = 1024;

/// RFC 8034: how long a queue must be quiet before PIE becomes inactive.
const RESET_AFTER: Duration = Duration::from_secs(1);

/// A packet passes while the accumulated probability is below this, and is chosen without a random
/// number from the second on.
const ACCUMULATED_LOW: u64 = ONE / 100 * 85;
const ACCUMULATED_HIGH: u64 = ONE / 2 * 17;

/// PIE with its parameters, ready to govern any number of queues.
#[derive(Clone, Debug)]
pub struct Aqm {
    params: Params,
    controller: Controller,
    max_burst: u64,
    period: u64,
    /// The largest probability at which packets are marked.
    mark_up_to: u64,
    /// Schedule of the updates, common to all queues.
    clock: Ticker,
    random: Random,
    stats: Stats,
}

impl Aqm {
    /// PIE with `params`.
    ///
    /// # Errors
    /// If `tupdate`, `alpha`, `beta`, `mtu`, `hz` or `ecn_prob` is outside its range.
    pub fn new(params: Params) -> Result<Self, ConfigError> {
        params.check()?;
        let (first, period) = (params.first(), params.period());
        Ok(Self {
            controller: Controller::new(&params),
            max_burst: params.law.ticks_of(params.max_burst),
            period: params.law.ticks_of(period),
            mark_up_to: (u128::from(ONE) * u128::from(params.ecn_prob) / 100) as u64,
            clock: Ticker::new(first, period),
            random: Random::new(params.seed),
            stats: Stats::default(),
            params,
        })
    }

    /// Replaces the parameters; counters, clock and the queues' states go on.
    ///
    /// # Errors
    /// As [`new`](Self::new), or if `law` differs: the states are kept in its arithmetic. Then
    /// nothing changes.
    pub fn set_params(&mut self, params: Params) -> Result<(), ConfigError> {
        ConfigError::check(
            params.law == self.params.law,
            "law",
            params.law,
            "what it was at creation",
        )?;
        let mut new = Self::new(params)?;
        new.clock = self.clock.with(new.params.first(), new.params.period());
        if new.params.seed == self.params.seed {
            new.random = self.random.clone();
        }
        new.stats = self.stats.clone();
        *self = new;
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

    /// The delay last seen in a queue.
    pub fn delay(&self, state: &State) -> Duration {
        self.params.law.time(state.delay)
    }

    /// The departure rate estimated for a queue, in bytes per second; 0 if there is no estimate.
    pub fn departure_rate(&self, state: &State) -> u64 {
        state.meter.rate(self.params.law)
    }

    /// Judges a packet that arrives at a queue of `backlog` bytes.
    pub fn admit<P: Item>(
        &mut self,
        state: &mut State,
        packet: &mut P,
        backlog: Bytes,
        now: Instant,
    ) -> Verdict {
        self.catch_up(state, backlog, now);
        if !self.chooses(state, packet.len().get(), backlog) {
            return Verdict::Pass;
        }
        if self.params.ecn && state.probability <= self.mark_up_to && packet.set_ce() {
            self.stats.ecn_mark += 1;
            if self.params.law != Law::Linux {
                state.accumulated = 0;
            }
            return Verdict::Marked;
        }
        self.stats.dropped += 1;
        state.accumulated = 0;
        Verdict::Dropped
    }

    /// Notes that a packet was dropped since the queue was full.
    pub fn overflowed(&mut self, state: &mut State) {
        state.accumulated = 0;
    }

    /// Takes the next packet of `source` and learns from it.
    pub fn dequeue<P: Item>(
        &mut self,
        state: &mut State,
        source: &mut impl Source<P>,
        now: Instant,
    ) -> Option<P> {
        self.catch_up(state, source.backlog(), now);
        let packet = source.pop()?;
        let (law, backlog) = (self.params.law, source.backlog().get());
        let tick = law.tick(now.as_nanos());
        let elapsed = match self.params.delay {
            DelaySource::Timestamp => {
                let stayed = tick.saturating_sub(law.tick(packet.enqueued().as_nanos()));
                state.delay = if backlog == 0 { 0 } else { stayed };
                state.meter.gap(tick)
            }
            DelaySource::DepartureRate => state.meter.measure(
                law,
                self.params.dq_threshold.get(),
                packet.len().get(),
                backlog,
                tick,
            ),
        };
        if self.params.delay == DelaySource::DepartureRate && elapsed > 0 {
            let took = law.time(elapsed).as_nanos();
            let took = u64::try_from(took).unwrap_or(u64::MAX);
            self.stats.cycles.record(took);
        }
        if law == Law::Linux {
            self.spend(state, elapsed);
        }
        Some(packet)
    }

    fn spend(&self, state: &mut State, ticks: u64) {
        state.spent = state.spent.saturating_add(ticks).min(self.max_burst);
    }

    /// Whether a burst is still let through.
    fn allows_burst(&self, state: &State) -> bool {
        let counts = self.params.law != Law::Rfc8034 || state.activity == Activity::Active;
        counts && state.spent < self.max_burst
    }

    /// Whether a packet of `len` is to be dropped or marked.
    fn chooses(&mut self, state: &mut State, len: u64, backlog: Bytes) -> bool {
        if self.allows_burst(state) {
            return false;
        }
        if self.params.law == Law::Rfc8034 {
            return self.chooses_rfc8034(state, len, backlog);
        }
        if self.is_idle(state, backlog) {
            return false;
        }
        let (p, mtu) = (state.probability, self.params.mtu.get());
        let chance = if self.params.bytemode && len <= mtu {
            len * (p / mtu)
        } else {
            p
        };
        // Linux's sum can wrap where marks do not clear it.
        state.accumulated = if chance == 0 {
            0
        } else {
            state.accumulated.wrapping_add(chance)
        };
        self.throws(state, chance)
    }

    fn chooses_rfc8034(&mut self, state: &mut State, len: u64, backlog: Bytes) -> bool {
        if state.probability == 0 {
            state.accumulated = 0;
        }
        if state.activity == Activity::Inactive {
            if backlog < self.params.active_above {
                return false;
            }
            state.activity = Activity::Quiescent { quiet: 0 };
        }
        let mean = self.params.mtu.get();
        let scaled = u128::from(state.probability) * u128::from(len) / u128::from(mean);
        let chance = u64::try_from(scaled)
            .unwrap_or(u64::MAX)
            .min(ACCUMULATED_LOW);
        state.accumulated = state.accumulated.saturating_add(chance);
        if self.is_idle(state, backlog) || !self.throws(state, chance) {
            return false;
        }
        if state.activity != Activity::Active {
            state.activity = Activity::Active;
            state.spent = 0;
        }
        true
    }

    /// Whether there is nothing to be done: the delay is below half the target and the probability
    /// small, or hardly anything is queued.
    fn is_idle(&self, state: &State, backlog: Bytes) -> bool {
        let two = self.params.mtu.get().saturating_mul(2);
        let (delay, short) = match self.params.law {
            Law::Rfc8033 | Law::Rfc8034 => (state.old, backlog.get() <= two),
            Law::Linux => (state.delay, backlog.get() < two),
        };
        short || self.controller.is_low(delay) && state.probability < ONE / 5
    }

    /// Draws a random number, unless the accumulated probability decides alone.
    fn throws(&mut self, state: &mut State, chance: u64) -> bool {
        if state.accumulated < ACCUMULATED_LOW {
            return false;
        }
        if state.accumulated >= ACCUMULATED_HIGH {
            return true;
        }
        let hit = self.random.bits64() >> 8 < chance;
        if hit {
            state.accumulated = 0;
        }
        hit
    }

    /// Makes the updates that were due up to `now`, during which the queue held `backlog`.
    ///
    /// After a long pause most of them change nothing more, which ends them; the rest is computed
    /// in one go.
    #[inline]
    pub(crate) fn catch_up(&mut self, state: &mut State, backlog: Bytes, now: Instant) {
        let count = self.clock.count(now);
        if count > state.updated {
            self.make_updates(state, backlog, count - state.updated);
            state.updated = count;
        }
    }

    fn make_updates(&self, state: &mut State, backlog: Bytes, due: u64) {
        let mut left = due;
        while left > 0 {
            let before = state.clone();
            self.update(
                state,
                backlog,
                if due - left < MAX_UPDATES { 1 } else { left },
            );
            left = if *state == before || due - left >= MAX_UPDATES {
                0
            } else {
                left - 1
            };
        }
    }

    /// Makes `count` updates: one, or many after one that saw the same.
    fn update(&self, state: &mut State, backlog: Bytes, count: u64) {
        let law = self.params.law;
        let delay = match self.params.delay {
            DelaySource::Timestamp => state.delay,
            DelaySource::DepartureRate => state.meter.delay(law, backlog.get()),
        };
        let input = Input {
            delay,
            old: state.old,
            empty: backlog == Bytes::ZERO,
        };
        let ticks = self.period.saturating_mul(count);
        match law {
            Law::Rfc8034 if self.allows_burst(state) => {
                state.probability = 0;
                self.spend(state, ticks);
            }
            Law::Rfc8033 | Law::Rfc8034 | Law::Linux => {
                state.probability = match count {
                    1 => self.controller.step(state.probability, input),
                    _ => self.controller.advance(state.probability, input, count),
                };
            }
        }
        let quiet = self.controller.is_low(delay)
            && self.controller.is_low(state.old)
            && state.probability == 0;
        match law {
            Law::Rfc8033 if quiet => state.spent = 0,
            Law::Rfc8033 => self.spend(state, ticks),
            Law::Rfc8034 => self.rest(state, quiet, ticks),
            Law::Linux
                if quiet
                    && (self.params.delay == DelaySource::Timestamp || state.meter.knows()) =>
            {
                (state.spent, state.accumulated, state.meter) = (0, 0, Meter::default());
            }
            Law::Linux => {}
        }
        (state.delay, state.old) = (delay, delay);
    }

    /// RFC 8034: falls back to quiescence, and after a second of quiet to inactivity.
    fn rest(&self, state: &mut State, quiet: bool, ticks: u64) {
        let quiet = quiet && !self.allows_burst(state);
        state.activity = match state.activity {
            Activity::Active if quiet => Activity::Quiescent { quiet: 0 },
            Activity::Quiescent { quiet: before } if quiet => {
                let total = before.saturating_add(ticks);
                let enough = self.params.law.ticks_of(RESET_AFTER);
                if total > enough {
                    Activity::Inactive
                } else {
                    Activity::Quiescent { quiet: total }
                }
            }
            Activity::Quiescent { .. } => Activity::Quiescent { quiet: 0 },
            activity @ (Activity::Active | Activity::Inactive) => activity,
        };
    }
}
