//! BBR version 1 as in Linux (`net/ipv4/tcp_bbr.c`; Cardwell et al., "BBR: Congestion-Based Congestion
//! Control", ACM Queue 2016; draft-cardwell-iccrg-bbr-congestion-control-00), and BBR-n as
//! parameters of it.
//!
//! Models the path by two quantities measured one at a time, the bandwidth and the round trip
//! without queues. Paces at the bandwidth with about two bandwidth-delay products in flight, and
//! does not react to losses and marks.
//!
//! Counts bytes where Linux counts packets, and computes exactly where Linux multiplies by 2²⁴ per
//! microsecond, unless [`Params::count_packets`] is set. DIVERGES: PROBE_RTT restores the window that it left; Linux restores a larger one
//! of the last loss recovery, if any. The target bounds both.

use core::time::Duration;

use tautline_base::{Bytes, Instant, Rate, SplitMix64};

use crate::config::Config;
use crate::controller::{
    Ack, Congestion, Controller, Idle, Loss, Model, Recovery as Owner, Signal, Verdict,
};
use crate::pacing::{NOMINAL_RTT, SLOWEST};
use crate::rounds::Rounds;
use crate::sampler::RateSample;
use crate::window::LARGEST;

mod aggregation;
mod bandwidth;
mod cycle;
mod gain;
mod min_rtt;
mod network;
mod params;
mod policer;
mod probe_rtt;
mod recovery;
mod startup;
mod ticks;

pub use gain::Gain;
pub use params::{AggregationParams, CYCLE, Params, ParamsError, PolicerParams};

use aggregation::Aggregation;
use bandwidth::Bandwidth;
use cycle::{Cycle, Progress};
use min_rtt::MinRtt;
use policer::{Evidence, Policer, Totals};
use probe_rtt::ProbeRtt;
use recovery::{Recovery, Step};
use startup::FullPipe;

/// BBR for one connection.
///
/// ```
/// use tautline_base::{Bytes, Instant, Rate};
/// use tautline_cc::{Ack, Bbr, Config, Controller};
///
/// let mut bbr = Bbr::new(&Config::new(Bytes::new(1448)));
/// bbr.on_ack(&Ack::new(Instant::from_secs(1), Bytes::new(1448), Bytes::new(13_032)));
/// assert_eq!(bbr.model().state, "STARTUP");
/// assert!(bbr.verdict().pacing_rate > Rate::ZERO);
/// ```
#[derive(Clone, Debug)]
pub struct Bbr {
    params: Params,
    mss: Bytes,
    initial_window: Bytes,
    rng: SplitMix64,
    rounds: Rounds,
    bandwidth: Bandwidth,
    /// One tick of the clock that counts PROBE_RTT and the age of the lowest round trip.
    tick: Duration,
    min_rtt: MinRtt,
    pipe: FullPipe,
    mode: Mode,
    policer: Policer,
    aggregation: Aggregation,
    recovery: Recovery,
    /// Totals at the last delivery, with all losses found since.
    totals: Totals,
    /// Nothing was delivered since transmission resumed: an expired RTT does not start PROBE_RTT.
    idle_restart: bool,
    /// The initial pacing rate was corrected by a measured round trip.
    seen_rtt: bool,
    cwnd: Bytes,
    ssthresh: Bytes,
    pacing_rate: Rate,
}

/// The state of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Doubles the rate in every round trip until the bandwidth no longer grows.
    Startup,
    /// Drains the queue that STARTUP built.
    Drain,
    /// Sends at the bandwidth and probes for more of it once per cycle.
    ProbeBw(Cycle),
    /// Sends almost nothing for a moment, to measure the round trip without queues.
    ProbeRtt(ProbeRtt),
}

impl Bbr {
    /// A new connection's controller, with Linux's parameters.
    pub fn new(config: &Config) -> Self {
        Self::build(Params::default(), config)
    }

    /// A new connection's controller, with other parameters.
    ///
    /// # Errors
    /// If [`Params::check`] rejects them.
    pub fn with(params: Params, config: &Config) -> Result<Self, ParamsError> {
        params.check()?;
        Ok(Self::build(params, config))
    }

    /// `params` have passed [`Params::check`].
    pub(crate) fn build(params: Params, config: &Config) -> Self {
        let mss = config.mss.max(Bytes::new(1));
        let initial_window = config.initial_window.clamp(mss, mss * LARGEST);
        let mut bbr = Self {
            params,
            mss,
            initial_window,
            rng: SplitMix64::new(config.seed),
            rounds: Rounds::default(),
            bandwidth: Bandwidth::new(params.bandwidth_rounds),
            tick: config.tick,
            min_rtt: MinRtt::new(params.min_rtt_window, config.tick),
            pipe: FullPipe::new(),
            mode: Mode::Startup,
            policer: Policer::Unsuspected,
            aggregation: Aggregation::new(),
            recovery: Recovery::new(),
            totals: Totals {
                at: Instant::ZERO,
                delivered: Bytes::ZERO,
                lost: Bytes::ZERO,
            },
            idle_restart: false,
            seen_rtt: false,
            cwnd: initial_window,
            ssthresh: Bytes::MAX,
            pacing_rate: Rate::ZERO,
        };
        bbr.pacing_rate = bbr.initial_rate(NOMINAL_RTT);
        bbr
    }

