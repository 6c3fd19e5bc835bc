//! [`Params`]: every parameter of BBR version 1, and the named profiles.

use core::fmt;
use core::time::Duration;

use tautline_base::{Bytes, Rate};

use super::Gain;

/// Phases of a bandwidth probing cycle.
pub const CYCLE: usize = 8;

/// The parameters of [`Bbr`](super::Bbr). [`Default`] is `net/ipv4/tcp_bbr.c` of Linux 6.x.
///
/// | | Linux | [`bbrn_aqm`](Self::bbrn_aqm) | [`bbrn_2023`](Self::bbrn_2023) | [`bbrn_first`](Self::bbrn_first) |
/// |---|---|---|---|---|
/// | probing and draining phase | 1.25, 0.75 | 1.5, 0.9 | 3.2, 0.4 | 1.5, 0.9 |
/// | mean gain of a cycle | 1.0 | 1.05 | 1.2 | 1.05 |
/// | full-pipe threshold | 1.25 | 1.5 | 3.2 | 0.9 |
/// | smallest window, in segments | 4 | 10 | 10 | 10 |
/// | smallest burst, in segments | 2 | 4 | 4 | 4 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Name of the controller: `bbr`.
    pub name: &'static str,
    /// Pacing and window gain of STARTUP: 739/256 = 2.887, a little above 2/ln 2, the smallest that
    /// doubles the rate in every round trip.
    pub startup_gain: Gain,
    /// Pacing gain of DRAIN: 88/256 = 0.344, its inverse.
    pub drain_gain: Gain,
    /// Window gain of PROBE_BW: 2, room for acknowledgments that come late or bunched.
    pub cwnd_gain: Gain,
    /// Pacing gains of PROBE_BW, in order: 1.25, 0.75, and six times 1. The first probes, the
    /// second drains what it left.
    pub cycle: [Gain; CYCLE],
    /// Round trips for which a bandwidth sample counts: 10, one more than a cycle and its echo.
    pub bandwidth_rounds: u64,
    /// Lifetime of the lowest RTT: 10 s.
    pub min_rtt_window: Duration,
    /// Time for which PROBE_RTT holds the smallest window: 200 ms.
    pub probe_rtt_duration: Duration,
    /// Smallest window outside loss recovery and window of PROBE_RTT, in segments: 4.
    pub min_cwnd: u64,
    /// Least factor of bandwidth growth per round trip that keeps STARTUP going: 1.25.
    pub full_bw_threshold: Gain,
    /// Round trips without such growth that mean the pipe is full: 3.
    pub full_bw_rounds: u32,
    /// Permits a `full_bw_threshold` of at most 1, under which STARTUP may never end: false.
    pub endless_startup: bool,
    /// Smallest burst in segments at `min_burst_rate` or above: 2. Below it is one.
    pub min_burst: u64,
    /// Pacing rate from which `min_burst` applies: 1.2 Mbit/s.
    pub min_burst_rate: Rate,
    /// A burst lasts 1/2ⁿ s at the pacing rate: 10, a little less than a millisecond
    /// (`sk_pacing_shift`).
    pub pacing_shift: u32,
    /// Distance of the pacing rate below the estimate in percent: 1. Keeps the queue from growing
    /// while the estimate is exact.
    pub pacing_margin: u32,
    /// The window grows by a whole segment for one that is shorter, and by none for the SYN: Linux
    /// counts packets, and sets the window anew when the connection opens (`tcp_init_transfer`).
    /// Bandwidth is a whole number of 2⁻²⁴ packets a microsecond (`BW_UNIT`). False: it grows by the bytes delivered, and
    /// bandwidth is exact.
    pub count_packets: bool,
    /// Detection of token-bucket policers.
    pub policer: PolicerParams,
    /// Room for aggregated acknowledgments.
    pub aggregation: AggregationParams,
}

