//! [`WindowController`]: what every window-based controller does alike, around a [`WindowLaw`].

use core::time::Duration;

use tautline_base::{Bytes, Instant};

use crate::config::Config;
use crate::controller::{
    Ack, Congestion, CongestionState, Controller, Ecn, Idle, Model, Recovery, Signal, Underuse,
    Verdict,
};
use crate::episode::Episode;
use crate::pacing::WindowPacing;
use crate::saved::Saved;

/// A congestion window and its slow-start threshold, counted in bytes or in packets.
pub(crate) trait CongestionWindow {
    fn mss(&self) -> Bytes;

    /// Window and threshold in bytes.
    fn in_bytes(&self) -> (Bytes, Bytes);

    /// After a retransmission timeout: one segment beyond the estimate in flight; without it the
    /// lost segment could not be sent.
    fn restart(&mut self, in_flight: Bytes);

    /// Takes over another controller's window and threshold.
    fn adopt(&mut self, before: &Verdict);

    /// Halves the window for each retransmission timeout spent idle, down to the initial window.
    fn decay(&mut self, idle: Duration, rto: Duration, initial: Bytes);

    /// Moves the window half way to the bytes `used`, but no further than to the initial window.
    fn shrink_to_use(&mut self, used: Bytes, initial: Bytes);
}

/// The rules by which an algorithm grows and reduces its window.
pub(crate) trait WindowLaw: Clone + Send {
    const NAME: &'static str;
    const ECN: Ecn = Ecn::Classic;
    type Window: CongestionWindow;

    fn window(&self) -> &Self::Window;

    fn window_mut(&mut self) -> &mut Self::Window;

    /// Updates the path measurements from `ack`, before any reaction to it. `before`: the verdict
    /// in force until now; its burst is not bounded.
    fn observe(&mut self, _ack: &Ack, _before: impl FnOnce() -> Verdict) {}

    /// True while the window is cut because of marks only, so that a loss costs another cut.
    fn answers_marks(&self, _episode: Episode) -> bool {
        false
    }

    /// Opens the window, if `episode` lets it.
    fn on_ack(&mut self, ack: &Ack, episode: &mut Episode, before: impl FnOnce() -> Verdict);

    /// Sees a congestion signal before the episode does. False if the law handles it itself.
    fn on_signal(&mut self, _signal: Signal, _episode: &mut Episode) -> bool {
        true
    }

    /// Cuts window and threshold at the beginning of an episode.
    fn reduce(&mut self, signal: Signal);

    /// Clears what a retransmission timeout makes obsolete.
    fn on_timeout(&mut self) {}

    /// Takes over another controller's window and threshold.
    fn adopt(&mut self, before: &Verdict) {
        self.window_mut().adopt(before);
    }

    /// Reverts the last reduction; `before` is the state that it changed.
    fn undo(&mut self, before: Self);

    /// Time since the last transmission.
    fn idle_time(&self, idle: &Idle, _srtt: Duration) -> Duration {
        idle.idle
    }

    /// Transmission resumes after a pause of length `idle`.
    fn resume(&mut self, _now: Instant, _idle: Duration) {}

    /// The window may have shrunk because it was not used.
    fn on_shrink(&mut self) {}

    fn model(&self) -> Model {
        Model::default()
    }

    fn recovery(&self, _episode: Episode) -> Recovery {
        Recovery::Prr
    }

    /// Shortens the burst of a verdict.
    fn bound_burst(&self, _verdict: &mut Verdict) {}

    fn packet_segments(&self, autosized: u64, _verdict: impl FnOnce() -> Verdict) -> u64 {
        autosized.max(2)
    }
}

/// A window-based controller. `L` is the law by which its window grows and shrinks; use it by the
/// names [`Reno`](crate::Reno), [`Cubic`](crate::Cubic), [`CubicLinux`](crate::CubicLinux),
/// [`Dctcp`](crate::Dctcp) and [`Prague`](crate::Prague).
#[derive(Clone, Debug)]
pub struct WindowController<L> {
    slow_start_after_idle: bool,
    initial_window: Bytes,
    pacing: WindowPacing,
    episode: Episode,
    law: L,
    /// The law before the last reduction that may prove spurious.
    before: Saved<L>,
}

