//! [`Aqm`]: the COBALT algorithm over any queue: CoDel's control law, which decays instead of
//! restarting, and BLUE for unresponsive queues. Split into parameters and per-queue [`State`].

use core::time::Duration;

use tautline_base::{ConfigError, DropReason, Instant, Item};

use super::law::InverseRoot;
use super::params::{Params, Start};
use crate::random::Random;

/// The state of one queue under COBALT: 32 bytes. Made by [`Aqm::fresh`].
#[derive(Clone, Debug)]
pub struct State {
    /// While count > 0, when the next signal (or step of decay) is due; else when the queue will
    /// have been quiet for an interval.
    pub(super) drop_next: Instant,
    /// Time of the last change of BLUE's probability.
    pub(super) blue_timer: Instant,
    /// How often the law has signaled, less what has decayed.
    pub(super) count: u32,
    pub(super) root: InverseRoot,
    /// BLUE's drop probability, a fraction of 2³².
    pub(super) p_drop: u32,
    /// The delay is above the target.
    pub(super) dropping: bool,
}

const _: () = assert!(size_of::<State>() <= 32);

impl State {
    /// How often the control law signaled, less what has decayed since.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether the queue is being signaled.
    pub fn is_dropping(&self) -> bool {
        self.dropping
    }

    /// The probability with which BLUE drops.
    pub fn drop_probability(&self) -> f64 {
        f64::from(self.p_drop) / TWO_32
    }

    /// Whether BLUE drops at all.
    pub fn is_unresponsive(&self) -> bool {
        self.p_drop > 0
    }

    /// Whether there is anything left to decay: a queue without packets for which this is false may
    /// be forgotten.
    pub fn is_active(&self, now: Instant) -> bool {
        self.p_drop > 0 || self.count > 0 || now < self.drop_next
    }
}

const TWO_32: f64 = 4_294_967_296.0;

/// The decision about a packet; by default it passes unmarked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// It was marked "congestion experienced", or found marked, by the control law.
    pub marked: bool,
    /// It is to be dropped: [`Target`](DropReason::Target) by the control law,
    /// [`Unresponsive`](DropReason::Unresponsive) by BLUE.
    pub drop: Option<DropReason>,
}

/// COBALT with its parameters, ready to govern any number of queues.
#[derive(Clone, Debug)]
pub struct Aqm {
    params: Params,
    target: u64,
    interval: u64,
    mtu_time: u64,
    increment: u32,
    decrement: u32,
    random: Random,
}

impl Aqm {
    /// COBALT with `params`; `seed` starts BLUE's random numbers.
    ///
    /// # Errors
    /// If the interval is zero, or `increment` or `decrement` no share of one.
    pub fn new(params: Params, seed: u64) -> Result<Self, ConfigError> {
        params.check()?;
        // 1 is as near to 2³² as 32 bits get.
        let fraction = |share: f64| (share * TWO_32).min(f64::from(u32::MAX)) as u32;
        Ok(Self {
            target: nanos(params.target),
            interval: nanos(params.interval),
            mtu_time: nanos(params.mtu_time),
            increment: fraction(params.increment),
            decrement: fraction(params.decrement),
            random: Random::new(seed),
            params,
        })
    }

