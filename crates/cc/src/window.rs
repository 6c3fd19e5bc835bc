//! [`Window`]: congestion window and slow-start threshold, with the rules every window-based controller shares (RFC 5681 §3.1, §4.1).

use core::time::Duration;

use tautline_base::Bytes;

use crate::config::Config;

/// Largest window in segments; far above what any path holds, far below what overflows.
const LARGEST: u64 = 1 << 24;
/// Least retransmission timeout above the smoothed RTT (Linux `TCP_RTO_MIN`).
const RTO_MARGIN: Duration = Duration::from_millis(200);

/// Window and threshold in bytes. `mss <= cwnd`; `ssthresh` is [`Bytes::MAX`] or at least two segments.
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

    pub(crate) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Opens the window by `bytes`, up to the largest allowed.
    pub(crate) fn grow(&mut self, bytes: Bytes) {
        self.cwnd = (self.cwnd + bytes).min(self.mss * LARGEST);
    }

    /// Opens the window by at most `bytes` up to `ssthresh`. Returns what is left for congestion avoidance.
    pub(crate) fn slow_start(&mut self, bytes: Bytes) -> Bytes {
        let used = bytes.min(self.ssthresh.saturating_sub(self.cwnd));
        self.grow(used);
        bytes.saturating_sub(used)
    }

    /// Sets the threshold to `ssthresh`, at least two segments, and the window to no more than `ssthresh`, but `least` segments.
    pub(crate) fn cut(&mut self, ssthresh: Bytes, least: u64) {
        self.ssthresh = ssthresh.max(self.mss * 2);
        self.cwnd = ssthresh.max(self.mss * least);
    }

    /// After a retransmission timeout: room for one segment beyond what is still thought to be in flight.
    pub(crate) fn restart(&mut self, in_flight: Bytes) {
        self.cwnd = (in_flight + self.mss).min(self.cwnd).max(self.mss);
    }

    /// Halves the window for every retransmission timeout spent idle, down to the initial window, and remembers three quarters
    /// of it as threshold (RFC 5681 §4.1 as Linux does it, after RFC 2861).
    pub(crate) fn decay(&mut self, idle: Duration, srtt: Duration, initial: Bytes) {
        let timeout = (srtt + RTO_MARGIN).as_nanos();
        let timeouts = idle.as_nanos() / timeout;
        let floor = initial.max(self.mss).min(self.cwnd);
        if timeouts == 0 || self.cwnd == floor {
            return;
        }
        self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
        let halvings = u32::try_from(timeouts).unwrap_or(u32::MAX);
        self.cwnd = Bytes::new(self.cwnd.get().checked_shr(halvings).unwrap_or(0)).max(floor);
    }
}
