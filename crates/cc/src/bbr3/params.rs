//! [`Config`]: the parameters of BBRv3, by the names of the draft.

use core::time::Duration;

/// Every parameter of BBRv3. The default is draft-ietf-ccwg-bbr; [`Config::linux_v3`] is Google's
/// Linux branch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The name the controller goes by. `bbr3`.
    pub name: &'static str,
    /// Pacing rate over bandwidth in Startup. 2.77, about 4 ln 2: the least that doubles the rate
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
    /// Window over bandwidth-delay product where nothing else is said. 2.
    pub cwnd_gain: f64,
    /// Window over bandwidth-delay product in ProbeBW_UP. 2.25.
    pub up_cwnd_gain: f64,
    /// Window over bandwidth-delay product in ProbeRTT. 0.5.
    pub probe_rtt_cwnd_gain: f64,
    /// What the pacing rate stays below bandwidth times gain. 0.01.
    pub pacing_margin: f64,
    /// Share of a flight whose loss says that too much was in flight. 0.02.
    pub loss_threshold: f64,
    /// What a bound is multiplied by at most when it is cut. 0.7.
    pub beta: f64,
    /// Share of the long-term bound that is left to others while not probing. 0.15.
    pub headroom: f64,
    /// The least window, in segments. 4.
    pub min_pipe_segments: u64,
    /// Over how many probing cycles the highest bandwidth is remembered, the present one included.
    /// 2.
    pub max_bw_cycles: u64,
    /// Over how many rounds the largest aggregate of acknowledgements is remembered once the pipe
    /// was full. 10.
    pub extra_acked_rounds: u64,
    /// Largest aggregate believed, as time at the estimated bandwidth. None (Linux: 100 ms).
    pub extra_acked_cap: Option<Duration>,
    /// How long the lowest round trip is remembered. 10 s.
    pub min_rtt_window: Duration,
    /// Time without a new lowest round trip after which ProbeRTT begins. 5 s.
    pub probe_rtt_interval: Duration,
    /// How long ProbeRTT keeps the flight small, a round trip at least. 200 ms.
    pub probe_rtt_duration: Duration,
    /// Growth of the delivery rate below which a round counts as a plateau. 1.25.
    pub full_bw_growth: f64,
    /// Rounds of plateau that mean a full pipe. 3.
    pub full_bw_rounds: u32,
    /// Growth is looked for in every acknowledgement, not only in the first of a round. No (Linux:
    /// yes).
    pub full_bw_every_ack: bool,
    /// Moments of loss in one round that may end Startup. 6.
    pub startup_losses: u32,
    /// Least time between a probe's end and the next probe. 2 s.
    pub probe_wait: Duration,
    /// What is added to it at most, by chance. 1 s.
    pub probe_wait_spread: Duration,
    /// Rounds between a probe's end and the next probe at most, to coexist with Reno; fewer if
    /// fewer segments are in flight. 63.
    pub probe_rounds: u64,
    /// Rounds after which Drain ends although the queue is not drained. 3 (Linux: never).
    pub drain_rounds: Option<u64>,
    /// Send quanta that a window must allow for, so that offloads in both hosts can work. 3.
    pub offload_quanta: u64,
    /// What is handed to the host's queue but has not departed counts as in flight when the queue
    /// in the network is judged. Yes (Linux: no).
    pub undeparted_counts: bool,
    /// Bursts may be larger the closer the peer is: 64 KiB more, halved for each 512 µs of round
    /// trip. No (Linux: yes).
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
            probe_rtt_interval: Duration::from_secs(5),
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
    /// What Google's Linux branch v3 does otherwise than the draft, save three things: it remembers
    /// aggregates in two windows of five rounds, stops the growth of Startup's window at two
    /// initial windows rather than one delivered, and takes a tail loss probe that repaired a loss
    /// for one.
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
}
