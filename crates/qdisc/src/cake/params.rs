//! [`Config`]: the parameters of CAKE.

use core::fmt;
use core::time::Duration;

use tautline_base::{Bytes, ConfigError, Rate};

use super::diffserv::Tins;
use super::hosts::Isolation;
use super::overhead::Overhead;
use crate::cobalt::{self, Start};
use crate::units;

/// How fast the link is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bandwidth {
    /// Not known: no shaper, the tins take turns by their quanta. The default (Linux).
    #[default]
    Unlimited,
    /// This rate; best slightly below the bottleneck's, so that the queue builds up here.
    Shaped(Rate),
    /// Estimated from arrivals, for a queue behind the bottleneck: 15/16 of the peak that was seen.
    AutorateIngress {
        /// The first estimate; zero: unknown, and nothing is held back until something is seen.
        start: Rate,
    },
}

impl Bandwidth {
    /// The rate to begin with; zero for none.
    pub fn at_first(self) -> Rate {
        match self {
            Self::Unlimited => Rate::ZERO,
            Self::Shaped(rate) | Self::AutorateIngress { start: rate } => rate,
        }
    }
}

/// Handling of acknowledgments that a newer one in the same queue supersedes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckFilter {
    /// They are sent like any other packet. The default (Linux).
    #[default]
    Off,
    /// Drops the oldest once two are redundant.
    On,
    /// Drops the oldest at once if the new one follows it directly.
    Aggressive,
}

impl AckFilter {
    /// `tc`'s name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "no-ack-filter",
            Self::On => "ack-filter",
            Self::Aggressive => "ack-filter-aggressive",
        }
    }
}

/// The implementation to follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// As it was designed. The default.
    #[default]
    Design,
    /// As in Linux 6.1, for comparison with its traces. COBALT begins with [`Start::Linux`];
    /// `autorate-ingress` takes the time before the first packet for a time without traffic, and
    /// sets the rate at every window, not four times a second.
    Linux,
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Design => "design",
            Self::Linux => "linux",
        })
    }
}

/// Parameters of [`Cake`](super::Cake). `Default` is Linux's, except for
/// [`profile`](Self::profile).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How fast the link is. Default [`Bandwidth::Unlimited`].
    pub bandwidth: Bandwidth,
    /// Classes of service. Default [`Tins::Diffserv3`].
    pub tins: Tins,
    /// Unit of fairness. Default [`Isolation::TripleIsolate`].
    pub isolation: Isolation,
    /// In Linux: looks up the addresses before NAT to distinguish hosts. That needs the kernel's
    /// connection tracking; here it changes nothing, and packets must carry
    /// [hashes](tautline_base::Item::host_hashes) of the hosts that are meant. Default off.
    pub nat: bool,
    /// Clear the DSCP of every packet, after it has chosen the tin. Default off.
    pub wash: bool,
    /// The queue is behind the bottleneck: dropped packets have used it too and are charged to the
    /// shaper. Default off.
    pub ingress: bool,
    /// Default [`AckFilter::Off`].
    pub ack_filter: AckFilter,
    /// Split packets that stand for several segments. Default on.
    pub split_gso: bool,
    /// The usual round trip, at least 1 µs: COBALT's interval; its target is a twentieth. Default
    /// 100 ms ("internet").
    pub rtt: Duration,
    /// Overhead of a packet on the link. Default none.
    pub overhead: Overhead,
    /// Memory limit of all queues together; `None` is four intervals at the rate of the link,
    /// between 4 MiB and 10 240 full frames. Default none.
    pub memory_limit: Option<Bytes>,
    /// Bits of a packet's mark that name its tin, counted from 1 in the order shown; 0 for no tin.
    /// Default 0: marks are ignored.
    pub fwmark: u32,
    /// A full frame, header included, 64 bytes to 1 MiB. Default 1514 (Ethernet).
    pub mtu: Bytes,
    /// Default [`Profile::Design`].
    pub profile: Profile,
    /// Seed of BLUE's random numbers and of the rounding of quanta. Default 0.
    pub seed: u64,
    /// Secret key of the flow hash, so that an attacker cannot aim at a queue (RFC 8290 §4.1).
    /// Default `None`: drawn at creation, which fails without the feature `std`. Give it where runs
    /// must repeat.
    pub perturbation: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bandwidth: Bandwidth::default(),
            tins: Tins::default(),
            isolation: Isolation::default(),
            nat: false,
            wash: false,
            ingress: false,
            ack_filter: AckFilter::default(),
            split_gso: true,
            rtt: Duration::from_millis(100),
            overhead: Overhead::default(),
            memory_limit: None,
            fwmark: 0,
            mtu: Bytes::new(1514),
            profile: Profile::default(),
            seed: 0,
            perturbation: None,
        }
    }
}

/// Round trips by name, as `tc` has them.
pub const PRESETS: [(&str, Duration); 8] = [
    ("datacentre", Duration::from_micros(100)),
    ("lan", Duration::from_millis(1)),
    ("metro", Duration::from_millis(10)),
    ("regional", Duration::from_millis(30)),
    ("internet", Duration::from_millis(100)),
    ("oceanic", Duration::from_millis(300)),
    ("satellite", Duration::from_secs(1)),
    // The manual says 3600 s; the program has always set 1000 s.
    ("interplanetary", Duration::from_secs(1000)),
];

