//! TCP Small Queues: a limit on the bytes that one connection has below its socket (paper 001,
//! algorithm 2; Linux `tcp_small_queue_check`).
//!
//! Every byte handed to the qdisc is charged until its packet completes or is dropped. Above the
//! limit the connection is throttled, and the settling of one of its own packets wakes it.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use tautline_base::{Bytes, Credit, Rate};

/// The limit on the backlog below one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TsqLimit {
    /// No limit: the connection fills the qdisc up to its window.
    Off,
    /// The bytes that the pacing rate carries in some time, within bounds.
    Time(TimeLimit),
}

/// A limit of the bytes that the pacing rate carries in `ticks` × 1/1024 s, at least two segments
/// and at most the clamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimit {
    /// Time in units of 1/1024 s ("1 ms"). Linux's pacing shift is 10 less its logarithm: 10 for 1,
    /// 7 for the 8 of Wi-Fi.
    pub ticks: u32,
    /// Upper bound of the limit (Linux `tcp_limit_output_bytes`).
    pub clamp: Clamp,
    /// Buffer memory that each segment is charged beyond its bytes on the wire. Linux charges
    /// `truesize`: 2304 for a full Ethernet frame of 1514 bytes.
    pub overhead: Bytes,
    /// Factor of the limit for a retransmission. Linux: 2.
    pub retransmission: u32,
}

/// Condition under which the upper bound applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clamp {
    /// For every connection.
    Always(Bytes),
    /// For connections without pacing; a paced one is bounded by its rate (Linux 5.0 to 6.15).
    Unpaced(Bytes),
}

impl TimeLimit {
    /// `truesize` of a full frame beyond its length, in Linux.
    const TRUESIZE: Bytes = Bytes::new(2304 - 1514);

    /// Algorithm 2 of paper 001 with `ms` milliseconds (of 1/1024 s), 128 KiB for each. With one
    /// common clamp all variants would be equal above 1 Gbit/s.
    pub const fn paper_001(ms: u32) -> Self {
        let clamp = Clamp::Always(Bytes::new((128 << 10) * ms as u64));
        Self {
            ticks: ms,
            clamp,
            overhead: Bytes::ZERO,
            retransmission: 1,
        }
    }

    /// Linux 3.6, which introduced it: 1 ms and never more than 128 KiB.
    pub const LINUX_3_6: Self = Self {
        overhead: Self::TRUESIZE,
        ..Self::paper_001(1)
    };

    /// Linux 5.0 to 6.15: 1 MiB, for unpaced connections only.
    pub const LINUX_6_12: Self = Self {
        clamp: Clamp::Unpaced(Bytes::mib(1)),
        retransmission: 2,
        ..Self::LINUX_3_6
    };

    /// Linux 6.16: 4 MiB, for all again.
    pub const LINUX_6_16: Self = Self {
        clamp: Clamp::Always(Bytes::mib(4)),
        ..Self::LINUX_6_12
    };

    fn at(&self, rate: Rate, segment: Bytes, paced: bool) -> Bytes {
        let in_time =
            Bytes::new((rate.as_bytes_per_sec() >> 10).saturating_mul(u64::from(self.ticks)));
        let limit = in_time.max((segment + self.overhead) * 2);
        match self.clamp {
            Clamp::Unpaced(_) if paced => limit,
            Clamp::Always(clamp) | Clamp::Unpaced(clamp) => limit.min(clamp),
        }
    }
}

impl TsqLimit {
    /// The profiles by name. Linux 5.10 and 6.12 behave alike.
    const PROFILES: [(&'static str, TimeLimit); 5] = [
        ("paper-001", TimeLimit::paper_001(1)),
        ("linux-3.6", TimeLimit::LINUX_3_6),
        ("linux-5.10", TimeLimit::LINUX_6_12),
        ("linux-6.12", TimeLimit::LINUX_6_12),
        ("linux-6.16", TimeLimit::LINUX_6_16),
    ];

    /// `ms` milliseconds as in [`TimeLimit::paper_001`].
    pub const fn millis(ms: u32) -> Self {
        Self::Time(TimeLimit::paper_001(ms))
    }

    /// The limit at `rate` with segments of `segment` bytes on the wire; `None` if unlimited.
    /// `paced`: the connection is.
    pub fn at(self, rate: Rate, segment: Bytes, paced: bool) -> Option<Bytes> {
        match self {
            Self::Off => None,
            Self::Time(limit) => Some(limit.at(rate, segment, paced)),
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
        let Self::Time(limit) = self else {
            return f.write_str("off");
        };
        if *limit == TimeLimit::paper_001(limit.ticks) {
            return write!(f, "{}ms", limit.ticks);
        }
        // Both of a pair are written by the later name.
        let known = Self::PROFILES.iter().rev().find(|(_, profile)| {
            TimeLimit {
                ticks: limit.ticks,
                ..*profile
            } == *limit
        });
        match (known, limit.ticks) {
            (Some((name, _)), 1) => f.write_str(name),
            (Some((name, _)), ticks) => write!(f, "{name},{ticks}ms"),
            (None, ticks) => write!(f, "{ticks}ms with other bounds"),
        }
    }
}

/// A TSQ setting that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "TSQ limit {0:?} is not understood: write `off`, whole milliseconds such as `1ms`, up to `1000ms`, or a profile (paper-001, \
     linux-3.6, linux-5.10, linux-6.12, linux-6.16), alone or with milliseconds as in `linux-6.12,8ms`"
)]
pub struct ParseTsqError(String);

