//! [`CarefulResume`]: a new connection resumes the window of an earlier one on the same path
//! (RFC 9959, draft-ietf-tsvwg-careful-resume).
//!
//! The initial window is sent as ever (Reconnaissance). Once it is acknowledged without a congestion
//! signal and its round trip resembles that of the saved path, the window jumps to half of the saved
//! one, paced over a round trip (Unvalidated). From the first acknowledgment of what was sent
//! in the jump it grows by the rules of the controller below (Validating), until all of it is
//! acknowledged (Normal). Congestion before that means that the capacity is not there: the window
//! falls to half of what was acknowledged and is held until the jump has drained (Safe Retreat). Slow
//! start then ends at β times what was acknowledged.
//!
//! DIVERGES: a controller sees amounts, not packets. "Acknowledged" is therefore counted in bytes
//! delivered, retransmissions included. What the jump delivered (`PipeSize`) is counted until a round
//! trip after the congestion: what is acknowledged later was sent later.

use alloc::boxed::Box;
use core::time::Duration;

use tautline_base::{Bytes, Instant, Rate};

use crate::config::Config;
use crate::controller::{
    Ack, Congestion, CongestionState, Controller, Ecn, Idle, Loss, Model, Recovery, Signal,
    Underuse, Verdict,
};
use crate::pacing::{SLOWEST, burst};

/// A path's window and round trip, as an earlier connection found them. The caller keeps them, each
/// for one path and for a bounded time, lets one connection at a time use them, and discards them
/// after a [safe retreat](CarefulResume#phases).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedPath {
    /// Bytes that the path carried in a round trip.
    cwnd: Bytes,
    /// Lowest round trip.
    rtt: Duration,
}

/// A window below so many initial ones is not worth saving.
const LEAST_WINDOWS: u64 = 4;

impl SavedPath {
    /// A path that carried `cwnd` bytes in a round trip of at least `rtt`, for connections whose
    /// initial window is `initial_window`. `None` if slow start gets there soon: below four initial
    /// windows. The window at the end of slow start overshoots; the bytes in flight are safer.
    pub fn new(cwnd: Bytes, rtt: Duration, initial_window: Bytes) -> Option<Self> {
        (cwnd >= initial_window * LEAST_WINDOWS && !rtt.is_zero()).then_some(Self { cwnd, rtt })
    }

    /// The resumed window: half of the saved one leaves room for flows that came since.
    const fn jump(self) -> Bytes {
        Bytes::new(self.cwnd.get() / 2)
    }

    /// A round trip of `rtt` may be that of this path. A shorter one would resume at a higher rate
    /// than was observed.
    fn resembles(self, rtt: Duration) -> bool {
        rtt >= self.rtt / 2 && rtt <= self.rtt * 10
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Reconnaissance,
    Unvalidated {
        since: Instant,
        /// The first byte of the jump is delivered when the total exceeds this.
        first: Bytes,
        /// `PipeSize`: the window before the jump, and what was acknowledged since.
        pipe: Bytes,
    },
    Validating {
        /// The last byte of the jump is delivered when the total reaches this.
        last: Bytes,
        pipe: Bytes,
    },
    SafeRetreat {
        last: Bytes,
        pipe: Bytes,
        /// Bytes acknowledged from then on were sent after the jump.
        drained: Instant,
        cwnd: Bytes,
    },
    Normal,
}

/// A controller for one connection that resumes a saved path.
///
/// # Phases
///
/// [`Model::state`] names the phase (`reconnaissance`, `unvalidated`, `validating`, `safe retreat`),
/// and in the Normal Phase the state of the controller below.
#[derive(Debug)]
pub struct CarefulResume {
    inner: Box<dyn Controller>,
    saved: SavedPath,
    phase: Phase,
    /// Tenths of `PipeSize` up to which the window grows exponentially after a retreat.
    beta: u64,
    mss: Bytes,
    initial_window: Bytes,
    /// As of the last acknowledgment.
    delivered: Bytes,
    srtt: Duration,
}

impl CarefulResume {
    /// Resumes `saved` in a new connection under `inner`, a controller whose window is the one it
    /// answers with. `beta` is the factor, in tenths from 5 to 10, by which `inner` reduces its window:
    /// 5 for Reno, 7 for CUBIC.
    pub fn new(inner: Box<dyn Controller>, saved: SavedPath, beta: u64, config: &Config) -> Self {
        Self {
            inner,
            saved,
            phase: Phase::Reconnaissance,
            beta: beta.clamp(5, 10),
            mss: config.mss.max(Bytes::new(1)),
            initial_window: config.initial_window,
            delivered: Bytes::ZERO,
            srtt: Duration::ZERO,
        }
    }

    /// Whether the jump may begin with `ack`; the Normal Phase follows if the path is another.
    fn reconnoiter(&mut self, ack: &Ack) {
        let cwnd = self.inner.verdict().cwnd;
        if ack.delivered < self.initial_window || ack.min_rtt.is_zero() {
            return;
        }
        if !self.saved.resembles(ack.min_rtt) || self.saved.jump() <= cwnd {
            self.phase = Phase::Normal;
        } else if ack.cwnd_limited {
            self.phase = Phase::Unvalidated {
                since: ack.now,
                first: ack.delivered + ack.in_flight,
                pipe: cwnd,
            };
        }
    }

