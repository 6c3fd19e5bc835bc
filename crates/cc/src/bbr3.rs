//! BBRv3 (draft-ietf-ccwg-bbr, the editors' copy of 2026-08-03, newer than revision 06): a model of
//! the path, bandwidth and round trip, controls the rate; losses bound the model. The single filter
//! that the editors propose for issue 109 (branch `simpler-probe-rtt`, 2026-08-24) is
//! [`Config::probe_rtt_interval`]'s `None`.
//!
//! | section of the draft | here |
//! |---|---|
//! | Startup, Drain | `startup`, `drain`; `full_pipe` |
//! | ProbeBW and its four states | `probe_bw`: `down`, `cruise`, `refill`, `up`; `wait` |
//! | ProbeRTT | `probe_rtt`, `min_rtt` |
//! | Updating Network Path Model Parameters | `crate::rounds`, `aggregation` |
//! | Updating the Model Upon Packet Loss | `signals`, `loss`, `bounds` |
//! | Updating the Model Upon Detecting a Spurious Loss Recovery | `undo` |
//! | Updating Control Parameters | `control` |
//! | the constants | [`Config`] |
//!
//! Where the draft's text contradicts itself: gains belong to states and are looked up, never
//! assigned; the flight that a probe waits for is compared with rounds as a number of segments;
//! values that do not exist yet are `None`.
//!
//! The draft leaves ECN open, except that a mark is congestion. Here a mark counts like a loss: it
//! ends a probe, it ends Startup, and elsewhere it lowers the short-term bounds.

mod aggregation;
mod bounds;
mod control;
mod drain;
mod full_pipe;
mod loss;
mod min_rtt;
mod params;
mod probe_bw;
mod probe_rtt;
mod signals;
mod startup;
mod state;
#[cfg(test)]
mod tests;
mod undo;

use tautline_base::{Bytes, Instant, Rate, SplitMix64};

use crate::bbr::ParamsError;
use crate::controller::{
    Ack, Congestion, CongestionState, Controller, Idle, Loss, Model, Recovery, Signal, Verdict,
};
use crate::pacing::{NOMINAL_RTT, SLOWEST};
use crate::rounds::Rounds;
use crate::windowed_max::WindowedMax;
use aggregation::Aggregation;
use bounds::{Bounds, bounded};
use full_pipe::FullPipe;
use min_rtt::MinRtt;
pub use params::Config;
use probe_bw::Probe;
use probe_rtt::{Throttled, measure_rtt};
use signals::Signals;
use state::State;
use undo::Undo;

/// BBRv3 for one connection.
///
/// ```
/// use tautline_base::{Bytes, Instant, Rate};
/// use tautline_cc::{Ack, Bbr3, Config, Controller};
///
/// let mut bbr = Bbr3::new(&Config::new(Bytes::new(1448)));
/// bbr.on_ack(&Ack::new(Instant::from_secs(1), Bytes::new(1448), Bytes::new(13_032)));
/// assert_eq!(bbr.model().state, "Startup");
/// assert!(!bbr.full_bw_reached());
/// ```
#[derive(Clone, Debug)]
pub struct Bbr3 {
    config: Config,
    mss: Bytes,
    initial_window: Bytes,
    rng: SplitMix64,
    state: State,
    /// Total delivered at the last acknowledgment.
    delivered: Bytes,
    rounds: Rounds,
    full_pipe: FullPipe,
    bandwidth: Bandwidth,
    min_rtt: MinRtt,
    /// The window of ProbeRTT by the latest round trip that expired, before the sample that replaced
    /// it (`BBR.probe_rtt_cwnd`).
    remembered: Option<Bytes>,
    aggregation: Aggregation,
    signals: Signals,
    probe: Probe,
    bounds: Bounds,
    undo: Undo,
    /// Nothing was in flight, and nothing has been delivered since.
    idle_restart: bool,
    /// The initial pacing rate was corrected by a measured round trip.
    seen_rtt: bool,
    cwnd: Bytes,
    pacing_rate: Rate,
}

