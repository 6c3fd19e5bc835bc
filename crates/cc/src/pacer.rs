//! [`Pacer`]: when the next byte may leave at a pacing rate (Linux `tcp_update_skb_after_send`).
//!
//! Departures are spaced by `payload / rate`. A pacer that is polled late catches up: by the burst of
//! the controller's verdict, for a sender that wakes every 50 µs could otherwise not fill a fast link,
//! or as Linux does.
//!
//! A sender asks [`Pacer::next`] before each packet, and reports the departure of each with
//! [`Pacer::departed`]:
//!
//! ```
//! use std::time::Duration;
//! use tautline_cc::{Bytes, Instant, Pace, Pacer, Rate};
//!
//! let datagram = Bytes::new(1500);
//! let pace = Pace { rate: Rate::mbit(12), burst: Bytes::new(6000) }; // controller.verdict().pace()
//! let (mut pacer, mut sent) = (Pacer::default(), 0);
//! let mut now = Instant::from_secs(1); // of a clock
//! let start = now;
//! while sent < 1000 {
//!     while pacer.next() <= now { // and while the window has room
//!         // socket.send(&datagram)?;
//!         pacer.departed(now, datagram, 1, pace);
//!         sent += 1;
//!     }
//!     // Wait for an acknowledgment, or until the pacer lets the next datagram leave. Timers are late.
//!     now = pacer.next() + Duration::from_micros(2700);
//! }
//! // A datagram per millisecond all the same: 12 Mbit/s.
//! assert!((990..1010).contains(&(now - start).as_millis()));
//! ```
//!
//! A sender whose system calls or interrupts are dear sends several packets at once, for example with
//! UDP's segmentation offload: it waits until [`Pacer::batch_at`] instead.
//!
//! The caller's clock must not step back: the next departure would lie in the future for as long.

use tautline_base::{Bytes, Instant, Rate};

/// Pacer parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacerConfig {
    /// Compensation of lateness. Default: [`CatchUp::Burst`].
    pub catch_up: CatchUp,
    /// Segments of data at the start of a connection after which the next leaves at once: the packet
    /// that has one more is spaced from the next. Default 0; Linux 9: it counts the packet's segments
    /// first (`data_segs_out` in `__tcp_transmit_skb`).
    pub unpaced: u32,
}

impl PacerConfig {
    /// As `tcp_update_skb_after_send` does, for FQ and for the internal timer.
    pub const fn linux() -> Self {
        Self {
            catch_up: CatchUp::HalfSegment,
            unpaced: 9,
        }
    }
}

/// Treatment of the time by which a packet left later than the pacer allowed, because the window
/// or a slow host held it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CatchUp {
    /// It is credited, up to [`Pace::burst`].
    #[default]
    Burst,
    /// It shortens the distance to the next packet by half at most, and is forgotten (Linux). A
    /// sender that waits for its window is then paced all the same.
    HalfSegment,
}

/// The part of a [`Verdict`](crate::Verdict) that concerns pacing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Rate of the payload. At zero nothing more leaves; no verdict says so.
    pub rate: Rate,
    /// Payload that may leave back to back when the sender is late; of a second at most.
    pub burst: Bytes,
}

/// No burst is worth more than a second, in nanoseconds.
const LONGEST_BURST: u64 = 1_000_000_000;

/// The pacer of one connection: 16 bytes.
///
/// Over any interval it lets no more leave than `rate` × time, the burst, and the packet that ends
/// the interval, besides the unpaced segments at the start.
#[derive(Clone, Debug, Default)]
pub struct Pacer {
    catch_up: CatchUp,
    /// Segments that still leave at once.
    unpaced: u32,
    /// Earliest departure of the next packet.
    next: Instant,
}

impl Pacer {
    /// A pacer whose first packet leaves at once.
    pub fn new(config: PacerConfig) -> Self {
        Self {
            catch_up: config.catch_up,
            unpaced: config.unpaced,
            next: Instant::ZERO,
        }
    }

    /// Records the departure at `at` of a packet of `len` bytes of payload in `segments` segments.
    /// `at` may lie in the future, if something else keeps the packet until then, such as a qdisc
    /// that honors departure times.
    pub fn departed(&mut self, at: Instant, len: Bytes, segments: u32, pace: Pace) {
        let left = self.unpaced.checked_sub(segments);
        self.unpaced = left.unwrap_or(0);
        if left.is_some() {
            self.next = self.next.max(at);
            return;
        }
        let distance = len.nanos_at(pace.rate);
        self.next = match self.catch_up {
            CatchUp::Burst => self.caught_up(at, pace).after_nanos(distance),
            CatchUp::HalfSegment => self
                .next
                .max(at)
                .after_nanos(distance - at.nanos_since(self.next).min(distance / 2)),
        };
    }

    /// Records that `segments` segments left without pacing. They count among the first of the connection
    /// ([`PacerConfig::unpaced`]) if it is paced later, as `data_segs_out` does in Linux.
    #[inline]
    pub fn departed_unpaced(&mut self, segments: u32) {
        self.unpaced = self.unpaced.saturating_sub(segments);
    }

    /// A packet that was to depart at `at` is dropped in this host: its time is free again. Otherwise
    /// each attempt would move the next one further beyond the horizon of FQ (Linux advances
    /// `tcp_wstamp_ns` only for a segment that the qdisc has taken).
    pub fn withdraw(&mut self, at: Instant) {
        self.next = self.next.min(at);
    }

    /// Departure time of the next packet, however long; in the past means now.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// The time until which a sender waits that wants to send packets of `len` bytes together; in the
    /// past means now. Whatever exceeds the burst gains nothing by waiting: it leaves later. Without
    /// credit for lateness ([`CatchUp::HalfSegment`]) packets never leave together.
    pub fn batch_at(&self, len: Bytes, pace: Pace) -> Instant {
        match self.catch_up {
            CatchUp::Burst => {
                let waits = len.min(pace.burst).nanos_at(pace.rate);
                self.next.after_nanos(waits.min(LONGEST_BURST))
            }
            CatchUp::HalfSegment => self.next,
        }
    }

    /// The position of a departure at `at` in the schedule: as late as it is, but by no more than the
    /// burst takes at the rate, nor than a second.
    fn caught_up(&self, at: Instant, pace: Pace) -> Instant {
        let Pace { rate, burst } = pace;
        let late = at.nanos_since(self.next);
        // late <= burst / rate, rounded up: to multiply is cheap, to divide is not, and nearly
        // every departure is within the burst.
        let due = u128::from(late.saturating_sub(1)) * u128::from(rate.as_bytes_per_sec());
        if late == 0
            || (late <= LONGEST_BURST && due < u128::from(burst.get()) * u128::from(LONGEST_BURST))
        {
            return self.next;
        }
        let forgiven = burst.nanos_at(rate).min(LONGEST_BURST);
        self.next
            .max(Instant::from_nanos(at.as_nanos().saturating_sub(forgiven)))
    }
}

#[cfg(test)]
mod tests;
