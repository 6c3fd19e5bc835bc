//! [`Attribution`]: the waits of a connection's bytes, from the application's write to the end of
//! their transmission.
//!
//! Above the qdisc exactly one obstacle ([`Cause`]) blocks a connection with unsent data. A clock
//! per obstacle counts the time. A write saves the clocks; when a byte is sent for the first time,
//! the difference is its wait for each obstacle, and the differences add up to its whole wait.
//! Below, every packet with sequence space reports its time in the qdisc and in the ring. The
//! causes are those of Linux's chronograph (`busy`, `rwnd_limited`, `sndbuf_limited` of
//! `TCP_INFO`), in finer detail and per byte.
//!
//! Kept for connections whose [`TcpConfig::attribution`](crate::TcpConfig::attribution) is on;
//! nothing is allocated after the connection's birth.
//!
//! ```
//! use std::time::Duration;
//! use tautline_stack::attribution::{Attribution, Cause, Histogram};
//!
//! /// The report on a slow connection: the obstacle that its bytes waited longest for.
//! fn bottleneck(attribution: &Attribution) -> (Cause, Duration) {
//!     let worst = Cause::OF_BYTES.into_iter().max_by_key(|cause| attribution.waits(*cause).mean());
//!     worst.map(|cause| (cause, attribution.waits(cause).percentile(99))).expect("there are causes")
//! }
//! # let mut none = Histogram::default();
//! # none.record(Duration::from_millis(3), 1448);
//! # assert_eq!(none.percentile(99), Duration::from_millis(3));
//! # let _ = bottleneck;
//! ```

mod histogram;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use tautline_base::Instant;

pub use histogram::Histogram;

/// Reason why a connection, or a packet of it, waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The application: there is nothing to send.
    Application,
    /// The send buffer: all that it holds is sent, and the application, which has more, cannot
    /// write it.
    SendBuffer,
    /// The handshake.
    Handshake,
    /// The congestion window, or the repair of losses within it.
    Cwnd,
    /// The peer's receive window, silly-window avoidance included.
    PeerWindow,
    /// Nagle's algorithm: a small segment waits for the acknowledgment of another.
    Nagle,
    /// TCP Small Queues.
    Tsq,
    /// The pacer: the connection's own, or the departure stamp that the qdisc honors.
    Pacer,
    /// The host: a free frame, the next hop's hardware address, space in a full qdisc, or its turn.
    Host,
    /// The qdisc.
    Qdisc,
    /// The device's ring, until the completion is seen.
    Ring,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 11] = [
        Self::Application,
        Self::SendBuffer,
        Self::Handshake,
        Self::Cwnd,
        Self::PeerWindow,
        Self::Nagle,
        Self::Tsq,
        Self::Pacer,
        Self::Host,
        Self::Qdisc,
        Self::Ring,
    ];

    /// Causes for which bytes wait: all but the application and the send buffer, before which they
    /// are not written yet.
    pub const OF_BYTES: [Self; 9] = *Self::ALL
        .last_chunk()
        .expect("application and send buffer are the first");

    /// Causes above the qdisc that bytes wait for.
    const OF_SENDER: [Self; 7] = *Self::OF_BYTES
        .first_chunk()
        .expect("discipline and ring are the last");

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::SendBuffer => "sndbuf",
            Self::Handshake => "handshake",
            Self::Cwnd => "cwnd",
            Self::PeerWindow => "rwnd",
            Self::Nagle => "nagle",
            Self::Tsq => "tsq",
            Self::Pacer => "pacer",
            Self::Host => "host",
            Self::Qdisc => "qdisc",
            Self::Ring => "ring",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Time the connection was blocked by each obstacle above the qdisc.
type Clocks = [Duration; Cause::ALL.len()];

/// Writes remembered until their bytes are sent. With more of them pending, the newest count as
/// one: its bytes seem to have been written when the first of them was.
const WRITES: usize = 256;

/// Bytes of one write that are not sent yet.
#[derive(Clone, Copy, Debug)]
struct Written {
    /// Stream offset just past the last of them.
    end: u64,
    /// The clocks when they were written.
    at: Clocks,
}

/// The waits of one connection's bytes.
#[derive(Clone, Debug)]
pub struct Attribution {
    waits: [Histogram; Cause::ALL.len()],
    clocks: Clocks,
    /// The current wait cause, and since when.
    cause: Cause,
    since: Instant,
    writes: VecDeque<Written>,
}

