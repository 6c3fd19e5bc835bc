//! The pacer: when the next byte of a connection may leave (`spec/tcp.md` §3.2).
//!
//! Departures are spaced by `payload / rate`: headers come on top, as in Linux. A pacer that is asked late catches up, by at most the verdict's burst: a host that
//! wakes every 50 µs could otherwise not fill a fast link.

use std::time::Duration;

use tautline_base::{Bytes, Instant, Rate};

/// One connection's pacer.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    /// Earliest departure of the next segment.
    next: Instant,
}

impl Pacer {
    /// When the next segment may leave; in the past means now.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Notes that `len` bytes of payload depart at `at`, at `rate`. Lateness beyond `burst` is forfeit.
    pub(crate) fn departed(&mut self, at: Instant, len: Bytes, rate: Rate, burst: Bytes) {
        let credit = (burst / rate).min(Duration::from_secs(1));
        self.next = self.next.max(at - credit) + len / rate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: Bytes = Bytes::new(1_250);
    const RATE: Rate = Rate::mbit(10);

    #[test]
    fn a_punctual_pacer_spaces_by_the_rate() {
        let mut pacer = Pacer::default();
        let mut now = Instant::from_secs(1);
        pacer.departed(now, LEN, RATE, Bytes::ZERO);
        for _ in 0..10 {
            assert_eq!(pacer.next() - now, Duration::from_millis(1));
            now = pacer.next();
            pacer.departed(now, LEN, RATE, Bytes::ZERO);
        }
    }

    #[test]
    fn a_late_pacer_catches_up_by_the_burst_and_no_more() {
        let mut pacer = Pacer::default();
        let now = Instant::from_secs(5);
        let mut sent = 0;
        while pacer.next() <= now {
            pacer.departed(now, LEN, RATE, LEN * 4);
            sent += 1;
        }
        assert_eq!(sent, 5, "the burst of four and the segment that is due");
    }
}
