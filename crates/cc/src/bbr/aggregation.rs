//! [`Aggregation`]: acknowledged data in excess of the bandwidth.
//!
//! Wi-Fi, cellular links and receivers with segment coalescing acknowledge in bunches. The window
//! must last from one bunch to the next: it grows by the largest excess of the last five to ten
//! round trips.

use tautline_base::{Bytes, Instant, Rate};

use super::network::whole;
use super::params::AggregationParams;

/// The largest excess in two windows, the second of which is complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregation {
    epoch_began: Instant,
    epoch_acked: Bytes,
    /// Excess in the present window, and in the one before.
    excess: [Bytes; 2],
    /// Round trips in the present window.
    rounds: u32,
}

impl Aggregation {
    pub(super) const fn new() -> Self {
        Self {
            epoch_began: Instant::ZERO,
            epoch_acked: Bytes::ZERO,
            excess: [Bytes::ZERO; 2],
            rounds: 0,
        }
    }

    /// Begins a new epoch.
    pub(super) fn restart(&mut self, now: Instant) {
        self.epoch_began = now;
        self.epoch_acked = Bytes::ZERO;
    }

    /// A round trip begins.
    pub(super) fn on_round(&mut self, params: &AggregationParams) {
        self.rounds += 1;
        if self.rounds >= params.rounds {
            self.rounds = 0;
            self.excess = [Bytes::ZERO, self.excess[0]];
        }
    }

    /// `acked` was acknowledged at `now`, when `bandwidth` predicts whole segments of `mss`. The
    /// excess is at most the window `cwnd`; `epoch` acknowledged bytes begin a new epoch.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        acked: Bytes,
        bandwidth: Rate,
        mss: Bytes,
        cwnd: Bytes,
        epoch: Bytes,
    ) {
        let mut expected = whole(bandwidth * (now - self.epoch_began), mss);
        if self.epoch_acked <= expected || self.epoch_acked + acked >= epoch {
            self.restart(now);
            expected = Bytes::ZERO;
        }
        self.epoch_acked = (self.epoch_acked + acked).min(epoch);
        let excess = self.epoch_acked.saturating_sub(expected).min(cwnd);
        self.excess[0] = self.excess[0].max(excess);
    }

    /// Extra window for aggregated acknowledgments.
    pub(super) fn room(&self, bandwidth: Rate, params: &AggregationParams) -> Bytes {
        let [present, before] = self.excess;
        let room =
            u128::from(present.max(before).get()) * u128::from(params.gain.as_256ths()) / 256;
        Bytes::new(u64::try_from(room).unwrap_or(u64::MAX)).min(bandwidth * params.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: Bytes = Bytes::new(1000);
    const BANDWIDTH: Rate = Rate::bytes_per_sec(1_000_000);

    /// Twenty segments are acknowledged at each time, at a bandwidth of a segment per millisecond;
    /// the room after each.
    fn room_after(times: &[u64], cwnd: u64) -> Vec<u64> {
        let (mut aggregation, params) = (Aggregation::new(), AggregationParams::default());
        let room = |at: &u64| {
            aggregation.on_ack(
                Instant::from_millis(1000 + at),
                MSS * 20,
                BANDWIDTH,
                MSS,
                MSS * cwnd,
                MSS * params.epoch,
            );
            aggregation.room(BANDWIDTH, &params) / MSS.get()
        };
        times.iter().map(room).map(Bytes::get).collect()
    }

    use alloc::vec::Vec;

    #[test]
    fn the_worked_excess() {
        assert_eq!(room_after(&[0, 10, 20, 40], 1000), [20, 30, 40, 40]);
    }

    #[test]
    fn it_is_bounded_by_the_window_and_by_100_ms() {
        assert_eq!(room_after(&[0, 10, 20, 40], 35), [20, 30, 35, 35]);
        assert_eq!(
            room_after(&[0; 10], 1000),
            [20, 40, 60, 80, 100, 100, 100, 100, 100, 100]
        );
    }

    #[test]
    fn acknowledgments_at_the_bandwidth_begin_a_new_epoch_each() {
        assert_eq!(
            room_after(&[0, 20, 40, 60, 80], 1000),
            [20; 5],
            "nothing but the bunch itself"
        );
    }

    #[test]
    fn it_expires_after_two_windows() {
        let (mut aggregation, params) = (Aggregation::new(), AggregationParams::default());
        aggregation.on_ack(
            Instant::from_secs(1),
            MSS * 20,
            BANDWIDTH,
            MSS,
            MSS * 100,
            MSS * params.epoch,
        );
        for round in 1..=10 {
            assert_eq!(
                aggregation.room(BANDWIDTH, &params),
                MSS * 20,
                "round {round}"
            );
            aggregation.on_round(&params);
        }
        assert_eq!(aggregation.room(BANDWIDTH, &params), Bytes::ZERO);
    }
}