/// Parameters of the policer detection (long-term bandwidth sampling, `bbr_lt_bw_sampling`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicerParams {
    /// Shortest interval of a sample in round trips: 4.
    pub min_rounds: u32,
    /// Longest interval in round trips: 16. A longer one restarts the sampling.
    pub max_rounds: u32,
    /// Lost over delivered at which an interval counts as policed: 50/256 = 19.5 %.
    pub loss_threshold: Gain,
    /// Largest relative difference of two intervals with the same rate: 1/8 ...
    pub similar: Gain,
    /// ... or 4 kbit/s.
    pub similar_rate: Rate,
    /// Round trips of PROBE_BW for which the detected rate holds before a new probe: 48.
    pub hold_rounds: u32,
}

/// Parameters of the acknowledgment-aggregation estimate (`bbr_update_ack_aggregation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregationParams {
    /// Share of the estimate that is added to the window: 1. Zero turns it off.
    pub gain: Gain,
    /// Half the window of the estimate, in round trips: 5.
    pub rounds: u32,
    /// Most that is added, as time at the estimated bandwidth: 100 ms.
    pub longest: Duration,
    /// Segments acknowledged in one epoch that begin the next: 2²⁰.
    pub epoch: u64,
}

impl Default for PolicerParams {
    fn default() -> Self {
        Self {
            min_rounds: 4,
            max_rounds: 16,
            loss_threshold: Gain::of_256(50),
            similar: Gain::of_256(32),
            similar_rate: Rate::kbit(4),
            hold_rounds: 48,
        }
    }
}

impl Default for AggregationParams {
    fn default() -> Self {
        Self {
            gain: Gain::UNIT,
            rounds: 5,
            longest: Duration::from_millis(100),
            epoch: 1 << 20,
        }
    }
}

impl Default for Params {
    fn default() -> Self {
        Self {
            name: "bbr",
            startup_gain: Gain::of_256(739),
            drain_gain: Gain::of_256(88),
            cwnd_gain: Gain::percent(200),
            cycle: cycle(Gain::percent(125), Gain::percent(75)),
            bandwidth_rounds: 10,
            min_rtt_window: Duration::from_secs(10),
            probe_rtt_duration: Duration::from_millis(200),
            min_cwnd: 4,
            full_bw_threshold: Gain::percent(125),
            full_bw_rounds: 3,
            endless_startup: false,
            min_burst: 2,
            min_burst_rate: Rate::kbit(1_200),
            pacing_shift: 10,
            pacing_margin: 1,
            count_packets: false,
            policer: PolicerParams::default(),
            aggregation: AggregationParams::default(),
        }
    }
}

/// A cycle that probes, drains and cruises.
const fn cycle(probe: Gain, drain: Gain) -> [Gain; CYCLE] {
    let mut gains = [Gain::UNIT; CYCLE];
    gains[0] = probe;
    gains[1] = drain;
    gains
}

/// BBR-n (Ahsan and Sajid): Linux's BBR with other parameters, for hosts behind fair queueing.
///
/// The published sources disagree on the values, so each set has a name. In all of them the
/// draining phase no longer drains what the probing phase sent: the flight climbs to the window of
/// two bandwidth-delay products, and one product is a standing queue. Drops do not shorten the
/// queue, because BBR does not yield to them; fair queueing (CAKE, FQ-CoDel) keeps it from other
/// flows. The algorithm is BBR's. The TSQ limit that the patches change too is a parameter of the
/// transport.
impl Params {
    /// Values of the repository "BBRn-AQM", which belongs to the paper on the "golden pair" of BBR-n
    /// and CAKE: probe with 1.5, drain with 0.9. They agree with the paper's text. Mean gain 1.05.
    pub fn bbrn_aqm() -> Self {
        Self {
            name: "bbrn-aqm",
            cycle: cycle(Gain::percent(150), Gain::percent(90)),
            full_bw_threshold: Gain::percent(150),
            ..Self::bbrn()
        }
    }

    /// Values at the head of the repository "BBR-n" (2023): probe with 3.2, drain with 0.4. A pipe
    /// counts as full when a round trip brings less than 3.2 times the bandwidth, so even doubling
    /// counts as a plateau. Mean gain 1.2, the highest. They disagree with the paper's text.
    pub fn bbrn_2023() -> Self {
        Self {
            name: "bbrn-2023",
            cycle: cycle(Gain::percent(320), Gain::percent(40)),
            full_bw_threshold: Gain::percent(320),
            ..Self::bbrn()
        }
    }