    fn enter_probe_bw(&mut self, now: Instant) {
        self.mode = Mode::ProbeBw(Cycle::begin(self.rng.next_u64(), now));
    }

    /// Updates the model, in the order of `bbr_update_model`.
    fn update_model(&mut self, ack: &Ack) {
        let mut round_start = false;
        self.totals = Totals {
            at: ack.now,
            delivered: ack.delivered,
            ..self.totals
        };
        if let Some(sample) = &ack.rate {
            round_start = self
                .rounds
                .on_sample(Some(sample.prior_delivered), ack.delivered);
            if round_start {
                self.recovery.on_round();
            }
            let limited = self.bandwidth.is_limited(sample);
            self.detect_policer(ack.lost > Bytes::ZERO, limited, round_start);
            let sample = RateSample {
                rate: self.in_units(sample.rate),
                ..*sample
            };
            self.bandwidth.on_sample(&sample, self.rounds.count);
            self.measure_aggregation(ack, round_start);
            self.advance_cycle(ack);
            if round_start && !limited {
                self.pipe.on_round(self.bandwidth.get(), &self.params);
            }
        } else {
            self.advance_cycle(ack);
        }
        self.drain(ack);
        self.probe_rtt(ack, round_start);
    }

    fn detect_policer(&mut self, losing: bool, app_limited: bool, round_start: bool) {
        let probing_bw = matches!(self.mode, Mode::ProbeBw(_));
        let evidence = Evidence {
            totals: self.totals,
            losing,
            app_limited,
            round_start,
            probing_bw,
        };
        if self.policer.on_evidence(&evidence, &self.params.policer) {
            self.enter_probe_bw(self.totals.at);
        }
    }

    fn measure_aggregation(&mut self, ack: &Ack, round_start: bool) {
        if ack.acked == Bytes::ZERO {
            return;
        }
        if round_start {
            self.aggregation.on_round(&self.params.aggregation);
        }
        let epoch = self.mss * self.params.aggregation.epoch;
        self.aggregation.on_ack(
            ack.now,
            ack.acked,
            self.model_rate(),
            self.mss,
            self.cwnd,
            epoch,
        );
    }

    fn advance_cycle(&mut self, ack: &Ack) {
        let Mode::ProbeBw(mut cycle) = self.mode else {
            return;
        };
        let gain = self.pacing_gain();
        let in_network = self.in_network(ack, ack.prior_in_flight);
        cycle.on_ack(Progress {
            now: ack.now,
            min_rtt: self.min_rtt.get(),
            gain,
            lost: ack.lost > Bytes::ZERO,
            filled: in_network >= self.inflight(self.bandwidth.get(), gain),
            drained: in_network <= self.inflight(self.bandwidth.get(), Gain::UNIT),
        });
        self.mode = Mode::ProbeBw(cycle);
    }

    fn drain(&mut self, ack: &Ack) {
        if self.mode == Mode::Startup && self.pipe.reached() {
            self.mode = Mode::Drain;
            self.ssthresh = self.inflight(self.bandwidth.get(), Gain::UNIT);
        }
        if self.mode == Mode::Drain
            && self.in_network(ack, ack.in_flight)
                <= self.inflight(self.bandwidth.get(), Gain::UNIT)
        {
            self.enter_probe_bw(ack.now);
        }
    }

    fn probe_rtt(&mut self, ack: &Ack, round_start: bool) {
        let expired = self.min_rtt.on_ack(ack);
        if expired && !self.idle_restart && !matches!(self.mode, Mode::ProbeRtt(_)) {
            self.recovery.save(self.cwnd, true);
            self.mode = Mode::ProbeRtt(ProbeRtt::Draining);
        }
        if let Mode::ProbeRtt(mut probe) = self.mode {
            // Samples that this pause slows down say nothing about the bandwidth.
            self.bandwidth.hold_back(ack.delivered, ack.in_flight);
            if probe == ProbeRtt::Draining {
                if ack.in_flight <= self.min_cwnd() {
                    probe = ProbeRtt::drained(ack.now, self.params.probe_rtt_duration, self.tick);
                    self.rounds.restart(ack.delivered);
                }
            } else if round_start {
                probe.on_round();
            }
            self.mode = Mode::ProbeRtt(probe);
            if probe.is_over(ack.now) {
                self.leave_probe_rtt(ack.now);
            }
        }
        if ack.rate.is_some() {
            self.idle_restart = false;
        }
    }

