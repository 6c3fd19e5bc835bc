//! [`Meter`]: measurements of the applications of one host, by flow.
//!
//! The two ends of a flow are on two hosts and have the same [`Flow`]: one host's meter counts what
//! was sent, the other's what was received. A measurement costs an addition or a vector push.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tautline_base::{Bytes, Instant};
use tautline_stack::TcpInfo;

use super::AppError;

/// Failures kept per flow; all are counted.
const KEPT_FAILURES: usize = 16;

/// Name of a flow: `upload-1`, or without a number `ping`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Name of this kind of flow.
    pub name: Arc<str>,
    /// Number among several flows of this kind.
    pub number: Option<u32>,
}

impl Flow {
    /// The only flow of its name.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            number: None,
        }
    }

    /// One of several.
    pub fn numbered(name: &str, number: u32) -> Self {
        Self {
            name: name.into(),
            number: Some(number),
        }
    }
}

impl From<&str> for Flow {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.number.map_or(Ok(()), |number| write!(f, "-{number}"))
    }
}

/// A measured duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time of the beginning.
    pub at: Instant,
    /// The duration.
    pub took: Duration,
}

/// An amount of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Payload in bytes.
    pub bytes: u64,
    /// Messages, datagrams or requests; for a stream, reads or writes.
    pub messages: u64,
}

impl Count {
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.messages += 1;
    }
}

/// Counts of TCP connections, as in [`TcpInfo`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounts {
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Recoveries without a timeout.
    pub fast_recoveries: u64,
    /// Packets dropped inside the host.
    pub local_drops: u64,
    /// Times that TSQ held the connection back.
    pub tsq_throttles: u64,
}

impl TcpCounts {
    /// Adds those of one connection.
    pub fn add(&mut self, info: &TcpInfo) {
        self.retransmits += info.retransmits;
        self.timeouts += info.timeouts;
        self.fast_recoveries += info.fast_recoveries;
        self.local_drops += info.local_drops;
        self.tsq_throttles += info.tsq_throttles;
    }
}

/// A failure of an application.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Time of the failure.
    pub at: Instant,
    /// Its cause.
    pub why: Arc<AppError>,
}

/// Measurements of one flow at one host. Samples that do not apply to the kind of application are
/// empty.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The flow.
    pub flow: Flow,
    /// Data that the host accepted from the application.
    pub sent: Count,
    /// Messages not sent because the host's buffer was full.
    pub refused: u64,
    /// Data that the application read.
    pub received: Count,
    /// Connections opened or accepted.
    pub connections: u64,
    /// Requests: time of sending, and round-trip time.
    pub round_trips: Vec<Sample>,
    /// Requests that timed out or failed with an ICMP error.
    pub lost: u64,
    /// Messages received: time of sending, and one-way delay.
    pub one_way: Vec<Sample>,
    /// Completed tasks: pages fetched, streams of a given length transferred.
    pub completions: Vec<Sample>,
    /// Final state of the connection at this end; of several, the latest.
    pub last_info: Option<Box<TcpInfo>>,
    /// Counts of the connections closed so far. A web client has many, and none of them open.
    pub closed: TcpCounts,
    /// Number of failures.
    pub failed: u64,
    /// The first 16 failures.
    pub failures: Vec<Failure>,
    bins: Bins,
}

impl Measured {
    fn new(flow: Flow, bins: Bins) -> Self {
        Self {
            flow,
            sent: Count::default(),
            refused: 0,
            received: Count::default(),
            connections: 0,
            round_trips: Vec::new(),
            lost: 0,
            one_way: Vec::new(),
            completions: Vec::new(),
            last_info: None,
            closed: TcpCounts::default(),
            failed: 0,
            failures: Vec::new(),
            bins,
        }
    }

    /// Counts `bytes` read.
    pub fn note_received(&mut self, bytes: usize, now: Instant) {
        self.received.add(bytes);
        self.bins.add(bytes as u64, now);
    }

    /// Counts `bytes` sent.
    pub fn note_sent(&mut self, bytes: usize) {
        self.sent.add(bytes);
    }

    /// Counts a connection that is being closed.
    pub fn note_closed(&mut self, info: TcpInfo) {
        self.closed.add(&info);
        self.last_info = Some(Box::new(info));
    }

    /// Records a failure.
    pub fn note_failure(&mut self, why: impl Into<Arc<AppError>>, now: Instant) {
        self.failed += 1;
        if self.failures.len() < KEPT_FAILURES {
            self.failures.push(Failure {
                at: now,
                why: why.into(),
            });
        }
    }

    /// Start of each sample interval up to the one that contains `until`, and bytes received in it.
    pub fn received_by_interval(&self, until: Instant) -> impl Iterator<Item = (Instant, Bytes)> {
        self.bins.all(until)
    }

    /// Bytes received in the sample intervals that begin at `from` or later and before `to`.
    pub fn received_between(&self, from: Instant, to: Instant) -> Bytes {
        self.bins.between(from, to)
    }
}

/// Bytes by sample interval. Empty intervals take no memory.
#[derive(Clone, Debug)]
struct Bins {
    begin: Instant,
    interval: Duration,
    /// Number of the interval and bytes, in order.
    bins: Vec<(u64, u64)>,
}

