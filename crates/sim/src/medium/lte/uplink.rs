//! [`Uplink`]: what a base station knows of what a station has to send, and what it permits (3GPP
//! TS 36.321, clause 5.4.5).

use std::collections::VecDeque;
use std::time::Duration;

use tautline_base::{Bytes, Instant};

use super::bearer::BLOCK_OVERHEAD;

/// How long a report is under way.
const REPORT_DELAY: Duration = Duration::from_millis(1);

/// Reports of one station and the grants it has for them.
#[derive(Debug, Default)]
pub(super) struct Uplink {
    /// What waits and is not granted, as far as the base station knows.
    known: u64,
    /// When it arrives, and what it says.
    reports: VecDeque<(Instant, u64)>,
    /// When to send, and how much.
    grants: VecDeque<(Instant, Bytes)>,
    /// Not before then is the next report due; `None` while there is nothing to report, and the
    /// first is due at once.
    next_report: Option<Instant>,
}

impl Uplink {
    /// Reports arrive. One says what was waiting after that TTI's transmission; what is granted
    /// comes off if `outstanding` counts.
    pub(super) fn hear(&mut self, outstanding: bool, now: Instant) {
        while self.reports.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, reported)) = self.reports.pop_front()
        {
            let grants = self.grants.iter().filter(|_| outstanding);
            let granted: u64 = grants.map(|(_, block)| payload(*block)).sum();
            self.known = reported.saturating_sub(granted);
        }
    }

    /// Bytes that a transport block would have to hold.
    pub(super) fn wanted(&self) -> u64 {
        if self.known == 0 {
            0
        } else {
            self.known + BLOCK_OVERHEAD
        }
    }

    /// The station may send `block` at `at`.
    pub(super) fn grant(&mut self, block: Bytes, at: Instant) {
        self.known = self.known.saturating_sub(payload(block));
        self.grants.push_back((at, block));
    }

    /// What the station may send now.
    pub(super) fn due(&mut self, now: Instant) -> Option<Bytes> {
        let (at, block) = *self.grants.front()?;
        (at <= now).then(|| {
            self.grants.pop_front();
            block
        })
    }

    /// The station, with `backlog` bytes left after its transmission, reports them, if it is time.
    pub(super) fn report(&mut self, backlog: u64, every: Duration, now: Instant) {
        if backlog == 0 {
            self.next_report = None;
        } else if self.next_report.is_none_or(|due| due <= now) {
            self.next_report = Some(now + every);
            self.reports.push_back((now + REPORT_DELAY, backlog));
        }
    }

    /// True while something is under way.
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
        uplink.hear(true, ms(0));
        assert_eq!(uplink.wanted(), 0);
        uplink.hear(true, ms(1));
        assert_eq!(uplink.wanted(), 3005);
        uplink.report(9000, five, ms(5));
        uplink.hear(true, ms(6));
        assert_eq!(uplink.wanted(), 9005);
        // Empty, then not: at once.
        uplink.report(0, five, ms(7));
        uplink.report(10, five, ms(8));
        uplink.hear(true, ms(9));
        assert_eq!(uplink.wanted(), 15);
    }

    #[test]
    fn what_is_granted_is_not_granted_again() {
        let mut uplink = Uplink::default();
        let every = Duration::from_millis(1);
        uplink.report(3000, every, ms(0));
        uplink.hear(true, ms(1));
        uplink.grant(Bytes::new(1980), ms(5));
        assert_eq!(uplink.wanted(), 3000 - 1975 + 5);
        // The station still has all of it, and says so.
        uplink.report(3000, every, ms(1));
        uplink.hear(true, ms(2));
        assert_eq!(uplink.wanted(), 3000 - 1975 + 5);
        uplink.grant(Bytes::new(1980), ms(6));
        assert_eq!((uplink.wanted(), uplink.due(ms(4))), (0, None));
        assert_eq!(
            (uplink.due(ms(5)), uplink.due(ms(5))),
            (Some(Bytes::new(1980)), None)
        );
        let mut generous = Uplink::default();
        generous.report(3000, every, ms(0));
        generous.hear(false, ms(1));
        generous.grant(Bytes::new(1980), ms(5));
        generous.report(3000, every, ms(1));
        generous.hear(false, ms(2));
        assert_eq!(generous.wanted(), 3005);
        assert!(uplink.is_active());
        assert_eq!(uplink.due(ms(6)), Some(Bytes::new(1980)));
        assert!(!uplink.is_active());
    }
}
