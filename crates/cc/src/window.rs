//! [`Window`]: congestion window and slow-start threshold in bytes, with the rules of RFC 5681
//! §3.1 and §4.1.

use core::time::Duration;

use tautline_base::Bytes;

use crate::config::Config;
use crate::controller::Verdict;
use crate::window_controller::CongestionWindow;

/// Largest window in segments; far above what any path holds, far below what overflows.
pub(crate) const LARGEST: u64 = 1 << 24;

/// Window and threshold in bytes. `mss <= cwnd`; `ssthresh` is [`Bytes::MAX`] or at least two
/// segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) mss: Bytes,
    pub(crate) cwnd: Bytes,
    pub(crate) ssthresh: Bytes,
}

impl Window {
    pub(crate) fn new(config: &Config) -> Self {
        let mss = config.mss.max(Bytes::new(1));
        let mut window = Self {
            mss,
            cwnd: mss,
            ssthresh: Bytes::MAX,
        };
        window.grow(config.initial_window.saturating_sub(mss));
        window
    }

    #[inline]
    pub(crate) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Opens the window by `bytes`, up to the largest allowed.
    #[inline]
    pub(crate) fn grow(&mut self, bytes: Bytes) {
        self.cwnd = (self.cwnd + bytes).min(self.mss * LARGEST);
    }

    /// Opens the window by at most `bytes` up to `ssthresh`. Returns the rest, which is for
    /// congestion avoidance.
    #[inline]
    pub(crate) fn slow_start(&mut self, bytes: Bytes) -> Bytes {
        if !self.in_slow_start() {
            return bytes;
        }
        let used = bytes.min(self.ssthresh.saturating_sub(self.cwnd));
        self.grow(used);
        bytes.saturating_sub(used)
    }

    /// Sets the threshold to `ssthresh`, at least two segments, and the window to `ssthresh`, at
    /// least `least` segments.
    pub(crate) fn cut(&mut self, ssthresh: Bytes, least: u64) {
        self.ssthresh = ssthresh.max(self.mss * 2);
        self.cwnd = ssthresh.max(self.mss * least);
    }

    /// Reverts the reduction that `before` was saved ahead of.
    pub(crate) fn undo(&mut self, before: &Self) {
        self.cwnd = self.cwnd.max(before.cwnd);
        self.ssthresh = self.ssthresh.max(before.ssthresh);
    }
}

impl CongestionWindow for Window {
    fn mss(&self) -> Bytes {
        self.mss
    }

    #[inline]
    fn in_bytes(&self) -> (Bytes, Bytes) {
        (self.cwnd, self.ssthresh)
    }

    fn restart(&mut self, in_flight: Bytes) {
        self.cwnd = Bytes::ZERO;
        self.grow(in_flight + self.mss);
    }

    fn adopt(&mut self, before: &Verdict) {
        self.ssthresh = before.ssthresh.max(self.mss * 2);
        self.cwnd = self.mss;
        self.grow(before.cwnd.saturating_sub(self.mss));
    }

    /// RFC 5681 §4.1 as Linux follows it, after RFC 2861: three quarters of the window become the
    /// threshold.
    fn decay(&mut self, idle: Duration, rto: Duration, initial: Bytes) {
        let timeouts = idle.as_nanos() / rto.as_nanos().max(1);
        let floor = initial.max(self.mss).min(self.cwnd);
        if timeouts == 0 || self.cwnd == floor {
            return;
        }
        self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
        let halvings = u32::try_from(timeouts).unwrap_or(u32::MAX);
        self.cwnd = Bytes::new(self.cwnd.get().checked_shr(halvings).unwrap_or(0)).max(floor);
    }

    /// RFC 2861 §3.1 as in Linux's `tcp_cwnd_application_limited`.
    fn shrink_to_use(&mut self, used: Bytes, initial: Bytes) {
        let used = used.max(initial).max(self.mss);
        if used < self.cwnd {
            self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
            self.cwnd = (self.cwnd + used) / 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTO: Duration = Duration::from_millis(300);

    fn window(segments: u64) -> (Window, Bytes) {
        let config = Config {
            initial_window: Bytes::new(1000) * segments,
            ..Config::new(Bytes::new(1000))
        };
        (Window::new(&config), Bytes::new(10_000))
    }

    #[test]
    fn slow_start_stops_at_the_threshold_and_returns_the_rest() {
        let (mut window, _) = window(10);
        window.ssthresh = Bytes::new(12_000);
        assert_eq!(window.slow_start(Bytes::new(5_000)), Bytes::new(3_000));
        assert_eq!(window.cwnd, Bytes::new(12_000));
        assert!(!window.in_slow_start());
    }

    #[test]
    fn idling_halves_the_window_per_timeout() {
        for (idle_ms, cwnd) in [
            (299, 80_000),
            (300, 40_000),
            (900, 10_000),
            (u64::MAX, 10_000),
        ] {
            let (mut window, initial) = window(80);
            window.ssthresh = Bytes::new(50_000);
            window.decay(Duration::from_millis(idle_ms), RTO, initial);
            assert_eq!(window.cwnd, Bytes::new(cwnd), "after {idle_ms} ms");
            assert_eq!(
                window.ssthresh,
                Bytes::new(if idle_ms < 300 { 50_000 } else { 60_000 })
            );
        }
    }

    /// RFC 2861 §3.1: (cwnd + max(used, IW)) / 2, and 3/4 of cwnd as threshold.
    #[test]
    fn the_unused_part_is_halved() {
        for (used, cwnd, ssthresh) in [
            (20, 50, 60),
            (0, 45, 60),
            (79, 79, 60),
            (80, 80, 50),
            (u64::MAX / 1000, 80, 50),
        ] {
            let (mut window, initial) = window(80);
            window.ssthresh = Bytes::new(50_000);
            window.shrink_to_use(Bytes::new(used * 1000), initial);
            assert_eq!(
                (window.cwnd / 1000, window.ssthresh),
                (Bytes::new(cwnd), Bytes::new(ssthresh * 1000)),
                "{used}"
            );
        }
    }

    #[test]
    fn idling_never_opens_a_window() {
        let (mut window, initial) = window(3);
        window.decay(Duration::MAX, RTO, initial);
        assert_eq!(window.cwnd, Bytes::new(3_000));
    }

    #[test]
    fn a_segment_size_of_zero_is_taken_for_one() {
        let window = Window::new(&Config::new(Bytes::ZERO));
        assert_eq!(window.mss, Bytes::new(1));
    }

    #[test]
    fn the_window_is_bounded() {
        let (mut window, _) = window(10);
        window.grow(Bytes::MAX);
        assert_eq!(window.cwnd, Bytes::new(1000 << 24));
    }
}
