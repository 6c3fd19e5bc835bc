//! [`Dql`]: dynamic queue limits, by the rule of Linux's `lib/dynamic_queue_limits.c`.
//!
//! Between two completions the limit must cover the bytes that the hardware can transmit. Each
//! completion is checked for two symptoms:
//!
//! * *starved*: the bytes in flight exceeded the limit and all of them are completed. The queue ran
//!   dry, or nearly, so the limit grows by the shortage;
//! * *busy*: the device held bytes all the time. The bytes left over are slack; after a hold time
//!   the limit shrinks by the least slack seen, so never by more than was spare at the worst time.
//!
//! The printed pseudo-code of Imputato's thesis (figure 2.1) lacks two negations: its line 7 must
//! read "over the limit and *not* in progress", its line 11 "and *not* all previous completed". Its
//! prose and figure 2.2 are right, and are tests here.
//!
//! Counters are 32 bits wide and wrap, as in the kernel; the largest limit and the largest object
//! keep the bytes in flight below 2³¹.

mod stall;

use core::time::Duration;

use tautline_base::{Bytes, ConfigError, Instant};

use crate::limit::Limit;
use stall::{StallCounts, Stalls};

/// Largest object that may be queued at once.
const LARGEST_OBJECT: u32 = (1 << 28) - 1;
/// Largest limit: with the largest object on top, still below 2³¹.
const LARGEST_LIMIT: u32 = i32::MAX as u32 - LARGEST_OBJECT;

/// Parameters, named as in `/sys/class/net/…/queues/tx-…/byte_queue_limits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// `limit_min`: the limit never falls below. 0 (Linux).
    pub limit_min: Bytes,
    /// `limit_max`: the limit never rises above. 1 879 048 192 (Linux), the largest possible.
    pub limit_max: Bytes,
    /// `hold_time`: time over which the least slack is taken before the limit shrinks by it. 1 s
    /// (Linux).
    pub hold_time: Duration,
    /// `stall_thrs`: bytes queued for this long without a completion are counted as a stall; 16 ms
    /// to 512 ms, in steps of 4 ms. Off (Linux).
    pub stall_threshold: Option<Duration>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit_min: Bytes::ZERO,
            limit_max: Bytes::new(LARGEST_LIMIT.into()),
            hold_time: Duration::from_secs(1),
            stall_threshold: None,
        }
    }
}

/// Parameters and state, by their names in sysfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The limit now.
    pub limit: Bytes,
    /// Least limit.
    pub limit_min: Bytes,
    /// Greatest limit.
    pub limit_max: Bytes,
    /// Time over which the least slack is taken before the limit shrinks.
    pub hold_time: Duration,
    /// Queued and not completed.
    pub inflight: Bytes,
    /// Threshold of the stall detector; zero if it is off.
    pub stall_thrs: Duration,
    /// Stalls since creation.
    pub stall_cnt: u64,
    /// The longest stall.
    pub stall_max: Duration,
    /// Completions of more bytes than were in flight. Not in sysfs: the kernel treats them as a bug;
    /// here a device may misreport.
    pub overruns: u64,
}

/// Dynamic queue limits of one ring.
///
/// ```
/// use tautline_base::{Bytes, Instant};
/// use tautline_bql::{Dql, Limit, dql::Config};
///
/// let mut dql = Dql::new(Config { limit_max: Bytes::new(30_000), ..Config::default() })?;
/// let now = Instant::ZERO;
/// while dql.available(now) {
///     dql.queued(Bytes::new(1514), now); // a packet goes to the hardware ...
/// }
/// dql.completed(dql.in_flight(), now); // ... which ran dry, so the limit grows
/// assert_eq!(dql.snapshot().limit, Bytes::new(1514));
/// # Ok::<(), tautline_base::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dql {
    limit_min: u32,
    limit_max: u32,
    hold_time: Duration,
    stall_threshold: Duration,
    stalls: Option<Stalls>,
    stall_counts: StallCounts,
    limit: u32,
    /// Bytes queued since creation, wrapping.
    queued: u32,
    /// Bytes completed since creation, wrapping.
    completed: u32,
    /// Size of the object queued last.
    last_object: u32,
    /// The state after the previous completion.
    previous: Previous,
    /// The window of the least slack; `None` before the first object.
    window: Option<Window>,
    overruns: u64,
}

/// State after a completion, for the next one.
#[derive(Clone, Copy, Debug, Default)]
struct Previous {
    /// [`Dql::queued`] at that time.
    queued: u32,
    /// Bytes in flight above the limit; zero if the limit was changed.
    over: u32,
    /// Size of the object queued last.
    last_object: u32,
}

