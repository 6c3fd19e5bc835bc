//! [`Acks`]: a controller that hears acknowledgments of a steady path, one by one.

use std::time::Duration;

use tautline_base::{Bytes, Instant, Rate};
use tautline_cc::{
    Ack, Algorithm, Config, Congestion, CongestionState, Controller, RateSample, Signal, Verdict,
};

const MSS: Bytes = Bytes::new(1448);
/// Segments in flight; the path gives back one every 100 µs.
const FLIGHT: u64 = 100;
const SPACING: Duration = Duration::from_micros(100);
const RTT: Duration = Duration::from_millis(10);
/// A segment is lost after so many, one is marked after so many: windows stay near the flight, and
/// no branch sleeps.
const LOSS_EVERY: u64 = 5000;
const MARK_EVERY: u64 = 400;

/// One connection's controller on a path of 10 ms and 116 Mbit/s.
pub struct Acks {
    controller: Box<dyn Controller>,
    now: Instant,
    count: u64,
}

impl Acks {
    /// A new connection.
    pub fn new(algorithm: Algorithm) -> Self {
        Self {
            controller: algorithm.build(&Config::new(MSS)),
            now: Instant::from_secs(1),
            count: 0,
        }
    }

    /// One acknowledgment of one segment.
    pub fn ack(&mut self) -> Verdict {
        self.now += SPACING;
        self.count += 1;
        let (now, delivered) = (self.now, MSS * self.count);
        let (in_flight, prior_delivered) = (MSS * FLIGHT, MSS * self.count.saturating_sub(FLIGHT));
        if self.count.is_multiple_of(LOSS_EVERY) {
            self.controller.on_congestion(&Congestion {
                now,
                signal: Signal::Loss,
                in_flight,
            });
        }
        let lost = if self.count.is_multiple_of(LOSS_EVERY) {
            MSS
        } else {
            Bytes::ZERO
        };
        self.controller.on_ack(&Ack {
            now,
            acked: MSS,
            lost,
            prior_in_flight: in_flight + MSS,
            in_flight,
            rtt: Some(RTT),
            srtt: RTT,
            min_rtt: RTT,
            delivered,
            rate: Some(RateSample {
                delivered: in_flight,
                interval: RTT,
                rate: Rate::from_amount(in_flight, RTT),
                app_limited: false,
                prior_delivered,
                sent_in_flight: in_flight,
                lost,
            }),
            cwnd_limited: true,
            round_start: self.count.is_multiple_of(FLIGHT),
            state: CongestionState::Open,
            marked: if self.count.is_multiple_of(MARK_EVERY) {
                MSS
            } else {
                Bytes::ZERO
            },
            delayed: false,
            next_departure: now,
        });
        self.controller.verdict()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The measured path is in steady state: no controller runs away, and no window stops (that of
    /// a model may).
    #[test]
    fn every_controller_stays_awake() {
        for algorithm in Algorithm::ALL {
            let mut acks = Acks::new(algorithm);
            let windows: Vec<Bytes> = (0..40_000).map(|_| acks.ack().cwnd).collect();
            let late = &windows[20_000..];
            assert!(
                late.iter()
                    .all(|cwnd| (MSS * 2..MSS * 10_000).contains(cwnd)),
                "{algorithm}"
            );
            let modelled = algorithm.name().starts_with("bbr");
            assert!(
                modelled || late.iter().any(|cwnd| cwnd != &late[0]),
                "{algorithm} stands still"
            );
        }
    }
}
