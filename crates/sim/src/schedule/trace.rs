//! [`Trace`]: a recorded link in the format of mahimahi: a line per delivery opportunity, the
//! millisecond at which it comes.
//!
//! An opportunity carries 1500 bytes of IP packets. A packet may need several, and several packets
//! may share one; what of it finds no packet waiting is lost, as on the air. After its last stamp
//! the trace begins again, so that stamp is also its period.

use std::num::ParseIntError;
use std::str::FromStr;
use std::time::Duration;

use tautline_base::{Bytes, Instant, Rate, headers};

/// What an opportunity carries.
const OPPORTUNITY: Bytes = Bytes::new(1500);
/// What of a frame is no IP packet.
const ETHERNET_HEADER: Bytes = Bytes::new(headers::ETHERNET_HEADER as u64);

/// A recorded link.
///
/// ```
/// use tautline_sim::Trace;
/// // Two packets at 5 ms, one at 10 ms, again and again: 3 × 1500 bytes in 10 ms.
/// let trace: Trace = "5\n5\n10\n".parse()?;
/// assert_eq!(trace.mean_rate().as_bits_per_sec(), 3_600_000);
/// # Ok::<(), tautline_sim::TraceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// When opportunities come, in order; the last is the period, and above 0.
    stamps: Vec<Duration>,
}

/// What a text is not a trace for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line is no time.
    #[error("line {line}: `{text}` is no whole number of milliseconds: {error}")]
    Number {
        /// Which line, from 1.
        line: usize,
        /// What it says.
        text: String,
        /// What is wrong with it.
        error: ParseIntError,
    },
    /// Time steps back.
    #[error("line {line}: {stamp} ms comes after {before} ms: stamps must not decrease")]
    Decreasing {
        /// Which line, from 1.
        line: usize,
        /// What it says.
        stamp: u64,
        /// What the line before says.
        before: u64,
    },
    /// It has no length.
    #[error(
        "line {line}: the trace ends at 0 ms: its last stamp is its period and must be above 0"
    )]
    NoPeriod {
        /// The last line.
        line: usize,
    },
    /// There are no lines.
    #[error(
        "the trace is empty: a line per delivery opportunity is expected, with its millisecond"
    )]
    Empty,
}

impl FromStr for Trace {
    type Err = TraceError;

    /// Reads the text of a trace file. Empty lines are passed over.
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

/// How far a trace is used up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opportunity {
    /// The opportunity before which all have passed, counted from the beginning of time.
    number: u64,
    /// What of it is used.
    used: Bytes,
}

impl Trace {
    /// What the trace carries in its period, over the period.
    pub fn mean_rate(&self) -> Rate {
        Rate::from_amount(OPPORTUNITY * self.stamps.len() as u64, self.period())
    }

    /// After which it begins again.
    pub fn period(&self) -> Duration {
        self.stamps.last().copied().unwrap_or(Duration::MAX)
    }

    /// When a frame of `len` that waits since `start` is through; `next` is used up to there.
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

    /// The number of the first opportunity that does not come before `start`.
    fn first_from(&self, start: Instant) -> u64 {
        let (nanos, period) = (start.as_nanos(), nanos(self.period()));
        // One that comes at the very end of a period belongs to it, not to the next.
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

    /// When opportunity `number` comes.
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