    fn leave_probe_rtt(&mut self, now: Instant) {
        self.min_rtt.renew(now);
        self.cwnd = self.cwnd.max(self.recovery.prior_cwnd());
        if self.pipe.reached() {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// Follows the model, but slows down only once the pipe was full: before that a low estimate
    /// may only mean that too little was sent.
    fn pace(&mut self, gain: Gain) {
        let rate = self.paced(self.model_rate(), gain);
        if self.pipe.reached() || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    fn set_window(&mut self, ack: &Ack) {
        if ack.acked > Bytes::ZERO {
            self.cwnd = match self.recovery.on_ack(ack, self.cwnd, self.mss) {
                Step::Enters(cwnd) => {
                    self.rounds.restart(ack.delivered);
                    cwnd
                }
                Step::Conserves(cwnd) => cwnd,
                Step::Grows(cwnd) => self.grown(cwnd, ack),
            };
        }
        if let Mode::ProbeRtt(_) = self.mode {
            self.cwnd = self.cwnd.min(self.min_cwnd());
        }
        self.cwnd = self.cwnd.clamp(self.mss, self.mss * LARGEST);
    }

    fn grown(&self, cwnd: Bytes, ack: &Ack) -> Bytes {
        let target = self.target();
        let acked = match self.params.count_packets {
            true if ack.delivered <= Bytes::new(1) => Bytes::ZERO,
            true => ack.acked.max(self.mss),
            false => ack.acked,
        };
        let grown = if self.pipe.reached() {
            (cwnd + acked).min(target)
        } else if cwnd < target || ack.delivered < self.initial_window {
            cwnd + acked
        } else {
            cwnd
        };
        grown.max(self.min_cwnd())
    }
}

impl Controller for Bbr {
    fn name(&self) -> &'static str {
        self.params.name
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.update_model(ack);
        if !self.seen_rtt && !ack.srtt.is_zero() {
            self.seen_rtt = true;
            self.pacing_rate = self.initial_rate(ack.srtt);
        }
        self.pace(self.pacing_gain());
        self.set_window(ack);
    }

    fn on_lost(&mut self, loss: &Loss) {
        self.totals.lost += loss.bytes;
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        self.recovery
            .save(self.cwnd, !matches!(self.mode, Mode::ProbeRtt(_)));
        if congestion.signal != Signal::Timeout {
            return;
        }
        self.pipe.on_timeout();
        self.recovery.on_timeout();
        // A timeout ends a round trip, and with it perhaps an interval between losses.
        self.detect_policer(true, false, true);
        self.cwnd = (congestion.in_flight + self.mss).min(self.mss * LARGEST);
    }

    /// `bbr_undo_cwnd`: without a loss there is no policer and no explanation for a bandwidth that
    /// did not grow. The next acknowledgment restores the window, as after any recovery.
    fn on_undo(&mut self, _now: Instant) {
        self.pipe.on_undo();
        self.policer = Policer::Unsuspected;
    }

    fn on_idle(&mut self, idle: &Idle) {
        if !idle.app_limited {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(idle.now);
        match self.mode {
            // The path may have changed: do not probe at once.
            Mode::ProbeBw(_) => self.pace(Gain::UNIT),
            // The pause ended while nothing was sent.
            Mode::ProbeRtt(probe) if probe.time_is_over(idle.now) => self.leave_probe_rtt(idle.now),
            _ => {}
        }
    }

    fn verdict(&self) -> Verdict {
        Verdict {
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            pacing_rate: self.pacing_rate,
            burst: self.mss * self.params.burst(self.pacing_rate, self.mss).max(2),
        }
    }

    /// Keeps the window, and the rate until a round trip is measured; begins with STARTUP.
    fn adopt(&mut self, before: &Verdict) {
        self.cwnd = before.cwnd.clamp(self.mss, self.mss * LARGEST);
        self.pacing_rate = before.pacing_rate.max(SLOWEST);
    }

    fn model(&self) -> Model {
        let known = self.model_rate() > Rate::ZERO;
        Model {
            state: match self.mode {
                Mode::Startup => "STARTUP",
                Mode::Drain => "DRAIN",
                Mode::ProbeBw(_) => "PROBE_BW",
                Mode::ProbeRtt(_) => "PROBE_RTT",
            },
            bandwidth: known.then(|| self.model_rate()),
            min_rtt: self.min_rtt.get(),
            pacing_gain: Some(self.pacing_gain().as_f64()),
            cwnd_gain: Some(self.cwnd_gain().as_f64()),
            ..Model::default()
        }
    }

    fn recovery(&self) -> Owner {
        Owner::Controller
    }

    /// Slow flows send single segments (Linux `bbr_min_tso_segs`).
    fn packet_segments(&self, autosized: u64) -> u64 {
        autosized.max(self.params.least_burst(self.pacing_rate))
    }
}
