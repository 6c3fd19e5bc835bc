//! What a Wi-Fi cell is like.

use std::time::Duration;

use tautline_base::{Bytes, Rate};
use tautline_qdisc::words::Tree;

use super::phy::{Phy, control};
use crate::config_error::ConfigError;
use crate::nic::DriverQueue;
use crate::probability::Probability;

/// A cell of IEEE 802.11n or ac. Times and windows are those of OFDM at 5 GHz and of best effort
/// traffic (AC_BE).
#[derive(Clone, Debug, PartialEq)]
pub struct WifiConfig {
    /// How all transmit who have no way of their own. Default [`Phy::N_2X2_20`].
    pub phy: Phy,
    /// How much goes in one transmission.
    pub aggregate: Aggregate,
    /// How the channel is won.
    pub access: Access,
    /// Rate of the acknowledgements, 6 to 54 Mbit/s. Default 24 Mbit/s, the fastest that every
    /// station must know.
    pub control_rate: Rate,
    /// Each frame carries the 16 bytes of CCMP (WPA2). Default true.
    pub encrypted: bool,
    /// A frame of an aggregate fails, each independently. Default never.
    pub error: Probability,
    /// How often a frame goes again before it is given up. Default 7 (`dot11ShortRetryLimit`).
    pub retries: u32,
    /// Whom the access point serves next.
    pub scheduler: StationScheduler,
    /// How many aggregates a sender has in its hardware before it wins the channel, made of what
    /// was there when they were made, the one that is on the air among them. Default 0: an
    /// aggregate is made when the channel is won. ath9k has 2, and its aggregates are that much
    /// shorter where the queue above is short.
    pub ahead: usize,
    /// A discipline inside every driver, in place of the ring's order: frames leave it when an
    /// aggregate is made, as in mac80211, whose own is [`MAC80211`](Self::MAC80211). The ring must
    /// have room for what it is to hold. Default none.
    pub driver: Option<Tree>,
    /// The stations' drivers have this one instead. Default none: theirs is `driver`.
    pub station_driver: Option<Tree>,
}

impl WifiConfig {
    /// The queue that mac80211 keeps for each station and traffic identifier: Linux's values since
    /// 4.9 (`net/mac80211`).
    pub const MAC80211: &str =
        "fq_codel limit 8192 flows 4096 quantum 300 target 20ms interval 100ms";

    /// 802.11n: the default.
    pub fn n() -> Self {
        Self {
            phy: Phy::N_2X2_20,
            aggregate: Aggregate::N,
            access: Access::default(),
            control_rate: Rate::mbit(24),
            encrypted: true,
            error: Probability::NEVER,
            retries: 7,
            scheduler: StationScheduler::RoundRobin,
            ahead: 0,
            driver: None,
            station_driver: None,
        }
    }

