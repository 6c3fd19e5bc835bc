//! [`Push`]: push-based flow control (Imputato's thesis, eq. 5.1): packets are paced into the ring,
//! instead of filling it whenever it has space.
//!
//! *dequeue rate = service rate + k · (desired − in flight)*
//!
//! A ring that pulls is refilled in bursts, one per interrupt, so PIE's estimator of the departure
//! rate measures bursts, not the link. Here packets leave the queueing discipline evenly, slightly
//! faster than the device serves while too little is in flight and slightly slower while too much
//! is; the bytes in flight converge to `desired`.
//!
//! Stability: an excess decays by exp(−k·t). Corrected every h seconds it shrinks by the factor
//! 1 − k·h: stable for k·h < 2, without overshoot for k·h ≤ 1. With a feedback delay τ it does not
//! oscillate for k·τ ≤ 1/e and is stable for k·τ < π/2. So k must stay below about 1 / (3 · time
//! between completions): the default of 200 per second suits interrupts up to 1.8 ms apart.
//!
//! The service rate is measured from completions while the device is busy; until the first such
//! completion, [`Dql`] limits. An empty device always accepts a packet, so a wrong estimate delays
//! but never blocks.

use core::time::Duration;

use tautline_base::{Bytes, CallerClock, ConfigError, Instant, Rate};

use crate::dql::Dql;
use crate::limit::Limit;

/// Parameters of [`Push`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// k: the share of the excess corrected per second, at least 1. Default 200.
    pub gain: u32,
    /// Bytes that should be in flight, at least two full frames. Default `None`: twice the bytes of
    /// one completion.
    pub desired: Option<Bytes>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            gain: 200,
            desired: None,
        }
    }
}

/// Two Ethernet frames: less in flight cannot keep any device busy.
const LEAST_DESIRED: Bytes = Bytes::new(2 * 1514);
/// The pace is at least the service rate divided by this, however much is in flight.
const SLOWEST: u64 = 8;

/// A limit that paces packets at a rate.
///
/// ```
/// use tautline_base::{Bytes, Instant};
/// use tautline_bql::push::{Config, Push};
/// use tautline_bql::Limit;
///
/// let mut push = Push::new(Config::default())?;
/// push.queued(Bytes::new(1514), Instant::from_micros(0));
/// push.queued(Bytes::new(1514), Instant::from_micros(0));
/// push.completed(Bytes::new(1514), Instant::from_micros(121)); // 100 Mbit/s
/// push.queued(Bytes::new(1514), Instant::from_micros(121));
/// assert!(push.opens_at() > Some(Instant::from_micros(121))); // paced from now on
/// # Ok::<(), tautline_base::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Push {
    config: Config,
    /// Limits until the service rate is known.
    start: Dql,
    in_flight: Bytes,
    service: Option<Service>,
    /// Start of the busy time not yet included in the service rate.
    busy_since: Option<Instant>,
    /// Bytes completed since then in completions that took no time.
    uncounted: Bytes,
    /// Earliest departure of the next packet.
    next: Instant,
    clock: CallerClock,
}

/// Moving averages over the completions of the device.
#[derive(Clone, Copy, Debug)]
struct Service {
    rate: Rate,
    /// Bytes per completion.
    batch: Bytes,
}

