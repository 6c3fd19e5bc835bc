//! CUBIC (RFC 9438) with an exchangeable slow start, by default HyStart++.
//!
//! | section | here |
//! |---|---|
//! | §4.2 window growth function | [`Curve::window`] |
//! | §4.3 Reno-friendly region | `Epoch::advance_reno` |
//! | §4.4, §4.5 concave and convex region | `CubicLaw::avoid` |
//! | §4.6 multiplicative decrease, §4.7 fast convergence | `CubicLaw::reduce` |
//! | §4.8 timeout | `CubicLaw::reduce`, `CubicLaw::on_timeout` |
//! | §4.9 spurious congestion events | `CubicLaw::undo` |
//! | §4.10 slow start | [`SlowStart`] |
//! | §5.8 sudden idleness | `Epoch` counts time only while the window limits the sender |
//!
//! The control law computes with `f64` segments; the window itself is in integer bytes.

use core::time::Duration;

use tautline_base::{Bytes, Instant};

use crate::config::Config;
use crate::controller::{Ack, Model, Signal, Verdict};
use crate::curve::{BETA, BETA_ECN, Curve, RENO_ALPHA};
use crate::episode::Episode;
use crate::hystart::HystartPlusPlus;
use crate::slow_start::{SlowStart, Step};
use crate::window::Window;
use crate::window_controller::{CongestionWindow, WindowController, WindowLaw};

/// CUBIC for one connection, with the slow start `S`.
///
/// ```
/// use tautline_base::{Bytes, Instant};
/// use tautline_cc::{Config, Congestion, Controller, Cubic, Signal};
///
/// let mut cubic = Cubic::new(&Config::new(Bytes::new(1000)));
/// let (now, in_flight) = (Instant::from_secs(1), Bytes::new(10_000));
/// cubic.on_congestion(&Congestion { now, signal: Signal::Loss, in_flight });
/// assert_eq!(cubic.verdict().cwnd, Bytes::new(7_000)); // β = 0.7
/// assert_eq!(cubic.model().plateau, Some(10.0)); // segments
/// ```
pub type Cubic<S = HystartPlusPlus> = WindowController<CubicLaw<S>>;

/// The law of [`Cubic`].
#[derive(Clone, Debug)]
pub struct CubicLaw<S> {
    /// Alternative backoff with ECN.
    abe: bool,
    window: Window,
    /// Window before the last reduction, or at the end of the first slow start, in segments.
    prior: f64,
    /// Plateau of the curve in segments; `None` after a timeout or a slow start without loss, when
    /// the next epoch begins on its plateau.
    plateau: Option<f64>,
    /// The congestion-avoidance epoch, from its first acknowledgment.
    epoch: Option<Epoch>,
    /// The initial slow start; `None` once it is over.
    slow_start: Option<S>,
    /// Growth too small for a whole byte: bytes × bytes, below one window.
    credit: u64,
}

/// One stretch of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    curve: Curve,
    /// Time spent in it while the window limited the sender.
    elapsed: Duration,
    /// Until when `elapsed` was counted.
    counted_to: Instant,
    /// Reno's window in segments (`W_est`).
    reno_estimate: f64,
}

impl Cubic {
    /// A new connection's controller with HyStart++.
    pub fn new(config: &Config) -> Self {
        let slow_start = if config.paced {
            HystartPlusPlus::new()
        } else {
            HystartPlusPlus::unpaced(config.mss)
        };
        Self::with_slow_start(config, slow_start)
    }
}

impl<S: SlowStart> Cubic<S> {
    /// A new connection's controller with another slow start.
    pub fn with_slow_start(config: &Config, slow_start: S) -> Self {
        let law = CubicLaw {
            abe: config.abe,
            window: Window::new(config),
            prior: 0.0,
            plateau: None,
            epoch: None,
            slow_start: Some(slow_start),
            credit: 0,
        };
        Self::with_law(law, config)
    }
}

impl<S: SlowStart> CubicLaw<S> {
    /// An acknowledgment that may open the window.
    fn grow(&mut self, ack: &Ack, before: impl FnOnce() -> Verdict) {
        let mut left = ack.acked;
        if self.window.in_slow_start() {
            left = self.slow_start(ack, before);
            if self.window.in_slow_start() {
                return;
            }
        }
        self.avoid(ack, left);
    }

