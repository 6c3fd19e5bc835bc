//! NewReno (RFC 5681 §3.1, RFC 6582): doubles per round trip below the threshold, adds one segment
//! per round trip above it, halves at a congestion signal. With [`Config::abe`] a mark in
//! congestion avoidance leaves four fifths (RFC 8511).

use tautline_base::Bytes;

use crate::config::Config;
use crate::controller::{Ack, Signal, Verdict};
use crate::episode::Episode;
use crate::window::Window;
use crate::window_controller::{WindowController, WindowLaw};

/// NewReno for one connection.
///
/// ```
/// use tautline_base::{Bytes, Instant};
/// use tautline_cc::{Config, Congestion, Controller, Reno, Signal};
///
/// let mut reno = Reno::new(&Config::new(Bytes::new(1000)));
/// let (now, in_flight) = (Instant::from_secs(1), Bytes::new(10_000));
/// reno.on_congestion(&Congestion { now, signal: Signal::Loss, in_flight });
/// assert_eq!(reno.verdict().cwnd, Bytes::new(5000)); // half the initial window
/// ```
pub type Reno = WindowController<NewReno>;

/// The law of [`Reno`].
#[derive(Clone, Copy, Debug)]
pub struct NewReno {
    abe: bool,
    window: RenoWindow,
}

/// A window that grows like Reno's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RenoWindow {
    pub(crate) window: Window,
    /// Bytes acknowledged in congestion avoidance and not yet turned into growth; below one window.
    pub(crate) credit: Bytes,
}

impl Reno {
    /// A new connection's controller.
    pub fn new(config: &Config) -> Self {
        let law = NewReno {
            abe: config.abe,
            window: RenoWindow::new(config),
        };
        Self::with_law(law, config)
    }
}

impl WindowLaw for NewReno {
    const NAME: &'static str = "reno";
    type Window = Window;

    #[inline]
    fn window(&self) -> &Window {
        &self.window.window
    }

    fn window_mut(&mut self) -> &mut Window {
        &mut self.window.window
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack, episode: &mut Episode, _before: impl FnOnce() -> Verdict) {
        if episode.on_ack(ack) && ack.cwnd_limited {
            self.window.grow(ack.acked);
        }
    }

    fn reduce(&mut self, signal: Signal) {
        let Window { cwnd, .. } = self.window.window;
        let gentle = self.abe && signal == Signal::Ce && !self.window.window.in_slow_start();
        self.window.cut(if gentle {
            cwnd.saturating_sub(cwnd / 5)
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
}

impl RenoWindow {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            window: Window::new(config),
            credit: Bytes::ZERO,
        }
    }

    /// Sets threshold and window to `to`, at least two segments.
    pub(crate) fn cut(&mut self, to: Bytes) {
        self.window.cut(to, 2);
        self.credit = Bytes::ZERO;
    }

    /// Grows the window for `acked` bytes, acknowledged while it limited the sender.
    #[inline]
    pub(crate) fn grow(&mut self, acked: Bytes) {
        let left = self.window.slow_start(acked);
        // An acknowledgment of more than a window still adds only one segment.
        self.credit += left.min(self.window.cwnd);
        if self.credit >= self.window.cwnd {
            self.credit = self.credit.saturating_sub(self.window.cwnd);
            self.window.grow(self.window.mss);
        }
    }
}
