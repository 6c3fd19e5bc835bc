//! Dynamic right-sizing of the receive window (Fisk & Feng 2001; Linux `tcp_rcv_space_adjust`): an
//! application that reads a window in a round trip gets a larger one, so that the receiver does not
//! limit the peer.

use std::time::Duration;

use tautline_base::Instant;

/// Segments that Linux joins in one buffer at most (`MAX_SKB_FRAGS` in `skb_try_coalesce`).
pub(super) const BUFFER_SEGMENTS: u64 = 17;

/// The first buffer of the data that the application has not read, as Linux would hold it.
#[derive(Clone, Copy, Debug)]
struct FirstBuffer {
    end: u64,
    segments: u64,
}

impl FirstBuffer {
    /// `segments` more up to offset `end`, in a buffer of their own so far, come next: they join the
    /// first one if that is the last, and has room for all of them.
    fn join(&mut self, end: u64, segments: u64) {
        if self.segments + segments <= BUFFER_SEGMENTS {
            self.end = end;
            self.segments += segments;
        }
    }
}

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
    /// How far it had read when data last arrived.
    seen: u64,
    /// When it last read.
    read_at: Instant,
    /// Most bytes it took in one.
    space: u64,
    /// Time at which a window was offered, and its right edge.
    offered: Option<(Instant, u64)>,
    /// The first buffer that is unread; known if the window is sized on reads.
    unread: Option<FirstBuffer>,
    /// End of the first buffer of the last read.
    first_read: u64,
}

impl RightSizing {
    /// The first round trip begins at `since`, when the application has read up to offset `read`; it is
    /// expected to take `space` bytes in one.
    pub(super) fn new(since: Instant, read: u64, space: u64) -> Self {
        Self {
            rtt: None,
            echoed: None,
            since,
            read,
            seen: read,
            read_at: since,
            space: space.max(1),
            offered: None,
            unread: None,
            first_read: read,
        }
    }

    /// Data arrived in order from offset `start` to `end`, and with it what was held beyond up to
    /// `next`, in segments of `size` bytes.
    pub(super) fn on_data(&mut self, (start, end, next): (u64, u64, u64), size: u64) {
        let segments = |bytes: u64| bytes.div_ceil(size.max(1));
        let arrived = segments(end - start);
        match &mut self.unread {
            Some(first) if first.end == start => first.join(end, arrived),
            Some(_) => {}
            None => {
                self.unread = Some(FirstBuffer {
                    end,
                    segments: arrived,
                })
            }
        }
        if let Some(first) = self.unread.as_mut().filter(|first| first.end == end)
            && next > end
        {
            first.join(next, segments(next - end));
        }
    }

