//! [`Autorate`]: finds out how fast the bottleneck ahead is from what arrives (`autorate-ingress`;
//! `net/sched/sch_cake.c` `cake_enqueue`).

use core::time::Duration;

use tautline_base::{Bytes, Instant, Rate};

use super::params::Profile;

/// Recent arrivals.
#[derive(Clone, Debug, Default)]
pub(super) struct Autorate {
    /// Mean nanoseconds from packet to packet.
    interval: u64,
    last_packet: Instant,
    window_begin: Option<Instant>,
    window: Bytes,
    /// Mean of the windows, leaning to the largest, in bytes per second.
    peak: u64,
    last_change: Instant,
}

/// A pause counts no longer than this.
const LONGEST_PAUSE: u64 = 1_000_000_000;

/// The rate is not changed more often than this.
const LEAST_TIME_BETWEEN_CHANGES: Duration = Duration::from_millis(250);

impl Autorate {
    /// No packet has arrived; the bottleneck is assumed to have this rate, zero if unknown.
    pub(super) fn new(rate: Rate) -> Self {
        Self {
            peak: rate.as_bytes_per_sec(),
            ..Self::default()
        }
    }

    /// The rate of the bottleneck, as far as it is known.
    pub(super) fn peak(&self) -> Rate {
        Rate::bytes_per_sec(self.peak)
    }

    /// Notes bytes that arrived.
    pub(super) fn arrive(&mut self, len: Bytes) {
        self.window += len;
    }

    /// The clock stepped back by `step`: what was measured is that much older.
    pub(super) fn step_back(&mut self, step: Duration) {
        self.last_packet = self.last_packet - step;
        self.window_begin = self.window_begin.map(|begin| begin - step);
        self.last_change = self.last_change - step;
    }

    /// Records the arrival of a packet without measuring: the rate is not used.
    pub(super) fn idle(&mut self, now: Instant) {
        self.window = Bytes::ZERO;
        self.last_packet = now;
    }

    /// Notes that a packet arrived. The rate to shape to, if it is time to change it.
    ///
    /// A window ends with a packet that comes later than usual; so a burst is not taken for the
    /// rate of the bottleneck.
    pub(super) fn packet(&mut self, now: Instant, profile: Profile) -> Option<Rate> {
        let interval = now.nanos_since(self.last_packet).min(LONGEST_PAUSE);
        self.interval = follow(
            self.interval,
            interval,
            if interval > self.interval { 2 } else { 8 },
        );
        self.last_packet = now;
        if interval <= self.interval {
            return None;
        }
        let begin = match profile {
            Profile::Design => self.window_begin,
            Profile::Linux => Some(self.window_begin.unwrap_or(Instant::ZERO)),
        };
        self.window_begin = Some(now);
        let window = core::mem::take(&mut self.window);
        // Without a begin, the time that these bytes took is not known.
        let rate = Rate::from_amount(window, (now - begin?).max(Duration::from_nanos(1)))
            .as_bytes_per_sec();
        self.peak = follow(self.peak, rate, if rate > self.peak { 2 } else { 8 });
        if now <= self.last_change + LEAST_TIME_BETWEEN_CHANGES {
            return None;
        }
        // DIVERGES: Linux does not note the time of the change and makes one at every window.
        if profile == Profile::Design {
            self.last_change = now;
        }
        Some(Rate::bytes_per_sec(self.peak - self.peak.div_ceil(16)))
    }
}

/// Moves a mean towards a sample by one part in 2^`shift`.
pub(super) fn follow(mean: u64, sample: u64, shift: u32) -> u64 {
    mean - (mean >> shift) + (sample >> shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of 1250 bytes, ten a burst, at 10 Mbit/s on average.
    fn bursts(
        autorate: &mut Autorate,
        profile: Profile,
        from: u64,
        seconds: u64,
    ) -> std::vec::Vec<Rate> {
        let mut rates = std::vec::Vec::new();
        for burst in from * 100..(from + seconds) * 100 {
            for packet in 0..10 {
                let now = Instant::from_micros(1_000_000 + burst * 10_000 + packet);
                autorate.arrive(Bytes::new(1250));
                rates.extend(autorate.packet(now, profile));
            }
        }
        rates
    }

    #[test]
    fn the_rate_of_the_bottleneck_is_found_and_a_sixteenth_left_free() {
        for (profile, changes) in [(Profile::Design, 35..=40), (Profile::Linux, 900..=1000)] {
            let mut autorate = Autorate::default();
            let rates = bursts(&mut autorate, profile, 0, 10);
            assert!(changes.contains(&rates.len()), "{profile}: {}", rates.len());
            let last = rates.last().expect("some").as_bits_per_sec();
            assert!((9_200_000..9_400_000).contains(&last), "{profile}: {last}");
            let peak = autorate.peak().as_bits_per_sec();
            assert!(
                (9_900_000..=10_000_000).contains(&peak),
                "{profile}: {peak}"
            );
        }
    }

    /// Arrivals before the first window are not spread over all time before.
    #[test]
    fn the_first_window_counts_from_its_begin() {
        let first = |profile| {
            bursts(&mut Autorate::default(), profile, 0, 1)
                .first()
                .copied()
                .expect("one")
                .as_bits_per_sec()
        };
        assert!(first(Profile::Linux) < 50_000, "{}", first(Profile::Linux));
        assert!(
            first(Profile::Design) > 2_000_000,
            "{}",
            first(Profile::Design)
        );
    }

    /// `net/sched/sch_cake.c` `cake_enqueue`: the mean interval moves up by a quarter and down by a
    /// 256th of the way, pauses count as a second at most.
    #[test]
    fn the_interval_follows_pauses_at_once_and_bursts_slowly() {
        let (mut autorate, pause) = (Autorate::default(), Instant::from_secs(1024));
        autorate.packet(pause, Profile::Design);
        assert_eq!(autorate.interval, LONGEST_PAUSE / 4);
        autorate.packet(pause, Profile::Design);
        assert_eq!(
            autorate.interval,
            LONGEST_PAUSE / 4 - LONGEST_PAUSE / 4 / 256
        );
    }

    #[test]
    fn a_slower_bottleneck_is_noticed_slowly_and_extremes_are_survived() {
        let mut autorate = Autorate::default();
        bursts(&mut autorate, Profile::Design, 0, 10);
        let before = autorate.peak();
        autorate.idle(Instant::from_secs(30));
        autorate.arrive(Bytes::new(100));
        autorate.packet(Instant::from_secs(60), Profile::Design);
        let after = autorate.peak();
        assert!(after < before && after > before.percent(99));
        autorate.arrive(Bytes::MAX);
        for nanos in [u64::MAX, 0, 1, u64::MAX] {
            autorate.packet(Instant::from_nanos(nanos), Profile::Design);
        }
    }
}
