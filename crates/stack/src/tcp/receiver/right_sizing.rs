//! Dynamic right-sizing of the receive window (Fisk & Feng 2001; Linux `tcp_rcv_space_adjust`): an
//! application that reads a window in a round trip gets a larger one, so that the receiver does not
//! limit the peer.

use std::time::Duration;

use tautline_base::Instant;

/// Bytes the application reads in a round trip, and the window that follows from them.
#[derive(Clone, Copy, Debug)]
pub(super) struct RightSizing {
    /// Round trips as they look from here: from an acknowledgment to the data that it let out.
    rtt: Option<Duration>,
    /// Our timestamp that was echoed last: one sample each.
    echoed: Option<u32>,
    /// The present round trip began then, when the application had read up to that offset.
    since: Instant,
    read: u64,
    /// How far it had read when data last arrived, and when that was.
    seen: u64,
    arrived: Instant,
    /// Most bytes it took in one.
    space: u64,
    /// Time at which a window was offered, and its right edge.
    offered: Option<(Instant, u64)>,
}

impl RightSizing {
    /// The application has read up to offset `read`, and is expected to take `space` bytes in a
    /// round trip.
    pub(super) fn new(read: u64, space: u64) -> Self {
        Self {
            rtt: None,
            echoed: None,
            since: Instant::ZERO,
            read,
            seen: read,
            arrived: Instant::ZERO,
            space: space.max(1),
            offered: None,
        }
    }

    /// A full segment arrived that echoes our timestamp `echo`, sent `rtt` ago.
    pub(super) fn sample(&mut self, echo: u32, rtt: Duration) {
        if self.echoed.replace(echo) == Some(echo) {
            return;
        }
        // The clock of timestamps ticks in milliseconds.
        let rtt = rtt.max(Duration::from_millis(1));
        // A lower sample counts at once: only the peer's pauses make one longer.
        self.rtt = Some(self.rtt.map_or(rtt, |old| rtt.min(old - old / 8 + rtt / 8)));
    }

    /// All up to offset `next` has arrived; `window` bytes more are offered. A peer needs a round
    /// trip at least to fill a window: without timestamps there is no other measurement.
    pub(super) fn on_progress(&mut self, now: Instant, next: u64, window: u64) {
        match self.offered {
            Some((_, end)) if next < end => return,
            Some((since, _)) => {
                let time = (now - since).max(Duration::from_millis(1));
                self.rtt = Some(self.rtt.map_or(time, |rtt| rtt.min(time)));
            }
            None => {}
        }
        self.offered = Some((now, next.saturating_add(window)));
    }

