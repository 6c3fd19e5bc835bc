//! RACK: a segment is lost when one sent after it was delivered and reordering cannot explain it
//! (RFC 8985 §6 in Linux's form, `net/ipv4/tcp_recovery.c`).

use std::time::Duration;

use tautline_base::{Bytes, Instant};

use crate::config::Reordering;

/// Segments SACKed above a hole that prove a loss while no reordering has been seen (RFC 8985 §6.2
/// step 4, RFC 5681 §3.2).
pub(in crate::tcp) const DUP_THRESHOLD: u32 = 3;
/// Upper bound of the reordering degree (Linux `tcp_max_reordering`).
const MAX_DEGREE: u32 = 300;
/// Recoveries that a widened window outlives the last duplicate by (RFC 8985 §6.2 step 4: 16).
const PERSISTENCE: u8 = 16;

/// State of RACK.
#[derive(Debug)]
pub(super) struct Rack {
    /// Departure and end of the most recently sent segment that was delivered.
    pub(super) newest: Option<(Instant, u64)>,
    pub(super) rtt: Duration,
    /// Highest offset delivered, to notice reordering.
    pub(super) highest: u64,
    /// Number of segments that arrived after one sent later.
    pub(super) reorderings: u32,
    /// Reordering degree of the path in segments.
    pub(super) degree: u32,
    /// The window in quarters of the lowest RTT.
    steps: u8,
    /// Recoveries until it narrows again.
    persistence: u8,
    /// A duplicate was reported since the window was last adapted.
    duplicate: bool,
    /// Delivered in all when the window last widened.
    widened_at: Bytes,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            newest: None,
            rtt: Duration::ZERO,
            highest: 0,
            reorderings: 0,
            degree: DUP_THRESHOLD,
            steps: 1,
            persistence: 0,
            duplicate: false,
            widened_at: Bytes::ZERO,
        }
    }
}

/// Inputs of the reordering window.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct ReorderingWindow {
    pub(in crate::tcp) min_rtt: Duration,
    pub(in crate::tcp) srtt: Duration,
    /// In fast or timeout recovery already.
    pub(in crate::tcp) in_recovery: bool,
    pub(in crate::tcp) policy: Reordering,
}

impl Rack {
    /// The newest copy of a segment was delivered, given as its departure and end. `rtt`: since the
    /// latest departure that the same acknowledgment reports. It counts although a segment that
    /// was sent later has been delivered before (RFC 8985 §6.2 step 2).
    pub(super) fn advance(&mut self, segment: (Instant, u64), rtt: Duration) {
        self.rtt = rtt;
        self.newest = self.newest.max(Some(segment));
    }

    /// The segment from `start` was sent once and came after one from further up had come: the path
    /// reorders, by the segments of size `mss` between.
    pub(super) fn reordered(&mut self, start: u64, mss: u64) {
        let distance = self.highest.saturating_sub(start).div_ceil(mss.max(1));
        self.degree = self
            .degree
            .max(u32::try_from(distance).unwrap_or(u32::MAX).min(MAX_DEGREE));
        self.reorderings = self.reorderings.saturating_add(1);
    }

    /// Time by which a segment's delivery may follow that of one sent later, before it counts as
    /// lost. `sacked`: segments the peer holds out of order.
    pub(super) fn window(&self, on: ReorderingWindow, sacked: usize) -> Duration {
        let quick = on.in_recovery || sacked >= self.degree as usize;
        match on.policy {
            Reordering::Ignored => Duration::ZERO,
            _ if self.reorderings == 0 && quick => Duration::ZERO,
            _ => (on.min_rtt / 4 * u32::from(self.steps)).min(on.srtt),
        }
    }

    /// A segment arrived twice: the window was too narrow, if it was reordering that made us send
    /// it again.
    pub(super) fn duplicated(&mut self) {
        self.duplicate |= self.reorderings > 0;
    }

    /// Something was delivered that was sent when `sent_when` had been delivered in all;
    /// `delivered` has been now. The window widens at most once a round trip.
    pub(super) fn adapt(&mut self, sent_when: Bytes, delivered: Bytes, policy: Reordering) {
        if policy != Reordering::Adaptive {
            return;
        }
        let fresh = sent_when >= self.widened_at;
        if std::mem::take(&mut self.duplicate) && fresh {
            self.steps = self.steps.saturating_add(1);
            self.widened_at = delivered;
            self.persistence = PERSISTENCE;
        } else if self.persistence == 0 {
            self.steps = 1;
        }
    }