impl FromStr for TsqLimit {
    type Err = ParseTsqError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let millis = |text: &str| {
            text.strip_suffix("ms")
                .and_then(|number| number.parse().ok())
                .filter(|ms| (1..=1000).contains(ms))
        };
        let profile = |name: &str| {
            Self::PROFILES
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, limit)| *limit)
        };
        let limit = match text.split_once(',') {
            _ if text == "off" => return Ok(Self::Off),
            Some((name, time)) => profile(name)
                .zip(millis(time))
                .map(|(limit, ticks)| TimeLimit { ticks, ..limit }),
            None => profile(text).or_else(|| millis(text).map(TimeLimit::paper_001)),
        };
        limit
            .map(Self::Time)
            .ok_or_else(|| ParseTsqError(text.to_owned()))
    }
}

/// A request to place a segment below the socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TsqRequest {
    /// The pacing rate.
    pub(crate) rate: Rate,
    /// Wire length of the segment, rounded up to a full one.
    pub(crate) segment: Bytes,
    /// The connection is paced.
    pub(crate) paced: bool,
    /// It is a retransmission.
    pub(crate) again: bool,
    /// At most one segment is unacknowledged.
    pub(crate) last: bool,
}

/// One connection's account below its socket.
#[derive(Debug, Default)]
pub(crate) struct Tsq {
    charged: Bytes,
    throttled: bool,
    throttles: u64,
}

impl Tsq {
    /// Whether `limit` lets another segment be placed below the socket. The test precedes the
    /// charge, so one segment may overshoot, as in Linux. A segment with nothing else in flight
    /// always passes, so tiny limits cannot deadlock.
    pub(crate) fn admits(&self, limit: &TsqLimit, request: TsqRequest) -> bool {
        let TsqRequest {
            rate,
            segment,
            paced,
            again,
            last,
        } = request;
        let factor = match limit {
            TsqLimit::Time(limit) if again => u64::from(limit.retransmission),
            _ => 1,
        };
        last || limit
            .at(rate, segment, paced)
            .is_none_or(|limit| self.charged <= limit * factor)
    }

    /// The connection waits until one of its packets has left the host.
    pub(crate) fn throttle(&mut self) {
        if !std::mem::replace(&mut self.throttled, true) {
            self.throttles += 1;
        }
    }