    /// 802.11ac: [`Phy::AC_1X1_80`] and its longer aggregates.
    pub fn ac() -> Self {
        Self {
            phy: Phy::AC_1X1_80,
            aggregate: Aggregate::AC,
            ..Self::n()
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.phy.check()?;
        for driver in self.driver.iter().chain(&self.station_driver) {
            let _discarded: DriverQueue = driver.build()?;
        }
        let Aggregate {
            frames,
            bytes,
            time,
        } = self.aggregate;
        ConfigError::check(
            (1..=64).contains(&frames),
            "aggregate.frames",
            frames,
            "from 1 to 64 (one Block ACK)",
        )?;
        ConfigError::check(bytes > Bytes::ZERO, "aggregate.bytes", bytes, "above 0")?;
        ConfigError::check(!time.is_zero(), "aggregate.time", "0", "above 0")?;
        let Access {
            slot,
            sifs,
            cw_min,
            cw_max,
            ..
        } = self.access;
        ConfigError::check(!slot.is_zero(), "access.slot", "0", "above 0")?;
        ConfigError::check(!sifs.is_zero(), "access.sifs", "0", "above 0")?;
        ConfigError::check(
            cw_min <= cw_max,
            "access.cw_min",
            cw_min,
            "no more than access.cw_max",
        )?;
        ConfigError::check(cw_max <= 32_767, "access.cw_max", cw_max, "at most 32767")?;
        let slowest_and_fastest = Rate::mbit(6)..=Rate::mbit(54);
        ConfigError::check(
            slowest_and_fastest.contains(&self.control_rate),
            "control_rate",
            self.control_rate,
            "6 to 54 Mbit/s",
        )
    }

    /// Bytes of a frame inside a transmission: the Ethernet header gives way to that of a QoS data
    /// frame and LLC/SNAP, an FCS follows; in an aggregate, a delimiter stands before and the whole
    /// is padded to four bytes.
    pub fn subframe(&self, frame: Bytes) -> Bytes {
        const ETHERNET: u64 = 14;
        const QOS_DATA: u64 = 26;
        const LLC_SNAP: u64 = 8;
        const FCS: u64 = 4;
        const CCMP: u64 = 16;
        const DELIMITER: u64 = 4;
        let body = frame.get().saturating_sub(ETHERNET);
        let plain =
            body.saturating_add(QOS_DATA + LLC_SNAP + FCS + if self.encrypted { CCMP } else { 0 });
        Bytes::new(if self.aggregate.frames > 1 {
            plain.saturating_add(DELIMITER).div_ceil(4) * 4
        } else {
            plain
        })
    }

    /// From the end of a transmission of `frames` frames to the end of its acknowledgement: SIFS,
    /// then an ACK of 14 bytes, or a Block ACK of 32 for several frames.
    pub fn response(&self, frames: usize) -> Duration {
        self.access.sifs + control(if frames > 1 { 32 } else { 14 }, self.control_rate)
    }
}

impl Default for WifiConfig {
    fn default() -> Self {
        Self::n()
    }
}

/// What one transmission (A-MPDU) holds: whichever limit is reached first. A first frame always
/// goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// Frames, 1 to 64: also the window that a Block ACK covers. 1 is no aggregation: every frame
    /// has an ACK of its own.
    pub frames: usize,
    /// Bytes with all their overhead.
    pub bytes: Bytes,
    /// Time on the air, preamble included.
    pub time: Duration,
}

impl Aggregate {
    /// 802.11n: 64 frames, 65 535 bytes, 5.484 ms (`aPPDUMaxTime`).
    pub const N: Self = Self {
        frames: 64,
        bytes: Bytes::new(65_535),
        time: Duration::from_micros(5484),
    };

    /// 802.11ac: 64 frames, 1 048 575 bytes, 5.484 ms.
    pub const AC: Self = Self {
        bytes: Bytes::new(1_048_575),
        ..Self::N
    };

    /// One frame at a time.
    pub const OFF: Self = Self {
        frames: 1,
        ..Self::N
    };
}

impl Default for Aggregate {
    fn default() -> Self {
        Self::N
    }
}

/// Contention (EDCA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Default 9 µs.
    pub slot: Duration,
    /// Default 16 µs.
    pub sifs: Duration,
    /// Slots after SIFS for which the channel must be idle: 2 makes DIFS. Default 3 (best effort).
    pub aifsn: u32,
    /// The backoff is drawn from 0 to this many slots. Default 15.
    pub cw_min: u32,
    /// It doubles with each failure up to this. Default 1023.
    pub cw_max: u32,
    /// How it is drawn.
    pub backoff: Backoff,
}

impl Default for Access {
    fn default() -> Self {
        let (slot, sifs) = (Duration::from_micros(9), Duration::from_micros(16));
        Self {
            slot,
            sifs,
            aifsn: 3,
            cw_min: 15,
            cw_max: 1023,
            backoff: Backoff::Random,
        }
    }
}

impl Access {
    /// For how long the channel must be idle before a backoff counts down.
    pub fn aifs(&self) -> Duration {
        self.sifs
            .saturating_add(self.slot.saturating_mul(self.aifsn))
    }
}

/// How a backoff is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// Evenly: two who draw the same collide.
    Random,
    /// Always the mean, and who has waited longest goes first: there are no collisions, and nothing
    /// is random.
    Mean,
}

/// Whom the access point serves next, of those it has something for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StationScheduler {
    /// One transmission each, in turn. Slow stations then take most of the time.
    RoundRobin,
    /// Who had least of the air (Høiland-Jørgensen et al., "Ending the Anomaly", ATC 2017, as a
    /// fair queue in virtual time).
    Airtime,
}
