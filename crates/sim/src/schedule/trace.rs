//! [`Trace`]: a recorded link in the format of mahimahi: a line per delivery opportunity, with its
//! time in milliseconds.
//!
//! An opportunity carries 1500 bytes of IP packets. A packet may need several, and several packets
//! may share one; unused bytes of an opportunity are lost, as on a radio channel. The trace repeats
//! after its last stamp, which is its period.

use std::num::ParseIntError;
use std::str::FromStr;
use std::time::Duration;

use tautline_base::{Bytes, Instant, Rate, headers};

/// Bytes of an opportunity.
const OPPORTUNITY: Bytes = Bytes::new(1500);
/// Bytes of a frame before its IP packet.
const ETHERNET_HEADER: Bytes = Bytes::new(headers::ETHERNET_HEADER as u64);

/// A recorded link.
///
/// ```
/// use tautline_sim::Trace;
/// // Two packets at 5 ms, one at 10 ms, repeated: 3 × 1500 bytes in 10 ms.
/// let trace: Trace = "5\n5\n10\n".parse()?;
/// assert_eq!(trace.mean_rate().as_bits_per_sec(), 3_600_000);
/// # Ok::<(), tautline_sim::TraceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Times of opportunities, in order; the last is the period, above 0.
    stamps: Vec<Duration>,
}

/// Why a text is not a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line is not a number.
    #[error("line {line}: `{text}` is no whole number of milliseconds: {error}")]
    Number {
        /// Number of the line, from 1.
        line: usize,
        /// Text of the line.
        text: String,
        /// Error of the parser.
        error: ParseIntError,
    },
    /// Stamps decrease.
    #[error("line {line}: {stamp} ms comes after {before} ms: stamps must not decrease")]
    Decreasing {
        /// Number of the line, from 1.
        line: usize,
        /// Stamp of the line, in milliseconds.
        stamp: u64,
        /// Stamp of the previous line, in milliseconds.
        before: u64,
    },
    /// The last stamp is 0.
    #[error(
        "line {line}: the trace ends at 0 ms: its last stamp is its period and must be above 0"
    )]
    NoPeriod {
        /// Number of the last line.
        line: usize,
    },
    /// The text has no lines.
    #[error(
        "the trace is empty: a line per delivery opportunity is expected, with its millisecond"
    )]
    Empty,
}

impl FromStr for Trace {
    type Err = TraceError;

    /// Parses a trace file. Empty lines are ignored.
    fn from_str(text: &str) -> Result<Self, TraceError> {
        let (mut stamps, mut before, mut last) = (Vec::new(), 0, 0);
        let lines = text
            .lines()
            .map(str::trim)
            .enumerate()
            .filter(|(_, text)| !text.is_empty());
        for (line, text) in lines.map(|(line, text)| (line + 1, text)) {
            let stamp = text.parse::<u64>().map_err(|error| TraceError::Number {
                line,
                text: text.into(),
                error,
            })?;
            if stamp < before {
                return Err(TraceError::Decreasing {
                    line,
                    stamp,
                    before,
                });
            }
            stamps.push(Duration::from_millis(stamp));
            (before, last) = (stamp, line);
        }
        match (stamps.is_empty(), before) {
            (true, _) => Err(TraceError::Empty),
            (false, 0) => Err(TraceError::NoPeriod { line: last }),
            (false, _) => Ok(Self { stamps }),
        }
    }
}

/// Position in a trace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opportunity {
    /// Number of the current opportunity, counted from time zero.
    number: u64,
    /// Bytes used of the current opportunity.
    used: Bytes,
}

impl Trace {
    /// Capacity of the trace over its period.
    pub fn mean_rate(&self) -> Rate {
        Rate::from_amount(OPPORTUNITY * self.stamps.len() as u64, self.period())
    }

    /// Time after which the trace repeats.
    pub fn period(&self) -> Duration {
        self.stamps.last().copied().unwrap_or(Duration::MAX)
    }

    /// Times of all opportunities in order, without end.
    pub fn into_opportunities(self) -> impl Iterator<Item = Instant> {
        (0..).map(move |number| self.at(number))
    }

    /// Departure time of a frame of `len` bytes that is ready at `start`; advances `next`.
    pub(super) fn departure(&self, next: &mut Opportunity, start: Instant, len: Bytes) -> Instant {
        let first = self.first_from(start);
        if first > next.number {
            *next = Opportunity {
                number: first,
                used: Bytes::ZERO,
            };
        }
        let mut left = len.saturating_sub(ETHERNET_HEADER);
        loop {
            let free = OPPORTUNITY.saturating_sub(next.used);
            if left <= free && free > Bytes::ZERO {
                next.used += left;
                return self.at(next.number);
            }
            left = left.saturating_sub(free);
            *next = Opportunity {
                number: next.number + 1,
                used: Bytes::ZERO,
            };
        }
    }

    /// Number of the first opportunity at or after `start`.
    fn first_from(&self, start: Instant) -> u64 {
        let (nanos, period) = (start.as_nanos(), nanos(self.period()));
        // An opportunity at the end of a period belongs to it, not to the next.
        let (round, within) = (nanos / period, nanos % period);
        let (round, within) = if within == 0 && round > 0 {
            (round - 1, period)
        } else {
            (round, within)
        };
        let passed = self
            .stamps
            .partition_point(|stamp| self::nanos(*stamp) < within);
        round * self.stamps.len() as u64 + passed as u64
    }

    /// Time of opportunity `number`.
    fn at(&self, number: u64) -> Instant {
        let count = self.stamps.len() as u64;
        let stamp = nanos(self.stamps[(number % count) as usize]);
        Instant::from_nanos(
            (number / count)
                .saturating_mul(nanos(self.period()))
                .saturating_add(stamp),
        )
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