#[expect(private_bounds, reason = "the laws of this crate are its own")]
impl<L: WindowLaw> WindowController<L> {
    pub(crate) fn with_law(law: L, config: &Config) -> Self {
        let pacing = WindowPacing::new(config.pacing);
        Self {
            slow_start_after_idle: config.slow_start_after_idle,
            initial_window: config.initial_window,
            pacing,
            episode: Episode::Open,
            law,
            before: Saved::empty(),
        }
    }

    fn reduce(&mut self, signal: Signal) {
        self.before.keep(&self.law);
        self.law.reduce(signal);
    }
}

impl<L: WindowLaw> Controller for WindowController<L> {
    fn name(&self) -> &'static str {
        L::NAME
    }

    fn on_ack(&mut self, ack: &Ack) {
        let (pacing, window) = (self.pacing, self.law.window());
        let (mss, window) = (window.mss(), window.in_bytes());
        let before = move || pacing.verdict(mss, window);
        if let Some(signal) = self.episode.successor(ack.state) {
            self.reduce(signal);
            self.before.clear();
        }
        self.pacing.on_ack(ack);
        self.law.observe(ack, before);
        // While marks are answered the transport begins no recovery for a loss.
        if self.law.answers_marks(self.episode)
            && ack.state == CongestionState::Cwr
            && ack.lost.get() > 0
        {
            self.episode = Episode::reduced(Signal::Loss);
            self.reduce(Signal::Loss);
        }
        self.law.on_ack(ack, &mut self.episode, before);
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        self.pacing.on_congestion(congestion.in_flight);
        if !self.law.on_signal(congestion.signal, &mut self.episode) {
            return;
        }
        if self.episode.on_signal(congestion.signal) {
            self.reduce(congestion.signal);
        }
        match congestion.signal {
            Signal::Timeout => {
                self.law.window_mut().restart(congestion.in_flight);
                self.law.on_timeout();
            }
            // Marks and local drops are facts, not guesses: there is nothing to undo.
            Signal::Ce | Signal::LocalDrop => self.before.clear(),
            Signal::Loss => {}
        }
    }

    fn on_undo(&mut self, _now: Instant) {
        self.episode = Episode::Open;
        if let Some(before) = self.before.take() {
            self.law.undo(before);
        }
    }

    fn on_idle(&mut self, idle: &Idle) {
        self.pacing.on_idle();
        let length = self.law.idle_time(idle, self.pacing.srtt());
        if self.slow_start_after_idle {
            let window = self.law.window_mut();
            window.decay(length, idle.rto, self.initial_window);
            self.law.on_shrink();
        }
        self.law.resume(idle.now, length);
    }

    fn on_underuse(&mut self, underuse: &Underuse) {
        if self.slow_start_after_idle {
            let window = self.law.window_mut();
            window.shrink_to_use(underuse.used, self.initial_window);
            self.law.on_shrink();
        }
    }

    fn adopt(&mut self, before: &Verdict) {
        self.law.adopt(before);
        self.pacing.adopt(before, self.law.window().in_bytes());
    }

    fn verdict(&self) -> Verdict {
        let window = self.law.window();
        let mut verdict = self.pacing.verdict(window.mss(), window.in_bytes());
        self.law.bound_burst(&mut verdict);
        verdict
    }

    fn model(&self) -> Model {
        self.law.model()
    }

    fn ecn(&self) -> Ecn {
        L::ECN
    }

    fn recovery(&self) -> Recovery {
        self.law.recovery(self.episode)
    }

    fn packet_segments(&self, autosized: u64) -> u64 {
        self.law.packet_segments(autosized, || self.verdict())
    }
}