/// The least slack since `start`.
#[derive(Clone, Copy, Debug)]
struct Window {
    start: Instant,
    lowest: Option<u32>,
}

/// The verdict of a completion on the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    /// Too low by this many bytes.
    Starved(u32),
    /// Too high by at most this many bytes.
    Busy(u32),
    /// Unknown: there was not enough to send.
    Idle,
}

impl Dql {
    /// A limit at its minimum, with nothing in flight.
    ///
    /// # Errors
    /// A `limit_max` above the largest possible, a `limit_min` above `limit_max`, or a stall
    /// threshold out of range.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let mut dql = Self::default();
        dql.reconfigure(config)?;
        Ok(dql)
    }

    /// Replaces the parameters of a running queue. The limit is clamped to the new bounds at once; a
    /// new threshold restarts the stall detector, but the stalls found before still count.
    ///
    /// # Errors
    /// As [`new`](Self::new); then nothing changes.
    pub fn reconfigure(&mut self, config: Config) -> Result<(), ConfigError> {
        let Config {
            limit_min,
            limit_max,
            hold_time,
            stall_threshold,
        } = config;
        let limit_max = at_most(LARGEST_LIMIT, "limit_max", limit_max)?;
        let limit_min = at_most(limit_max, "limit_min", limit_min)?;
        if let Some(threshold) = stall_threshold
            && !stall::THRESHOLDS
                .contains(&((threshold.as_nanos() / stall::TICK.as_nanos()) as u64))
        {
            return Err(ConfigError::new(
                "stall_thrs",
                alloc::format!("{threshold:?}"),
                "from 16ms to 512ms, or off",
            ));
        }
        if stall_threshold.unwrap_or_default() != self.stall_threshold {
            self.stalls = stall_threshold.map(Stalls::new);
        }
        self.stall_threshold = stall_threshold.unwrap_or_default();
        (self.limit_min, self.limit_max, self.hold_time) = (limit_min, limit_max, hold_time);
        let limit = self.limit.clamp(limit_min, limit_max);
        if limit != self.limit {
            (self.limit, self.previous.over) = (limit, 0);
        }
        Ok(())
    }

    fn with_limits(limit_min: u32, limit_max: u32, hold_time: Duration) -> Self {
        Self {
            limit_min,
            limit_max,
            hold_time,
            stall_threshold: Duration::ZERO,
            stalls: None,
            stall_counts: StallCounts::default(),
            limit: limit_min,
            queued: 0,
            completed: 0,
            last_object: 0,
            previous: Previous::default(),
            window: None,
            overruns: 0,
        }
    }

    /// The parameters, for changing one of them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tautline_bql::{Dql, dql::Config};
    ///
    /// let mut dql = Dql::default();
    /// dql.reconfigure(Config { hold_time: Duration::from_millis(100), ..dql.config() })?;
    /// assert_eq!(dql.config().hold_time, Duration::from_millis(100));
    /// # Ok::<(), tautline_bql::ConfigError>(())
    /// ```
    pub fn config(&self) -> Config {
        Config {
            limit_min: bytes(self.limit_min),
            limit_max: bytes(self.limit_max),
            hold_time: self.hold_time,
            stall_threshold: Some(self.stall_threshold).filter(|threshold| !threshold.is_zero()),
        }
    }

    /// Parameters and state, as in sysfs.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            limit: self.limit(),
            limit_min: bytes(self.limit_min),
            limit_max: bytes(self.limit_max),
            hold_time: self.hold_time,
            inflight: self.in_flight(),
            stall_thrs: self.stall_threshold,
            stall_cnt: self.stall_counts.count,
            stall_max: self.stall_counts.longest(),
            overruns: self.overruns,
        }
    }

    /// Bytes in flight beyond the limit.
    fn over(&self) -> u32 {
        positive(self.queued.wrapping_sub(self.completed), self.limit)
    }

    /// The bytes of a completion, clamped to the bytes in flight.
    fn amount(&mut self, completed: Bytes) -> u32 {
        let in_flight = self.queued.wrapping_sub(self.completed);
        match u32::try_from(completed.get()) {
            Ok(amount) if amount <= in_flight => amount,
            _ => {
                self.overruns += 1;
                in_flight
            }
        }
    }

    /// Judges the completion of `amount` bytes, which `self.completed` does not yet include.
    fn judge(&self, amount: u32, over: u32) -> Finding {
        let Previous {
            queued,
            over: previous_over,
            last_object,
        } = self.previous;
        let completed = self.completed.wrapping_add(amount);
        let in_progress = self.queued != completed;
        let previously_in_progress = queued != self.completed;
        let all_previous_completed = completed.wrapping_sub(queued) as i32 >= 0;

        if (over > 0 && !in_progress) || (previous_over > 0 && all_previous_completed) {
            return Finding::Starved(positive(completed, queued).saturating_add(previous_over));
        }
        if !in_progress || !previously_in_progress || all_previous_completed {
            return Finding::Idle;
        }
        // A limit of two batches refills the device while it transmits the previous batch.
        let beyond_two_batches = positive(
            self.limit.wrapping_add(previous_over),
            amount.wrapping_mul(2),
        );
        // The part of the last object below the limit was not needed: objects are queued only
        // below the limit.
        let of_last_object = if previous_over > 0 {
            positive(last_object, previous_over)
        } else {
            0
        };
        Finding::Busy(beyond_two_batches.max(of_last_object))
    }

    /// The limit after a finding, before it is clamped.
    fn answer(&mut self, finding: Finding, now: Instant) -> u32 {
        match finding {
            Finding::Starved(shortage) => {
                self.window = Some(Window {
                    start: now,
                    lowest: None,
                });
                self.limit.saturating_add(shortage)
            }
            Finding::Busy(slack) => {
                let Window { start, lowest } = self.window.unwrap_or(Window {
                    start: now,
                    lowest: None,
                });
                let lowest = lowest.map_or(slack, |lowest| lowest.min(slack));
                // A clock that stepped back does not hold the limit up for as long as it stepped.
                let start = start.min(now);
                if now - start > self.hold_time {
                    self.window = Some(Window {
                        start: now,
                        lowest: None,
                    });
                    return self.limit.saturating_sub(lowest);
                }
                self.window = Some(Window {
                    start,
                    lowest: Some(lowest),
                });
                self.limit
            }
            Finding::Idle => self.limit,
        }
    }
}