    /// Charges `len` bytes and what they cost beside. The credit travels in the packet.
    pub(crate) fn charge(&mut self, limit: &TsqLimit, len: NonZeroU32) -> Credit {
        let overhead = match limit {
            TsqLimit::Off => 0,
            TsqLimit::Time(limit) => u32::try_from(limit.overhead.get()).unwrap_or(u32::MAX),
        };
        let len = len.saturating_add(overhead);
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

    /// Number of times the connection was throttled.
    pub(crate) fn throttles(&self) -> u64 {
        self.throttles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: Bytes = Bytes::new(1514);

    fn request(mbit: u64, last: bool) -> TsqRequest {
        TsqRequest {
            rate: Rate::mbit(mbit),
            segment: SEGMENT,
            paced: true,
            again: false,
            last,
        }
    }

    #[test]
    fn limits_of_the_spec() {
        // Linux `tcp_small_queue_check`: rate >> 10 at 100 and 1000 Mbit/s is 12.2 and 122 KB;
        // below 10 Mbit/s two segments hold.
        let limit = TsqLimit::default();
        assert_eq!(limit.at(Rate::mbit(1), SEGMENT, true), Some(SEGMENT * 2));
        assert_eq!(
            limit.at(Rate::mbit(100), SEGMENT, true),
            Some(Bytes::new(12_207))
        );
        assert_eq!(
            limit.at(Rate::gbit(1), SEGMENT, true),
            Some(Bytes::new(122_070))
        );
        assert_eq!(
            limit.at(Rate::gbit(10), SEGMENT, true),
            Some(Bytes::kib(128))
        );
        assert_eq!(
            TsqLimit::millis(4).at(Rate::mbit(100), SEGMENT, true),
            Some(Bytes::new(4 * 12_207))
        );
        assert_eq!(TsqLimit::Off.at(Rate::mbit(1), SEGMENT, true), None);
    }

    #[test]
    fn throttles_one_segment_past_the_limit_and_wakes_once() {
        let (limit, mut tsq) = (TsqLimit::default(), Tsq::default());
        let len = NonZeroU32::new(1514).expect("not zero");
        let mut credits = Vec::new();
        while tsq.admits(&limit, request(10, false)) {
            credits.push(tsq.charge(&limit, len));
        }
        assert_eq!(
            credits.len(),
            3,
            "2 segments and the overshoot: Linux holds 9084 bytes per two flows"
        );
        tsq.throttle();
        tsq.throttle();
        assert_eq!(tsq.throttles(), 1);
        assert!(tsq.release(&credits.pop().expect("three were charged")));
        assert!(
            !tsq.release(&credits.pop().expect("three were charged")),
            "already woken"
        );
        assert!(
            tsq.release(&credits.pop().expect("three were charged"))
                || tsq.charged() == Bytes::ZERO
        );
    }

    #[test]
    fn a_lone_segment_always_passes() {
        let (limit, mut tsq) = (
            TsqLimit::Time(TimeLimit {
                clamp: Clamp::Always(Bytes::ZERO),
                ..TimeLimit::paper_001(1)
            }),
            Tsq::default(),
        );
        let _credit = tsq.charge(&limit, NonZeroU32::MIN);
        assert!(!tsq.admits(&limit, request(1, false)));
        assert!(tsq.admits(&limit, request(1, true)));
    }

    #[test]
    fn settings_parse_and_print() {
        for text in [
            "off",
            "1ms",
            "8ms",
            "linux-3.6",
            "linux-6.12",
            "linux-6.12,8ms",
            "linux-6.16,4ms",
        ] {
            assert_eq!(text.parse::<TsqLimit>().expect("valid").to_string(), text);
        }
        for text in [
            "",
            "1",
            "0ms",
            "ms",
            "1001ms",
            "-1ms",
            "linux-6.12,",
            "linux-6.12,off",
            "linux-2.6",
            ",1ms",
        ] {
            assert!(text.parse::<TsqLimit>().is_err(), "{text:?}");
        }
        assert_eq!("paper-001".parse(), Ok(TsqLimit::default()));
        assert_eq!("linux-5.10".parse::<TsqLimit>(), "linux-6.12".parse());
    }

    /// Linux `tcp_limit_output_bytes`: 128 KiB always, 1 MiB for the unpaced, 4 MiB always; Wi-Fi's
    /// pacing shift of 7 is 8 ms.
    #[test]
    fn clamps_of_the_kernels() {
        let at = |text: &str, gbit, paced| {
            text.parse::<TsqLimit>()
                .expect("valid")
                .at(Rate::gbit(gbit), SEGMENT, paced)
        };
        assert_eq!(at("linux-3.6", 40, true), Some(Bytes::kib(128)));
        assert_eq!(at("linux-6.12", 40, true), Some(Bytes::new(4_882_812)));
        assert_eq!(at("linux-6.12", 40, false), Some(Bytes::mib(1)));
        assert_eq!(at("linux-6.16", 40, true), Some(Bytes::mib(4)));
        assert_eq!(at("linux-6.12,8ms", 1, true), Some(Bytes::new(976_560)));
    }

    /// A full frame is charged 2304 bytes there, and a retransmission may go twice as far.
    #[test]
    fn linux_charges_memory_and_favours_retransmissions() {
        let (limit, mut tsq) = (TsqLimit::Time(TimeLimit::LINUX_6_12), Tsq::default());
        let len = NonZeroU32::new(1514).expect("not zero");
        let mut held = 0;
        for again in [false, true] {
            while tsq.admits(
                &limit,
                TsqRequest {
                    again,
                    ..request(10, false)
                },
            ) {
                assert_eq!(tsq.charge(&limit, len).bytes(), 2304);
                held += 1;
            }
            assert_eq!(held, if again { 5 } else { 3 });
        }
    }
}
