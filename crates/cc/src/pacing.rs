//! Pacing rates of window-based controllers: algorithm 1 of Grazia, Klapez, Casoni, "The New TCP Modules on the Block" (2021), as Linux refines it.
//!
//! The window spread over a smoothed round trip, times a gain: 200 % while the window is below half the slow-start
//! threshold, so that it can double in the next round; 120 % above, so that it can still probe. Linux takes the larger of window
//! and flight (after a cut the flight is still the larger one) and the *smoothed* RTT where the paper says base RTT.

use core::time::Duration;

use tautline_base::{Bytes, Rate};

use crate::controller::{Ack, Verdict};

/// Round trip assumed before the first sample (the value Linux's BBR assumes).
const NOMINAL_RTT: Duration = Duration::from_millis(1);
/// A burst is what the pacing rate carries in this time ...
const BURST_TIME: Duration = Duration::from_millis(1);
/// ... and at most this much, the largest super-packet of a network card.
const LARGEST_BURST: Bytes = Bytes::kib(64);

/// Pacing gains in percent of window per round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacingRatios {
    /// While the window is below half the slow-start threshold. 200 % (Linux `tcp_pacing_ss_ratio`).
    pub slow_start: u32,
    /// Above it. 120 % (Linux `tcp_pacing_ca_ratio`).
    pub avoidance: u32,
}

impl Default for PacingRatios {
    fn default() -> Self {
        Self {
            slow_start: 200,
            avoidance: 120,
        }
    }
}

/// The rate that sends `max(cwnd, in_flight)` per smoothed round trip, times the gain of the phase. [`Rate::MAX`] when
/// `srtt` is zero.
pub fn window_rate(
    cwnd: Bytes,
    in_flight: Bytes,
    ssthresh: Bytes,
    srtt: Duration,
    ratios: PacingRatios,
) -> Rate {
    let percent = if cwnd < ssthresh / 2 {
        ratios.slow_start
    } else {
        ratios.avoidance
    };
    let rate = Rate::from_amount(cwnd.max(in_flight), srtt);
    if rate == Rate::MAX {
        rate
    } else {
        rate.percent(percent)
    }
}

/// How much may leave back to back at `rate`: one millisecond's worth, at least two segments, at most 64 KiB.
pub fn burst(rate: Rate, mss: Bytes) -> Bytes {
    (rate * BURST_TIME).min(LARGEST_BURST).max(mss * 2)
}

/// What a window-based controller must remember to give its window a rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowPacing {
    ratios: PacingRatios,
    mss: Bytes,
    in_flight: Bytes,
    srtt: Duration,
}

impl WindowPacing {
    pub(crate) fn new(ratios: PacingRatios, mss: Bytes) -> Self {
        Self {
            ratios,
            mss,
            in_flight: Bytes::ZERO,
            srtt: NOMINAL_RTT,
        }
    }

    pub(crate) fn on_ack(&mut self, ack: &Ack) {
        self.in_flight = ack.in_flight;
        if ack.srtt > Duration::ZERO {
            self.srtt = ack.srtt;
        }
    }

    pub(crate) fn on_congestion(&mut self, in_flight: Bytes) {
        self.in_flight = in_flight;
    }

    pub(crate) fn on_idle(&mut self) {
        self.in_flight = Bytes::ZERO;
    }

    pub(crate) fn srtt(&self) -> Duration {
        self.srtt
    }

    pub(crate) fn verdict(&self, cwnd: Bytes, ssthresh: Bytes) -> Verdict {
        let pacing_rate = window_rate(cwnd, self.in_flight, ssthresh, self.srtt, self.ratios);
        Verdict {
            cwnd,
            ssthresh,
            pacing_rate,
            burst: burst(pacing_rate, self.mss),
        }
    }
}
