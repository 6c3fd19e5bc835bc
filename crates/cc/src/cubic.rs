//! CUBIC (RFC 9438) with an exchangeable slow start, HyStart++ unless told otherwise.
//!
//! | section | here |
//! |---|---|
//! | §4.2 window growth function | [`Curve::window`] |
//! | §4.3 Reno-friendly region | `Epoch::advance_reno` |
//! | §4.4, §4.5 concave and convex region | `State::avoid` |
//! | §4.6 multiplicative decrease, §4.7 fast convergence | `State::reduce` |
//! | §4.8 timeout | `State::reduce` with [`Signal::Timeout`] |
//! | §4.9 spurious congestion events | [`Controller::on_undo`] |
//! | §4.10 slow start | [`SlowStart`] |
//! | §5.8 sudden idleness | `Epoch` counts time only while the window limits the sender |
//!
//! Windows in the control law are `f64` segments; the account itself is integer bytes.

use core::time::Duration;

use tautline_base::{Bytes, Instant};

use crate::config::Config;
use crate::controller::{Ack, Congestion, Controller, Idle, Model, Signal, Underuse, Verdict};
use crate::curve::{BETA, BETA_ECN, Curve, RENO_ALPHA};
use crate::episode::Episode;
use crate::hystart::HystartPlusPlus;
use crate::pacing::WindowPacing;
use crate::saved::Saved;
use crate::slow_start::{SlowStart, Step};
use crate::window::Window;

/// CUBIC of one connection.
#[derive(Clone, Debug)]
pub struct Cubic<S = HystartPlusPlus> {
    /// Shrink the window after an idle time.
    slow_start_after_idle: bool,
    /// Alternative backoff with ECN.
    abe: bool,
    initial_window: Bytes,
    pacing: WindowPacing,
    episode: Episode,
    state: State<S>,
    /// The state before the last reduction that may prove spurious.
    before: Saved<State<S>>,
    verdict: Verdict,
}

/// Everything a reduction changes and an undo restores.
#[derive(Clone, Debug)]
struct State<S> {
    window: Window,
    /// Window before the last reduction, or at the end of the first slow start, in segments.
    prior: f64,
    /// Plateau of the curve in segments; `None` after a timeout or a slow start without loss, when
    /// the next epoch begins on its plateau.
    plateau: Option<f64>,
    /// The congestion-avoidance epoch, from its first acknowledgement.
    epoch: Option<Epoch>,
    /// The initial slow start; `None` once it is over.
    slow_start: Option<S>,
    /// Growth too small for a whole byte: bytes × bytes, below one window.
    credit: u128,
}

/// One stretch of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    curve: Curve,
    /// Time spent in it while the window limited the sender.
    elapsed: Duration,
    /// Until when `elapsed` was counted.
    counted_to: Instant,
    /// What Reno's window would be, in segments (`W_est`).
    reno_estimate: f64,
}

impl Cubic {
    /// A new connection's controller with HyStart++.
    pub fn new(config: &Config) -> Self {
        Self::with_slow_start(config, HystartPlusPlus::new())
    }
}

impl<S: SlowStart> Cubic<S> {
    /// A new connection's controller with a slow start of choice.
    pub fn with_slow_start(config: &Config, slow_start: S) -> Self {
        let window = Window::new(config);
        let pacing = WindowPacing::new(config.pacing, window.mss);
        let verdict = pacing.verdict(window.cwnd, window.ssthresh);
        let state = State {
            window,
            prior: 0.0,
            plateau: None,
            epoch: None,
            slow_start: Some(slow_start),
            credit: 0,
        };
        let Config {
            slow_start_after_idle,
            abe,
            initial_window,
            ..
        } = *config;
        Self {
            slow_start_after_idle,
            abe,
            initial_window,
            pacing,
            episode: Episode::Open,
            state,
            before: Saved::nothing(),
            verdict,
        }
    }

    fn conclude(&mut self) {
        let Window { cwnd, ssthresh, .. } = self.state.window;
        self.verdict = self.pacing.verdict(cwnd, ssthresh);
    }
}