    /// The application reads what has arrived. Linux counts the round trip in whole microseconds
    /// (`tcp_mstamp`): a path of even spacing ends many after exactly one.
    pub(super) fn on_read(&mut self, now: Instant) {
        self.read_at = Instant::from_micros(now.as_micros());
        if let Some(first) = self.unread.take() {
            self.first_read = first.end;
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
        let smoothed = |old| old - in_micros(old) / 8 + rtt / 8;
        self.rtt = Some(self.rtt.map_or(rtt, |old| rtt.min(smoothed(old))));
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
    /// Once a round trip, the answer is the window that the peer could fill in the next.
    pub(super) fn on_arrival(
        &mut self,
        now: Instant,
        read: u64,
        queued: u64,
        mss: u64,
    ) -> Option<u64> {
        if now - self.since < self.rtt? {
            return None;
        }
        let taken = (read - self.read).saturating_sub(queued);
        self.end_round(now, read, taken, mss)
    }

    /// The same for [`TcpConfig::size_on_read`](crate::TcpConfig::size_on_read): the round trip ends when
    /// the application has read, with the first buffer of that; the rest of it counts in the next.
    pub(super) fn on_arrival_after_read(&mut self, read: u64, mss: u64) -> Option<u64> {
        let has_read = core::mem::replace(&mut self.seen, read) != read;
        if self.read_at - self.since < in_micros(self.rtt?) || !has_read {
            return None;
        }
        let taken = self.first_read.saturating_sub(self.read);
        self.end_round(self.read_at, self.first_read, taken, mss)
    }

    /// A round trip ends at `at`, in which the application has taken `taken` bytes, up to offset `read`.
    fn end_round(&mut self, at: Instant, read: u64, taken: u64, mss: u64) -> Option<u64> {
        (self.since, self.read) = (at, read);
        let more = taken.checked_sub(self.space).filter(|more| *more > 0)?;
        let window = u128::from(taken) * 2 + u128::from(mss) * 16;
        // The peer's window doubles while this answer travels.
        let growth = window.saturating_mul(more.into()) / u128::from(self.space);
        self.space = taken;
        Some(u64::try_from(growth.saturating_mul(2).saturating_add(window)).unwrap_or(u64::MAX))
    }
}

/// `time` in whole microseconds.
fn in_micros(time: Duration) -> Duration {
    time - Duration::from_nanos(u64::from(time.subsec_nanos() % 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn example_of_the_spec() {
        // Worked by hand from `tcp_rcv_space_adjust`: space 14480, copied 28960, advmss 1448 give
        // 243 264 B.
        let mut sizing = RightSizing::new(Instant::ZERO, 1, 14_480);
        let at = |millis| Instant::from_millis(millis);
        assert_eq!(
            sizing.on_arrival(at(1000), 1 + 28_960, 0, 1448),
            None,
            "no round trip is known"
        );
        sizing.sample(1, MS * 20);
        assert_eq!(
            sizing.on_arrival(at(1000), 1 + 28_960, 0, 1448),
            Some(243_264)
        );
        assert_eq!(
            sizing.on_arrival(at(1019), 1 + 99_999, 0, 1448),
            None,
            "once a round trip"
        );
        assert_eq!(
            sizing.on_arrival(at(1020), 1 + 2 * 28_960, 0, 1448),
            None,
            "no more than before"
        );
        assert_eq!(
            sizing.on_arrival(at(1040), 1 + 4 * 28_960, 28_960, 1448),
            None,
            "what nobody reads counts against it"
        );
    }

    /// Linux `tcp_init_buffer_space`.
    #[test]
    fn the_first_round_trip_may_begin_with_the_connection() {
        let mut sizing = RightSizing::new(Instant::from_millis(1000), 1, 14_480);
        sizing.sample(1, MS * 301);
        let mut at = |millis| {
            let now = Instant::from_millis(millis);
            sizing.on_arrival(now, 1 + 28_960, 0, 1448).is_some()
        };
        assert_eq!([1300, 1301].map(&mut at), [false, true]);
    }

    /// The application reads everything up to offset `read` at `now`, which came in order since the last read.
    fn read_up_to(sizing: &mut RightSizing, read: u64, now: Instant) {
        sizing.on_data((sizing.first_read, read, read), 1448);
        sizing.on_read(now);
    }

    #[test]
    fn no_round_trip_ends_behind_a_hole() {
        let mut sizing = RightSizing::new(Instant::ZERO, 1, 14_480);
        sizing.sample(1, MS * 20);
        let at = |millis| Instant::from_millis(millis);
        assert_eq!(sizing.on_arrival_after_read(1, 1448), None);
        read_up_to(&mut sizing, 24_617, at(999));
        let window = sizing.on_arrival_after_read(24_617, 1448);
        assert!(window.is_some());
        for _ in 0..3 {
            assert_eq!(sizing.on_arrival_after_read(24_617, 1448), None);
        }
        read_up_to(&mut sizing, 49_233, at(1100));
        // 24 616 bytes again in one round trip, the one that began at 999.
        let window = sizing.on_arrival_after_read(49_233, 1448);
        assert_eq!(window, None, "no more than before");
    }

    /// A round trip that ends in a pause ends with the read, not with the data behind it.
    #[test]
    fn a_round_trip_is_over_when_the_application_reads() {
        let at = |millis| Instant::from_millis(millis);
        let mut sizing = RightSizing::new(Instant::ZERO, 1, 14_480);
        sizing.sample(1, MS * 20);
        for (millis, read) in [(1000, 2), (1001, 3), (1019, 24_000)] {
            read_up_to(&mut sizing, read, at(millis));
            let window = sizing.on_arrival_after_read(read, 1448);
            assert_eq!(window, None, "the first read was at 1000");
        }
        let almost = at(1020) + Duration::from_nanos(999);
        let begun = Instant::from_micros(1_000_000);
        assert_eq!(sizing.since, begun);
        read_up_to(&mut sizing, 24_001, almost);
        assert!(sizing.on_arrival_after_read(24_001, 1448).is_some());
        assert_eq!(sizing.since, at(1020), "in whole microseconds");
    }

    /// `rcv_rtt_est.rtt_us >> 3`: 20 234.375 µs are 20 234.
    #[test]
    fn a_round_trip_lasts_as_many_whole_microseconds_as_its_average() {
        let mut sizing = RightSizing::new(Instant::from_secs(1), 1, 14_480);
        for (echo, millis) in [(1, 20), (2, 21), (3, 21)] {
            sizing.sample(echo, MS * millis);
        }
        assert_eq!(sizing.rtt(), Some(Duration::from_nanos(20_234_375)));
        for (micros, read, is_over) in [(1_020_233, 24_000, false), (1_020_234, 25_000, true)] {
            read_up_to(&mut sizing, read, Instant::from_micros(micros));
            let window = sizing.on_arrival_after_read(read, 1448);
            assert_eq!(window.is_some(), is_over, "at {micros} us");
        }
    }

    /// `skb_try_coalesce`: a segment fills a hole that sixteen more wait behind, and all are one buffer;
    /// with seventeen it stands alone, and the rest of the read counts in the next round trip.
    #[test]
    fn a_round_trip_ends_with_the_first_buffer_of_a_read() {
        let at = |millis| Instant::from_millis(millis);
        for (behind, first, rest) in [(16, 17, 0), (17, 1, 17)] {
            let mut sizing = RightSizing::new(Instant::ZERO, 1, 14_480);
            sizing.sample(1, MS * 20);
            let end = |segments: u64| 1 + 1448 * segments;
            sizing.on_data((1, end(1), end(1 + behind)), 1448);
            sizing.on_read(at(1000));
            assert_eq!(sizing.first_read, end(first));
            sizing.on_arrival_after_read(end(1 + behind), 1448);
            assert_eq!(sizing.read, end(first), "{behind} behind");
            read_up_to(&mut sizing, end(1 + behind) + 1448, at(1001));
            assert_eq!(
                sizing.first_read - sizing.read,
                1448 * (rest + 1),
                "{behind} behind"
            );
        }
    }

    #[test]
    fn a_buffer_joins_no_more_than_seventeen_segments_and_nothing_after_another() {
        let mut sizing = RightSizing::new(Instant::ZERO, 1, 1);
        for segment in 0..20 {
            let (start, end) = (1 + segment * 1448, 1 + (segment + 1) * 1448);
            sizing.on_data((start, end, end), 1448);
        }
        sizing.on_read(Instant::from_millis(1));
        assert_eq!(sizing.first_read, 1 + 17 * 1448);
        sizing.on_read(Instant::from_millis(1));
        assert_eq!(sizing.first_read, 1 + 17 * 1448, "nothing was unread");
    }

    #[test]
    fn round_trips_fall_at_once_and_rise_slowly_and_each_echo_counts_once() {
        let mut sizing = RightSizing::new(Instant::ZERO, 1, 1);
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
        let mut sizing = RightSizing::new(Instant::ZERO, 1, 1);
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
        let mut sizing = RightSizing::new(Instant::ZERO, 1, 0);
        sizing.sample(0, Duration::MAX);
        sizing.sample(1, Duration::ZERO);
        assert_eq!(
            sizing.on_arrival(Instant::from_nanos(u64::MAX), u64::MAX, 0, u64::MAX),
            Some(u64::MAX)
        );
        assert_eq!(
            sizing.on_arrival(Instant::ZERO, u64::MAX, u64::MAX, 0),
            None
        );
    }
}
