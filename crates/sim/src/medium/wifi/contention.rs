//! [`Contention`] for the channel (IEEE Std 802.11-2020, clause 10.23: EDCA with one access
//! category).

use std::time::Duration;

use rand_core::Rng;
use rand_pcg::Pcg32;
use tautline_base::Instant;

use super::config::{Access, Backoff};

/// Backoffs of all contenders.
#[derive(Debug)]
pub(super) struct Contention {
    access: Access,
    contenders: Vec<Contender>,
    rounds: u64,
    rng: Pcg32,
}

#[derive(Debug)]
struct Contender {
    /// Remaining time of an idle channel, after AIFS.
    backoff: Duration,
    /// Contention window in slots.
    window: u32,
    /// Round of its last transmission.
    last: u64,
}

impl Contention {
    /// `count` contenders, each with a first backoff.
    pub(super) fn new(access: Access, count: usize, rng: Pcg32) -> Self {
        let mut contention = Self {
            access,
            contenders: Vec::with_capacity(count),
            rounds: 0,
            rng,
        };
        for _ in 0..count {
            let backoff = contention.draw(access.cw_min);
            contention.contenders.push(Contender {
                backoff,
                window: access.cw_min,
                last: 0,
            });
        }
        contention
    }

    /// When a contender for which `wants` is true wins the channel, idle since `since`. In the past
    /// if its backoff has expired.
    pub(super) fn next_start(
        &self,
        since: Instant,
        wants: impl Fn(usize) -> bool,
    ) -> Option<Instant> {
        let all = self
            .contenders
            .iter()
            .enumerate()
            .filter(|(number, _)| wants(*number));
        all.map(|(_, contender)| since + self.access.aifs() + contender.backoff)
            .min()
    }

    /// Ends a round at `now`, of a channel idle since `since`: retains the winners in `wanting`,
    /// several if they collide, and counts down the backoff of all others.
    pub(super) fn win(&mut self, since: Instant, now: Instant, wanting: &mut Vec<usize>) {
        let counting = since + self.access.aifs();
        let elapsed = now - counting;
        self.rounds += 1;
        wanting.retain(|number| counting + self.contenders[*number].backoff <= now);
        let winners = wanting;
        if self.access.backoff == Backoff::Mean {
            let first = winners
                .iter()
                .copied()
                .min_by_key(|number| self.contenders[*number].last);
            winners.retain(|number| Some(*number) == first);
        }
        let slot = self.access.slot.as_nanos().max(1);
        let waited = match self.access.backoff {
            // An interrupted slot does not count.
            Backoff::Random => {
                elapsed.saturating_sub(Duration::from_nanos((elapsed.as_nanos() % slot) as u64))
            }
            Backoff::Mean => elapsed,
        };
        for (number, contender) in self.contenders.iter_mut().enumerate() {
            if winners.contains(&number) {
                contender.last = self.rounds;
            } else {
                contender.backoff = contender.backoff.saturating_sub(waited);
            }
        }
    }

    /// Contender `number` was acknowledged: its window falls to the minimum.
    pub(super) fn succeeded(&mut self, number: usize) {
        self.again(number, self.access.cw_min);
    }

    /// Contender `number` was not acknowledged: its window doubles.
    pub(super) fn failed(&mut self, number: usize) {
        let window = self.contenders[number].window;
        self.again(
            number,
            window
                .saturating_mul(2)
                .saturating_add(1)
                .min(self.access.cw_max),
        );
    }

    fn again(&mut self, number: usize, window: u32) {
        let backoff = self.draw(window);
        let contender = &mut self.contenders[number];
        (contender.window, contender.backoff) = (window, backoff);
    }

    fn draw(&mut self, window: u32) -> Duration {
        match self.access.backoff {
            Backoff::Random => {
                let slots = (u64::from(self.rng.next_u32()) * (u64::from(window) + 1)) >> 32;
                self.access.slot.saturating_mul(slots as u32)
            }
            Backoff::Mean => self.access.slot.saturating_mul(window) / 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contention(count: usize, backoff: Backoff) -> Contention {
        Contention::new(
            Access {
                backoff,
                ..Access::default()
            },
            count,
            Pcg32::new(1, 1),
        )
    }

    fn at(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    #[test]
    fn the_mean_takes_turns_without_collisions() {
        // AIFS is 16 + 3 × 9 = 43 µs, the mean backoff 15 × 9 / 2 = 67.5 µs.
        let mut contention = contention(2, Backoff::Mean);
        let mut winners = Vec::new();
        let mut idle = at(0);
        let mut order = Vec::new();
        for expected in [110_500, 43_000, 110_500, 43_000] {
            let start = contention.next_start(idle, |_| true).expect("both want");
            assert_eq!((start - idle).as_nanos(), expected);
            winners.extend([0, 1]);
            contention.win(idle, start, &mut winners);
            assert_eq!(winners.len(), 1);
            order.push(winners[0]);
            contention.succeeded(winners[0]);
            winners.clear();
            idle = start + Duration::from_millis(1);
        }
        assert_eq!(order, [0, 1, 0, 1]);
    }

    #[test]
    fn who_comes_late_to_an_idle_channel_goes_at_once() {
        let mut contention = contention(1, Backoff::Mean);
        assert_eq!(contention.next_start(at(0), |_| false), None);
        assert!(
            contention.next_start(at(0), |_| true) < Some(at(1000)),
            "its backoff ran down long ago"
        );
        let mut winners = Vec::new();
        winners.push(0);
        contention.win(at(0), at(1000), &mut winners);
        assert_eq!(winners, [0]);
    }

    /// Two who always want: Bianchi (JSAC 2000) with windows of 16 doubling six times has each send
    /// in 10.46 % of the slots, so of those in which anybody sends, 0.1046 / (2 - 0.1046) = 5.5 %
    /// are collisions.
    #[test]
    fn random_backoffs_collide_and_the_window_grows() {
        let mut contention = contention(2, Backoff::Random);
        let (mut winners, mut idle, mut collisions, mut won) = (Vec::new(), at(0), 0u32, [0u32; 2]);
        for _ in 0..10_000 {
            let start = contention.next_start(idle, |_| true).expect("both want");
            assert_eq!(
                (start - idle).as_nanos() % 9000,
                43_000 % 9000,
                "whole slots after AIFS"
            );
            winners.extend([0, 1]);
            contention.win(idle, start, &mut winners);
            for number in std::mem::take(&mut winners) {
                won[number] += 1;
                if contention
                    .contenders
                    .iter()
                    .filter(|other| other.last == contention.rounds)
                    .count()
                    > 1
                {
                    contention.failed(number);
                    collisions += 1;
                } else {
                    contention.succeeded(number);
                }
            }
            idle = start;
        }
        let share = f64::from(collisions / 2) / 10_000.0;
        assert!((0.050..0.061).contains(&share), "{share}");
        let fair = f64::from(won[0]) / f64::from(won[0] + won[1]);
        assert!((0.48..0.52).contains(&fair), "{won:?}");
    }

    #[test]
    fn the_window_doubles_up_to_its_end_and_falls_back() {
        let mut contention = contention(1, Backoff::Random);
        let windows: Vec<u32> = (0..8)
            .map(|_| {
                contention.failed(0);
                contention.contenders[0].window
            })
            .collect();
        assert_eq!(windows, [31, 63, 127, 255, 511, 1023, 1023, 1023]);
        contention.succeeded(0);
        assert_eq!(contention.contenders[0].window, 15);
    }
}
