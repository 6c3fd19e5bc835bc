//! NewReno (RFC 5681 §3.1, RFC 6582): doubles per round trip below the threshold, adds one segment
//! per round trip above it, halves at a congestion signal. With [`Config::abe`] a mark in
//! congestion avoidance leaves four fifths (RFC 8511).

use tautline_base::{Bytes, Instant};

use crate::config::Config;
use crate::controller::{Ack, Congestion, Controller, Idle, Signal, Underuse, Verdict};
use crate::episode::Episode;
use crate::pacing::WindowPacing;
use crate::window::Window;

/// NewReno of one connection.
#[derive(Clone, Debug)]
pub struct Reno {
    config: Config,
    pacing: WindowPacing,
    episode: Episode,
    state: Growth,
    /// The state before the last reduction that may prove spurious.
    before: Option<Growth>,
    verdict: Verdict,
}

/// A window that grows as Reno's does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    pub(crate) window: Window,
    /// Acknowledged in congestion avoidance and not yet turned into growth; below one window.
    credit: Bytes,
}

impl Reno {
    /// A new connection's controller.
    pub fn new(config: &Config) -> Self {
        let state = Growth::new(config);
        let Window {
            mss,
            cwnd,
            ssthresh,
        } = state.window;
        let pacing = WindowPacing::new(config.pacing, mss);
        let verdict = pacing.verdict(cwnd, ssthresh);
        Self {
            config: *config,
            pacing,
            episode: Episode::Open,
            state,
            before: None,
            verdict,
        }
    }

    fn conclude(&mut self) {
        let Window { cwnd, ssthresh, .. } = self.state.window;
        self.verdict = self.pacing.verdict(cwnd, ssthresh);
    }

    fn reduce(&mut self, signal: Signal) {
        self.before = Some(self.state);
        let Window { cwnd, .. } = self.state.window;
        let abe = self.config.abe && signal == Signal::Ce && !self.state.window.in_slow_start();
        self.state.cut(if abe {
            cwnd.saturating_sub(cwnd / 5)
        } else {
            cwnd / 2
        });
    }
}

impl Growth {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            window: Window::new(config),
            credit: Bytes::ZERO,
        }
    }

    /// Threshold and window become `to`, at least two segments.
    pub(crate) fn cut(&mut self, to: Bytes) {
        self.window.cut(to, 2);
        self.credit = Bytes::ZERO;
    }

    /// What was begun of the next segment is forgotten.
    pub(crate) fn forget_credit(&mut self) {
        self.credit = Bytes::ZERO;
    }

    /// The reduction from `before` to here was for nothing.
    pub(crate) fn undo(&mut self, before: &Self) {
        self.window.cwnd = self.window.cwnd.max(before.window.cwnd);
        self.window.ssthresh = self.window.ssthresh.max(before.window.ssthresh);
    }

    /// `acked` bytes were acknowledged while the window limited the sender.
    pub(crate) fn grow(&mut self, acked: Bytes) {
        let left = if self.window.in_slow_start() {
            self.window.slow_start(acked)
        } else {
            acked
        };
        // More than a window in one acknowledgement still opens the window by one segment only.
        self.credit += left.min(self.window.cwnd);
        if self.credit >= self.window.cwnd {
            self.credit = self.credit.saturating_sub(self.window.cwnd);
            self.window.grow(self.window.mss);
        }
    }
}

impl Controller for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.pacing.on_ack(ack);
        if self.episode.on_ack(ack) && ack.cwnd_limited {
            self.state.grow(ack.acked);
        }
        self.conclude();
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        self.pacing.on_congestion(congestion.in_flight);
        if self.episode.on_signal(congestion.signal) {
            self.reduce(congestion.signal);
        }
        match congestion.signal {
            Signal::Timeout => self.state.window.restart(congestion.in_flight),
            // Marks and local drops are no guesses: there is nothing to undo.
            Signal::Ce | Signal::LocalDrop => self.before = None,
            Signal::Loss => {}
        }
        self.conclude();
    }

    fn on_undo(&mut self, _now: Instant) {
        self.episode = Episode::Open;
        if let Some(before) = self.before.take() {
            self.state.undo(&before);
        }
        self.conclude();
    }

    fn on_idle(&mut self, idle: &Idle) {
        self.pacing.on_idle();
        if self.config.slow_start_after_idle {
            self.state
                .window
                .decay(idle.idle, idle.rto, self.config.initial_window);
            self.state.forget_credit();
        }
        self.conclude();
    }

    fn on_underuse(&mut self, underuse: &Underuse) {
        if self.config.slow_start_after_idle {
            self.state
                .window
                .shrink_to_use(underuse.used, self.config.initial_window);
            self.state.forget_credit();
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
