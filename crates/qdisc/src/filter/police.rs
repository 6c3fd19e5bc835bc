//! [`Police`]: what happens to packets above a rate. A token bucket in nanoseconds, in the integers
//! of Linux's rate conversion (`net/sched/act_police.c`).

use tautline_base::{Bytes, ConfigError, Instant, Rate};

use super::action::Control;
use crate::rate::{Cost, Framing, LinkLayer};

/// A rate, and what happens to packets within and above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Police {
    /// The long-term rate; more than 0.
    pub rate: Rate,
    /// Bytes that pass at once; at least a packet.
    pub burst: Bytes,
    /// Packets longer than this exceed at any rate. Default: none; `tc` sets 2040 bytes by default,
    /// which drops every packet of several segments.
    pub mtu: Option<Bytes>,
    /// Overhead of a packet beside its own length. Default: nothing.
    pub framing: Framing,
    /// The control for packets above the rate. Default, as in `tc`: [`Control::Reclassify`].
    pub exceed: Control,
    /// The control for packets within it. Default: [`Control::Pass`].
    pub conform: Control,
}

impl Police {
    /// Packets up to `rate`, and `burst` at once, conform.
    pub const fn new(rate: Rate, burst: Bytes) -> Self {
        let framing = Framing {
            overhead: 0,
            mpu: 0,
            linklayer: LinkLayer::Ethernet,
        };
        Self {
            rate,
            burst,
            mtu: None,
            framing,
            exceed: Control::Reclassify,
            conform: Control::Pass,
        }
    }

    /// Refuses parameters outside their range.
    ///
    /// # Errors
    /// If the rate is zero, or the burst is.
    pub fn check(&self) -> Result<(), ConfigError> {
        ConfigError::check(self.rate > Rate::ZERO, "rate", self.rate, "more than 0")?;
        ConfigError::check(self.burst > Bytes::ZERO, "burst", self.burst, "more than 0")
    }
}

/// The tokens of one police: time, in nanoseconds, that was not yet used for sending.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    cost: Cost,
    tokens: i64,
    depth: i64,
    checked: Instant,
    /// Packets that exceeded.
    pub(super) exceeded: u64,
}

impl Bucket {
    /// A full bucket for `police`.
    pub(super) fn new(police: &Police) -> Self {
        let depth = Cost::new(police.rate, Framing::default()).nanos(police.burst);
        let cost = Cost::new(police.rate, police.framing);
        Self {
            cost,
            tokens: depth,
            depth,
            checked: Instant::ZERO,
            exceeded: 0,
        }
    }

    /// The control for a packet of `len` at `now`. Only packets that conform take tokens.
    pub(super) fn admit(&mut self, police: &Police, len: Bytes, now: Instant) -> Control {
        // A clock that stepped back restarts the bucket from there: it must not stop the refill
        // until it has caught up.
        self.checked = self.checked.min(now);
        let elapsed = i64::try_from(now.nanos_since(self.checked)).unwrap_or(i64::MAX);
        let left = self.tokens.saturating_add(elapsed).min(self.depth) - self.cost.nanos(len);
        if left >= 0 && police.mtu.is_none_or(|mtu| len <= mtu) {
            self.tokens = left;
            self.checked = now;
            return police.conform;
        }
        self.exceeded += 1;
        police.exceed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// TBF's example through a policer: 1 Mbit, burst 5000 B (40 ms), packets of 1500 B
    /// (12 ms): three at once, the next conforms at 8 ms.
    #[test]
    fn a_burst_then_the_rate() {
        let police = Police {
            exceed: Control::Drop,
            ..Police::new(Rate::mbit(1), Bytes::new(5000))
        };
        let mut bucket = Bucket::new(&police);
        let mut at = |micros: u64| {
            bucket.admit(
                &police,
                Bytes::new(1500),
                Instant::from_micros(1_000_000 + micros),
            )
        };
        assert_eq!(
            [0u64; 4].map(&mut at),
            [Control::Pass, Control::Pass, Control::Pass, Control::Drop]
        );
        assert_eq!(
            [7_999, 8_000, 19_999, 20_000].map(&mut at),
            [Control::Drop, Control::Pass, Control::Drop, Control::Pass]
        );
        assert_eq!(bucket.exceeded, 3);
    }

    #[test]
    fn a_clock_that_steps_back_does_not_stop_the_refill() {
        let police = Police::new(Rate::mbit(1), Bytes::new(1500));
        let mut bucket = Bucket::new(&police);
        let mut at = |millis| {
            bucket.admit(&police, Bytes::new(1500), Instant::from_millis(millis)) == Control::Pass
        };
        assert!(at(3_600_000) && !at(1_000) && !at(1_011) && at(1_012));
    }

    #[test]
    fn long_packets_exceed() {
        let police = Police {
            mtu: Some(Bytes::new(100)),
            ..Police::new(Rate::gbit(1), Bytes::mib(1))
        };
        let mut bucket = Bucket::new(&police);
        assert_eq!(
            bucket.admit(&police, Bytes::new(100), Instant::ZERO),
            Control::Pass
        );
        assert_eq!(
            bucket.admit(&police, Bytes::new(101), Instant::ZERO),
            Control::Reclassify
        );
    }

    #[test]
    fn framing_counts() {
        let framing = Framing {
            overhead: 24,
            mpu: 84,
            linklayer: LinkLayer::Ethernet,
        };
        let police = Police {
            framing,
            ..Police::new(Rate::mbit(1), Bytes::new(84))
        };
        assert_eq!(
            Bucket::new(&police).admit(&police, Bytes::new(60), Instant::ZERO),
            Control::Pass
        );
        assert_eq!(
            Bucket::new(&police).admit(&police, Bytes::new(61), Instant::ZERO),
            Control::Reclassify
        );
    }

    proptest! {
        /// Conforming packets within any time are at most the burst and what the rate carries in it
        /// (`net/sched/act_police.c`'s envelope).
        #[test]
        fn what_conforms_stays_within_rate_and_burst(
            rate in 1_000u64..1_000_000_000,
            burst in 1_500u64..1_000_000,
            packets in proptest::collection::vec((0u64..10_000_000, 0u64..70_000), 1..200),
        ) {
            let police = Police::new(Rate::bytes_per_sec(rate), Bytes::new(burst));
            let mut bucket = Bucket::new(&police);
            let (mut now, mut conforming) = (0, 0);
            for (step, len) in packets {
                now += step;
                if bucket.admit(&police, Bytes::new(len), Instant::from_nanos(now)) == Control::Pass {
                    conforming += len;
                }
                let carried = u128::from(rate) * u128::from(now) / 1_000_000_000;
                // The rate table is off by less than one in 2³¹; a nanosecond is lost per packet at
                // most.
                let slack = 2 + rate / 1_000_000_000 * 200 + conforming / (1 << 30) + 200;
                prop_assert!(u128::from(conforming) <= u128::from(burst + slack) + carried);
            }
        }

        #[test]
        fn no_input_panics(rate: u64, burst: u64, packets: std::vec::Vec<(u64, u64)>) {
            let police = Police::new(Rate::bytes_per_sec(rate), Bytes::new(burst));
            let mut bucket = Bucket::new(&police);
            for (now, len) in packets {
                bucket.admit(&police, Bytes::new(len), Instant::from_nanos(now));
                prop_assert!((0..=bucket.depth).contains(&bucket.tokens));
            }
        }
    }
}