impl Bins {
    fn number(&self, at: Instant) -> u64 {
        (at - self.begin).as_nanos() as u64 / self.interval.as_nanos() as u64
    }

    fn begin_of(&self, number: u64) -> Instant {
        self.begin + Duration::from_nanos((self.interval.as_nanos() as u64).saturating_mul(number))
    }

    fn add(&mut self, bytes: u64, now: Instant) {
        let number = self.number(now);
        match self.bins.last_mut() {
            // A clock that steps back does not open an interval again.
            Some((last, sum)) if *last >= number => *sum += bytes,
            _ => self.bins.push((number, bytes)),
        }
    }

    fn all(&self, until: Instant) -> impl Iterator<Item = (Instant, Bytes)> {
        let mut bins = self.bins.iter().peekable();
        (0..=self.number(until)).map(move |number| {
            let bytes = bins
                .next_if(|(at, _)| *at == number)
                .map_or(0, |(_, bytes)| *bytes);
            (self.begin_of(number), Bytes::new(bytes))
        })
    }

    fn between(&self, from: Instant, to: Instant) -> Bytes {
        let within = |(number, _): &&(u64, u64)| (from..to).contains(&self.begin_of(*number));
        Bytes::new(
            self.bins
                .iter()
                .filter(within)
                .map(|(_, bytes)| bytes)
                .sum(),
        )
    }
}

/// Measurements of all applications of a host.
#[derive(Clone, Debug)]
pub struct Meter {
    begin: Instant,
    interval: Duration,
    flows: Vec<Measured>,
}

impl Meter {
    /// An empty meter with sample intervals of `interval`, at least 1 ns.
    pub(super) fn new(interval: Duration) -> Self {
        let interval = interval.clamp(Duration::from_nanos(1), Duration::from_nanos(u64::MAX));
        Self {
            begin: Instant::ZERO,
            interval,
            flows: Vec::new(),
        }
    }

    /// Starts the clock.
    pub(super) fn begin(&mut self, now: Instant) {
        self.begin = now;
        self.flows
            .iter_mut()
            .for_each(|measured| measured.bins.begin = now);
    }

    /// Adds a flow.
    pub(super) fn add(&mut self, flow: Flow) {
        let bins = Bins {
            begin: self.begin,
            interval: self.interval,
            bins: Vec::new(),
        };
        self.flows.push(Measured::new(flow, bins));
    }

    pub(super) fn of(&mut self, number: usize) -> &mut Measured {
        &mut self.flows[number]
    }

    /// When the clock was started.
    pub fn began(&self) -> Instant {
        self.begin
    }

    /// The sample interval.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// All flows in the order in which their applications were added.
    pub fn flows(&self) -> &[Measured] {
        &self.flows
    }

    /// The first flow of this name.
    pub fn flow(&self, flow: &Flow) -> Option<&Measured> {
        self.flows.iter().find(|measured| measured.flow == *flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_named_and_ordered_by_number() {
        let mut flows = [
            Flow::numbered("upload", 10),
            Flow::new("ping"),
            Flow::numbered("upload", 2),
        ];
        flows.sort();
        assert_eq!(
            flows.map(|flow| flow.to_string()),
            ["ping", "upload-2", "upload-10"]
        );
    }

    #[test]
    fn bytes_fall_into_the_interval_of_their_arrival() {
        let mut meter = Meter::new(Duration::from_millis(100));
        meter.add("f".into());
        meter.begin(Instant::from_secs(5));
        let measured = meter.of(0);
        for (millis, bytes) in [(0, 1), (99, 2), (100, 4), (399, 8), (50, 16)] {
            measured.note_received(bytes, Instant::from_millis(5000 + millis));
        }
        let all: Vec<_> = measured
            .received_by_interval(Instant::from_millis(5450))
            .map(|(_, bytes)| bytes.get())
            .collect();
        assert_eq!(
            all,
            [3, 4, 0, 24, 0],
            "what came at a time that has passed counts at the latest"
        );
        assert_eq!(
            measured.received_between(Instant::from_millis(5100), Instant::from_millis(5300)),
            Bytes::new(4)
        );
        assert_eq!(
            measured.received,
            Count {
                bytes: 31,
                messages: 5
            }
        );
    }

    #[test]
    fn the_end_of_time_is_an_interval_like_another() {
        let mut meter = Meter::new(Duration::ZERO);
        meter.add("f".into());
        meter.of(0).note_received(1, Instant::from_nanos(u64::MAX));
        assert_eq!(
            meter.flows()[0].received_between(Instant::ZERO, Instant::from_nanos(u64::MAX)),
            Bytes::ZERO
        );
        assert_eq!(meter.flows()[0].received.bytes, 1);
    }

    #[test]
    fn failures_are_counted_and_the_first_kept() {
        let mut meter = Meter::new(Duration::from_secs(1));
        meter.add("f".into());
        for _ in 0..20 {
            meter
                .of(0)
                .note_failure(AppError::Protocol("no"), Instant::ZERO);
        }
        assert_eq!((meter.of(0).failed, meter.of(0).failures.len()), (20, 16));
    }
}