impl Push {
    /// A limit with nothing in flight and no estimate of the device.
    ///
    /// # Errors
    /// If `gain` is zero, or `desired` is less than two full frames.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        ConfigError::check(
            config.gain > 0,
            "gain",
            config.gain,
            "at least 1 per second",
        )?;
        let desired = config.desired.unwrap_or(LEAST_DESIRED);
        ConfigError::check(
            desired >= LEAST_DESIRED,
            "desired",
            desired,
            "at least 3028b, two full frames",
        )?;
        Ok(Self {
            config,
            start: Dql::default(),
            in_flight: Bytes::ZERO,
            service: None,
            busy_since: None,
            uncounted: Bytes::ZERO,
            next: Instant::ZERO,
            clock: CallerClock::default(),
        })
    }

    /// Estimated rate of the device (eq. 5.1), `None` before its first measurement.
    pub fn service_rate(&self) -> Option<Rate> {
        self.service.map(|service| service.rate)
    }

    /// The bytes that should be in flight, at least two full frames.
    pub fn desired(&self) -> Bytes {
        let measured = self
            .service
            .map_or(Bytes::ZERO, |service| service.batch * 2);
        self.config
            .desired
            .unwrap_or_else(|| measured.max(LEAST_DESIRED))
    }

    /// The dequeue rate of eq. 5.1; `None` while the service rate is unknown.
    pub fn pace(&self) -> Option<Rate> {
        let service = self.service?.rate.as_bytes_per_sec();
        let (desired, in_flight, gain) = (
            self.desired().get(),
            self.in_flight.get(),
            u64::from(self.config.gain),
        );
        let faster = desired.saturating_sub(in_flight).saturating_mul(gain);
        let slower = in_flight.saturating_sub(desired).saturating_mul(gain);
        let pace = service.saturating_add(faster).saturating_sub(slower);
        Some(Rate::bytes_per_sec(pace.max(service / SLOWEST).max(1)))
    }

    /// Notes the time, and returns the one that counts. If the clock stepped back, the next packet departs
    /// that much earlier: else the device would hold one packet at a time until the clock has caught up.
    fn advance_to(&mut self, now: Instant) -> Instant {
        if let Some(step) = self.clock.step_back(now) {
            self.next = self.next - step;
            self.busy_since = self.busy_since.map(|since| since - step);
        }
        self.clock.latest()
    }

    /// Measures the service rate from `bytes` completed at `now`.
    fn observe(&mut self, bytes: Bytes, now: Instant) {
        self.uncounted += bytes;
        let Some(since) = self.busy_since else { return };
        // Two completions at the same time are parts of one batch.
        if now <= since {
            return;
        }
        let seen = Service {
            rate: Rate::from_amount(self.uncounted, now - since),
            batch: self.uncounted,
        };
        self.service = Some(match self.service {
            None => seen,
            Some(Service { rate, batch }) => Service {
                rate: Rate::bytes_per_sec(average(
                    rate.as_bytes_per_sec(),
                    seen.rate.as_bytes_per_sec(),
                )),
                batch: Bytes::new(average(batch.get(), seen.batch.get())),
            },
        });
        self.uncounted = Bytes::ZERO;
        self.busy_since = Some(now);
    }
}

/// An exponential moving average with weight 1/8, rounded toward the sample so that it converges.
fn average(average: u64, sample: u64) -> u64 {
    if sample > average {
        average + (sample - average).div_ceil(8)
    } else {
        average - (average - sample).div_ceil(8)
    }
}

impl Limit for Push {
    fn opens_at(&self) -> Option<Instant> {
        match self.service {
            _ if self.in_flight == Bytes::ZERO => Some(Instant::ZERO),
            None => self.start.opens_at(),
            Some(_) => Some(self.next),
        }
    }

    fn queued(&mut self, bytes: Bytes, now: Instant) {
        let now = self.advance_to(now);
        self.start.queued(bytes, now);
        self.busy_since.get_or_insert(now);
        self.in_flight += bytes;
        if let Some(pace) = self.pace() {
            // Unused time earns no credit: spending it would be the burst that this limit avoids.
            self.next = self.next.max(now) + (bytes / pace).min(Duration::from_secs(1));
        }
    }

    fn completed(&mut self, bytes: Bytes, now: Instant) {
        let now = self.advance_to(now);
        self.start.completed(bytes, now);
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.observe(bytes, now);
        if self.in_flight == Bytes::ZERO {
            (self.busy_since, self.uncounted) = (None, Bytes::ZERO);
        }
    }

    /// Clears the bytes in flight; the estimate of the service rate stays.
    fn reset(&mut self) {
        self.start.reset();
        (self.in_flight, self.busy_since, self.uncounted) = (Bytes::ZERO, None, Bytes::ZERO);
    }

    /// The bytes in flight to which it converges.
    fn limit(&self) -> Bytes {
        if self.service.is_some() {
            self.desired()
        } else {
            self.start.limit()
        }
    }

