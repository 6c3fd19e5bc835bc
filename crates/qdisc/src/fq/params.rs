//! [`Config`]: the parameters of FQ, with `tc`'s names.

use core::num::NonZeroU32;
use core::time::Duration;

use tautline_base::{Bytes, ConfigError, Instant, Rate};

use super::BANDS;
use crate::pfifo_fast::PRIOMAP;
use crate::units;

/// Sharing between priorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Priorities {
    /// Three bands served by weight, and a short cut for packets that find nothing to wait for
    /// (Linux since 6.7). The default.
    Bands(Weighted),
    /// All flows are equal, but packets of priority 7 stand in a FIFO that is served before any
    /// flow, whatever their departure (Linux up to 6.6).
    Control,
}

/// Bands and their shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weighted {
    /// Band of each local priority (`Item::priority`), 0 to 2. Default as [`PRIOMAP`].
    pub priomap: [u8; 16],
    /// Bytes each band may send in a round, 16 KiB to 2 GiB. Default 9 : 3 : 1 times 64 KiB
    /// (Linux).
    pub weights: [Bytes; BANDS],
}

impl Default for Weighted {
    fn default() -> Self {
        Self {
            priomap: PRIOMAP,
            weights: [9, 3, 1].map(|share| Bytes::kib(64) * share),
        }
    }
}

/// Handling of a packet whose departure lies beyond the horizon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BeyondHorizon {
    /// It is dropped. The default (Linux).
    #[default]
    Drop,
    /// It leaves at the horizon.
    Cap,
}

/// Parameters of [`Fq`](super::Fq). Defaults are those of Linux for an MTU of 1514 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Limit of each band in packets, or all flows together if there are no bands. Default 10
    /// 000.
    pub limit: u32,
    /// Packets of one flow held at most. Default 100.
    pub flow_limit: u32,
    /// Bytes a flow sends per turn, 64 to 1 MiB. Default 3028, two frames.
    pub quantum: Bytes,
    /// Bytes a new flow sends in its first turn, and without pacing; at most 1 GiB. Default 15 140,
    /// ten frames, the initial window of TCP.
    pub initial_quantum: Bytes,
    /// A flow that was idle for longer gets a whole quantum again. Default 40 ms.
    pub refill_delay: Duration,
    /// Ticks per second of the clock that measures idle times, as in Linux; `None`: nanoseconds.
    /// With 100 ticks, up to 20 ms more than `refill_delay` pass. Default `None`.
    pub hz: Option<NonZeroU32>,
    /// No flow sends faster. Default none.
    pub maxrate: Option<Rate>,
    /// Whether `maxrate` is enforced. Departure times are kept in any case. Default true.
    pub pacing: bool,
    /// At or below this rate a flow is paced packet by packet, not quantum by quantum. Default 550
    /// kbit/s.
    pub low_rate_threshold: Rate,
    /// Places of the flow table at first, 1 to 262 144; it doubles when it holds twice as many
    /// flows. Idle flows are forgotten above twice this number. Default 1024.
    pub buckets: u32,
    /// Bits of the flow hash that distinguish flows; `None` for all. Default `None`: Linux gives
    /// each connected socket a queue of its own and masks the hash of packets without one, by 1023;
    /// here the stack's flow hash stands for the socket.
    pub orphan_mask: Option<u32>,
    /// Slack of [`ready_at`](crate::Qdisc::ready_at), so that one wake-up serves several
    /// departures. Default 10 µs.
    pub timer_slack: Duration,
    /// A departure further away than this is a mistake. Default 10 s.
    pub horizon: Duration,
    /// Handling of such a packet. Default [`BeyondHorizon::Drop`].
    pub beyond_horizon: BeyondHorizon,
    /// Time by which packets may leave before their departure time, for devices that delay packets
    /// themselves. Default 0.
    pub offload_horizon: Duration,
    /// Mark every packet that leaves this much after its departure. Default none.
    pub ce_threshold: Option<Duration>,
    /// Effect of priorities. Default three bands.
    pub priorities: Priorities,
}

const NANOS_PER_SECOND: u32 = 1_000_000_000;

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: 10_000,
            flow_limit: 100,
            quantum: Bytes::new(2 * 1514),
            initial_quantum: Bytes::new(10 * 1514),
            refill_delay: Duration::from_millis(40),
            hz: None,
            maxrate: None,
            pacing: true,
            low_rate_threshold: Rate::kbit(550),
            buckets: 1024,
            orphan_mask: None,
            timer_slack: Duration::from_micros(10),
            horizon: Duration::from_secs(10),
            beyond_horizon: BeyondHorizon::Drop,
            offload_horizon: Duration::ZERO,
            ce_threshold: None,
            priorities: Priorities::Bands(Weighted::default()),
        }
    }
}

impl Config {
    /// As Linux 6.1 behaves towards packets without a connected socket: no bands, one limit for the
    /// whole, ten bits of hash, idle times in ticks of 4 ms. A flow that waits for its time also
    /// keeps packets that come later for an earlier time.
    pub fn linux() -> Self {
        let hz = NonZeroU32::new(250);
        Self {
            priorities: Priorities::Control,
            orphan_mask: Some(1023),
            hz,
            ..Self::default()
        }
    }

    /// Whether it behaves as the kernel had it up to 6.6.
    pub(super) fn is_linux(&self) -> bool {
        self.priorities == Priorities::Control
    }

    /// Whether a flow that ran empty at `since` and has a packet again is given a new quantum.
    pub(super) fn refills(&self, since: Instant, now: Instant) -> bool {
        let Some(hz) = self.hz else {
            return now - since > self.refill_delay;
        };
        let tick = (NANOS_PER_SECOND / hz.get()).max(1);
        let ticks = |nanos: u64| nanos / u64::from(tick);
        let delay = u64::try_from(self.refill_delay.as_nanos()).unwrap_or(u64::MAX);
        // Linux identifies idle flows by the lowest bit of their last tick.
        ticks(now.as_nanos()) > (ticks(since.as_nanos()) | 1).saturating_add(ticks(delay))
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let Self {
            quantum,
            initial_quantum,
            buckets,
            priorities,
            ..
        } = self;
        let quanta = Bytes::new(64)..=Bytes::mib(1);
        ConfigError::check(
            quanta.contains(quantum),
            "quantum",
            units::size(*quantum),
            "from 64b to 1Mb",
        )?;
        let first = units::size(*initial_quantum);
        ConfigError::check(
            *initial_quantum <= Bytes::mib(1024),
            "initial_quantum",
            first,
            "at most 1Gb",
        )?;
        ConfigError::check(
            (1..=262_144).contains(buckets),
            "buckets",
            buckets,
            "from 1 to 262144",
        )?;
        let Priorities::Bands(Weighted { priomap, weights }) = priorities else {
            return Ok(());
        };
        for band in priomap {
            ConfigError::check(
                usize::from(*band) < BANDS,
                "priomap",
                band,
                "sixteen bands from 0 to 2",
            )?;
        }
        weights.iter().try_for_each(|weight| {
            let fits = (Bytes::kib(16)..Bytes::mib(2048)).contains(weight);
            ConfigError::check(fits, "weights", weight.get(), "from 16384 to 2147483647")
        })
    }
}