    /// Values of the first commit of "BBR-n": [`bbrn_aqm`](Self::bbrn_aqm) with a full-pipe threshold
    /// of 0.9. The bandwidth filter hardly ever falls by a tenth, so STARTUP may last as long as the
    /// connection, pacing at 2.9 times the bandwidth. For comparison only; sets
    /// [`endless_startup`](Self::endless_startup).
    pub fn bbrn_first() -> Self {
        Self {
            name: "bbrn-first",
            full_bw_threshold: Gain::percent(90),
            endless_startup: true,
            ..Self::bbrn_aqm()
        }
    }

    fn bbrn() -> Self {
        Self {
            min_cwnd: 10,
            min_burst: 4,
            ..Self::default()
        }
    }

    /// Rejects values under which the algorithm cannot work.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn check(&self) -> Result<(), ParamsError> {
        let positive = [
            ("startup_gain", self.startup_gain),
            ("drain_gain", self.drain_gain),
            ("cwnd_gain", self.cwnd_gain),
        ];
        let cycle = self.cycle.map(|gain| ("cycle", gain));
        for (field, gain) in positive.into_iter().chain(cycle) {
            ParamsError::check(gain > Gain::of_256(0), field, "above 0")?;
        }
        ParamsError::check(self.startup_gain > Gain::UNIT, "startup_gain", "above 1")?;
        ParamsError::check(self.drain_gain < Gain::UNIT, "drain_gain", "below 1")?;
        let ends = self.full_bw_threshold > Gain::UNIT || self.endless_startup;
        ParamsError::check(
            ends,
            "full_bw_threshold",
            "above 1, or STARTUP may never end (force it with endless_startup)",
        )?;
        ParamsError::check(self.full_bw_rounds > 0, "full_bw_rounds", "at least 1")?;
        ParamsError::check(
            (1..=1 << 20).contains(&self.min_cwnd),
            "min_cwnd",
            "1 to 2²⁰ segments",
        )?;
        ParamsError::check(
            (1..=MAX_BURST).contains(&self.min_burst),
            "min_burst",
            "1 to 127 segments",
        )?;
        ParamsError::check(self.pacing_margin < 100, "pacing_margin", "below 100 %")?;
        ParamsError::check(
            self.aggregation.rounds > 0,
            "aggregation.rounds",
            "at least 1",
        )
    }

    /// Smallest burst at `rate`, in segments (`bbr_min_tso_segs`).
    pub(super) fn least_burst(&self, rate: Rate) -> u64 {
        if rate < self.min_burst_rate {
            1
        } else {
            self.min_burst
        }
    }

    /// Burst at `rate`, in segments of `mss` bytes (`bbr_tso_segs_goal`).
    pub(super) fn burst(&self, rate: Rate, mss: Bytes) -> u64 {
        let least = self.least_burst(rate);
        let bytes = rate
            .as_bytes_per_sec()
            .checked_shr(self.pacing_shift)
            .unwrap_or(0)
            .min(LARGEST_BURST.get());
        (bytes / mss.get()).clamp(least, MAX_BURST)
    }
}

/// Most segments in a burst (Linux: seven bits) ...
const MAX_BURST: u64 = 127;
/// ... and most bytes, one packet of the largest size.
const LARGEST_BURST: Bytes = Bytes::kib(64);

/// A field of [`Params`] is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamsError {
    /// Name of the field.
    pub field: &'static str,
    /// Accepted values.
    pub must_be: &'static str,
}

impl ParamsError {
    pub(crate) fn check(
        holds: bool,
        field: &'static str,
        must_be: &'static str,
    ) -> Result<(), Self> {
        if holds {
            Ok(())
        } else {
            Err(Self { field, must_be })
        }
    }
}

impl fmt::Display for ParamsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BBR: {} must be {}", self.field, self.must_be)
    }
}