    fn in_flight(&self) -> Bytes {
        self.in_flight
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec::Vec;

    const FRAME: Bytes = Bytes::new(1514);

    fn known(gain: u32, desired: u64, in_flight: u64) -> Push {
        let mut push = Push::new(Config {
            gain,
            desired: Some(Bytes::new(desired)),
        })
        .expect("valid");
        push.service = Some(Service {
            rate: Rate::bytes_per_sec(12_500_000),
            batch: FRAME,
        });
        push.in_flight = Bytes::new(in_flight);
        push
    }

    /// Equation 5.1 by hand: 12.5 MB/s, 15 140 bytes desired, 30 280 in flight, k = 200/s.
    #[test]
    fn the_worked_example_of_equation_5_1() {
        assert_eq!(
            known(200, 15_140, 30_280).pace(),
            Some(Rate::bytes_per_sec(9_472_000))
        );
        assert_eq!(
            known(200, 15_140, 15_140).pace(),
            Some(Rate::bytes_per_sec(12_500_000))
        );
        assert_eq!(
            known(200, 15_140, 0).pace(),
            Some(Rate::bytes_per_sec(15_528_000))
        );
        assert_eq!(
            known(200, 15_140, 10 << 20).pace(),
            Some(Rate::bytes_per_sec(12_500_000 / 8)),
            "never stops"
        );
    }

    /// A fluid device serves 12.5 MB/s; the excess of 15 140 bytes is 1/e of itself, 5570 bytes,
    /// after 1/k = 5 ms.
    #[test]
    fn an_excess_decays_by_e_in_a_time_of_one_over_k() {
        let (mut in_flight, step) = (30_280.0_f64, 1e-5);
        for _ in 0..500 {
            let pace = known(200, 15_140, in_flight as u64)
                .pace()
                .expect("known")
                .as_bytes_per_sec();
            in_flight += (pace as f64 - 12.5e6) * step;
        }
        assert!((in_flight - 15_140.0 - 5570.0).abs() < 60.0, "{in_flight}");
    }

    /// Drives `push` with a saturating producer and a device of `rate` that completes every
    /// `interval`; the bytes in flight right before each completion.
    fn saturate(push: &mut Push, rate: Rate, interval: Duration, rounds: u32) -> Vec<u64> {
        let (mut now, mut seen, mut owed) = (Instant::from_millis(1), Vec::new(), Bytes::ZERO);
        for _ in 0..rounds {
            let end = now + interval;
            while now < end {
                while push.available(now) {
                    push.queued(FRAME, now);
                }
                let opens = push.opens_at().unwrap_or(end);
                assert!(opens > now, "time alone must not be asked twice");
                now = opens.min(end);
            }
            seen.push(push.in_flight().get());
            owed += rate * interval;
            let done = owed.min(push.in_flight()).get() / FRAME.get() * FRAME.get();
            if done > 0 {
                push.completed(Bytes::new(done), now);
            }
            owed = if push.in_flight() == Bytes::ZERO {
                Bytes::ZERO
            } else {
                owed - Bytes::new(done)
            };
        }
        seen
    }

    #[test]
    fn what_is_in_flight_settles_at_what_is_desired_while_the_device_stays_busy() {
        let desired = Bytes::new(20 * 1514);
        let mut push = Push::new(Config {
            gain: 200,
            desired: Some(desired),
        })
        .expect("valid");
        let seen = saturate(
            &mut push,
            Rate::bytes_per_sec(12_500_000),
            Duration::from_micros(500),
            2000,
        );
        let settled = &seen[1000..];
        assert!(
            settled
                .iter()
                .all(|&bytes| bytes > 5 * 1514 && bytes < 35 * 1514),
            "{:?}",
            settled.iter().max()
        );
        let rate = push.service_rate().expect("seen").as_bytes_per_sec();
        assert!((11_900_000..13_100_000).contains(&rate), "{rate}");
    }

    /// After a step back of an hour the ring is open when the pace says so, with more than one packet
    /// in it, and the rate is measured on.
    #[test]
    fn a_clock_that_steps_back_does_not_close_the_ring() {
        let (mut push, hour) = (known(200, 15_140, 0), Duration::from_secs(3600));
        let (now, later) = (Instant::from_secs(7200), Duration::from_millis(1));
        for _ in 0..3 {
            push.queued(FRAME, now);
        }
        let wait = push.opens_at().expect("paced") - now;
        push.completed(FRAME, now - hour);
        assert_eq!(push.opens_at(), Some(now + wait - hour));
        let before = push.service_rate();
        push.completed(FRAME, now + later - hour);
        assert_ne!(push.service_rate(), before);
    }

    #[test]
    fn too_little_or_no_gain_is_refused() {
        assert_eq!(
            Push::new(Config {
                gain: 0,
                desired: None
            })
            .expect_err("no gain")
            .parameter,
            "gain"
        );
        let error = Push::new(Config {
            gain: 1,
            desired: Some(FRAME),
        })
        .expect_err("one frame");
        assert_eq!(
            error.to_string(),
            "`desired` must be at least 3028b, two full frames, not 1514b"
        );
    }

    proptest! {
        /// After any sequence of events: an empty device is open, nothing overflows, and `opens_at` agrees with
        /// `available`.
        #[test]
        fn it_never_blocks_an_empty_device(events in proptest::collection::vec((0..3u8, 0..100_000u64, any::<u32>()), 0..300)) {
            let mut push = Push::new(Config::default()).expect("valid");
            let mut now = Instant::ZERO;
            for (what, size, step) in events {
                match what {
                    0 => now += Duration::from_nanos(step.into()),
                    1 if push.available(now) => push.queued(Bytes::new(size), now),
                    2 => push.completed(Bytes::new(size), now),
                    _ => now = now - Duration::from_nanos((step / 4).into()),
                }
                prop_assert!(push.in_flight() > Bytes::ZERO || push.available(now));
                let open = push.opens_at().is_some_and(|at| at <= now);
                prop_assert_eq!(open, push.available(now));
            }
        }
    }
}