    /// Replaces the parameters; the queues' states and the random sequence go on.
    ///
    /// # Errors
    /// As [`new`](Self::new); then nothing changes.
    pub fn set_params(&mut self, params: Params) -> Result<(), ConfigError> {
        let random = self.random.clone();
        *self = Self {
            random,
            ..Self::new(params, 0)?
        };
        Ok(())
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The state of a queue that has never held a packet.
    pub fn fresh(&self) -> State {
        let root = match self.params.start {
            Start::Patient => InverseRoot::ONE,
            Start::Linux => InverseRoot::NONE,
        };
        State {
            drop_next: Instant::ZERO,
            blue_timer: Instant::ZERO,
            count: 0,
            root,
            p_drop: 0,
            dropping: false,
        }
    }

    /// Judges the packet at the head of a queue, and marks it if that is the signal.
    ///
    /// `bulk_flows` is the number of flows that share the link steadily, for a queue that stands
    /// behind the bottleneck: each may have two packets before it is signaled. Zero otherwise.
    ///
    /// A count that decays over a long pause decays in one call, one step for each signal that once
    /// raised it.
    #[inline]
    pub fn judge<P: Item>(
        &mut self,
        state: &mut State,
        packet: &mut P,
        bulk_flows: u32,
        now: Instant,
    ) -> Verdict {
        let sojourn = now.nanos_since(packet.enqueued());
        let over_target = sojourn > self.target
            && sojourn > self.mtu_time.saturating_mul(2 * u64::from(bulk_flows))
            && sojourn > self.mtu_time.saturating_mul(4);
        let silent = state.count == 0 && state.p_drop == 0;
        if silent && !over_target && self.params.blue_threshold.is_none() {
            // The common case at a short queue: nothing to signal and nothing to decay.
            state.dropping = false;
            state.drop_next = now.after_nanos(self.interval);
            return Verdict::default();
        }
        self.signal(state, packet, (sojourn, over_target), now)
    }

    /// Apart from [`judge`](Self::judge), which is then short enough to be inlined.
    #[inline(never)]
    fn signal<P: Item>(
        &mut self,
        state: &mut State,
        packet: &mut P,
        (sojourn, over_target): (u64, bool),
        now: Instant,
    ) -> Verdict {
        self.bound(state, now);
        let due = state.count > 0 && now >= state.drop_next;
        // Linux detects that the schedule is behind: as of before an episode begins.
        let mut behind = now > state.drop_next;
        if over_target && !state.dropping {
            state.drop_next = self.next_signal(now, state);
            behind &= self.params.start == Start::Linux;
        }
        state.dropping = over_target;
        state.count = state.count.max(u32::from(over_target));
        let mut verdict = Verdict::default();
        if due && over_target {
            verdict.marked = self.params.ecn && packet.set_ce();
            verdict.drop = (!verdict.marked).then_some(DropReason::Target);
            self.step(state, state.count.saturating_add(1));
            behind = now > state.drop_next;
        } else {
            while due && state.count > 0 && now >= state.drop_next {
                self.step(state, state.count - 1);
                behind = now > state.drop_next;
            }
        }
        if self
            .params
            .blue_threshold
            .is_some_and(|threshold| sojourn > nanos(threshold))
            && self.blue_may_move(state, now)
        {
            self.queue_full(state, now);
        }
        if state.p_drop > 0 && self.random.bits32() < state.p_drop {
            verdict.drop = verdict.drop.or(Some(DropReason::Unresponsive));
        }
        if state.count == 0 {
            state.drop_next = now.after_nanos(self.interval);
        } else if behind && verdict.drop.is_none() {
            state.drop_next = now;
        }
        verdict
    }

    /// Notes that the queue overflowed. True if this made BLUE begin to drop.
    pub fn queue_full(&mut self, state: &mut State, now: Instant) -> bool {
        self.bound(state, now);
        let mut begins = false;
        if self.blue_may_move(state, now) {
            begins = state.p_drop == 0;
            state.p_drop = state.p_drop.saturating_add(self.increment);
            state.blue_timer = now;
        }
        state.dropping = true;
        state.drop_next = now;
        state.count = state.count.max(1);
        begins
    }

    /// Notes that the queue was found empty. True if this made BLUE cease to drop.
    pub fn queue_empty(&mut self, state: &mut State, now: Instant) -> bool {
        self.bound(state, now);
        let mut ceases = false;
        if state.p_drop > 0 && self.blue_may_move(state, now) {
            state.p_drop = state.p_drop.saturating_sub(self.decrement);
            state.blue_timer = now;
            ceases = state.p_drop == 0;
        }
        state.dropping = false;
        if state.count > 0 && now >= state.drop_next {
            self.step(state, state.count - 1);
        }
        ceases
    }

    /// The next signal is no more than an interval ahead, and BLUE did not move in the future: if it
    /// seems so, the clock stepped back, and must not silence the queue for as long as it stepped.
    fn bound(&self, state: &mut State, now: Instant) {
        state.drop_next = state.drop_next.min(now.after_nanos(self.interval));
        state.blue_timer = state.blue_timer.min(now);
    }

    /// BLUE moves at most once per target time.
    fn blue_may_move(&self, state: &State, now: Instant) -> bool {
        now.nanos_since(state.blue_timer) > self.target
    }

    /// Sets the count and the time of what follows.
    fn step(&self, state: &mut State, count: u32) {
        state.count = count;
        state.root = state.root.follow(count, self.params.start);
        state.drop_next = self.next_signal(state.drop_next, state);
    }

    fn next_signal(&self, from: Instant, state: &State) -> Instant {
        let interval = match self.params.start {
            Start::Patient => self.interval,
            Start::Linux => self.interval & u64::from(u32::MAX),
        };
        from.after_nanos(state.root.gap(interval))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
