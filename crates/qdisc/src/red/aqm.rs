//! [`Aqm`]: the RED algorithm over any queue, split into parameters shared by many queues and the
//! [`State`] of each.
//!
//! The average and the choice of packets are in integers, as in Linux. The gaps between signals are
//! evenly spread: a number is drawn once per gap, and the packet is taken at which the packets
//! since the last signal, each weighing its probability, exceed it (Floyd's second method). An
//! independent draw for each packet would cluster the drops.

use core::time::Duration;

use tautline_base::{Bytes, ConfigError, Instant};

use super::decay::Decay;
use super::params::Params;
use crate::random::Random;

/// Interval at which adaptive RED adjusts its probability.
const PERIOD: Duration = Duration::from_millis(500);
/// Steps made up for at most when nothing arrived for long; each way, the probability arrives at
/// its end in a third of these.
const MOST_STEPS: u32 = 256;
/// One as a number with 32 fractional bits.
const ONE: u64 = 1 << 32;
/// Below this the adaptive probability does not fall further; also the largest step up. 1 % of
/// `ONE`.
const LEAST: u32 = (ONE / 100) as u32;
/// Above this the adaptive probability does not rise further. 50 % of `ONE`.
const MOST: u32 = (ONE / 2) as u32;

/// The decision about an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Congestion {
    /// None to speak of, or it is not this packet's turn.
    None,
    /// The average is between the thresholds, and this packet is chosen.
    Probable,
    /// The average is above all thresholds.
    Forced,
}

/// The state of one queue under RED.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// Average backlog in bytes, with the weight's logarithm of fractional bits.
    average: u64,
    gap: Gap,
    idle_since: Option<Instant>,
}

/// The average queue relative to the thresholds, between two signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Gap {
    /// The average is not between the thresholds.
    #[default]
    Outside,
    /// `packets` passed since the last signal; the next one is due when their weight reaches
    /// `roll`.
    Within { packets: u32, roll: u32 },
}

impl State {
    /// Notes that the queue has become empty.
    pub(crate) fn begin_idle(&mut self, now: Instant) {
        self.idle_since.get_or_insert(now);
    }
}

/// RED with its parameters, ready to govern any number of queues.
#[derive(Clone, Debug)]
pub(crate) struct Aqm {
    min: u64,
    max: u64,
    /// The average moves by 2⁻ʷ of the difference.
    wlog: u32,
    gentle: bool,
    decay: Decay,
    /// Probability at `max`, with 32 fractional bits.
    max_p: u32,
    /// The same per byte above `min`.
    per_byte: u32,
    /// Time of the next adjustment of the probability. `None` until something arrives.
    next_step: Option<Instant>,
}

impl Aqm {
    /// RED with `params`, of a queue of at most `limit`.
    ///
    /// # Errors
    /// As [`Params::check`].
    pub(crate) fn new(params: &Params, limit: Bytes) -> Result<Self, ConfigError> {
        let (wlog, decay) = params.check(limit)?;
        let (min, max) = (params.min(limit).get(), params.max(limit).get());
        let max_p = (params.probability * ONE as f64) as u32;
        let per_byte = (u64::from(max_p) / (max - min).max(1)).max(1) as u32;
        Ok(Self {
            min,
            max,
            wlog,
            gentle: params.gentle,
            decay,
            max_p,
            per_byte,
            next_step: None,
        })
    }

    /// The average backlog.
    pub(crate) fn average(&self, state: &State) -> Bytes {
        Bytes::new(state.average >> self.wlog)
    }

    /// Probability of a signal at the upper threshold.
    pub(crate) fn max_probability(&self) -> f64 {
        f64::from(self.max_p) / ONE as f64
    }

    /// Carries the average over to a RED of other parameters, `next`.
    pub(crate) fn hand_over(&self, state: &mut State, next: &Self) {
        state.average = (state.average >> self.wlog) << next.wlog;
        state.gap = Gap::Outside;
    }

    /// A packet arrives at a queue of `backlog`, itself not counted: updates the average, and says
    /// whether it is to be signaled.
    pub(crate) fn arrive(
        &self,
        state: &mut State,
        backlog: Bytes,
        now: Instant,
        random: &mut Random,
    ) -> Congestion {
        match state.idle_since.take() {
            Some(since) => state.average = self.decay.apply(state.average, now - since),
            None => self.observe(state, backlog),
        }
        self.judge(state, random)
    }

