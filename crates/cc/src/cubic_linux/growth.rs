//! CUBIC's window growth in Linux's integers: windows in packets, times in clock ticks and in
//! 1/1024 s.
//!
//! `bictcp_update` yields the number of packets that must be acknowledged to open the window by one
//! packet. It computes a new number when the window changed or more than 1/32 s passed.

use core::time::Duration;

use tautline_base::Instant;

/// Multiplicative decrease factor: 717/1024 is 0.7002.
const BETA: u64 = 717;
const BETA_SCALE: u64 = 1024;
/// `C` is 410/1024, which is 0.4004, in packets per second cubed.
const C: u64 = 410;
const C_SHIFT: u32 = 10;
/// Times are in 1/1024 s.
const TIME_SHIFT: u32 = 10;
/// Eight times the acknowledged windows that open Reno's estimate by one packet: 15/8, which makes
/// α 8/15.
const RENO_SCALE: u64 = 15;
/// At least two acknowledged packets open the window by one.
const FEWEST: u64 = 2;
/// Upper bound before the first plateau is known: the window grows by at least 5 % per round trip.
const MOST_UNKNOWN: u64 = 20;
/// Windows of packets per growth at or above the target, where the window hardly changes.
const STANDSTILL: u64 = 100;
/// Largest distance from the plateau, in 1/1024 s, whose cube still fits.
const FARTHEST: u64 = 100_000 << TIME_SHIFT;
const SECOND: Duration = Duration::from_secs(1);

/// The state of the growth law.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    /// One clock tick in nanoseconds.
    tick: u64,
    /// Window at the last reduction, or less by fast convergence (`last_max_cwnd`).
    last_max: Option<u64>,
    /// Lowest RTT since the last timeout.
    delay_min: Option<Duration>,
    epoch: Option<Epoch>,
    /// The last answer.
    answer: Option<Answer>,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: u64,
    origin: u64,
    /// Time to the origin in 1/1024 s.
    k: u64,
    /// Reno's window (`tcp_cwnd`).
    reno: u64,
    /// Packets acknowledged and not yet turned into growth of `reno`.
    acked: u64,
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    cwnd: u64,
    tick: u64,
    per: u64,
}

impl Growth {
    /// The state of a new connection; its clock advances every `tick`.
    pub(super) fn new(tick: Duration) -> Self {
        let tick = u64::try_from(tick.as_nanos())
            .unwrap_or(u64::MAX)
            .clamp(1, 1_000_000_000);
        Self {
            tick,
            last_max: None,
            delay_min: None,
            epoch: None,
            answer: None,
        }
    }

    /// Lowest RTT since the last timeout.
    pub(super) fn delay_min(&self) -> Option<Duration> {
        self.delay_min
    }

    fn ticks(&self, now: Instant) -> u64 {
        now.as_nanos() / self.tick
    }