    /// Slow start. Returns the bytes left for congestion avoidance.
    fn slow_start(&mut self, ack: &Ack, before: impl FnOnce() -> Verdict) -> Bytes {
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
                self.leave_slow_start(self.window.cwnd);
                ack.acked
            }
            Step::LeaveAt(window) => {
                self.leave_slow_start(window.min(self.window.cwnd));
                Bytes::ZERO
            }
        }
    }

    /// Congestion avoidance begins from `window`.
    fn leave_slow_start(&mut self, window: Bytes) {
        self.slow_start = None;
        self.window.cwnd = window.max(self.window.mss * 2);
        self.window.ssthresh = self.window.cwnd;
        self.prior = self.segments();
    }

    /// Congestion avoidance: follows the curve one round trip ahead, or Reno where Reno is ahead.
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

    /// Opens the window to Reno's. One acknowledgment opens it by at most half the bytes that it
    /// covers, as on the curve: the estimate may be far ahead if the window could not grow in the
    /// meantime.
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
        let credit =
            u128::from(self.credit) + u128::from(target - cwnd) * u128::from(acked.get().min(cwnd));
        let growth = credit / u128::from(cwnd);
        self.credit = (credit % u128::from(cwnd)) as u64;
        self.window
            .grow(Bytes::new(u64::try_from(growth).unwrap_or(u64::MAX)));
    }

    /// Plateau and epoch belong to a window that is gone.
    fn clear_curve(&mut self) {
        (self.plateau, self.epoch, self.credit) = (None, None, 0);
    }

    /// The window in segments.
    fn segments(&self) -> f64 {
        self.window.cwnd.get() as f64 / self.window.mss.get() as f64
    }
}

impl<S: SlowStart> WindowLaw for CubicLaw<S> {
    const NAME: &'static str = S::CUBIC;
    type Window = Window;

    #[inline]
    fn window(&self) -> &Window {
        &self.window
    }

    fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack, episode: &mut Episode, before: impl FnOnce() -> Verdict) {
        if episode.on_ack(ack) {
            self.grow(ack, before);
        }
    }

    fn reduce(&mut self, signal: Signal) {
        let cwnd = self.segments();
        self.plateau = Some(match self.plateau {
            // Fast convergence: a window that stays below its last plateau makes room for newer
            // flows.
            Some(plateau) if cwnd < plateau => cwnd * (1.0 + BETA) / 2.0,
            _ => cwnd,
        });
        // RFC 8511 is for congestion avoidance: an overshoot of slow start is cut in full.
        let beta = if self.abe && signal == Signal::Ce && !self.window.in_slow_start() {
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

    /// The next epoch begins on its plateau, also after a timeout in the middle of a recovery, which
    /// cuts no second time.
    fn on_timeout(&mut self) {
        self.clear_curve();
    }

    fn adopt(&mut self, before: &Verdict) {
        self.window.adopt(before);
        self.clear_curve();
    }

    fn undo(&mut self, before: Self) {
        if self.window.cwnd < before.window.cwnd {
            *self = before;
        } else {
            self.window.undo(&before.window);
        }
    }

    fn resume(&mut self, now: Instant, _idle: Duration) {
        if let Some(epoch) = &mut self.epoch {
            epoch.count_to(now, false);
        }
    }

    fn model(&self) -> Model {
        let state = match (&self.slow_start, self.window.in_slow_start()) {
            (_, false) => "avoidance",
            (Some(start), true) if start.is_conservative() => "conservative-slow-start",
            (_, true) => "slow-start",
        };
        let (epoch, plateau) = (self.epoch, self.plateau);
        Model {
            state,
            plateau: epoch.map(|epoch| epoch.curve.plateau()).or(plateau),
            k: epoch.and_then(|epoch| Duration::try_from_secs_f64(epoch.curve.k()).ok()),
            epoch: epoch.map(|epoch| epoch.elapsed),
            ..Model::default()
        }
    }
}

impl Epoch {
    /// Advances to `now`; the time `counts` only while the window limited the sender.
    fn count_to(&mut self, now: Instant, counts: bool) {
        if counts {
            self.elapsed = self.elapsed.saturating_add(now - self.counted_to);
        }
        self.counted_to = now;
    }

    /// Advances Reno's window by `acked`: by less than a segment per window until it reaches the
    /// window before the cut, to make up for the gentler cut; by one segment from then on.
    fn advance_reno(&mut self, acked: Bytes, cwnd: Bytes, prior: f64) {
        let alpha = if self.reno_estimate >= prior {
            1.0
        } else {
            RENO_ALPHA
        };
        self.reno_estimate += alpha * acked.get() as f64 / cwnd.get() as f64;
    }
}
