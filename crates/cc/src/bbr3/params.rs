//! [`Config`]: the parameters of BBRv3, by the names of the draft.

use core::time::Duration;

use tautline_base::Bytes;

use crate::bbr::ParamsError;
use crate::sampler::RateSample;

/// Every parameter of BBRv3. The default is draft-ietf-ccwg-bbr; [`Config::linux_v3`] is Google's
/// Linux branch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Name of the controller: `bbr3`.
    pub name: &'static str,
    /// Pacing rate over bandwidth in Startup. 2.77, about 4 ln 2: the smallest that doubles the rate
    /// every round.
    pub startup_pacing_gain: f64,
    /// Pacing rate over bandwidth in Drain. 0.5.
    pub drain_pacing_gain: f64,
    /// Pacing rate over bandwidth in ProbeBW_DOWN. 0.9.
    pub down_pacing_gain: f64,
    /// Pacing rate over bandwidth in ProbeBW_CRUISE. 1.
    pub cruise_pacing_gain: f64,
    /// Pacing rate over bandwidth in ProbeBW_REFILL. 1.
    pub refill_pacing_gain: f64,
    /// Pacing rate over bandwidth in ProbeBW_UP. 1.25.
    pub up_pacing_gain: f64,
    /// Window over bandwidth-delay product in the other states. 2.
    pub cwnd_gain: f64,
    /// Window over bandwidth-delay product in ProbeBW_UP. 2.25.
    pub up_cwnd_gain: f64,
    /// Window over bandwidth-delay product in ProbeRTT. 0.5.
    pub probe_rtt_cwnd_gain: f64,
    /// Share by which the pacing rate stays below bandwidth times gain. 0.01.
    pub pacing_margin: f64,
    /// Share of a flight whose loss means that too much was in flight. 0.02.
    pub loss_threshold: f64,
    /// Smallest factor of a cut of a bound. 0.7.
    pub beta: f64,
    /// Share of the long-term bound left to other flows while not probing. 0.15.
    pub headroom: f64,
    /// Smallest window in segments. 4.
    pub min_pipe_segments: u64,
    /// Probing cycles over which the highest bandwidth is kept, including the present one. 2.
    pub max_bw_cycles: u64,
    /// Rounds over which the largest aggregate of acknowledgments is kept once the pipe was full.
    /// 10.
    pub extra_acked_rounds: u64,
    /// Bound of the aggregate, as time at the estimated bandwidth. No bound (Linux: 100 ms).
    pub extra_acked_cap: Option<Duration>,
    /// Lifetime of the lowest round trip. 10 s.
    pub min_rtt_window: Duration,
    /// Time without a new lowest round trip after which ProbeRTT begins. 5 s. None: at the end of
    /// `min_rtt_window`, with a flight by the round trip that expired (the draft's issue 109).
    pub probe_rtt_interval: Option<Duration>,
    /// Time for which ProbeRTT keeps the flight small, at least a round trip. 200 ms.
    pub probe_rtt_duration: Duration,
    /// Growth of the delivery rate below which a round counts as a plateau. 1.25.
    pub full_bw_growth: f64,
    /// Rounds of plateau that mean a full pipe. 3.
    pub full_bw_rounds: u32,
    /// Every acknowledgment can show growth, not only the first of a round. No (Linux: yes).
    pub full_bw_every_ack: bool,
    /// Loss events in one round that may end Startup. 6.
    pub startup_losses: u32,
    /// Shortest time from the end of a probe to the next. 2 s.
    pub probe_wait: Duration,
    /// Largest random addition to it. 1 s.
    pub probe_wait_spread: Duration,
    /// Most rounds from the end of a probe to the next, to coexist with Reno; fewer if fewer
    /// segments are in flight. 63.
    pub probe_rounds: u64,
    /// Rounds after which Drain ends even if the queue is not drained. 3 (Linux: never).
    pub drain_rounds: Option<u64>,
    /// Send quanta that a window must allow for, so that offloads in both hosts can work. 3.
    pub offload_quanta: u64,
    /// Data in the host's own queue counts when the queue in the network is estimated. Yes (Linux:
    /// no).
    pub undeparted_counts: bool,
    /// Bursts grow on short paths: by 64 KiB, halved for each 512 µs of round trip. No (Linux: yes).
    pub burst_by_rtt: bool,
    /// Entering ProbeBW_CRUISE bounds the short-term bound by the long-term one. No (Linux: yes).
    pub cruise_clips_shortterm: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "bbr3",
            startup_pacing_gain: 2.77,
            drain_pacing_gain: 0.5,
            down_pacing_gain: 0.9,
            cruise_pacing_gain: 1.0,
            refill_pacing_gain: 1.0,
            up_pacing_gain: 1.25,
            cwnd_gain: 2.0,
            up_cwnd_gain: 2.25,
            probe_rtt_cwnd_gain: 0.5,
            pacing_margin: 0.01,
            loss_threshold: 0.02,
            beta: 0.7,
            headroom: 0.15,
            min_pipe_segments: 4,
            max_bw_cycles: 2,
            extra_acked_rounds: 10,
            extra_acked_cap: None,
            min_rtt_window: Duration::from_secs(10),
            probe_rtt_interval: Some(Duration::from_secs(5)),
            probe_rtt_duration: Duration::from_millis(200),
            full_bw_growth: 1.25,
            full_bw_rounds: 3,
            full_bw_every_ack: false,
            startup_losses: 6,
            probe_wait: Duration::from_secs(2),
            probe_wait_spread: Duration::from_secs(1),
            probe_rounds: 63,
            drain_rounds: Some(3),
            offload_quanta: 3,
            undeparted_counts: true,
            burst_by_rtt: false,
            cruise_clips_shortterm: false,
        }
    }
}

