//! TCP Small Queues: how much one connection may have below its socket (paper 001, algorithm 2; `spec/tcp.md` §3.4).
//!
//! Every byte handed to the discipline is charged until its packet completes or is dropped. Above the limit the connection is
//! throttled, and the settling of one of its own packets wakes it.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use tautline_base::{Bytes, Credit, Rate};

/// The limit on what waits below one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TsqLimit {
    /// None: the connection fills the discipline as far as its window goes.
    Off,
    /// What the pacing rate carries in `ticks` × 1/1024 s, at least two segments and at most `clamp`.
    Time {
        /// Time in units of 1/1024 s ("1 ms").
        ticks: u32,
        /// Upper bound of the limit.
        clamp: Bytes,
    },
}

impl TsqLimit {
    /// `tcp_limit_output_bytes` of paper 001.
    const CLAMP: Bytes = Bytes::kib(128);

    /// `ms` milliseconds (of 1/1024 s) of the pacing rate. The clamp grows along: with a fixed one every variant would be the
    /// same above 1 Gbit/s.
    pub const fn millis(ms: u32) -> Self {
        Self::Time { ticks: ms, clamp: Bytes::new(Self::CLAMP.get() * ms as u64) }
    }

    /// The limit at `rate` with segments of `segment` bytes on the wire; `None` when there is none.
    pub fn at(self, rate: Rate, segment: Bytes) -> Option<Bytes> {
        match self {
            Self::Off => None,
            Self::Time { ticks, clamp } => {
                let in_time = Bytes::new((rate.as_bytes_per_sec() >> 10).saturating_mul(u64::from(ticks)));
                Some(in_time.max(segment * 2).min(clamp))
            }
        }
    }
}

impl Default for TsqLimit {
    /// Algorithm 2 of paper 001: 1 ms at the pacing rate, two segments to 128 KiB.
    fn default() -> Self {
        Self::millis(1)
    }
}

impl fmt::Display for TsqLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Time { ticks, .. } => write!(f, "{ticks}ms"),
        }
    }
}

/// A TSQ setting that is neither `off` nor whole milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("TSQ limit {0:?} is not understood: write `off` or whole milliseconds such as `1ms`, up to `1000ms`")]
pub struct ParseTsqError(String);

impl FromStr for TsqLimit {
    type Err = ParseTsqError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "off" {
            return Ok(Self::Off);
        }
        text.strip_suffix("ms")
            .and_then(|number| number.parse().ok())
            .filter(|ms| (1..=1000).contains(ms))
            .map(Self::millis)
            .ok_or_else(|| ParseTsqError(text.to_owned()))
    }
}

/// One connection's account below its socket.
#[derive(Debug)]
pub(crate) struct Tsq {
    limit: TsqLimit,
    charged: Bytes,
    throttled: bool,
    throttles: u64,
}

impl Tsq {
    pub(crate) fn new(limit: TsqLimit) -> Self {
        Self { limit, charged: Bytes::ZERO, throttled: false, throttles: 0 }
    }

    /// Whether another segment may be placed below the socket. The test precedes the charge, so one segment may overshoot, as
    /// in Linux. `last` marks a segment that would be alone in the network: it always passes (no deadlock on tiny limits).
    pub(crate) fn admits(&mut self, rate: Rate, segment: Bytes, last: bool) -> bool {
        let open = last || self.limit.at(rate, segment).is_none_or(|limit| self.charged <= limit);
        if !open && !self.throttled {
            self.throttled = true;
            self.throttles += 1;
        }
        open
    }

    /// Charges `len` bytes. The credit travels in the packet.
    pub(crate) fn charge(&mut self, len: NonZeroU32) -> Credit {
        self.charged += Bytes::new(u64::from(len.get()));
        Credit::new(len)
    }

    /// Takes a credit back. True when the connection was throttled and may try again.
    pub(crate) fn release(&mut self, credit: &Credit) -> bool {
        self.charged -= Bytes::new(u64::from(credit.bytes()));
        std::mem::take(&mut self.throttled)
    }

    /// Bytes below the socket.
    pub(crate) fn charged(&self) -> Bytes {
        self.charged
    }

    /// How often the connection was throttled.
    pub(crate) fn throttles(&self) -> u64 {
        self.throttles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: Bytes = Bytes::new(1514);

    #[test]
    fn limits_of_the_spec() {
        // spec/tcp.md §3.5: rate >> 10 at 100 and 1000 Mbit/s is 12.2 and 122 KB; below 10 Mbit/s two segments hold.
        let limit = TsqLimit::default();
        assert_eq!(limit.at(Rate::mbit(1), SEGMENT), Some(SEGMENT * 2));
        assert_eq!(limit.at(Rate::mbit(100), SEGMENT), Some(Bytes::new(12_207)));
        assert_eq!(limit.at(Rate::gbit(1), SEGMENT), Some(Bytes::new(122_070)));
        assert_eq!(limit.at(Rate::gbit(10), SEGMENT), Some(Bytes::kib(128)));
        assert_eq!(TsqLimit::millis(4).at(Rate::mbit(100), SEGMENT), Some(Bytes::new(4 * 12_207)));
        assert_eq!(TsqLimit::Off.at(Rate::mbit(1), SEGMENT), None);
    }

    #[test]
    fn throttles_one_segment_past_the_limit_and_wakes_once() {
        let mut tsq = Tsq::new(TsqLimit::default());
        let len = NonZeroU32::new(1514).expect("not zero");
        let mut credits = Vec::new();
        while tsq.admits(Rate::mbit(10), SEGMENT, false) {
            credits.push(tsq.charge(len));
        }
        assert_eq!(credits.len(), 3, "2 segments and the overshoot: Linux holds 9084 bytes per two flows");
        assert!(!tsq.admits(Rate::mbit(10), SEGMENT, false));
        assert_eq!(tsq.throttles(), 1);
        assert!(tsq.release(&credits.pop().expect("three were charged")));
        assert!(!tsq.release(&credits.pop().expect("three were charged")), "already woken");
        assert!(tsq.release(&credits.pop().expect("three were charged")) || tsq.charged() == Bytes::ZERO);
    }

    #[test]
    fn a_lone_segment_always_passes() {
        let mut tsq = Tsq::new(TsqLimit::Time { ticks: 1, clamp: Bytes::ZERO });
        let _credit = tsq.charge(NonZeroU32::MIN);
        assert!(!tsq.admits(Rate::mbit(1), SEGMENT, false));
        assert!(tsq.admits(Rate::mbit(1), SEGMENT, true));
    }

    #[test]
    fn settings_parse_and_print() {
        for text in ["off", "1ms", "8ms"] {
            assert_eq!(text.parse::<TsqLimit>().expect("valid").to_string(), text);
        }
        for text in ["", "1", "0ms", "ms", "1001ms", "-1ms"] {
            assert!(text.parse::<TsqLimit>().is_err(), "{text:?}");
        }
    }
}