    /// A recovery has ended that was not for nothing.
    pub(super) fn recovered(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
    }

    /// A timeout came although many segments had been delivered past the hole: the degree was
    /// overestimated.
    pub(super) fn timed_out(&mut self, sacked: usize) {
        if sacked >= DUP_THRESHOLD as usize {
            self.degree = self.degree.min(DUP_THRESHOLD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: ReorderingWindow = ReorderingWindow {
        min_rtt: Duration::from_millis(40),
        srtt: Duration::from_millis(50),
        in_recovery: true,
        policy: Reordering::Adaptive,
    };

    /// A duplicate is reported once in each of `rounds` round trips.
    fn after_duplicates(rounds: u64, policy: Reordering) -> Rack {
        let mut rack = Rack {
            highest: 5000,
            ..Rack::default()
        };
        rack.reordered(1000, 1000);
        for round in 1..=rounds {
            rack.duplicated();
            rack.adapt(Bytes::new(round), Bytes::new(round + 1), policy);
        }
        rack
    }

    #[test]
    fn windows_of_the_spec() {
        // RFC 8985 §6.2 step 4: min_rtt 40 ms, srtt 50 ms: 10 / 20 / 30 / 50 / 50 ms for steps 1 /
        // 2 / 3 / 5 / 6.
        for (steps, millis) in [(1, 10), (2, 20), (3, 30), (5, 50), (6, 50)] {
            let rack = after_duplicates(steps - 1, Reordering::Adaptive);
            assert_eq!(
                rack.window(ON, 0),
                Duration::from_millis(millis),
                "{steps} steps"
            );
        }
        let constant = after_duplicates(5, Reordering::Static);
        assert_eq!(constant.window(ON, 0), Duration::from_millis(10));
        let ignored = ReorderingWindow {
            policy: Reordering::Ignored,
            ..ON
        };
        assert_eq!(
            after_duplicates(5, Reordering::Adaptive).window(ignored, 0),
            Duration::ZERO
        );
    }

    #[test]
    fn without_reordering_three_sacks_or_a_recovery_close_the_window() {
        let rack = Rack::default();
        let open = ReorderingWindow {
            in_recovery: false,
            ..ON
        };
        assert_eq!(rack.window(open, 2), Duration::from_millis(10));
        assert_eq!(rack.window(open, 3), Duration::ZERO);
        assert_eq!(rack.window(ON, 0), Duration::ZERO);
    }

    #[test]
    fn the_window_widens_once_a_round_trip_and_narrows_after_sixteen_recoveries() {
        let mut rack = after_duplicates(2, Reordering::Adaptive);
        assert_eq!(rack.steps, 3);
        rack.duplicated();
        rack.adapt(Bytes::new(2), Bytes::new(9), Reordering::Adaptive);
        assert_eq!(rack.steps, 3, "sent before the window last widened");
        for recovery in 0..16 {
            rack.adapt(Bytes::new(10), Bytes::new(10), Reordering::Adaptive);
            assert_eq!(rack.steps, 3, "recovery {recovery}");
            rack.recovered();
        }
        rack.adapt(Bytes::new(10), Bytes::new(10), Reordering::Adaptive);
        assert_eq!(rack.steps, 1);
    }

    #[test]
    fn duplicates_of_a_path_that_keeps_order_widen_nothing() {
        let mut rack = Rack::default();
        rack.duplicated();
        rack.adapt(Bytes::new(1), Bytes::new(2), Reordering::Adaptive);
        assert_eq!(rack.steps, 1);
    }

    #[test]
    fn the_degree_is_the_farthest_displacement_and_bounded() {
        let mut rack = Rack {
            highest: 8001,
            ..Rack::default()
        };
        rack.reordered(1001, 1000);
        assert_eq!((rack.degree, rack.reorderings), (7, 1));
        rack.reordered(7001, 1000);
        assert_eq!((rack.degree, rack.reorderings), (7, 2));
        rack.timed_out(2);
        assert_eq!(rack.degree, 7);
        rack.timed_out(3);
        assert_eq!(rack.degree, 3);
        rack.highest = u64::MAX;
        rack.reordered(0, 0);
        assert_eq!(rack.degree, MAX_DEGREE);
    }
}