impl<S: SlowStart> State<S> {
    /// An acknowledgement that may open the window.
    fn grow(&mut self, ack: &Ack, before: &Verdict) {
        let left = if self.window.in_slow_start() {
            self.slow_start(ack, before)
        } else {
            ack.acked
        };
        if !self.window.in_slow_start() {
            self.avoid(ack, left);
        }
    }

    /// Slow start; returns what is left for congestion avoidance.
    fn slow_start(&mut self, ack: &Ack, before: &Verdict) -> Bytes {
        let step = self
            .slow_start
            .as_mut()
            .map_or(Step::Grow(ack.acked), |slow_start| {
                slow_start.on_ack(ack, before)
            });
        match step {
            Step::Grow(bytes) if ack.cwnd_limited => self.window.slow_start(bytes),
            Step::Grow(_) => Bytes::ZERO,
            Step::Leave => {
                self.slow_start = None;
                self.window.ssthresh = self.window.cwnd.max(self.window.mss * 2);
                self.prior = self.segments();
                ack.acked
            }
        }
    }

    /// Congestion avoidance: towards the curve one round trip ahead, or level with Reno where Reno
    /// is ahead.
    fn avoid(&mut self, ack: &Ack, acked: Bytes) {
        let cwnd = self.segments();
        let mut epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin_epoch(ack.now, cwnd),
        };
        epoch.count_to(ack.now, ack.cwnd_limited);
        if ack.cwnd_limited {
            epoch.advance_reno(acked.min(self.window.cwnd), self.window.cwnd, self.prior);
            if epoch.curve.window(epoch.elapsed) < epoch.reno_estimate {
                self.follow_reno(epoch.reno_estimate, acked);
            } else {
                self.follow_curve(
                    epoch.curve.window(epoch.elapsed.saturating_add(ack.srtt)),
                    acked,
                );
            }
        }
        self.epoch = Some(epoch);
    }

    fn begin_epoch(&mut self, now: Instant, cwnd: f64) -> Epoch {
        let curve = Curve::through(self.plateau.unwrap_or(cwnd), cwnd);
        self.plateau = Some(curve.plateau());
        Epoch {
            curve,
            elapsed: Duration::ZERO,
            counted_to: now,
            reno_estimate: cwnd,
        }
    }

    /// Opens the window to Reno's. One acknowledgement opens it by at most half of what it covers,
    /// as the curve does: the estimate may be far ahead when the window was held back meanwhile.
    fn follow_reno(&mut self, reno_estimate: f64, acked: Bytes) {
        let goal = Bytes::new((reno_estimate * self.window.mss.get() as f64) as u64);
        self.window
            .grow(goal.saturating_sub(self.window.cwnd).min(acked / 2));
    }

    /// Opens the window by `(target - cwnd) / cwnd` per byte acknowledged, target at most 1.5
    /// windows.
    fn follow_curve(&mut self, target: f64, acked: Bytes) {
        let cwnd = self.window.cwnd.get();
        let target = ((target * self.window.mss.get() as f64) as u64)
            .clamp(cwnd, cwnd.saturating_add(cwnd / 2));
        self.credit += u128::from(target - cwnd) * u128::from(acked.get().min(cwnd));
        let growth = self.credit / u128::from(cwnd);
        self.credit %= u128::from(cwnd);
        self.window
            .grow(Bytes::new(u64::try_from(growth).unwrap_or(u64::MAX)));
    }

    fn reduce(&mut self, signal: Signal, abe: bool) {
        let cwnd = self.segments();
        self.plateau = match (signal, self.plateau) {
            (Signal::Timeout, _) => None,
            // Fast convergence: a window that stays below its last plateau makes room for newer
            // flows.
            (_, Some(plateau)) if cwnd < plateau => Some(cwnd * (1.0 + BETA) / 2.0),
            _ => Some(cwnd),
        };
        // RFC 8511 is for congestion avoidance: what overshot in slow start is cut in full.
        let beta = if abe && signal == Signal::Ce && !self.window.in_slow_start() {
            BETA_ECN
        } else {
            BETA
        };
        self.prior = cwnd;
        self.epoch = None;
        self.slow_start = None;
        self.credit = 0;
        let reduced = Bytes::new((self.window.cwnd.get() as f64 * beta) as u64);
        // One segment after a mark, two after a loss (§4.6).
        self.window
            .cut(reduced, if signal == Signal::Ce { 1 } else { 2 });
    }

    /// The window in segments.
    fn segments(&self) -> f64 {
        self.window.cwnd.get() as f64 / self.window.mss.get() as f64
    }
}