/// The bandwidth of the path.
#[derive(Clone, Debug)]
struct Bandwidth {
    /// The highest delivery rate of the latest probing cycles, by `cycle`.
    max: WindowedMax<Rate>,
    cycle: u64,
    /// The bandwidth in force: the highest, within the short-term bound.
    bw: Rate,
    /// The data sent in the latest ProbeRTT.
    throttled: Option<Throttled>,
}

impl Bbr3 {
    /// A new connection's controller with the draft's parameters.
    pub fn new(connection: &crate::Config) -> Self {
        build(connection, Config::default())
    }

    /// A new connection's controller with other parameters.
    ///
    /// # Errors
    /// If [`Config::check`] rejects them.
    pub fn with(connection: &crate::Config, config: Config) -> Result<Self, ParamsError> {
        config.check()?;
        Ok(build(connection, config))
    }

    /// The highest bandwidth of the latest two probing cycles.
    pub fn max_bw(&self) -> Rate {
        self.bandwidth.max.get().unwrap_or_default()
    }

    /// Bound of the latest losses on the bandwidth; ends with the next probe.
    pub fn bw_shortterm(&self) -> Option<Rate> {
        self.bounds.shortterm.bw
    }

    /// Bound of the latest losses on the flight; ends with the next probe.
    pub fn inflight_shortterm(&self) -> Option<Bytes> {
        self.bounds.shortterm.inflight
    }

    /// Largest flight that a probe has shown to be safe; `None` until one found a limit.
    pub fn inflight_longterm(&self) -> Option<Bytes> {
        self.bounds.longterm
    }

    /// The pipe was full at least once.
    pub fn full_bw_reached(&self) -> bool {
        self.full_pipe.reached
    }

    /// Extra window for aggregated acknowledgments.
    pub fn extra_acked(&self) -> Bytes {
        self.aggregation.extra()
    }

    /// Packet-timed round trips so far.
    pub fn round_count(&self) -> u64 {
        self.rounds.count
    }

    /// Updates the bandwidth of the path and its bounds.
    fn update_model(&mut self, ack: &Ack) {
        self.signals.on_sample(ack.rate.as_ref(), ack.delivered);
        self.rounds
            .on_sample(ack.rate.map(|sample| sample.prior_delivered), ack.delivered);
        if let Some(sample) = ack.rate
            && sample.rate > Rate::ZERO
            && (!sample.app_limited || sample.rate >= self.max_bw())
        {
            self.bandwidth.max.update(self.bandwidth.cycle, sample.rate);
        }
        self.adapt_lower_bounds();
        self.aggregation.on_ack(
            ack.now,
            ack.acked,
            self.bandwidth.bw,
            self.cwnd,
            self.rounds.count,
        );
        if let Some(sample) = &ack.rate {
            self.full_pipe
                .on_sample(sample, self.rounds.started, &self.config);
        }
    }

    fn update_state(&mut self, ack: &Ack) {
        self.check_startup_done(ack);
        if self.full_pipe.reached {
            self.aggregation
                .extend_filter(self.rounds.count, &self.config);
        }
        self.check_drain_done(ack);
        self.update_probe_bw(ack);
        let due = measure_rtt(self, ack);
        self.check_probe_rtt(ack, due);
        self.signals.advance(ack.rate.as_ref());
        self.bandwidth.bw = bounded(self.max_bw(), self.bounds.shortterm.bw);
    }
}