impl Config {
    /// Parameters of the branch v3 of google/bbr. Three other differences of that branch from the
    /// draft are left out: it keeps aggregates in two windows of five rounds, stops the growth of
    /// Startup's window at two delivered initial windows rather than one, and counts a tail loss
    /// probe that repaired a loss as a loss.
    pub fn linux_v3() -> Self {
        Self {
            name: "bbr3-linux",
            drain_pacing_gain: 88.0 / 256.0,
            down_pacing_gain: 232.0 / 256.0,
            extra_acked_cap: Some(Duration::from_millis(100)),
            full_bw_every_ack: true,
            drain_rounds: None,
            undeparted_counts: false,
            burst_by_rtt: true,
            cruise_clips_shortterm: true,
            ..Self::default()
        }
    }

    /// Rejects values under which the algorithm cannot work.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn check(&self) -> Result<(), ParamsError> {
        let positive = [
            ("startup_pacing_gain", self.startup_pacing_gain),
            ("drain_pacing_gain", self.drain_pacing_gain),
            ("down_pacing_gain", self.down_pacing_gain),
            ("cruise_pacing_gain", self.cruise_pacing_gain),
            ("refill_pacing_gain", self.refill_pacing_gain),
            ("up_pacing_gain", self.up_pacing_gain),
            ("cwnd_gain", self.cwnd_gain),
            ("up_cwnd_gain", self.up_cwnd_gain),
            ("probe_rtt_cwnd_gain", self.probe_rtt_cwnd_gain),
        ];
        for (field, gain) in positive {
            ParamsError::check(gain > 0.0 && gain.is_finite(), field, "above 0")?;
        }
        for (field, factor) in [
            ("startup_pacing_gain", self.startup_pacing_gain),
            ("full_bw_growth", self.full_bw_growth),
        ] {
            ParamsError::check(factor > 1.0 && factor.is_finite(), field, "above 1")?;
        }
        for (field, share) in [
            ("pacing_margin", self.pacing_margin),
            ("headroom", self.headroom),
        ] {
            ParamsError::check((0.0..1.0).contains(&share), field, "from 0 to below 1")?;
        }
        for (field, share) in [("loss_threshold", self.loss_threshold), ("beta", self.beta)] {
            ParamsError::check((0.0..=1.0).contains(&share), field, "from 0 to 1")?;
        }
        ParamsError::check(
            (1..=1 << 20).contains(&self.min_pipe_segments),
            "min_pipe_segments",
            "1 to 2²⁰ segments",
        )?;
        for (field, count) in [
            ("max_bw_cycles", self.max_bw_cycles),
            ("extra_acked_rounds", self.extra_acked_rounds),
            ("full_bw_rounds", self.full_bw_rounds.into()),
        ] {
            ParamsError::check(count > 0, field, "at least 1")?;
        }
        Ok(())
    }

    /// The flight of `sample` lost more than [`loss_threshold`](Self::loss_threshold).
    #[inline]
    pub(super) fn loses_too_much(&self, sample: Option<&RateSample>) -> bool {
        sample.is_some_and(|sample| self.exceeds(sample.lost, sample.sent_in_flight))
    }

    #[inline]
    pub(super) fn exceeds(&self, lost: Bytes, sent_in_flight: Bytes) -> bool {
        lost.get() as f64 > sent_in_flight.get() as f64 * self.loss_threshold
    }
}
