//! [`Undo`]: what a loss changed, in case it proves to be none, draft-ietf-ccwg-bbr "Updating the
//! Model Upon Detecting a Spurious Loss Recovery".
//!
//! The state is saved once, at the first loss of an episode, which is when the transport's undo
//! says nothing was lost. (The draft saves at the first loss of each round and again when fast
//! recovery begins; the second save would keep what the first loss has already cut.)

use tautline_base::Bytes;

use super::bounds::{ShortTerm, looser};
use super::{Bbr3, State};

/// A state that a loss ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Startup,
    Up,
}

/// The saved state, if there is something to return to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo(Option<Saved>);

#[derive(Clone, Copy, Debug)]
struct Saved {
    shortterm: ShortTerm,
    longterm: Option<Bytes>,
    left: Option<Left>,
}

impl Undo {
    /// A loss ends a state.
    pub(super) fn leave(&mut self, left: Left) {
        if let Some(saved) = &mut self.0 {
            saved.left = Some(left);
        }
    }

    /// The signal was no guess.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }
}

impl Bbr3 {
    /// An episode of losses begins.
    pub(super) fn save(&mut self) {
        self.save_cwnd();
        self.undo = Undo(Some(Saved {
            shortterm: self.shortterm,
            longterm: self.longterm,
            left: None,
        }));
    }

    pub(super) fn save_cwnd(&mut self) {
        let kept = self.recovering || matches!(self.state, State::ProbeRtt(_));
        self.prior_cwnd = if kept {
            self.prior_cwnd.max(self.cwnd)
        } else {
            self.cwnd
        };
    }

    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    /// Nothing was lost after all.
    pub(super) fn restore(&mut self) {
        let Some(saved) = self.undo.0.take() else {
            return;
        };
        self.restore_cwnd();
        self.recovering = false;
        self.signals.lossy = false;
        self.full_pipe.restart(Default::default());
        self.shortterm.bw = looser(self.shortterm.bw, saved.shortterm.bw);
        self.shortterm.inflight = looser(self.shortterm.inflight, saved.shortterm.inflight);
        self.longterm = looser(self.longterm, saved.longterm);
        let in_probe_rtt = matches!(self.state, State::ProbeRtt(_));
        match saved.left {
            Some(Left::Startup) => {
                self.full_pipe.reached = false;
                if !in_probe_rtt {
                    self.enter_startup();
                }
            }
            Some(Left::Up) if !in_probe_rtt => self.enter_refill(),
            _ => {}
        }
    }
}
