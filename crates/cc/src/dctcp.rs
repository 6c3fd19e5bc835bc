//! DCTCP (RFC 8257): cuts the window by half the share of marked bytes instead of by half. For
//! networks under one administration whose switches mark at a shallow threshold.
//!
//! Between marks it grows like Reno, and a loss halves the window (§3.5); without ECN it is Reno.
//! As in Linux a reduction is a whole number of segments.

use tautline_base::Bytes;

use crate::config::Config;
use crate::controller::{Ack, Ecn, Model, Signal, Verdict};
use crate::episode::Episode;
use crate::mark_share::MarkShare;
use crate::reno::RenoWindow;
use crate::rounds::Round;
use crate::window::Window;
use crate::window_controller::{WindowController, WindowLaw};

/// DCTCP for one connection.
pub type Dctcp = WindowController<DctcpLaw>;

/// The law of [`Dctcp`].
#[derive(Clone, Copy, Debug)]
pub struct DctcpLaw {
    window: RenoWindow,
    alpha: MarkShare<10>,
    /// The observation window, from its first acknowledgment.
    observed: Option<Round>,
}

impl Dctcp {
    /// A new connection's controller.
    pub fn new(config: &Config) -> Self {
        let law = DctcpLaw {
            window: RenoWindow::new(config),
            alpha: MarkShare::new(),
            observed: None,
        };
        Self::with_law(law, config)
    }
}

impl WindowLaw for DctcpLaw {
    const NAME: &'static str = "dctcp";
    const ECN: Ecn = Ecn::Dctcp;
    type Window = Window;

    #[inline]
    fn window(&self) -> &Window {
        &self.window.window
    }

    fn window_mut(&mut self) -> &mut Window {
        &mut self.window.window
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, _before: impl FnOnce() -> Verdict) {
        self.alpha.count(ack);
        match self.observed {
            Some(round) if !round.is_over(ack) => return,
            Some(_) => self.alpha.advance(),
            None => {}
        }
        self.observed = Some(Round::starting_at(ack));
    }

    #[inline]
    fn answers_marks(&self, episode: Episode) -> bool {
        episode == Episode::reduced(Signal::Ce)
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack, episode: &mut Episode, _before: impl FnOnce() -> Verdict) {
        if episode.on_ack(ack) && ack.cwnd_limited {
            self.window.grow(ack.acked);
        }
    }

    /// Lets a loss cut the window once more after a mark did.
    fn on_signal(&mut self, signal: Signal, episode: &mut Episode) -> bool {
        if matches!(signal, Signal::Loss | Signal::Timeout) && self.answers_marks(*episode) {
            *episode = Episode::Open;
        }
        true
    }

    fn reduce(&mut self, signal: Signal) {
        let Window { mss, cwnd, .. } = self.window.window;
        self.window.cut(if signal == Signal::Ce {
            cwnd.saturating_sub(mss * self.alpha.half_of((cwnd / mss.get()).get()))
        } else {
            cwnd / 2
        });
    }

    fn undo(&mut self, before: Self) {
        self.window.window.undo(&before.window.window);
    }

    fn on_shrink(&mut self) {
        self.window.credit = Bytes::ZERO;
    }

    fn model(&self) -> Model {
        Model {
            alpha: Some(self.alpha.fraction()),
            ..Model::default()
        }
    }
}
