//! How many segments leave in one packet where the device takes several (TSO): sized by the pacing
//! rate, within both windows, and worth waiting for if the next acknowledgment makes it more
//! (Linux `tcp_tso_autosize`, `tcp_tso_should_defer`).
//!
//! Such a packet is whole: each of its segments is full. The remainder leaves as an ordinary
//! segment, by Nagle's rule.

use std::time::Duration;

use tautline_base::{Bytes, Instant, Rate, Tso};

use super::SendHalf;
use super::plan::Blocked;
use super::plan::Plan;
use super::planning::SendContext;
use crate::tsq::TsqLimit;

/// A flow that has been quiet so long does not wait (Linux), nor does one whose next
/// acknowledgment is farther away than that.
const PATIENCE: Duration = Duration::from_millis(1);
/// Does not defer if this part of the window is free (Linux `tcp_tso_win_divisor`).
const WINDOW_PART: u64 = 3;

/// Parameters that determine the goal size of a packet.
#[derive(Clone, Copy, Debug)]
struct Autosize {
    rate: Rate,
    /// Units of 1/1024 s whose share of the rate a packet carries, as TSQ counts (Linux's pacing
    /// shift is one for both).
    ticks: u32,
    min_rtt: Duration,
    /// 2^this microseconds of `min_rtt` halve what a packet may have beyond its share of the rate.
    rtt_log: u32,
}

impl Autosize {
    /// Segments of `mss` bytes: what the pacing rate carries in about a millisecond, and more on
    /// short paths, of the `max` bytes that a packet may have. There a burst does little harm.
    fn segments(&self, mss: u64, max: u64) -> u64 {
        let paced = (self.rate.as_bytes_per_sec() >> 10).saturating_mul(u64::from(self.ticks));
        let halvings = self
            .min_rtt
            .as_micros()
            .checked_shr(self.rtt_log)
            .unwrap_or(0);
        let halvings = u32::try_from(halvings).unwrap_or(u32::MAX);
        let near = max.checked_shr(halvings).unwrap_or(0);
        paced.saturating_add(near).min(max) / mss.max(1)
    }
}

impl SendHalf {
    /// `plan`, a segment that may leave, with as many full ones behind it as may leave with it.
    ///
    /// # Errors
    /// The window that will soon admit a larger packet.
    pub(super) fn enlarge(
        &self,
        plan: Plan,
        tso: Tso,
        context: &SendContext,
    ) -> Result<Plan, Blocked> {
        let Self { stream, flight, .. } = self;
        let (mss, nxt) = (flight.mss(), flight.nxt());
        let (window, config) = (flight.cwnd().get(), flight.config());
        let unsent = (stream.record_end() - nxt) / mss;
        let max = u64::from(tso.max_size);
        let most = (max.saturating_sub(flight.path.headers() as u64) / mss)
            .min(u64::from(tso.max_segments));
        let autosize = Autosize {
            rate: flight.pacing_rate(),
            ticks: match config.tsq {
                TsqLimit::Time(limit) => limit.ticks,
                TsqLimit::Off => 1,
            },
            min_rtt: flight.rtt.min(),
            rtt_log: config.tso_rtt_log,
        };
        let wanted = flight
            .congestion
            .controller()
            .packet_segments(autosize.segments(mss, max))
            .min(most)
            .min(unsent);
        // A device would repeat CWR in every segment it cuts.
        if wanted <= 1 || (flight.cwr_due && context.classic_ecn) {
            return Ok(plan);
        }
        let peer = stream.window.edge().saturating_sub(nxt);
        let cwnd = window.saturating_sub(flight.segments.in_flight());
        let last = stream.fin().is_some_and(|fin| fin <= nxt + wanted * mss);
        if peer.min(cwnd) < wanted * mss && !last && self.should_wait(peer.min(cwnd), context.now) {
            return Err(if cwnd <= peer {
                Blocked::Cwnd
            } else {
                Blocked::PeerWindow
            });
        }
        // Two packets at least fill the window, so that there are acknowledgments to go by (Linux
        // `tcp_cwnd_test`).
        let half = (window / 2).max(mss);
        let segments = wanted.min(peer.min(cwnd).min(half) / mss).max(1);
        let whole = |segments: u64| Plan {
            segments: u16::try_from(segments).unwrap_or(u16::MAX),
            ..self.new_segment_of(segments * mss)
        };
        let plan = whole(segments);
        // A FIN may be one byte too many.
        Ok(if segments > 1 && !flight.fits_cwnd(&plan.range) {
            whole(segments - 1)
        } else {
            plan
        })
    }

    /// Whether a packet of only `room` bytes should be deferred to the next acknowledgment: it is
    /// near, and will admit more.
    fn should_wait(&self, room: u64, now: Instant) -> bool {
        let window = self
            .flight
            .cwnd()
            .min(Bytes::new(
                self.stream.window.edge().saturating_sub(self.flight.una()),
            ))
            .get();
        let srtt = self.flight.rtt.srtt();
        let expected = self.flight.segments.head_sent_at().map(|sent| sent + srtt);
        self.flight.recovery.is_open()
            && now - self.totals.data_sent_at <= PATIENCE
            && room < window / WINDOW_PART
            && expected.is_some_and(|at| at - now <= PATIENCE.min(srtt / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux `tcp_tso_autosize`, by hand: segments of 1448 bytes by rate and lowest RTT.
    #[test]
    fn sizes_of_the_spec() {
        let micros = [50, 1_000, 2_000, 4_000, 40_000];
        for (mbit, segments) in [
            (10, [45, 23, 6, 2, 2]),
            (100, [45, 31, 14, 8, 8]),
            (1000, [45; 5]),
        ] {
            let sizes = micros.map(|micros| {
                let min_rtt = Duration::from_micros(micros);
                let autosize = Autosize {
                    rate: Rate::mbit(mbit),
                    ticks: 1,
                    min_rtt,
                    rtt_log: 9,
                };
                autosize.segments(1448, 65_536).max(2)
            });
            assert_eq!(sizes, segments, "{mbit} Mbit/s");
        }
    }

    /// Before Linux 5.18 a short path made no difference: a millisecond of 25 Mbit/s is two
    /// segments.
    #[test]
    fn without_the_logarithm_only_the_rate_counts() {
        for micros in [300, 4_000] {
            let min_rtt = Duration::from_micros(micros);
            let autosize = Autosize {
                rate: Rate::mbit(25),
                ticks: 1,
                min_rtt,
                rtt_log: 0,
            };
            assert_eq!(autosize.segments(1448, 65_536), 2);
        }
    }

    #[test]
    fn wifis_eight_milliseconds_make_larger_packets_and_absurd_numbers_none() {
        let autosize = Autosize {
            rate: Rate::mbit(20),
            ticks: 8,
            min_rtt: Duration::from_millis(40),
            rtt_log: 9,
        };
        assert_eq!(
            autosize.segments(1448, 65_536),
            (20_000_000 / 8 / 1024 * 8) / 1448
        );
        for (rate, min_rtt) in [(Rate::ZERO, Duration::MAX), (Rate::MAX, Duration::ZERO)] {
            let autosize = Autosize {
                rate,
                ticks: u32::MAX,
                min_rtt,
                rtt_log: 9,
            };
            assert!(autosize.segments(1448, 65_536) <= 45);
            autosize.segments(0, u64::MAX);
        }
    }
}