impl Attribution {
    /// A connection begins to open.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            waits: Default::default(),
            clocks: Clocks::default(),
            cause: Cause::Handshake,
            since: now,
            writes: VecDeque::with_capacity(WRITES),
        }
    }

    /// Distribution of the bytes' waits for `cause`. Above the qdisc every byte of payload counts
    /// once, when it is sent for the first time; in the qdisc and the ring every packet with
    /// payload counts with its bytes on the wire.
    pub fn waits(&self, cause: Cause) -> &Histogram {
        &self.waits[cause as usize]
    }

    /// Time the connection was blocked by `cause`, until it last moved on; zero for the qdisc and
    /// the ring, which hold packets and not connections.
    pub fn time_blocked_by(&self, cause: Cause) -> Duration {
        self.clocks[cause as usize]
    }

    /// Adds another connection's account, for totals of a whole host.
    pub fn merge(&mut self, other: &Self) {
        for cause in Cause::ALL {
            self.waits[cause as usize].merge(&other.waits[cause as usize]);
            self.clocks[cause as usize] =
                self.clocks[cause as usize].saturating_add(other.clocks[cause as usize]);
        }
    }

    /// Sets the current wait cause to `cause`.
    pub(crate) fn set_wait_cause(&mut self, cause: Cause, now: Instant) {
        let clock = &mut self.clocks[self.cause as usize];
        *clock = clock.saturating_add(now - self.since);
        (self.cause, self.since) = (cause, now);
    }

    /// The application wrote up to `end`.
    pub(crate) fn written(&mut self, end: u64, now: Instant) {
        let nothing = matches!(self.cause, Cause::Application | Cause::SendBuffer);
        self.set_wait_cause(if nothing { Cause::Host } else { self.cause }, now);
        let full = self.writes.len() == WRITES;
        match self.writes.back_mut() {
            Some(last) if last.end >= end => {}
            Some(last) if full => last.end = end,
            _ => self.writes.push_back(Written {
                end,
                at: self.clocks,
            }),
        }
    }

    /// The bytes of `range` are born for the first time. The qdisc paces a `stamped` packet;
    /// [`ringed`](Self::ringed) accounts for that.
    pub(crate) fn born(&mut self, range: Range<u64>, stamped: bool, now: Instant) {
        self.set_wait_cause(Cause::Host, now);
        let mut start = range.start;
        while start < range.end
            && let Some(&Written { end, at }) = self.writes.front()
        {
            let bytes = end.min(range.end).saturating_sub(start);
            for cause in Cause::OF_SENDER
                .into_iter()
                .filter(|cause| !stamped || *cause != Cause::Pacer)
            {
                let wait = self.clocks[cause as usize].saturating_sub(at[cause as usize]);
                self.waits[cause as usize].record(wait, bytes);
            }
            start += bytes;
            if end <= start {
                self.writes.pop_front();
            }
        }
    }

    /// A packet of `bytes` enters the ring; it was born at `born` with the stamp `departure`.
    pub(crate) fn ringed(&mut self, bytes: u64, born: Instant, departure: Instant, now: Instant) {
        let whole = now - born;
        let paced = whole.min(departure - born);
        if departure > born {
            self.waits[Cause::Pacer as usize].record(paced, bytes);
        }
        self.waits[Cause::Qdisc as usize].record(whole.saturating_sub(paced), bytes);
    }

    /// A packet of `bytes` that entered the ring at `ringed` has left the device.
    pub(crate) fn completed(&mut self, bytes: u64, ringed: Instant, now: Instant) {
        self.waits[Cause::Ring as usize].record(now - ringed, bytes);
    }
}