    /// Moves the average towards `backlog`.
    pub(crate) fn observe(&self, state: &mut State, backlog: Bytes) {
        let backlog = backlog.get().min(u32::MAX.into());
        state.average = state.average - (state.average >> self.wlog) + backlog;
    }

    /// Whether a packet that arrives at this average is to be signaled.
    fn judge(&self, state: &mut State, random: &mut Random) -> Congestion {
        let average = state.average >> self.wlog;
        let forced = if self.gentle { 2 * self.max } else { self.max };
        if average < self.min || average >= forced {
            state.gap = Gap::Outside;
            return if average < self.min {
                Congestion::None
            } else {
                Congestion::Forced
            };
        }
        let Gap::Within { packets, roll } = state.gap else {
            state.gap = Gap::Within {
                packets: 0,
                roll: random.bits32(),
            };
            return Congestion::None;
        };
        let packets = packets.saturating_add(1);
        if self.exceeds(packets, average, roll) {
            state.gap = Gap::Within {
                packets: 0,
                roll: random.bits32(),
            };
            return Congestion::Probable;
        }
        state.gap = Gap::Within { packets, roll };
        Congestion::None
    }

    /// Whether so many packets, each weighing its probability at this average, outweigh the number
    /// drawn.
    pub(super) fn exceeds(&self, packets: u32, average: u64, roll: u32) -> bool {
        if average < self.max {
            // Bytes above the threshold are compared with the bytes that the number represents,
            // rounded down, as in Linux.
            return u64::from(packets) * (average - self.min) >= u64::from(roll / self.per_byte);
        }
        u128::from(packets) * u128::from(self.gentle_p(average)) >= u128::from(roll)
    }

    /// The probability between the upper threshold and its double, with 32 fractional bits: from
    /// `max_p` to one.
    fn gentle_p(&self, average: u64) -> u64 {
        let rest = u128::from(ONE - u64::from(self.max_p)) * u128::from(average - self.max)
            / u128::from(self.max.max(1));
        u64::from(self.max_p) + u64::try_from(rest).unwrap_or(ONE)
    }

    /// The probability of a signal per packet at `average`, before the gaps are evened.
    #[cfg(test)]
    pub(super) fn probability(&self, average: u64) -> f64 {
        if average < self.max {
            let per_byte = self.max_probability() / (self.max - self.min) as f64;
            return per_byte * average.saturating_sub(self.min) as f64;
        }
        if self.gentle {
            (self.gentle_p(average) as f64 / ONE as f64).min(1.0)
        } else {
            1.0
        }
    }

    /// Adaptive RED (Floyd, Gummadi, Shenker 2001): moves the probability at `max` every half
    /// second, so that the average comes to lie halfway between the thresholds.
    pub(crate) fn adapt(&mut self, state: &State, now: Instant) {
        // A clock that stepped back does not stop the adaptation for as long as it stepped.
        let mut next = self
            .next_step
            .map_or(now + PERIOD, |next| next.min(now + PERIOD));
        for _ in 0..MOST_STEPS {
            if next > now {
                break;
            }
            self.step(state, next);
            next += PERIOD;
        }
        self.next_step = Some(if next > now { next } else { now + PERIOD });
    }

    /// One move, by the average as it was at `at`.
    fn step(&mut self, state: &State, at: Instant) {
        let decayed = state
            .idle_since
            .map(|since| self.decay.apply(state.average, at - since));
        let average = decayed.unwrap_or(state.average) >> self.wlog;
        // The bounds are tested before the move, so it may go one beyond; as in Linux.
        let fifth = (self.max - self.min) / 5;
        if average > self.min + 3 * fifth && self.max_p <= MOST {
            self.max_p += (self.max_p / 4).min(LEAST);
        } else if average < self.min + 2 * fifth && self.max_p >= LEAST {
            self.max_p = self.max_p / 10 * 9;
        } else {
            return;
        }
        let width = (self.max - self.min).max(1);
        self.per_byte = ((u64::from(self.max_p) + width / 2) / width).max(1) as u32;
    }

    #[cfg(test)]
    pub(super) fn settled(&self, average: u64) -> State {
        State {
            average: average << self.wlog,
            ..State::default()
        }
    }

    #[cfg(test)]
    pub(super) fn parts(&self) -> (u32, u32, u32) {
        (self.wlog, self.max_p, self.per_byte)
    }
}
