//! DCTCP (RFC 8257): cuts the window by half the share of marked bytes instead of by half. For
//! networks under one administration whose switches mark at a shallow threshold.
//!
//! Between marks it grows as Reno does, and a loss costs half the window (§3.5); without ECN it is
//! Reno. As in Linux a reduction is a whole number of segments.

use tautline_base::Instant;

use crate::config::Config;
use crate::controller::{
    Ack, Congestion, Controller, Ecn, Idle, Model, Phase, Signal, Underuse, Verdict,
};
use crate::episode::Episode;
use crate::mark_share::MarkShare;
use crate::pacing::WindowPacing;
use crate::reno::Growth;
use crate::round::Round;
use crate::window::Window;

/// DCTCP of one connection.
#[derive(Clone, Debug)]
pub struct Dctcp {
    config: Config,
    pacing: WindowPacing,
    episode: Episode,
    state: Growth,
    /// The state before the last reduction that may prove spurious.
    before: Option<Growth>,
    alpha: MarkShare<10>,
    /// The observation window, from its first acknowledgement.
    observed: Option<Round>,
    verdict: Verdict,
}

impl Dctcp {
    /// A new connection's controller.
    pub fn new(config: &Config) -> Self {
        let state = Growth::new(config);
        let Window {
            mss,
            cwnd,
            ssthresh,
        } = state.window;
        let pacing = WindowPacing::new(config.pacing, mss);
        Self {
            config: *config,
            pacing,
            episode: Episode::Open,
            state,
            before: None,
            alpha: MarkShare::new(),
            observed: None,
            verdict: pacing.verdict(cwnd, ssthresh),
        }
    }

    fn conclude(&mut self) {
        let Window { cwnd, ssthresh, .. } = self.state.window;
        self.verdict = self.pacing.verdict(cwnd, ssthresh);
    }

    fn observe(&mut self, ack: &Ack) {
        self.alpha.count(ack);
        match self.observed {
            Some(round) if !round.is_over(ack) => return,
            Some(_) => self.alpha.advance(),
            None => {}
        }
        self.observed = Some(Round::after(ack));
    }

    fn reduce(&mut self, signal: Signal) {
        self.before = Some(self.state);
        let Window { mss, cwnd, .. } = self.state.window;
        if signal == Signal::Ce {
            let segments = (cwnd / mss.get()).get();
            self.state
                .cut(cwnd.saturating_sub(mss * self.alpha.half_of(segments)));
        } else {
            self.state.cut(cwnd / 2);
        }
    }

    /// Marks cost little where the share is small; a loss in the same window still costs half of
    /// it.
    fn marked_only(&self) -> bool {
        self.episode == Episode::Reduced { by: Signal::Ce }
    }
}

impl Controller for Dctcp {
    fn name(&self) -> &'static str {
        "dctcp"
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.pacing.on_ack(ack);
        self.observe(ack);
        if ack.phase == Phase::Cwr && ack.lost.get() > 0 && self.marked_only() {
            self.episode = Episode::Reduced { by: Signal::Loss };
            self.reduce(Signal::Loss);
        }
        if self.episode.on_ack(ack) && ack.cwnd_limited {
            self.state.grow(ack.acked);
        }
        self.conclude();
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        self.pacing.on_congestion(congestion.in_flight);
        if matches!(congestion.signal, Signal::Loss | Signal::Timeout) && self.marked_only() {
            self.episode = Episode::Open;
        }
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

    fn model(&self) -> Model {
        Model {
            alpha: Some(self.alpha.fraction()),
            ..Model::default()
        }
    }

    fn ecn(&self) -> Ecn {
        Ecn::Dctcp
    }
}