impl Epoch {
    /// Lets time pass until `now`; it counts only while the window limits the sender.
    fn count_to(&mut self, now: Instant, counts: bool) {
        if counts {
            self.elapsed = self.elapsed.saturating_add(now - self.counted_to);
        }
        self.counted_to = now;
    }

    /// Advances Reno's window by `acked`: less than a segment per window until it is back at the
    /// window before the cut, to make up for the gentler cut; one segment from then on.
    fn advance_reno(&mut self, acked: Bytes, cwnd: Bytes, prior: f64) {
        let alpha = if self.reno_estimate >= prior {
            1.0
        } else {
            RENO_ALPHA
        };
        self.reno_estimate += alpha * acked.get() as f64 / cwnd.get() as f64;
    }
}

impl<S: SlowStart> Controller for Cubic<S> {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.pacing.on_ack(ack);
        if self.episode.on_ack(ack) {
            self.state.grow(ack, &self.verdict);
        }
        self.conclude();
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        self.pacing.on_congestion(congestion.in_flight);
        if self.episode.on_signal(congestion.signal) {
            self.before.keep(&self.state);
            self.state.reduce(congestion.signal, self.abe);
        }
        match congestion.signal {
            Signal::Timeout => self.state.window.restart(congestion.in_flight),
            // Marks and local drops are no guesses: there is nothing to undo.
            Signal::Ce | Signal::LocalDrop => self.before.forget(),
            Signal::Loss => {}
        }
        self.conclude();
    }

    fn on_undo(&mut self, _now: Instant) {
        self.episode = Episode::Open;
        if let Some(before) = self.before.take() {
            if self.state.window.cwnd < before.window.cwnd {
                self.state = before;
            } else {
                self.state.window.ssthresh = self.state.window.ssthresh.max(before.window.ssthresh);
            }
        }
        self.conclude();
    }

    fn on_idle(&mut self, idle: &Idle) {
        self.pacing.on_idle();
        if self.slow_start_after_idle {
            self.state
                .window
                .decay(idle.idle, idle.rto, self.initial_window);
        }
        if let Some(epoch) = &mut self.state.epoch {
            epoch.count_to(idle.now, false);
        }
        self.conclude();
    }

    fn model(&self) -> Model {
        let State {
            slow_start,
            plateau,
            epoch,
            window,
            ..
        } = &self.state;
        let state = match (slow_start, window.in_slow_start()) {
            (_, false) => "avoidance",
            (Some(start), true) if start.is_conservative() => "conservative-slow-start",
            (_, true) => "slow-start",
        };
        Model {
            state,
            plateau: epoch.map(|epoch| epoch.curve.plateau()).or(*plateau),
            k: epoch.and_then(|epoch| Duration::try_from_secs_f64(epoch.curve.k()).ok()),
            epoch: epoch.map(|epoch| epoch.elapsed),
            ..Model::default()
        }
    }

    fn on_underuse(&mut self, underuse: &Underuse) {
        if self.slow_start_after_idle {
            self.state
                .window
                .shrink_to_use(underuse.used, self.initial_window);
        }
        self.conclude();
    }

    fn verdict(&self) -> Verdict {
        self.verdict
    }

    fn adopt(&mut self, before: &Verdict) {
        self.state.window.adopt(before);
        self.conclude();
    }
}
