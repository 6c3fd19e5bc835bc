//! [`State`] of the state machine, with the gains of each state (draft-ietf-ccwg-bbr
//! "Summary of Control Behavior in the State Machine").

use super::params::Config;
use super::probe_bw::up::Up;
use super::probe_bw::wait::Wait;
use super::probe_rtt::ProbeRtt;

/// A state and its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Doubles the rate every round.
    Startup,
    /// Drains the queue that Startup left; `since`: round of its beginning.
    Drain { since: u64 },
    /// ProbeBW_DOWN: drains the queue of a probe, and makes room for other flows.
    Down(Wait),
    /// ProbeBW_CRUISE: sends at the delivery rate.
    Cruise(Wait),
    /// ProbeBW_REFILL: fills the pipe for one round before the probe.
    Refill,
    /// ProbeBW_UP: probes for more.
    Up(Up),
    /// Keeps the flight small to measure the round trip without queues.
    ProbeRtt(ProbeRtt),
}

impl State {
    /// Name in the draft.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Drain { .. } => "Drain",
            Self::Down(_) => "ProbeBW_DOWN",
            Self::Cruise(_) => "ProbeBW_CRUISE",
            Self::Refill => "ProbeBW_REFILL",
            Self::Up(_) => "ProbeBW_UP",
            Self::ProbeRtt(_) => "ProbeRTT",
        }
    }

    /// Pacing rate over bandwidth.
    pub(super) fn pacing_gain(&self, config: &Config) -> f64 {
        match self {
            Self::Startup => config.startup_pacing_gain,
            Self::Drain { .. } => config.drain_pacing_gain,
            Self::Down(_) => config.down_pacing_gain,
            Self::Cruise(_) => config.cruise_pacing_gain,
            Self::Refill => config.refill_pacing_gain,
            Self::Up(_) => config.up_pacing_gain,
            Self::ProbeRtt(_) => 1.0,
        }
    }

    /// Window over bandwidth-delay product.
    pub(super) fn cwnd_gain(&self, config: &Config) -> f64 {
        match self {
            Self::Up(_) => config.up_cwnd_gain,
            Self::ProbeRtt(_) => config.probe_rtt_cwnd_gain,
            _ => config.cwnd_gain,
        }
    }

    /// One of the four states of ProbeBW.
    pub(super) fn is_probe_bw(&self) -> bool {
        matches!(
            self,
            Self::Down(_) | Self::Cruise(_) | Self::Refill | Self::Up(_)
        )
    }

    /// The sender probes for more bandwidth: losses bound the probe, not the short term.
    pub(super) fn accelerates(&self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up(_))
    }
}
