//! [`Uplink`]: buffer status reports of a station, and its grants (3GPP TS 36.321, clause 5.4.5).

use std::collections::VecDeque;
use std::time::Duration;

use tautline_base::{Bytes, Instant};

use super::bearer::BLOCK_OVERHEAD;

/// Time from a report to its arrival.
const REPORT_DELAY: Duration = Duration::from_millis(1);

/// Reports and grants of one station.
#[derive(Debug, Default)]
pub(super) struct Uplink {
    /// Bytes that are waiting and not granted, as known to the base station.
    known: u64,
    /// Times of arrival, and bytes reported.
    reports: VecDeque<(Instant, u64)>,
    /// Times of transmission, and sizes.
    grants: VecDeque<(Instant, Bytes)>,
    /// Earliest time of the next report; `None` if it is due as soon as there is data.
    next_report: Option<Instant>,
}

impl Uplink {
    /// Receives reports, which hold the backlog after the transmission of their TTI. Subtracts
    /// outstanding grants if `outstanding` is true.
    pub(super) fn receive_reports(&mut self, outstanding: bool, now: Instant) {
        while self.reports.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, reported)) = self.reports.pop_front()
        {
            let grants = self.grants.iter().filter(|_| outstanding);
            let granted: u64 = grants.map(|(_, block)| payload(*block)).sum();
            self.known = reported.saturating_sub(granted);
        }
    }

    /// Size of the transport block that would empty the buffer.
    pub(super) fn wanted(&self) -> u64 {
        if self.known == 0 {
            0
        } else {
            self.known + BLOCK_OVERHEAD
        }
    }

    /// Grants `block` at time `at`.
    pub(super) fn grant(&mut self, block: Bytes, at: Instant) {
        self.known = self.known.saturating_sub(payload(block));
        self.grants.push_back((at, block));
    }

    /// Removes and returns the next grant that is due at `now`.
    pub(super) fn due(&mut self, now: Instant) -> Option<Bytes> {
        let (at, block) = *self.grants.front()?;
        (at <= now).then(|| {
            self.grants.pop_front();
            block
        })
    }

    /// Reports `backlog` bytes after a transmission, at most `every` so often.
    pub(super) fn report(&mut self, backlog: u64, every: Duration, now: Instant) {
        if backlog == 0 {
            self.next_report = None;
        } else if self.next_report.is_none_or(|due| due <= now) {
            self.next_report = Some(now + every);
            self.reports.push_back((now + REPORT_DELAY, backlog));
        }
    }

    /// True while a report, a grant or a need for one is pending.
    pub(super) fn is_active(&self) -> bool {
        self.known > 0 || !self.reports.is_empty() || !self.grants.is_empty()
    }
}

fn payload(block: Bytes) -> u64 {
    block.get().saturating_sub(BLOCK_OVERHEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn a_report_takes_a_millisecond_and_comes_once_per_period() {
        let mut uplink = Uplink::default();
        let five = Duration::from_millis(5);
        uplink.report(3000, five, ms(0));
        uplink.report(9000, five, ms(1));
        uplink.receive_reports(true, ms(0));
        assert_eq!(uplink.wanted(), 0);
        uplink.receive_reports(true, ms(1));
        assert_eq!(uplink.wanted(), 3005);
        uplink.report(9000, five, ms(5));
        uplink.receive_reports(true, ms(6));
        assert_eq!(uplink.wanted(), 9005);
        // Empty, then not: at once.
        uplink.report(0, five, ms(7));
        uplink.report(10, five, ms(8));
        uplink.receive_reports(true, ms(9));
        assert_eq!(uplink.wanted(), 15);
    }

    #[test]
    fn what_is_granted_is_not_granted_again() {
        let mut uplink = Uplink::default();
        let every = Duration::from_millis(1);
        uplink.report(3000, every, ms(0));
        uplink.receive_reports(true, ms(1));
        uplink.grant(Bytes::new(1980), ms(5));
        assert_eq!(uplink.wanted(), 3000 - 1975 + 5);
        // The station still has all of it, and says so.
        uplink.report(3000, every, ms(1));
        uplink.receive_reports(true, ms(2));
        assert_eq!(uplink.wanted(), 3000 - 1975 + 5);
        uplink.grant(Bytes::new(1980), ms(6));
        assert_eq!((uplink.wanted(), uplink.due(ms(4))), (0, None));
        assert_eq!(
            (uplink.due(ms(5)), uplink.due(ms(5))),
            (Some(Bytes::new(1980)), None)
        );
        let mut generous = Uplink::default();
        generous.report(3000, every, ms(0));
        generous.receive_reports(false, ms(1));
        generous.grant(Bytes::new(1980), ms(5));
        generous.report(3000, every, ms(1));
        generous.receive_reports(false, ms(2));
        assert_eq!(generous.wanted(), 3005);
        assert!(uplink.is_active());
        assert_eq!(uplink.due(ms(6)), Some(Bytes::new(1980)));
        assert!(!uplink.is_active());
    }
}
