//! NewReno (RFC 5681 §3.1, RFC 6582): doubles per round trip below the threshold, adds one segment per round trip above
//! it, halves at a congestion signal.

use tautline_base::{Bytes, Instant};

use crate::config::Config;
use crate::controller::{Ack, Congestion, Controller, Idle, Signal, Verdict};
use crate::episode::Episode;
use crate::pacing::WindowPacing;
use crate::window::Window;

/// NewReno of one connection.
#[derive(Clone, Debug)]
pub struct Reno {
    config: Config,
    pacing: WindowPacing,
    episode: Episode,
    state: State,
    /// The state before the last reduction that may prove spurious.
    before: Option<State>,
    verdict: Verdict,
}

#[derive(Clone, Copy, Debug)]
struct State {
    window: Window,
    /// Acknowledged in congestion avoidance and not yet turned into growth; below one window.
    credit: Bytes,
}

impl Reno {
    /// A new connection's controller.
    pub fn new(config: &Config) -> Self {
        let window = Window::new(config);
        let pacing = WindowPacing::new(config.pacing, window.mss);
        let verdict = pacing.verdict(window.cwnd, window.ssthresh);
        let state = State { window, credit: Bytes::ZERO };
        Self { config: *config, pacing, episode: Episode::Open, state, before: None, verdict }
    }

    fn conclude(&mut self) {
        let Window { cwnd, ssthresh, .. } = self.state.window;
        self.verdict = self.pacing.verdict(cwnd, ssthresh);
    }

    fn reduce(&mut self) {
        self.before = Some(self.state);
        let half = self.state.window.cwnd / 2;
        self.state.window.cut(half, 2);
        self.state.credit = Bytes::ZERO;
    }
}

impl State {
    fn grow(&mut self, acked: Bytes) {
        let left = if self.window.in_slow_start() { self.window.slow_start(acked) } else { acked };
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
            self.reduce();
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
            let window = &mut self.state.window;
            window.cwnd = window.cwnd.max(before.window.cwnd);
            window.ssthresh = window.ssthresh.max(before.window.ssthresh);
        }
        self.conclude();
    }

    fn on_idle(&mut self, idle: &Idle) {
        self.pacing.on_idle();
        if self.config.slow_start_after_idle {
            self.state.window.decay(idle.idle, idle.rto, self.config.initial_window);
            self.state.credit = Bytes::ZERO;
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