    /// The window of the controller below becomes `cwnd`, before it learns of an acknowledgment.
    fn set_window(&mut self, cwnd: Bytes, ssthresh: Bytes) {
        let before = self.inner.verdict();
        self.inner.adopt(&Verdict {
            cwnd,
            ssthresh,
            ..before
        });
    }

    /// `ack` without its permission to open the window.
    fn without_growth(ack: &Ack) -> Ack {
        Ack {
            cwnd_limited: false,
            ..*ack
        }
    }
}

impl Controller for CarefulResume {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.delivered = ack.delivered;
        if !ack.srtt.is_zero() {
            self.srtt = ack.srtt;
        }
        match self.phase {
            Phase::Normal => self.inner.on_ack(ack),
            Phase::Reconnaissance => {
                self.inner.on_ack(ack);
                self.reconnoiter(ack);
            }
            Phase::Unvalidated { since, first, pipe } => {
                let pipe = pipe + ack.acked;
                let sent = ack.prior_in_flight >= self.saved.jump();
                if ack.delivered <= first && ack.now < since + self.srtt && !sent {
                    self.phase = Phase::Unvalidated { since, first, pipe };
                    return self.inner.on_ack(&Self::without_growth(ack));
                }
                let last = ack.delivered + ack.in_flight;
                self.phase = Phase::Validating { last, pipe };
                let ssthresh = self.inner.verdict().ssthresh;
                self.set_window(ack.in_flight.max(self.initial_window), ssthresh);
                self.inner.on_ack(ack);
            }
            Phase::Validating { last, pipe } => {
                self.phase = if ack.delivered >= last {
                    Phase::Normal
                } else {
                    Phase::Validating {
                        last,
                        pipe: pipe + ack.acked,
                    }
                };
                self.inner.on_ack(ack);
            }
            Phase::SafeRetreat {
                last,
                pipe,
                drained,
                cwnd,
            } => {
                let of_jump = ack.now < drained;
                let pipe = pipe + if of_jump { ack.acked } else { Bytes::ZERO };
                // Not in the middle of a recovery, which the transport then would have to take over.
                if ack.delivered >= last && ack.state == CongestionState::Open {
                    self.set_window(cwnd, (pipe * self.beta / 10).max(cwnd));
                    self.phase = Phase::Normal;
                } else {
                    self.phase = Phase::SafeRetreat {
                        last,
                        pipe,
                        drained,
                        cwnd,
                    };
                }
                self.inner.on_ack(&Self::without_growth(ack));
            }
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        self.inner.on_congestion(congestion);
        let pipe = match self.phase {
            _ if congestion.signal == Signal::Timeout => None,
            Phase::Unvalidated { pipe, .. } | Phase::Validating { pipe, .. } => Some(pipe),
            Phase::SafeRetreat { .. } => return,
            Phase::Reconnaissance | Phase::Normal => None,
        };
        self.phase = pipe.map_or(Phase::Normal, |pipe| Phase::SafeRetreat {
            last: self.delivered + congestion.in_flight,
            pipe,
            drained: congestion.now + self.srtt,
            cwnd: (pipe / 2).max(self.mss),
        });
    }

    /// After a retreat the window stays that of before the jump.
    fn on_undo(&mut self, now: Instant) {
        self.inner.on_undo(now);
        if matches!(self.phase, Phase::SafeRetreat { .. }) {
            self.phase = Phase::Normal;
        }
    }

    /// A window that the application does not use is not validated.
    fn on_idle(&mut self, idle: &Idle) {
        self.inner.on_idle(idle);
        if self.phase != Phase::Reconnaissance {
            self.phase = Phase::Normal;
        }
    }

    fn verdict(&self) -> Verdict {
        let below = self.inner.verdict();
        match self.phase {
            Phase::Reconnaissance | Phase::Validating { .. } | Phase::Normal => below,
            Phase::Unvalidated { .. } => {
                let cwnd = self.saved.jump();
                let pacing_rate = Rate::from_amount(cwnd, self.srtt).max(SLOWEST);
                Verdict {
                    cwnd,
                    pacing_rate,
                    burst: burst(pacing_rate, self.mss).min(self.initial_window),
                    ..below
                }
            }
            Phase::SafeRetreat { cwnd, .. } => Verdict { cwnd, ..below },
        }
    }

    fn on_lost(&mut self, loss: &Loss) {
        self.inner.on_lost(loss);
    }

    fn adopt(&mut self, before: &Verdict) {
        self.phase = Phase::Normal;
        self.inner.adopt(before);
    }

    fn on_underuse(&mut self, underuse: &Underuse) {
        self.inner.on_underuse(underuse);
    }

    fn model(&self) -> Model {
        let below = self.inner.model();
        let state = match self.phase {
            Phase::Reconnaissance => "reconnaissance",
            Phase::Unvalidated { .. } => "unvalidated",
            Phase::Validating { .. } => "validating",
            Phase::SafeRetreat { .. } => "safe retreat",
            Phase::Normal => below.state,
        };
        Model { state, ..below }
    }

    fn ecn(&self) -> Ecn {
        self.inner.ecn()
    }

    /// Proportional rate reduction would drain the jump too slowly.
    fn recovery(&self) -> Recovery {
        match self.phase {
            Phase::SafeRetreat { .. } => Recovery::Controller,
            _ => self.inner.recovery(),
        }
    }

    fn packet_segments(&self, autosized: u64) -> u64 {
        self.inner.packet_segments(autosized)
    }
}

#[cfg(test)]
mod tests;
