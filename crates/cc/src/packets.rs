//! [`PacketWindow`]: window and threshold counted in whole packets, as Linux counts them.
//!
//! The transport counts bytes. This window turns acknowledged bytes into packets and keeps the
//! remainder for the next acknowledgment. Its rules are those of [`Window`](crate::window::Window),
//! in Linux's integer arithmetic.

use core::time::Duration;

use tautline_base::Bytes;

use crate::config::Config;
use crate::controller::Verdict;
use crate::window::LARGEST;
use crate::window_controller::CongestionWindow;

/// Window and threshold in packets. `1 <= cwnd`; `ssthresh` is `None` before the first reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketWindow {
    mss: Bytes,
    pub(crate) cwnd: u64,
    pub(crate) ssthresh: Option<u64>,
    /// Packets acknowledged in congestion avoidance and not yet turned into growth
    /// (`snd_cwnd_cnt`).
    credit: u64,
    /// Acknowledged bytes that do not make a whole packet yet.
    partial: Bytes,
}

impl PacketWindow {
    pub(crate) fn new(config: &Config) -> Self {
        let mss = config.mss.max(Bytes::new(1));
        let cwnd = (config.initial_window / mss.get()).get().clamp(1, LARGEST);
        Self {
            mss,
            cwnd,
            ssthresh: None,
            credit: 0,
            partial: Bytes::ZERO,
        }
    }

    #[inline]
    pub(crate) fn in_slow_start(&self) -> bool {
        self.ssthresh.is_none_or(|ssthresh| self.cwnd < ssthresh)
    }

    /// Number of packets that `acked` bytes complete.
    #[inline]
    pub(crate) fn packets(&mut self, acked: Bytes) -> u64 {
        let bytes = (self.partial + acked).get();
        self.partial = Bytes::new(bytes % self.mss.get());
        bytes / self.mss.get()
    }

    fn grow(&mut self, packets: u64) {
        self.cwnd = self.cwnd.saturating_add(packets).min(LARGEST);
    }

    /// Grows the window by `packets`, at most to the threshold. Returns the packets left for
    /// congestion avoidance.
    pub(crate) fn slow_start(&mut self, packets: u64) -> u64 {
        let room = self
            .ssthresh
            .map_or(u64::MAX, |ssthresh| ssthresh.saturating_sub(self.cwnd));
        let used = packets.min(room);
        self.grow(used);
        packets - used
    }

    /// Grows the window by one packet for every `per` acknowledged (`tcp_cong_avoid_ai`). Credit
    /// from a larger `per` is worth at most one packet.
    pub(crate) fn avoid(&mut self, packets: u64, per: u64) {
        if self.credit >= per {
            self.credit = 0;
            self.grow(1);
        }
        self.credit = self.credit.saturating_add(packets);
        self.grow(self.credit / per);
        self.credit %= per;
    }

    /// The threshold after an idle period or a spurious reduction: at least three quarters of the
    /// window (`tcp_current_ssthresh`).
    fn remembered(&self) -> Option<u64> {
        self.ssthresh
            .map(|ssthresh| ssthresh.max(self.cwnd / 2 + self.cwnd / 4))
    }

    /// Sets threshold and window to `packets`, at least two.
    pub(crate) fn cut(&mut self, packets: u64) {
        self.cwnd = packets.max(2);
        self.ssthresh = Some(self.cwnd);
        self.credit = 0;
    }

    /// Undoes the reduction before which `before` was saved.
    pub(crate) fn undo(&mut self, before: &Self) {
        self.cwnd = self.cwnd.max(before.cwnd);
        self.ssthresh = self
            .ssthresh
            .and_then(|ssthresh| before.remembered().map(|before| before.max(ssthresh)));
    }
}

impl CongestionWindow for PacketWindow {
    fn mss(&self) -> Bytes {
        self.mss
    }

    #[inline]
    fn in_bytes(&self) -> (Bytes, Bytes) {
        let ssthresh = self.ssthresh.map(|packets| self.mss * packets);
        (self.mss * self.cwnd, ssthresh.unwrap_or(Bytes::MAX))
    }

