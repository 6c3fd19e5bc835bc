//! [`Stalls`]: detects a device that does not complete for long, as Linux 6.8 and later
//! (`lib/dynamic_queue_limits.c`, `dql_check_stall`).
//!
//! A limit cannot tell a slow device from a stuck one. So each tick with a queued object sets a bit
//! in a ring of four words of 64 ticks; a completion later than the threshold after the previous
//! one searches for bits in between. Bits younger than half the threshold do not count: they may
//! just have missed the previous interrupt. So every stall of at least the threshold is found, and
//! no stall shorter than half of it. Bits more than three words older than the newest are lost.

use core::time::Duration;

use tautline_base::Instant;

/// Length of one bit: a jiffy of a kernel that runs at 250 Hz.
pub(super) const TICK: Duration = Duration::from_millis(4);
/// Valid thresholds in ticks.
pub(super) const THRESHOLDS: core::ops::RangeInclusive<u64> = 4..=128;

const WORDS: u64 = 4;
const WORD: u64 = 64;

/// The stalls found, whatever the threshold was.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StallCounts {
    pub(super) count: u64,
    /// In ticks.
    longest: u64,
}

impl StallCounts {
    /// The longest stall, in whole ticks.
    pub(super) fn longest(self) -> Duration {
        TICK * u32::try_from(self.longest).unwrap_or(u32::MAX)
    }

    fn add(&mut self, ticks: u64) {
        self.count += 1;
        self.longest = self.longest.max(ticks);
    }
}

/// The detector: recent ticks with queued objects.
#[derive(Clone, Debug)]
pub(super) struct Stalls {
    /// In ticks.
    threshold: u64,
    /// Bit `t % 256` is set if an object was queued in tick `t`, for the ticks of the word `newest`
    /// and the three before.
    queued_in: [u64; WORDS as usize],
    newest: u64,
    /// Tick of the last queued object; its bit is set.
    last_queued: Option<Tick>,
    /// Tick of the last completion, or of the first queued object before the first completion.
    last_reap: Option<Tick>,
}

impl Stalls {
    /// A detector for `threshold`, which is rounded down to whole ticks.
    pub(super) fn new(threshold: Duration) -> Self {
        let threshold = Instant::ZERO + threshold;
        Self {
            threshold: Tick::of(threshold).number,
            queued_in: [0; WORDS as usize],
            newest: 0,
            last_queued: None,
            last_reap: None,
        }
    }

    /// Clears the ticks after a device reset.
    pub(super) fn reset(&mut self) {
        (self.queued_in, self.last_queued, self.last_reap) = ([0; WORDS as usize], None, None);
    }

    /// Notes a queued object. Only the first in a tick costs more than a comparison.
    #[inline]
    pub(super) fn queued(&mut self, now: Instant) {
        if !self.last_queued.is_some_and(|tick| tick.holds(now)) {
            self.mark(Tick::of(now));
        }
    }

    fn mark(&mut self, tick: Tick) {
        self.last_queued = Some(tick);
        self.last_reap.get_or_insert(tick);
        let word = (tick.number / WORD).max(self.newest);
        for stale in (self.newest + 1..=word).rev().take(WORDS as usize) {
            self.queued_in[(stale % WORDS) as usize] = 0;
        }
        self.newest = word;
        self.queued_in[(word % WORDS) as usize] |= 1 << (tick.number % WORD);
    }

    /// Checks for a stall at a completion and adds it to `found`. A second completion in a tick
    /// comes too soon to reveal a stall.
    #[inline]
    pub(super) fn completed(&mut self, now: Instant, found: &mut StallCounts) {
        if !self.last_reap.is_some_and(|tick| tick.holds(now)) {
            self.reap(Tick::of(now), found);
        }
    }