/// Full frames that the memory limit never exceeds, unless it is given.
const MOST_FRAMES: u64 = 10_240;

impl Config {
    /// Behaves like CAKE of Linux 6.1.
    pub fn linux() -> Self {
        Self {
            profile: Profile::Linux,
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let Self {
            bandwidth,
            rtt,
            overhead,
            mtu,
            ..
        } = self;
        let rate = if *bandwidth == Bandwidth::Shaped(Rate::ZERO) {
            "0bit"
        } else {
            ""
        };
        ConfigError::check(
            rate.is_empty(),
            "bandwidth",
            rate,
            "at least 8bit (or `unlimited`)",
        )?;
        ConfigError::check(
            *rtt >= Duration::from_micros(1),
            "rtt",
            units::time(*rtt),
            "at least 1us",
        )?;
        let bytes = overhead.bytes.unwrap_or(0);
        ConfigError::check(
            (-64..=256).contains(&bytes),
            "overhead",
            bytes,
            "from -64 to 256",
        )?;
        ConfigError::check(overhead.mpu <= 256, "mpu", overhead.mpu, "from 0 to 256")?;
        let frames = Bytes::new(64)..=Bytes::mib(1);
        ConfigError::check(
            frames.contains(mtu),
            "mtu",
            units::size(*mtu),
            "from 64b to 1Mb",
        )
    }

    /// A twentieth of the round trip, in Linux's whole microseconds, at least one.
    fn target(&self) -> Duration {
        Duration::from_micros(
            u64::try_from(self.rtt.as_micros() / 20)
                .unwrap_or(u64::MAX)
                .max(1),
        )
    }

    /// COBALT's parameters at a rate at which a full frame takes `mtu_time`: on slow links a frame
    /// and a half fit in the target.
    pub(super) fn cobalt(&self, mtu_time: Duration) -> cobalt::Params {
        let user_target = self.target();
        let target = user_target.max(mtu_time.saturating_add(mtu_time / 2));
        let interval = self
            .rtt
            .saturating_add(target)
            .saturating_sub(user_target)
            .max(target.saturating_mul(2));
        let start = match self.profile {
            Profile::Design => Start::Patient,
            Profile::Linux => Start::Linux,
        };
        cobalt::Params {
            target,
            interval,
            mtu_time,
            start,
            ..cobalt::Params::default()
        }
    }

    /// Memory limit of all queues together while the link has this rate, zero for unlimited.
    pub(super) fn memory_limit(&self, rate: Rate) -> Bytes {
        self.memory_limit.unwrap_or_else(|| {
            let four_intervals = rate * self.rtt.saturating_mul(4);
            let least = if rate == Rate::ZERO {
                Bytes::MAX
            } else {
                Bytes::mib(4)
            };
            four_intervals.max(least).min(self.mtu * MOST_FRAMES)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::rate::Pace;
    use super::*;

    /// `net/sched/sch_cake.c` `cake_set_rate`, worked by hand.
    #[test]
    fn times_follow_from_rate_and_round_trip() {
        let config = Config::default();
        for (rate, target, interval) in [
            (Rate::mbit(1), 18_168_000, 113_168_000),
            (Rate::mbit(100), 5_000_000, 100_000_000),
            (Rate::kbit(250), 72_672_000, 167_672_000),
            (Rate::kbit(64), 283_875_000, 567_750_000),
        ] {
            let mtu_time = Duration::from_nanos(Pace::new(rate).expect("limited").time(1514));
            let params = config.cobalt(mtu_time);
            assert_eq!(
                (params.target.as_nanos(), params.interval.as_nanos()),
                (target, interval),
                "{rate}"
            );
            assert_eq!(params.mtu_time, mtu_time);
        }
        assert_eq!(config.cobalt(Duration::ZERO), cobalt::Params::default());
        assert_eq!(Config::linux().cobalt(Duration::ZERO).start, Start::Linux);
        assert_eq!(config.cobalt(Duration::MAX).interval, Duration::MAX);
    }

    #[test]
    fn targets_are_a_twentieth() {
        let targets = [5, 50, 500, 1_500, 5_000, 15_000, 50_000, 50_000_000];
        for ((name, rtt), micros) in PRESETS.into_iter().zip(targets) {
            assert_eq!(
                Config {
                    rtt,
                    ..Config::default()
                }
                .target(),
                Duration::from_micros(micros),
                "{name}"
            );
        }
        let shortest = Config {
            rtt: Duration::from_micros(1),
            ..Config::default()
        };
        assert_eq!(shortest.target(), Duration::from_micros(1));
    }

    #[test]
    fn memory_follows_from_rate_and_round_trip() {
        let limit = |rate, memory_limit| {
            Config {
                memory_limit,
                ..Config::default()
            }
            .memory_limit(rate)
            .get()
        };
        assert_eq!(limit(Rate::ZERO, None), 15_503_360);
        assert_eq!(limit(Rate::mbit(1), None), 4 << 20);
        assert_eq!(limit(Rate::mbit(100), None), 5_000_000);
        assert_eq!(limit(Rate::gbit(1), None), 15_503_360);
        assert_eq!(limit(Rate::mbit(100), Some(Bytes::mib(64))), 64 << 20);
        assert_eq!(limit(Rate::ZERO, Some(Bytes::new(7))), 7);
    }
}
