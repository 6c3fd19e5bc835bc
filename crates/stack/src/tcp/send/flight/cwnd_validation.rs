//! Congestion window validation (RFC 2861 §3.1, RFC 7661's concern; Linux `tcp_cwnd_validate`,
//! `net/ipv4/tcp_output.c`): an unused window reflects the path less the longer it stays unused.
//! Pauses with nothing in flight are `on_idle`'s.

use std::num::NonZeroU64;

use tautline_base::{Bytes, Instant};

use super::Flight;
use super::recovery::Phase;

/// Use of the congestion window.
#[derive(Debug, Default)]
pub(super) struct WindowUse {
    /// The window, not the application, stopped the sender before this offset.
    pub(super) limited_until: Option<NonZeroU64>,
    /// Most bytes in flight in this round.
    pub(super) largest: u64,
    /// Most bytes in flight since the window last limited the sender, or since its use was last
    /// assessed.
    used: u64,
    /// Time of the last assessment.
    judged: Instant,
    /// Delivered total at which the next round begins.
    pub(super) round_end: Bytes,
}

impl WindowUse {
    /// Restarts the assessment of window use.
    pub(super) fn validated(&mut self, now: Instant) {
        self.used = 0;
        self.judged = now;
    }
}

impl Flight {
    /// New data has left. If less than the window was in flight for a retransmission timeout,
    /// limited neither by the window nor by the send buffer (`buffer_limited`), reports the amount
    /// used to the controller.
    pub(in crate::tcp::send) fn validate_window(&mut self, buffer_limited: bool, now: Instant) {
        let in_flight = self.segments.in_flight();
        let usage = &mut self.congestion.usage;
        usage.largest = usage.largest.max(in_flight);
        let in_loss = matches!(self.recovery.phase, Phase::Loss { .. });
        let limited = in_loss || self.congestion.is_limited(self.una());
        let usage = &mut self.congestion.usage;
        usage.used = usage.used.max(in_flight);
        if !limited {
            if now.nanos_since(usage.judged) < self.rtt.rto_nanos() {
                return;
            }
            let used = Bytes::new(usage.used);
            if self.recovery.is_open() && !buffer_limited {
                self.congestion.on_underuse(used, now);
            }
        }
        self.congestion.usage.validated(now);
    }

    /// The application writes behind `end`. If it left no full segment to send although the window
    /// was open, the flight says little about the path. Lost segments that wait to be sent again
    /// are something to send, and so is what is `charged` below the socket (Linux
    /// `tcp_rate_check_app_limited`).
    pub(in crate::tcp) fn note_application_limited(&mut self, end: u64, charged: Bytes) {
        let nothing_waits = self.nxt() + self.mss > end && !self.segments.any_lost();
        let in_flight = Bytes::new(self.segments.in_flight());
        if nothing_waits && charged == Bytes::ZERO && in_flight < self.cwnd() {
            self.congestion.sampler.mark_app_limited(in_flight);
        }
    }

    /// Nothing has been in flight, or the search for the path's MTU is to begin: `restart` comes
    /// before new data.
    pub(in crate::tcp::send) fn needs_restart(&self) -> bool {
        self.idle_since.is_some() || self.should_begin_mtu_search()
    }

    /// Brings up to date what depends on time before new data leaves: reports to the controller
    /// that nothing was in flight, and begins the search for the path's MTU.
    pub(in crate::tcp) fn restart(&mut self, now: Instant) {
        if let Some(since) = self.idle_since.take() {
            self.congestion.on_idle(since, self.rtt.rto(), now);
        }
        if self.should_begin_mtu_search() {
            self.path.begin();
            self.use_path_mtu();
        }
    }
}