    fn restart(&mut self, in_flight: Bytes) {
        self.cwnd = 1;
        self.grow(in_flight.get().div_ceil(self.mss.get()));
        self.credit = 0;
    }

    fn adopt(&mut self, before: &Verdict) {
        let packets = |bytes: Bytes| (bytes / self.mss.get()).get();
        self.cwnd = packets(before.cwnd).clamp(1, LARGEST);
        self.ssthresh = (before.ssthresh < Bytes::MAX).then(|| packets(before.ssthresh).max(2));
    }

    /// `tcp_cwnd_restart`: the first timeout since the last transmission costs nothing; three
    /// quarters of the window become the threshold.
    fn decay(&mut self, since_sent: Duration, rto: Duration, initial: Bytes) {
        let rto = rto.as_nanos().max(1);
        let halvings = since_sent.as_nanos().div_ceil(rto).saturating_sub(1);
        if halvings == 0 {
            return;
        }
        self.ssthresh = self.remembered();
        let floor = (initial / self.mss.get()).get().clamp(1, self.cwnd);
        let halvings = u32::try_from(halvings).unwrap_or(u32::MAX);
        self.cwnd = self.cwnd.checked_shr(halvings).unwrap_or(0).max(floor);
    }

    /// `tcp_cwnd_application_limited`.
    fn shrink_to_use(&mut self, used: Bytes, initial: Bytes) {
        let used = used.max(initial).get().div_ceil(self.mss.get()).max(1);
        if used < self.cwnd {
            self.ssthresh = self.remembered();
            self.cwnd = (self.cwnd + used) / 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: Bytes = Bytes::new(1000);

    fn window(packets: u64) -> PacketWindow {
        PacketWindow::new(&Config {
            initial_window: MSS * packets,
            ..Config::new(MSS)
        })
    }

    #[test]
    fn fractions_of_packets_add_up() {
        let mut window = window(10);
        let counts = [400, 400, 400, 3_000].map(|bytes| window.packets(Bytes::new(bytes)));
        assert_eq!(counts, [0, 0, 1, 3]);
    }

    #[test]
    fn credit_from_a_larger_window_is_worth_one_packet() {
        let mut window = window(10);
        window.avoid(90, 100);
        window.avoid(1, 20);
        assert_eq!((window.cwnd, window.credit), (11, 1));
    }

    #[test]
    fn a_pause_halves_per_timeout_after_the_first() {
        // 80 packets, RTO 250 ms, a second since the last was sent: 40, 20, 10.
        let mut paused = window(80);
        paused.ssthresh = Some(20);
        paused.decay(Duration::from_secs(1), Duration::from_millis(250), MSS * 10);
        assert_eq!((paused.cwnd, paused.ssthresh), (10, Some(60)));
        let mut short = window(80);
        short.decay(
            Duration::from_millis(250),
            Duration::from_millis(250),
            MSS * 10,
        );
        assert_eq!(short, window(80));
    }

    /// `tcp_cwnd_application_limited`: of 80 packets 20 were used, so 50 are left, and three quarters
    /// of 80 are remembered. Use below the initial window counts as the initial window.
    #[test]
    fn a_window_that_is_not_used_shrinks_halfway_to_its_use() {
        for (used, cwnd, ssthresh) in [
            (20, 50, Some(60)),
            (1, 45, Some(60)),
            (80, 80, Some(20)),
            (99, 80, Some(20)),
        ] {
            let mut window = window(80);
            window.ssthresh = Some(20);
            window.shrink_to_use(MSS * used, MSS * 10);
            assert_eq!((window.cwnd, window.ssthresh), (cwnd, ssthresh), "{used}");
        }
    }

    #[test]
    fn absurd_amounts_stay_within_bounds() {
        let mut window = PacketWindow::new(&Config {
            initial_window: Bytes::MAX,
            ..Config::new(Bytes::ZERO)
        });
        let packets = window.packets(Bytes::MAX);
        window.slow_start(packets);
        window.avoid(packets, 2);
        window.avoid(packets, 2);
        window.restart(Bytes::MAX);
        assert_eq!(window.cwnd, LARGEST);
        window.decay(Duration::MAX, Duration::ZERO, Bytes::ZERO);
        assert_eq!(window.cwnd, 1);
    }
}
