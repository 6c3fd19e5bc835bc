//! Window and rate of the model: gains, bandwidth-delay products in whole segments, and room for
//! bursts.

use core::time::Duration;

use tautline_base::{Bytes, Rate};

use super::{Bbr, Gain, Mode};
use crate::controller::Ack;
use crate::pacing::SLOWEST;
use crate::window::LARGEST;

const NANOS: u128 = 1_000_000_000;
const MICROS: u128 = 1_000_000;
/// Linux's unit of bandwidth is 2⁻²⁴ packets a microsecond (`BW_SCALE`).
const BANDWIDTH_SHIFT: u32 = 24;

/// The whole segments in `bytes`.
pub(super) fn whole(bytes: Bytes, mss: Bytes) -> Bytes {
    mss * (bytes.get() / mss.get().max(1))
}

impl Bbr {
    /// Bandwidth to send at: the policer's if one was detected. Zero before the first sample.
    pub(super) fn model_rate(&self) -> Rate {
        self.policer.rate().unwrap_or_else(|| self.bandwidth.get())
    }

    pub(super) fn pacing_gain(&self) -> Gain {
        match self.mode {
            Mode::Startup => self.params.startup_gain,
            Mode::Drain => self.params.drain_gain,
            // A policer drops every probe.
            Mode::ProbeBw(_) if self.policer.rate().is_some() => Gain::UNIT,
            Mode::ProbeBw(cycle) => cycle.gain(&self.params.cycle),
            Mode::ProbeRtt(_) => Gain::UNIT,
        }
    }

    pub(super) fn cwnd_gain(&self) -> Gain {
        match self.mode {
            Mode::Startup | Mode::Drain => self.params.startup_gain,
            Mode::ProbeBw(_) => self.params.cwnd_gain,
            Mode::ProbeRtt(_) => Gain::UNIT,
        }
    }

    /// Pacing rate: `bandwidth` times `gain`, minus the margin.
    pub(super) fn paced(&self, bandwidth: Rate, gain: Gain) -> Rate {
        gain.of(bandwidth)
            .percent(100 - self.params.pacing_margin.min(99))
            .max(SLOWEST)
    }

    /// STARTUP's rate before the first bandwidth sample: one window per `rtt`, times the gain.
    pub(super) fn initial_rate(&self, rtt: Duration) -> Rate {
        let rate = self.in_units(Rate::from_amount(self.cwnd, rtt));
        self.paced(rate, self.params.startup_gain)
    }

    /// `rate` in whole units of Linux's bandwidth, rounded down, where packets are counted: up to 0.06 % less for ten segments in
    /// 100 ms.
    pub(super) fn in_units(&self, rate: Rate) -> Rate {
        if !self.params.count_packets {
            return rate;
        }
        let packet = u128::from(self.mss.get()) * MICROS;
        let units = (u128::from(rate.as_bytes_per_sec()) << BANDWIDTH_SHIFT) / packet;
        let rate = (units * packet) >> BANDWIDTH_SHIFT;
        Rate::bytes_per_sec(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    pub(super) fn min_cwnd(&self) -> Bytes {
        self.mss * self.params.min_cwnd
    }

    /// Window of the model.
    pub(super) fn target(&self) -> Bytes {
        let bandwidth = self.model_rate();
        let bunches = if self.pipe.reached() {
            self.aggregation
                .room(bandwidth, &self.params.aggregation)
                .get()
                / self.mss.get()
        } else {
            0
        };
        self.with_bursts(
            self.product(bandwidth, self.cwnd_gain())
                .saturating_add(bunches),
        )
    }

    /// Flight that uses `bandwidth` with `gain`.
    pub(super) fn inflight(&self, bandwidth: Rate, gain: Gain) -> Bytes {
        self.with_bursts(self.product(bandwidth, gain))
    }

    /// `gain` bandwidth-delay products in whole segments, rounded up. The initial window before a
    /// round trip is known.
    fn product(&self, bandwidth: Rate, gain: Gain) -> u64 {
        let Some(rtt) = self.min_rtt.get() else {
            return self.initial_window.get() / self.mss.get();
        };
        let product = u128::from(bandwidth.as_bytes_per_sec()).saturating_mul(rtt.as_nanos());
        let scaled = product.saturating_mul(u128::from(gain.as_256ths()));
        u64::try_from(scaled.div_ceil(256 * NANOS * u128::from(self.mss.get()))).unwrap_or(u64::MAX)
    }

    /// `bbr_quantization_budget`: adds room for three bursts (one at the sender, one at the
    /// receiver, one in the network), rounds up to an even number for delayed acknowledgments, and
    /// adds two segments in the probing phase, so that short paths are probed too.
    fn with_bursts(&self, segments: u64) -> Bytes {
        let bursts = 3 * self.params.burst(self.pacing_rate, self.mss);
        let even = segments
            .saturating_add(bursts)
            .min(LARGEST)
            .next_multiple_of(2);
        let probe = if matches!(self.mode, Mode::ProbeBw(cycle) if cycle.probes()) {
            2
        } else {
            0
        };
        self.mss * (even + probe).min(LARGEST)
    }

    /// `bbr_packets_in_net_at_edt`: the part of `in_flight` that the network holds when the next
    /// segment departs. Subtracts the whole segments delivered until then and, when filling the
    /// network, adds that burst.
    pub(super) fn in_network(&self, ack: &Ack, in_flight: Bytes) -> Bytes {
        let delivered = whole(self.model_rate() * (ack.next_departure - ack.now), self.mss);
        let burst = if self.pacing_gain() > Gain::UNIT {
            self.mss * self.params.burst(self.pacing_rate, self.mss)
        } else {
            Bytes::ZERO
        };
        (in_flight + burst).saturating_sub(delivered)
    }
}

#[cfg(test)]
mod tests {
    use tautline_base::Instant;

    use super::*;
    use crate::bbr::Params;
    use crate::{Config, Controller, RateSample};

    /// Ten packets in 100 ms are 1677.7 units of Linux's bandwidth.
    #[test]
    fn counted_packets_give_whole_units_of_bandwidth() {
        let rate = Rate::from_amount(Bytes::new(14_480), Duration::from_millis(100));
        let config = Config::new(Bytes::new(1448));
        for (count_packets, expected) in [(false, 144_800), (true, 144_737)] {
            let params = Params {
                count_packets,
                ..Params::default()
            };
            let mut bbr = Bbr::build(params, &config);
            let expected = Rate::bytes_per_sec(expected);
            assert_eq!(bbr.in_units(rate), expected);
            let first = bbr.initial_rate(Duration::from_millis(100));
            assert_eq!(first, bbr.paced(expected, params.startup_gain));
            bbr.on_ack(&Ack {
                rate: Some(RateSample {
                    delivered: Bytes::new(14_480),
                    interval: Duration::from_millis(100),
                    rate,
                    app_limited: false,
                    prior_delivered: Bytes::ZERO,
                    sent_in_flight: Bytes::new(14_480),
                    lost: Bytes::ZERO,
                }),
                ..Ack::new(Instant::from_secs(1), config.mss, Bytes::ZERO)
            });
            assert_eq!(bbr.model().bandwidth, Some(expected));
        }
    }
}