impl Default for Dql {
    fn default() -> Self {
        Self::with_limits(0, LARGEST_LIMIT, Config::default().hold_time)
    }
}

impl Limit for Dql {
    fn opens_at(&self) -> Option<Instant> {
        let room = self
            .limit
            .wrapping_add(self.completed)
            .wrapping_sub(self.queued) as i32;
        (room >= 0).then_some(Instant::ZERO)
    }

    fn queued(&mut self, bytes: Bytes, now: Instant) {
        debug_assert!(
            bytes.get() <= LARGEST_OBJECT.into(),
            "an object of {bytes} is larger than DQL can count"
        );
        self.window.get_or_insert(Window {
            start: now,
            lowest: None,
        });
        self.last_object = bytes.get() as u32;
        if let Some(stalls) = &mut self.stalls {
            stalls.queued(now);
        }
        self.queued = self.queued.wrapping_add(self.last_object);
    }

    fn completed(&mut self, bytes: Bytes, now: Instant) {
        let amount = self.amount(bytes);
        if let Some(stalls) = &mut self.stalls {
            stalls.completed(now, &mut self.stall_counts);
        }
        let over = self.over();
        let finding = self.judge(amount, over);
        let limit = self
            .answer(finding, now)
            .clamp(self.limit_min, self.limit_max);
        let over = if limit == self.limit { over } else { 0 };
        self.limit = limit;
        self.completed = self.completed.wrapping_add(amount);
        self.previous = Previous {
            queued: self.queued,
            over,
            last_object: self.last_object,
        };
    }

    fn reset(&mut self) {
        let Self {
            overruns,
            stall_threshold,
            stall_counts,
            ..
        } = *self;
        let mut stalls = self.stalls.take();
        stalls.iter_mut().for_each(Stalls::reset);
        let limits = Self::with_limits(self.limit_min, self.limit_max, self.hold_time);
        *self = Self {
            overruns,
            stall_threshold,
            stalls,
            stall_counts,
            ..limits
        };
    }

    fn limit(&self) -> Bytes {
        bytes(self.limit)
    }

    fn in_flight(&self) -> Bytes {
        bytes(self.queued.wrapping_sub(self.completed))
    }

    fn dql(&self) -> Option<Snapshot> {
        Some(self.snapshot())
    }
}

/// `a - b` where both count from the same wrapping origin, or zero if `b` is ahead.
fn positive(a: u32, b: u32) -> u32 {
    (a.wrapping_sub(b) as i32).max(0) as u32
}

fn bytes(amount: u32) -> Bytes {
    Bytes::new(amount.into())
}

/// `value` as the kernel's 32 bits, if it is no larger than `largest`.
fn at_most(largest: u32, parameter: &'static str, value: Bytes) -> Result<u32, ConfigError> {
    u32::try_from(value.get())
        .ok()
        .filter(|&value| value <= largest)
        .ok_or_else(|| {
            ConfigError::new(
                parameter,
                value,
                alloc::format!("at most {}", bytes(largest)),
            )
        })
}

#[cfg(test)]
mod tests;
