//! Configuration of a Wi-Fi cell.

use std::time::Duration;

use tautline_base::{Bytes, Rate};
use tautline_tc::Tree;

use super::phy::{Phy, control};
use crate::config_error::ConfigError;
use crate::nic::DriverQueue;
use crate::probability::Probability;

/// A cell of IEEE 802.11n or ac. Times and windows are those of OFDM at 5 GHz and of best effort
/// traffic (AC_BE).
#[derive(Clone, Debug, PartialEq)]
pub struct WifiConfig {
    /// PHY of stations without one of their own. Default [`Phy::N_2X2_20`].
    pub phy: Phy,
    /// Limits of an aggregate. Default [`Aggregate::N`].
    pub aggregate: Aggregate,
    /// Parameters of contention.
    pub access: Access,
    /// Rate of acknowledgments, 6 to 54 Mbit/s. Default 24 Mbit/s, the highest mandatory rate.
    pub control_rate: Rate,
    /// Adds 16 bytes of CCMP (WPA2) to each frame. Default true.
    pub encrypted: bool,
    /// Probability that a frame of an aggregate fails, independently of others. Default 0.
    pub error: Probability,
    /// Maximum number of retries of a frame. Default 7 (`dot11ShortRetryLimit`).
    pub retries: u32,
    /// Scheduler of the access point. Default round robin.
    pub scheduler: StationScheduler,
    /// Number of aggregates that a sender prepares in hardware before it wins the channel, the one
    /// being sent included. Default 0: an aggregate is made when the channel is won. ath9k has 2,
    /// and its aggregates are shorter if the queue above is short.
    pub ahead: usize,
    /// A qdisc inside every driver, from which aggregates are made as in mac80211, whose own is
    /// [`MAC80211`](Self::MAC80211). The ring must hold its packets. Default none: ring order.
    pub driver: Option<Tree>,
    /// Replaces `driver` in the stations. Default none.
    pub station_driver: Option<Tree>,
}

impl WifiConfig {
    /// The queue that mac80211 has for each station and traffic identifier, with Linux's values
    /// since 4.9 (`net/mac80211/tx.c` `ieee80211_txq_setup_flows`).
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
            let _discarded: DriverQueue = driver.clone().with_hash_key(0).build()?;
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

    /// Bytes of a frame in a transmission: a QoS data header and LLC/SNAP replace the Ethernet
    /// header, an FCS follows; in an aggregate, a delimiter precedes it and it is padded to four
    /// bytes.
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

    /// Duration of SIFS and the acknowledgment of `frames` frames: an ACK of 14 bytes, or a Block
    /// ACK of 32 bytes for several frames.
    pub fn response(&self, frames: usize) -> Duration {
        self.access.sifs + control(if frames > 1 { 32 } else { 14 }, self.control_rate)
    }
}

impl Default for WifiConfig {
    fn default() -> Self {
        Self::n()
    }
}

/// Limits of one transmission (A-MPDU). The first frame is always sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// Maximum number of frames, 1 to 64: also the window of a Block ACK. 1 disables aggregation:
    /// every frame has an ACK.
    pub frames: usize,
    /// Maximum number of bytes with overhead.
    pub bytes: Bytes,
    /// Maximum duration with the preamble.
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

    /// No aggregation.
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

/// Parameters of contention (EDCA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Slot time. Default 9 µs.
    pub slot: Duration,
    /// Short interframe space. Default 16 µs.
    pub sifs: Duration,
    /// Slots of AIFS after SIFS: 2 makes DIFS. Default 3 (best effort).
    pub aifsn: u32,
    /// Minimum contention window: a backoff is drawn from 0 to this many slots. Default 15.
    pub cw_min: u32,
    /// Maximum contention window: it doubles with each failure up to this. Default 1023.
    pub cw_max: u32,
    /// Distribution of backoffs.
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
    /// Idle time of the channel before a backoff counts down.
    pub fn aifs(&self) -> Duration {
        self.sifs
            .saturating_add(self.slot.saturating_mul(self.aifsn))
    }
}

/// Distribution of backoffs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// Uniform: equal draws collide.
    Random,
    /// Always the mean; of equal backoffs the one that has waited longest wins: deterministic,
    /// without collisions.
    Mean,
}

/// Scheduler of an access point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StationScheduler {
    /// One transmission each, in turn. Slow stations take most of the time.
    RoundRobin,
    /// The station with the least airtime (Høiland-Jørgensen et al., "Ending the Anomaly", ATC
    /// 2017, as a fair queue in virtual time).
    Airtime,
}