impl fmt::Display for Attribution {
    /// One line per cause: how long the connection stood there; mean, 50th and 99th percentile, and
    /// longest wait of its bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<12}{:>12}{:>12}{:>12}{:>12}{:>12}",
            "waited for", "connection", "mean", "50 %", "99 %", "longest"
        )?;
        for cause in Cause::ALL {
            let waits = self.waits(cause);
            write!(
                f,
                "\n{:<12}{:>12}",
                cause.name(),
                format!("{:.1?}", self.time_blocked_by(cause))
            )?;
            if waits.bytes() > 0 {
                for wait in [
                    waits.mean(),
                    waits.percentile(50),
                    waits.percentile(99),
                    waits.longest(),
                ] {
                    write!(f, "{:>12}", format!("{wait:.1?}"))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Instant = Instant::from_millis;

    fn mean(attribution: &Attribution, cause: Cause) -> u128 {
        attribution.waits(cause).mean().as_millis()
    }

    #[test]
    fn what_a_byte_waits_for_adds_up_to_its_wait() {
        let mut attribution = Attribution::new(MS(0));
        attribution.written(1001, MS(0));
        attribution.set_wait_cause(Cause::Cwnd, MS(10));
        attribution.written(2001, MS(15));
        attribution.set_wait_cause(Cause::Tsq, MS(40));
        attribution.born(1..1001, false, MS(60));
        assert_eq!(
            [Cause::Handshake, Cause::Cwnd, Cause::Tsq].map(|cause| mean(&attribution, cause)),
            [10, 30, 20]
        );
        attribution.set_wait_cause(Cause::Pacer, MS(60));
        attribution.born(1001..2001, false, MS(67));
        // The second write waited from 15 ms: 25 for the window, 20 for TSQ, 7 for the pacer.
        assert_eq!(
            attribution.waits(Cause::Cwnd).longest(),
            Duration::from_millis(30)
        );
        assert_eq!(mean(&attribution, Cause::Cwnd), 27);
        assert_eq!(
            attribution.waits(Cause::Pacer).longest(),
            Duration::from_millis(7)
        );
        let bytes = Cause::OF_SENDER.map(|cause| attribution.waits(cause).bytes());
        assert_eq!(bytes, [2000; 7]);
    }

    #[test]
    fn an_idle_connection_waits_for_its_application() {
        let mut attribution = Attribution::new(MS(0));
        attribution.set_wait_cause(Cause::Application, MS(5));
        attribution.written(101, MS(500));
        attribution.born(1..101, false, MS(500));
        assert_eq!(
            attribution.time_blocked_by(Cause::Application),
            Duration::from_millis(495)
        );
        let waited: Duration = Cause::OF_SENDER
            .into_iter()
            .map(|cause| attribution.waits(cause).longest())
            .sum();
        assert_eq!(waited, Duration::ZERO);
    }

    #[test]
    fn a_segment_of_several_writes_weighs_each() {
        let mut attribution = Attribution::new(MS(0));
        attribution.set_wait_cause(Cause::Nagle, MS(0));
        attribution.written(101, MS(0));
        attribution.written(401, MS(8));
        attribution.born(1..401, false, MS(10));
        assert_eq!(
            attribution.waits(Cause::Nagle).mean(),
            Duration::from_micros(4000)
        );
        assert_eq!(
            attribution.waits(Cause::Nagle).longest(),
            Duration::from_millis(10)
        );
    }

    #[test]
    fn a_stamp_that_the_discipline_honours_is_pacing() {
        let mut attribution = Attribution::new(MS(0));
        attribution.ringed(1514, MS(10), MS(14), MS(16));
        assert_eq!(
            (
                mean(&attribution, Cause::Pacer),
                mean(&attribution, Cause::Qdisc)
            ),
            (4, 2)
        );
        attribution.completed(1514, MS(16), MS(19));
        assert_eq!(mean(&attribution, Cause::Ring), 3);
    }

    #[test]
    fn a_total_of_two_accounts_adds_waits_and_clocks() {
        let account = |millis| {
            let mut attribution = Attribution::new(MS(0));
            attribution.set_wait_cause(Cause::Cwnd, MS(0));
            attribution.written(101, MS(0));
            attribution.born(1..101, false, MS(millis));
            attribution.set_wait_cause(Cause::Host, MS(millis));
            attribution
        };
        let mut total = account(10);
        total.merge(&account(30));
        assert_eq!(total.waits(Cause::Cwnd).bytes(), 200);
        assert_eq!(mean(&total, Cause::Cwnd), 20);
        let blocked = total.time_blocked_by(Cause::Cwnd);
        assert_eq!(blocked, Duration::from_millis(40));
    }

    #[test]
    fn memory_stays_as_it_was_however_many_writes_wait() {
        let mut attribution = Attribution::new(MS(0));
        let capacity = attribution.writes.capacity();
        for write in 0..10_000 {
            attribution.written(write + 2, MS(write));
        }
        assert_eq!(attribution.writes.capacity(), capacity);
        attribution.born(1..10_001, false, MS(20_000));
        assert_eq!(attribution.waits(Cause::Cwnd).bytes(), 10_000);
        assert!(attribution.writes.is_empty());
    }

    #[test]
    fn time_that_jumps_is_survived() {
        let mut attribution = Attribution::new(MS(u64::MAX / 2_000_000));
        attribution.written(10, MS(0));
        attribution.set_wait_cause(Cause::Cwnd, Instant::from_nanos(u64::MAX));
        attribution.set_wait_cause(Cause::Tsq, MS(0));
        attribution.born(1..10, true, MS(1));
        attribution.ringed(10, Instant::from_nanos(u64::MAX), MS(0), MS(5));
        attribution.completed(10, MS(9), MS(0));
        assert!(attribution.to_string().contains("cwnd"));
    }
}