    fn reap(&mut self, now: Tick, found: &mut StallCounts) {
        if let Some(reaped) = self.last_reap.replace(now)
            && now.number >= reaped.number.saturating_add(self.threshold)
            && let Some(queued) = self.look_back(reaped.number, now.number)
        {
            found.add(now.number - queued);
        }
    }

    /// The first tick after `reaped` with a queued object, if that is old enough.
    #[cold]
    fn look_back(&self, reaped: u64, now: u64) -> Option<u64> {
        let oldest = (reaped + 1).max((self.newest + 1).saturating_sub(WORDS) * WORD);
        let youngest = now
            .saturating_sub(self.threshold / 2)
            .min(self.newest * WORD + WORD - 1);
        (oldest..=youngest).find(|&tick| self.is_set(tick))
    }

    fn is_set(&self, tick: u64) -> bool {
        self.queued_in[(tick / WORD % WORDS) as usize] & (1 << (tick % WORD)) != 0
    }
}

/// A tick: its number, and the nanosecond at which it begins.
#[derive(Clone, Copy, Debug)]
struct Tick {
    number: u64,
    begins: u64,
}

impl Tick {
    const NANOS: u64 = TICK.as_nanos() as u64;

    fn of(at: Instant) -> Self {
        let number = at.as_nanos() / Self::NANOS;
        Self {
            number,
            begins: number * Self::NANOS,
        }
    }

    fn holds(self, at: Instant) -> bool {
        at.as_nanos().wrapping_sub(self.begins) < Self::NANOS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn tick(number: u64) -> Instant {
        Instant::from_nanos(number * TICK.as_nanos() as u64)
    }

    fn detector(threshold: u64) -> Stalls {
        Stalls::new(TICK * u32::try_from(threshold).expect("small"))
    }

    #[test]
    fn a_late_completion_of_old_bytes_is_a_stall_and_a_quiet_line_is_not() {
        let (mut stalls, mut found) = (detector(10), StallCounts::default());
        stalls.completed(tick(100), &mut found);
        stalls.queued(tick(101));
        stalls.completed(tick(109), &mut found);
        assert_eq!(found.count, 0, "sooner than the threshold");
        stalls.queued(tick(115));
        stalls.completed(tick(125), &mut found);
        assert_eq!((found.count, found.longest()), (1, TICK * 10));
        stalls.queued(tick(198));
        stalls.completed(tick(200), &mut found);
        assert_eq!(found.count, 1, "nothing was queued for long");
        stalls.queued(tick(10_000));
        stalls.completed(tick(10_300), &mut found);
        assert_eq!((found.count, found.longest()), (2, TICK * 300));
    }

    proptest! {
        /// Against a list of all moments: a stall of at least the threshold is always found, one of
        /// less than half never.
        #[test]
        fn long_stalls_are_found_and_short_ones_are_not(
            threshold in THRESHOLDS,
            steps in proptest::collection::vec((0..160u64, any::<bool>()), 1..200),
        ) {
            let (mut stalls, mut stalled) = (detector(threshold), StallCounts::default());
            let (mut now, mut reaped) = (1000, 1000);
            stalls.completed(tick(now), &mut stalled);
            let mut waiting: Vec<u64> = Vec::new();
            for (gap, queues) in steps {
                now += gap;
                if queues {
                    stalls.queued(tick(now));
                    waiting.push(now);
                    continue;
                }
                let before = stalled.count;
                let newest = waiting.last().copied().unwrap_or(0);
                stalls.completed(tick(now), &mut stalled);
                let seen = || waiting.iter().filter(|&&queued| queued > reaped && queued / WORD + WORDS > newest / WORD);
                let (late, old) = (now - reaped >= threshold, seen().map(|&queued| now - queued).max());
                let found = stalled.count > before;
                prop_assert!(!found || late && old.is_some_and(|age| age >= threshold / 2));
                prop_assert!(found || !late || old.is_none_or(|age| age < threshold));
                waiting.clear();
                reaped = now;
            }
        }
    }
}