impl Controller for Bbr3 {
    fn name(&self) -> &'static str {
        self.config.name
    }

    fn on_ack(&mut self, ack: &Ack) {
        let ack = &Ack {
            rate: ack.rate.map(|sample| {
                self.bandwidth
                    .throttled
                    .map_or(sample, |by| by.mark(sample))
            }),
            ..*ack
        };
        self.delivered = ack.delivered;
        if self.undo.recovering && ack.state == CongestionState::Open {
            self.restore_cwnd();
            self.undo.recovering = false;
        }
        self.update_model(ack);
        self.update_state(ack);
        if !self.seen_rtt && !ack.srtt.is_zero() {
            self.seen_rtt = true;
            self.pacing_rate = self.initial_rate(ack.srtt);
        }
        self.set_pacing_rate(self.state.pacing_gain(&self.config));
        self.set_cwnd(ack);
    }

    fn on_lost(&mut self, loss: &Loss) {
        self.handle_lost(loss);
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        if !self.undo.recovering {
            self.save();
            self.undo.recovering = true;
        }
        match congestion.signal {
            Signal::Timeout => {
                // DIVERGES: the draft only cuts the window. As in Linux (`bbr_set_state` in Google's
                // branch v3), the pipe is empty and any delivery rate counts as growth.
                self.full_pipe.restart(Rate::ZERO);
                self.set_cwnd_within(congestion.in_flight + self.mss);
            }
            Signal::Ce => self.handle_mark(congestion),
            Signal::Loss | Signal::LocalDrop => {}
        }
    }

    fn on_undo(&mut self, _now: Instant) {
        self.restore();
    }

    fn on_idle(&mut self, idle: &Idle) {
        if idle.app_limited {
            self.idle_restart = true;
            self.aggregation.restart(idle.now);
            if self.state.is_probe_bw() {
                self.set_pacing_rate(1.0);
            } else {
                self.check_probe_rtt_done(idle.now);
            }
        }
    }

    fn verdict(&self) -> Verdict {
        let ssthresh = if self.full_pipe.reached {
            let flight = self.inflight(self.max_bw(), 1.0);
            flight.min(self.cwnd).max(self.mss * 2)
        } else {
            Bytes::MAX
        };
        Verdict {
            cwnd: self.cwnd,
            ssthresh,
            pacing_rate: self.pacing_rate,
            burst: self.quantum(),
        }
    }

    /// Keeps the window, and the rate until a round trip is measured; begins with Startup.
    fn adopt(&mut self, before: &Verdict) {
        self.set_cwnd_within(before.cwnd);
        self.pacing_rate = before.pacing_rate.max(SLOWEST);
    }

    fn model(&self) -> Model {
        Model {
            state: self.state.name(),
            bandwidth: Some(self.bandwidth.bw),
            min_rtt: self.min_rtt.get(),
            pacing_gain: Some(self.state.pacing_gain(&self.config)),
            cwnd_gain: Some(self.state.cwnd_gain(&self.config)),
            ..Model::default()
        }
    }

    fn recovery(&self) -> Recovery {
        Recovery::Controller
    }
}

/// A new connection's controller with parameters that have passed [`Config::check`].
pub(crate) fn build(connection: &crate::Config, config: Config) -> Bbr3 {
    let mss = connection.mss.max(Bytes::new(1));
    let mut bbr = Bbr3 {
        config,
        mss,
        initial_window: connection.initial_window.max(mss),
        rng: SplitMix64::new(connection.seed),
        state: State::Startup,
        delivered: Bytes::ZERO,
        rounds: Rounds::default(),
        full_pipe: FullPipe::default(),
        bandwidth: Bandwidth {
            max: WindowedMax::new(config.max_bw_cycles - 1),
            cycle: 0,
            bw: Rate::ZERO,
            throttled: None,
        },
        min_rtt: MinRtt::default(),
        remembered: None,
        aggregation: Aggregation::new(),
        signals: Signals::default(),
        probe: Probe::default(),
        bounds: Bounds::default(),
        undo: Undo::default(),
        idle_restart: false,
        seen_rtt: false,
        cwnd: mss,
        pacing_rate: Rate::ZERO,
    };
    bbr.set_cwnd_within(connection.initial_window);
    bbr.pacing_rate = bbr.initial_rate(NOMINAL_RTT);
    bbr
}

/// `gain` times `bytes`, rounded down.
fn scale(bytes: Bytes, gain: f64) -> Bytes {
    Bytes::new((bytes.get() as f64 * gain) as u64)
}

/// `gain` times `rate`, rounded down.
fn scale_rate(rate: Rate, gain: f64) -> Rate {
    Rate::bytes_per_sec((rate.as_bytes_per_sec() as f64 * gain) as u64)
}
