//! Pacing rates of window-based controllers: algorithm 1 of Grazia, Klapez and Casoni, "The New TCP
//! Modules on the Block" (2021), as Linux refines it.
//!
//! The window spread over a smoothed round trip, times a gain: 200 % while the window is below half
//! the slow-start threshold, so that it can double in the next round; 120 % above, so that it can
//! still probe. Linux (`tcp_update_pacing_rate`) uses the larger of window and flight, because the
//! flight exceeds the window after a cut, and the smoothed RTT instead of the paper's base RTT.

use core::time::Duration;

use tautline_base::{Bytes, Rate};

use crate::controller::{Ack, Verdict};

/// Round trip assumed before the first sample (the value Linux's BBR assumes).
pub(crate) const NOMINAL_RTT: Duration = Duration::from_millis(1);
/// A burst lasts at most this time at the pacing rate ...
const BURST_TIME: Duration = Duration::from_millis(1);
/// ... and at most this size, the largest packet for segmentation offload.
const LARGEST_BURST: Bytes = Bytes::kib(64);

/// Lowest pacing rate: a stopped sender would never learn a better one.
pub(crate) const SLOWEST: Rate = Rate::bytes_per_sec(1);

/// Pacing gains in percent of window per round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacingRatios {
    /// While the window is below half the slow-start threshold. 200 % (Linux
    /// `tcp_pacing_ss_ratio`).
    pub slow_start: u32,
    /// Above it. 120 % (Linux `tcp_pacing_ca_ratio`).
    pub avoidance: u32,
}

impl PacingRatios {
    fn percent(self, cwnd: Bytes, ssthresh: Bytes) -> u32 {
        if cwnd < ssthresh / 2 {
            self.slow_start
        } else {
            self.avoidance
        }
    }
}

impl Default for PacingRatios {
    fn default() -> Self {
        Self {
            slow_start: 200,
            avoidance: 120,
        }
    }
}

/// The rate that sends `max(cwnd, in_flight)` per smoothed round trip, times the gain. [`Rate::MAX`]
/// if `srtt` is zero; never zero, because a stopped sender would never learn a better rate.
pub fn window_rate(
    cwnd: Bytes,
    in_flight: Bytes,
    ssthresh: Bytes,
    srtt: Duration,
    ratios: PacingRatios,
) -> Rate {
    let rate = Rate::from_amount(cwnd.max(in_flight), srtt);
    if rate == Rate::MAX {
        rate
    } else {
        rate.percent(ratios.percent(cwnd, ssthresh)).max(SLOWEST)
    }
}

/// Burst at `rate`: one millisecond's worth, at least two segments, at most 64 KiB.
#[inline]
pub fn burst(rate: Rate, mss: Bytes) -> Bytes {
    (rate * BURST_TIME).min(LARGEST_BURST).max(mss * 2)
}

/// Inputs of the pacing rate of a window-based controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowPacing {
    ratios: PacingRatios,
    in_flight: Bytes,
    srtt: Duration,
}

impl WindowPacing {
    pub(crate) fn new(ratios: PacingRatios) -> Self {
        Self {
            ratios,
            in_flight: Bytes::ZERO,
            srtt: NOMINAL_RTT,
        }
    }

    #[inline]
    pub(crate) fn on_ack(&mut self, ack: &Ack) {
        self.in_flight = ack.in_flight;
        if !ack.srtt.is_zero() {
            self.srtt = ack.srtt;
        }
    }

    /// Until the next acknowledgment tells the round trip, assumes the one over which this window
    /// leaves at the rate of `before`. Over [`NOMINAL_RTT`] a window taken over would be a burst.
    pub(crate) fn adopt(&mut self, before: &Verdict, (cwnd, ssthresh): (Bytes, Bytes)) {
        let percent = self.ratios.percent(cwnd, ssthresh);
        self.srtt = cwnd * percent.into() / 100 / before.pacing_rate.max(SLOWEST);
    }

    /// Smoothed RTT; an assumption before the first sample.
    pub(crate) fn srtt(&self) -> Duration {
        self.srtt
    }

    pub(crate) fn on_congestion(&mut self, in_flight: Bytes) {
        self.in_flight = in_flight;
    }

    pub(crate) fn on_idle(&mut self) {
        self.in_flight = Bytes::ZERO;
    }

    #[inline]
    pub(crate) fn verdict(&self, mss: Bytes, (cwnd, ssthresh): (Bytes, Bytes)) -> Verdict {
        let pacing_rate = window_rate(cwnd, self.in_flight, ssthresh, self.srtt, self.ratios);
        Verdict {
            cwnd,
            ssthresh,
            pacing_rate,
            burst: burst(pacing_rate, mss),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: Bytes = Bytes::new(1448);
    const RTT: Duration = Duration::from_millis(40);

    fn rate(cwnd: u64, in_flight: u64, ssthresh: Bytes) -> Rate {
        window_rate(
            MSS * cwnd,
            MSS * in_flight,
            ssthresh,
            RTT,
            PacingRatios::default(),
        )
    }

    #[test]
    fn the_worked_rates() {
        // 100 segments of 1448 bytes in 40 ms are 28.96 Mbit/s.
        assert_eq!(rate(100, 0, Bytes::MAX), Rate::kbit(57_920));
        assert_eq!(rate(100, 0, MSS * 100), Rate::kbit(34_752));
    }

    #[test]
    fn the_gain_changes_at_half_the_threshold() {
        assert_eq!(rate(100, 0, MSS * 201), rate(100, 0, Bytes::MAX));
        assert_eq!(rate(100, 0, MSS * 200), rate(100, 0, MSS * 100));
    }

    #[test]
    fn a_flight_above_the_window_sets_the_rate() {
        assert_eq!(rate(70, 100, MSS * 70), rate(100, 0, MSS * 70));
    }

    #[test]
    fn zero_srtt_means_no_pacing() {
        assert_eq!(
            window_rate(MSS, MSS, MSS, Duration::ZERO, PacingRatios::default()),
            Rate::MAX
        );
    }

    #[test]
    fn before_the_first_sample_the_round_trip_is_a_millisecond() {
        let pacing = WindowPacing::new(PacingRatios::default());
        let verdict = pacing.verdict(MSS, (MSS * 10, Bytes::MAX));
        assert_eq!(verdict.pacing_rate, Rate::bytes_per_sec(2 * 14_480 * 1_000));
    }

    #[test]
    fn a_burst_is_a_millisecond_within_two_segments_and_64_kib() {
        assert_eq!(burst(Rate::mbit(1), MSS), MSS * 2);
        assert_eq!(burst(Rate::mbit(100), MSS), Bytes::new(12_500));
        assert_eq!(burst(Rate::MAX, MSS), Bytes::kib(64));
        assert_eq!(
            burst(Rate::MAX, Bytes::kib(48)),
            Bytes::kib(96),
            "two segments come first"
        );
    }
}