    fn ticks_in(&self, time: Duration) -> u64 {
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) / self.tick
    }

    /// `ticks` in 1/1024 s.
    fn scaled(&self, ticks: u64) -> u64 {
        let nanos = u128::from(ticks) * u128::from(self.tick);
        u64::try_from((nanos << TIME_SHIFT) / SECOND.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Updates the lowest RTT. False if ignored: in the first second of an epoch, while the queue
    /// from before the reduction still drains.
    pub(super) fn on_rtt(&mut self, rtt: Duration, now: Instant) -> bool {
        let settled = self.epoch.is_none_or(|epoch| {
            self.ticks(now).saturating_sub(epoch.start) >= self.ticks_in(SECOND)
        });
        if settled {
            let rtt = rtt.max(Duration::from_micros(1));
            self.delay_min = Some(self.delay_min.map_or(rtt, |lowest| lowest.min(rtt)));
        }
        settled
    }

    /// Number of acknowledged packets that open a window of `cwnd` by one; `packets` more were
    /// acknowledged at `now`.
    pub(super) fn packets_per_growth(&mut self, cwnd: u64, packets: u64, now: Instant) -> u64 {
        let cwnd = cwnd.max(1);
        let tick = self.ticks(now);
        if let Some(epoch) = &mut self.epoch {
            epoch.acked = epoch.acked.saturating_add(packets);
        }
        let fresh = self.ticks_in(SECOND) / 32;
        let (noted, per) = match (self.answer, self.epoch) {
            (Some(last), _) if last.cwnd == cwnd && tick.saturating_sub(last.tick) <= fresh => {
                return last.per;
            }
            // Within a tick only Reno's window is updated.
            (Some(last), Some(_)) if last.tick == tick => (last.cwnd, last.per),
            (_, epoch) => {
                let epoch =
                    epoch.unwrap_or_else(|| Epoch::begin(tick, cwnd, self.last_max, packets));
                self.epoch = Some(epoch);
                (cwnd, self.follow_curve(&epoch, cwnd, tick))
            }
        };
        let level = self
            .epoch
            .as_mut()
            .map_or(u64::MAX, |epoch| epoch.follow_reno(cwnd));
        let per = per.min(level).max(FEWEST);
        self.answer = Some(Answer {
            cwnd: noted,
            tick,
            per,
        });
        per
    }

    /// Evaluates the curve one lowest RTT ahead, rounded up to ticks.
    fn follow_curve(&self, epoch: &Epoch, cwnd: u64, tick: u64) -> u64 {
        let ahead = self
            .delay_min
            .map_or(0, |delay| delay.as_nanos().div_ceil(u128::from(self.tick)));
        let ticks = tick
            .saturating_sub(epoch.start)
            .saturating_add(u64::try_from(ahead).unwrap_or(u64::MAX));
        let target = target(epoch.origin, epoch.k, self.scaled(ticks));
        let per = if target > cwnd {
            cwnd / (target - cwnd)
        } else {
            cwnd.saturating_mul(STANDSTILL)
        };
        if self.last_max.is_none() {
            per.min(MOST_UNKNOWN)
        } else {
            per
        }
    }

    /// Returns the window after a reduction of `cwnd`. A window still below the last plateau makes
    /// room for others (fast convergence).
    pub(super) fn reduce(&mut self, cwnd: u64) -> u64 {
        self.epoch = None;
        let converge = self.last_max.is_some_and(|last_max| cwnd < last_max);
        self.last_max = Some(if converge {
            cwnd * (BETA_SCALE + BETA) / (2 * BETA_SCALE)
        } else {
            cwnd
        });
        cwnd * BETA / BETA_SCALE
    }

    /// Plateau and epoch belong to a window that is gone.
    pub(super) fn clear_curve(&mut self) {
        (self.last_max, self.epoch, self.answer) = (None, None, None);
    }

    /// Excludes a pause of length `pause` until `now` from the age of the epoch.
    pub(super) fn pause(&mut self, pause: Duration, now: Instant) {
        let (ticks, now) = (self.ticks_in(pause), self.ticks(now));
        if let Some(epoch) = &mut self.epoch {
            epoch.start = epoch.start.saturating_add(ticks).min(now);
        }
    }
}

impl Epoch {
    fn begin(start: u64, cwnd: u64, last_max: Option<u64>, acked: u64) -> Self {
        let origin = last_max.map_or(cwnd, |last_max| last_max.max(cwnd));
        Self {
            start,
            origin,
            k: time_to_origin(origin - cwnd),
            reno: cwnd,
            acked,
        }
    }

    /// Advances Reno's window by the acknowledged packets. Returns the packets per growth that
    /// keep up with it.
    fn follow_reno(&mut self, cwnd: u64) -> u64 {
        let per = (cwnd * RENO_SCALE) >> 3;
        let grown = self.acked.saturating_sub(1) / per;
        self.acked -= grown * per;
        self.reno = self.reno.saturating_add(grown);
        cwnd.checked_div(self.reno.saturating_sub(cwnd))
            .unwrap_or(u64::MAX)
    }
}

/// `K` in 1/1024 s of a curve that begins `gap` packets below its origin. Linux's cube root is off
/// by up to 0.2 %; this one is rounded to the nearest.
fn time_to_origin(gap: u64) -> u64 {
    let cube = ((u128::from(gap)) << (C_SHIFT + 3 * TIME_SHIFT)) / u128::from(C);
    libm::round(libm::cbrt(cube as f64)) as u64
}

/// The curve `t` 1/1024 s after its beginning, in packets.
fn target(origin: u64, k: u64, t: u64) -> u64 {
    let distance = u128::from(t.abs_diff(k).min(FARTHEST));
    let delta = (u128::from(C) * distance * distance * distance) >> (C_SHIFT + 3 * TIME_SHIFT);
    let delta = u64::try_from(delta).unwrap_or(u64::MAX);
    if t < k {
        origin.saturating_sub(delta)
    } else {
        origin.saturating_add(delta)
    }
}

#[cfg(test)]
mod tests;
