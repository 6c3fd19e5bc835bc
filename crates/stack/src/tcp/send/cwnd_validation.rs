//! Congestion window validation (RFC 2861 §3.1, RFC 7661's concern; Linux `tcp_cwnd_validate`,
//! `net/ipv4/tcp_output.c`): a window that an application leaves unused says less of the path the
//! longer that lasts. Pauses with nothing in flight are `on_idle`'s.

use tautline_base::{Bytes, Instant};
use tautline_cc::Underuse;

use super::SendHalf;
use super::recovery::Phase;

impl SendHalf {
    /// New data has left. When for a retransmission timeout less than the window was in flight, and
    /// neither the window nor the send buffer was the reason, the controller hears how much was.
    pub(super) fn validate_window(&mut self, now: Instant) {
        if self.window_limited() {
            self.window_validated(now);
            return;
        }
        self.flight.used = self.flight.used.max(self.segments.in_flight());
        if now.nanos_since(self.flight.judged) < self.rtt.rto_nanos() {
            return;
        }
        if self.phase == Phase::Open && !self.buffer.wants_room() {
            let used = Bytes::new(self.flight.used);
            self.congestion
                .update(|controller| controller.on_underuse(&Underuse { now, used }));
        }
        self.window_validated(now);
    }

    /// The window's use is judged anew from here.
    pub(super) fn window_validated(&mut self, now: Instant) {
        self.flight.used = 0;
        self.flight.judged = now;
    }
}