impl core::error::Error for ParamsError {}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: Bytes = Bytes::new(1448);

    fn mean_cycle_gain(params: &Params) -> f64 {
        params.cycle.iter().map(|gain| gain.as_f64()).sum::<f64>() / CYCLE as f64
    }

    #[test]
    fn linux_is_rate_neutral_and_bbrn_is_not() {
        assert_eq!(mean_cycle_gain(&Params::default()), 1.0);
        assert!((mean_cycle_gain(&Params::bbrn_aqm()) - 1.05).abs() < 0.001);
        assert!((mean_cycle_gain(&Params::bbrn_2023()) - 1.20).abs() < 0.001);
        assert_eq!(
            mean_cycle_gain(&Params::bbrn_first()),
            mean_cycle_gain(&Params::bbrn_aqm())
        );
    }

    #[test]
    fn the_numbers_of_each_profile() {
        let numbers = |params: Params| {
            let Params {
                cycle,
                full_bw_threshold,
                min_cwnd,
                min_burst,
                startup_gain,
                drain_gain,
                ..
            } = params;
            assert_eq!(
                (startup_gain.as_256ths(), drain_gain.as_256ths()),
                (739, 88)
            );
            assert!(cycle[2..].iter().all(|gain| *gain == Gain::UNIT));
            assert_eq!(params.check(), Ok(()));
            (
                cycle[0].as_256ths(),
                cycle[1].as_256ths(),
                full_bw_threshold.as_256ths(),
                min_cwnd,
                min_burst,
            )
        };
        assert_eq!(numbers(Params::default()), (320, 192, 320, 4, 2));
        assert_eq!(numbers(Params::bbrn_aqm()), (384, 230, 384, 10, 4));
        assert_eq!(numbers(Params::bbrn_2023()), (819, 102, 819, 10, 4));
        assert_eq!(numbers(Params::bbrn_first()), (384, 230, 230, 10, 4));
    }

    #[test]
    fn a_threshold_that_never_ends_startup_must_be_forced() {
        for threshold in [Gain::UNIT, Gain::percent(90)] {
            let refused = Params {
                full_bw_threshold: threshold,
                ..Params::default()
            };
            assert_eq!(refused.check().unwrap_err().field, "full_bw_threshold");
            assert_eq!(
                Params {
                    endless_startup: true,
                    ..refused
                }
                .check(),
                Ok(())
            );
        }
    }

    #[test]
    fn numbers_that_cannot_work_are_refused() {
        let zero = Gain::of_256(0);
        let wrong = [
            Params {
                startup_gain: Gain::UNIT,
                ..Params::default()
            },
            Params {
                drain_gain: Gain::UNIT,
                ..Params::default()
            },
            Params {
                drain_gain: zero,
                ..Params::default()
            },
            Params {
                cwnd_gain: zero,
                ..Params::default()
            },
            Params {
                cycle: cycle(Gain::UNIT, zero),
                ..Params::default()
            },
            Params {
                full_bw_rounds: 0,
                ..Params::default()
            },
            Params {
                min_cwnd: 0,
                ..Params::default()
            },
            Params {
                min_burst: 0,
                ..Params::default()
            },
            Params {
                min_burst: 128,
                ..Params::default()
            },
            Params {
                pacing_margin: 100,
                ..Params::default()
            },
            Params {
                aggregation: AggregationParams {
                    rounds: 0,
                    ..AggregationParams::default()
                },
                ..Params::default()
            },
        ];
        for params in wrong {
            assert!(params.check().is_err(), "{params:?}");
        }
    }

    #[test]
    fn bursts_are_a_millisecond_within_bounds() {
        let linux = Params::default();
        for (rate, segments) in [
            (Rate::mbit(1), 1),
            (Rate::kbit(1_200), 2),
            (Rate::mbit(100), 8),
            (Rate::gbit(10), 45),
        ] {
            assert_eq!(linux.burst(rate, MSS), segments, "{rate}");
        }
        assert_eq!(linux.burst(Rate::MAX, Bytes::new(1)), 127);
        assert_eq!(Params::bbrn_aqm().burst(Rate::mbit(10), MSS), 4);
        assert_eq!(
            Params {
                pacing_shift: 64,
                ..linux
            }
            .burst(Rate::MAX, MSS),
            2
        );
    }
}