    /// The round trip.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// Data arrives; the application has read up to offset `read` and left `queued` bytes unread.
    /// Once a round trip, the answer is the window that the peer could fill in the next. `on_read`:
    /// [`TcpConfig::size_on_read`](crate::TcpConfig::size_on_read).
    pub(super) fn on_arrival(
        &mut self,
        now: Instant,
        read: u64,
        queued: u64,
        mss: u64,
        on_read: bool,
    ) -> Option<u64> {
        let rtt = self.rtt?;
        let has_read = core::mem::replace(&mut self.seen, read) != read;
        let last = core::mem::replace(&mut self.arrived, now);
        // A reader that waits for data has read when it arrived.
        let now = if on_read { last } else { now };
        if now - self.since < rtt || on_read && !has_read {
            return None;
        }
        let taken = (read - self.read).saturating_sub(queued);
        (self.since, self.read) = (now, read);
        let more = taken.checked_sub(self.space).filter(|more| *more > 0)?;
        let window = u128::from(taken) * 2 + u128::from(mss) * 16;
        // The peer's window doubles while this answer travels.
        let growth = window.saturating_mul(more.into()) / u128::from(self.space);
        self.space = taken;
        Some(u64::try_from(growth.saturating_mul(2).saturating_add(window)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn example_of_the_spec() {
        // Worked by hand from `tcp_rcv_space_adjust`: space 14480, copied 28960, advmss 1448 give
        // 243 264 B.
        let mut sizing = RightSizing::new(1, 14_480);
        let at = |millis| Instant::from_millis(millis);
        assert_eq!(
            sizing.on_arrival(at(1000), 1 + 28_960, 0, 1448, false),
            None,
            "no round trip is known"
        );
        sizing.sample(1, MS * 20);
        assert_eq!(
            sizing.on_arrival(at(1000), 1 + 28_960, 0, 1448, false),
            Some(243_264)
        );
        assert_eq!(
            sizing.on_arrival(at(1019), 1 + 99_999, 0, 1448, false),
            None,
            "once a round trip"
        );
        assert_eq!(
            sizing.on_arrival(at(1020), 1 + 2 * 28_960, 0, 1448, false),
            None,
            "no more than before"
        );
        assert_eq!(
            sizing.on_arrival(at(1040), 1 + 4 * 28_960, 28_960, 1448, false),
            None,
            "what nobody reads counts against it"
        );
    }

    #[test]
    fn no_round_trip_ends_behind_a_hole() {
        let mut sizing = RightSizing::new(1, 14_480);
        sizing.sample(1, MS * 20);
        let at = |millis| Instant::from_millis(millis);
        assert_eq!(sizing.on_arrival(at(999), 1, 0, 1448, true), None);
        assert!(sizing.on_arrival(at(1000), 28_961, 0, 1448, true).is_some());
        for millis in 1001..1100 {
            assert_eq!(sizing.on_arrival(at(millis), 28_961, 0, 1448, true), None);
        }
        // 57 920 bytes in one round trip, the one that began at 999.
        assert_eq!(
            sizing.on_arrival(at(1100), 86_881, 0, 1448, true),
            Some(57_920 * 2 + 23_168 + 2 * (57_920 * 2 + 23_168))
        );
    }

    /// A reader that waits has read when data last arrived: a round trip that ends in a pause ends
    /// then, not with the data behind it.
    #[test]
    fn a_round_trip_is_over_when_the_application_reads() {
        let at = |millis| Instant::from_millis(millis);
        for (on_read, grows) in [(true, false), (false, true)] {
            let mut sizing = RightSizing::new(1, 14_480);
            sizing.sample(1, MS * 20);
            sizing.on_arrival(at(1000), 2, 0, 1448, on_read);
            sizing.on_arrival(at(1001), 3, 0, 1448, on_read);
            sizing.on_arrival(at(1010), 28_961, 0, 1448, on_read);
            let window = sizing.on_arrival(at(1021), 28_962, 0, 1448, on_read);
            assert_eq!(window.is_some(), grows, "{on_read}");
        }
    }

    #[test]
    fn round_trips_fall_at_once_and_rise_slowly_and_each_echo_counts_once() {
        let mut sizing = RightSizing::new(1, 1);
        for (echo, millis, rtt) in [
            (1, 40, 40),
            (1, 10, 40),
            (2, 120, 50),
            (3, 10, 10),
            (4, 0, 1),
        ] {
            sizing.sample(echo, MS * millis);
            assert_eq!(sizing.rtt(), Some(MS * rtt));
        }
    }

    #[test]
    fn the_time_to_fill_a_window_stands_in_for_timestamps() {
        let mut sizing = RightSizing::new(1, 1);
        for (millis, next, rtt) in [
            (0, 1, None),
            (30, 9_000, None),
            (40, 10_001, Some(40)),
            (99, 20_000, Some(40)),
        ] {
            sizing.on_progress(Instant::from_millis(millis), next, 10_000);
            assert_eq!(sizing.rtt(), rtt.map(|millis| MS * millis));
        }
        sizing.on_progress(Instant::from_millis(100), 20_001, 10_000);
        sizing.on_progress(Instant::from_millis(110), 30_001, 10_000);
        assert_eq!(sizing.rtt(), Some(MS * 10), "the least counts");
    }

    #[test]
    fn nothing_wraps() {
        let mut sizing = RightSizing::new(1, 0);
        sizing.sample(0, Duration::MAX);
        sizing.sample(1, Duration::ZERO);
        assert_eq!(
            sizing.on_arrival(Instant::from_nanos(u64::MAX), u64::MAX, 0, u64::MAX, false),
            Some(u64::MAX)
        );
        assert_eq!(
            sizing.on_arrival(Instant::ZERO, u64::MAX, u64::MAX, 0, false),
            None
        );
    }
}
