//! [`Undo`]: the state before a loss, in case the loss proves spurious, draft-ietf-ccwg-bbr "Updating the
//! Model Upon Detecting a Spurious Loss Recovery".
//!
//! DIVERGES: saves the state once, at the first loss of an episode, because the transport undoes
//! whole episodes. The draft saves at the first loss of each round and again when fast recovery
//! begins; the second save would keep bounds that the first loss has already cut.

use tautline_base::Bytes;

use super::bounds::{Bounds, looser};
use super::{Bbr3, State};

/// A state that a loss interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupted {
    Startup,
    Up,
}

/// Loss recovery and the state to return to after it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    saved: Option<Saved>,
    /// Losses were seen and the transport has not yet reported their repair.
    pub(super) recovering: bool,
    /// The last window that neither losses nor ProbeRTT affected.
    prior_cwnd: Bytes,
}

#[derive(Clone, Copy, Debug)]
struct Saved {
    bounds: Bounds,
    interrupted: Option<Interrupted>,
}

impl Undo {
    /// Records the state that a loss interrupts.
    pub(super) fn interrupt(&mut self, state: Interrupted) {
        if let Some(saved) = &mut self.saved {
            saved.interrupted = Some(state);
        }
    }

    /// The signal is certain: there is nothing to undo.
    pub(super) fn clear(&mut self) {
        self.saved = None;
    }
}

impl Bbr3 {
    /// An episode of losses begins.
    pub(super) fn save(&mut self) {
        self.save_cwnd();
        self.undo.saved = Some(Saved {
            bounds: self.bounds,
            interrupted: None,
        });
    }

    pub(super) fn save_cwnd(&mut self) {
        let kept = self.undo.recovering || matches!(self.state, State::ProbeRtt(_));
        self.undo.prior_cwnd = if kept {
            self.undo.prior_cwnd.max(self.cwnd)
        } else {
            self.cwnd
        };
    }

    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.undo.prior_cwnd);
    }

    /// Restores the state: nothing was lost.
    pub(super) fn restore(&mut self) {
        let Some(saved) = self.undo.saved.take() else {
            return;
        };
        self.restore_cwnd();
        self.undo.recovering = false;
        self.signals.lossy = false;
        self.full_pipe.restart(Default::default());
        self.bounds.shortterm.bw = looser(self.bounds.shortterm.bw, saved.bounds.shortterm.bw);
        self.bounds.shortterm.inflight = looser(
            self.bounds.shortterm.inflight,
            saved.bounds.shortterm.inflight,
        );
        self.bounds.longterm = looser(self.bounds.longterm, saved.bounds.longterm);
        let in_probe_rtt = matches!(self.state, State::ProbeRtt(_));
        match saved.interrupted {
            Some(Interrupted::Startup) => {
                self.full_pipe.reached = false;
                if !in_probe_rtt {
                    self.state = State::Startup;
                }
            }
            Some(Interrupted::Up) if !in_probe_rtt => self.enter_refill(),
            _ => {}
        }
    }
}
