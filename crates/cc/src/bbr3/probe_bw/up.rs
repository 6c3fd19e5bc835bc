//! ProbeBW_UP: probes for more bandwidth, and raises the long-term bound by 1, 2, 4, ... segments a
//! round while the window stands at it.

use tautline_base::{Bytes, Rate};

use super::{Bbr3, Feedback, State};
use crate::controller::Ack;

/// Growth rate of the long-term bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bbr3) struct Up {
    /// Acknowledged bytes that raise the bound by a segment.
    per_segment: Bytes,
    /// Bytes acknowledged and not yet turned into a rise.
    acked: Bytes,
    /// The rise of the coming round, as a power of two.
    doublings: u32,
}

impl Up {
    /// The slope of the first round.
    pub(in crate::bbr3) fn new(cwnd: Bytes, mss: Bytes) -> Self {
        let mut up = Self {
            per_segment: mss,
            acked: Bytes::ZERO,
            doublings: 0,
        };
        up.steepen(cwnd, mss);
        up
    }

    /// Doubles the rise, spread over the round: one segment per this many acknowledged bytes.
    pub(in crate::bbr3) fn steepen(&mut self, cwnd: Bytes, mss: Bytes) {
        let segments = (cwnd.get() / mss.get().max(1)) >> self.doublings;
        self.per_segment = mss * segments.max(1);
        self.doublings = (self.doublings + 1).min(30);
    }

    /// The rise for `acked` bytes.
    pub(in crate::bbr3) fn rise(&mut self, acked: Bytes, mss: Bytes) -> Bytes {
        self.acked += acked;
        let per_segment = self.per_segment.get().max(1);
        let segments = self.acked.get() / per_segment;
        self.acked = Bytes::new(self.acked.get() % per_segment);
        mss * segments
    }
}

impl Bbr3 {
    pub(super) fn enter_up(&mut self, baseline: Rate) {
        self.probe.feedback = Feedback::Starting;
        self.rounds.restart(self.delivered);
        self.full_pipe.restart(baseline);
        self.state = State::Up(Up::new(self.cwnd, self.mss));
    }

    pub(super) fn up(&mut self, ack: &Ack) {
        if self.is_time_to_go_down(ack) {
            self.probe.too_high = false;
            self.enter_down(ack.now);
        }
    }

    fn is_time_to_go_down(&mut self, ack: &Ack) -> bool {
        // Flight before this acknowledgment: after it there is room again, and the bound would
        // never be reached.
        let reached = |longterm: Bytes| self.in_network(ack, ack.prior_in_flight) >= longterm;
        if self.probe.too_high && self.bounds.longterm.is_some_and(reached) {
            self.probe.precautionary = true;
            return true;
        }
        if self.at_longterm(ack) {
            // The bound limits the rate: a plateau means nothing.
            self.full_pipe
                .restart(ack.rate.map(|sample| sample.rate).unwrap_or_default());
            return false;
        }
        self.full_pipe.now
    }

    /// The window limits the sender, and the long-term bound limits the window.
    fn at_longterm(&self, ack: &Ack) -> bool {
        ack.cwnd_limited
            && self
                .bounds
                .longterm
                .is_some_and(|longterm| self.cwnd >= longterm)
    }

    pub(super) fn raise_longterm(&mut self, ack: &Ack) {
        let State::Up(mut up) = self.state else {
            return;
        };
        if let Some(longterm) = self.bounds.longterm
            && self.at_longterm(ack)
        {
            self.bounds.longterm = Some(longterm + up.rise(ack.acked, self.mss));
            if self.rounds.started {
                up.steepen(self.cwnd, self.mss);
            }
            self.state = State::Up(up);
        }
    }
}
