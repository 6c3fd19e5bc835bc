//! Keys of cells: shared air in place of the cables from a router to its stations.

use serde::Deserialize;
use tautline_sim::Probability;
use tautline_tc::Tree;

use super::super::units::{FromWords, Size, Time};

/// A Wi-Fi cell. The stations' own rings and qdiscs, and the access point's for each, are
/// those of hosts and links.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wifi {
    /// Its name.
    pub name: String,
    /// A router.
    pub access_point: String,
    /// Hosts with a cable to it.
    pub stations: Vec<String>,
    /// The standard.
    pub standard: Standard,
    /// Channel width. Default 20 MHz (802.11n) or 80 MHz (802.11ac).
    pub width: Option<Width>,
    /// Spatial streams. Default 2 (802.11n) or 1 (802.11ac).
    pub streams: Option<u8>,
    /// Modulation and code rate of each stream, 0 to 7 or 9. Default the fastest.
    pub mcs: Option<u8>,
    /// Pause between symbols. Default short.
    pub guard: Option<Guard>,
    /// Most frames of an aggregate, 1 to 64. Default 64.
    pub aggregate_frames: Option<usize>,
    /// Most bytes. Default 65535 (802.11n) or 1048575 (802.11ac).
    pub aggregate_bytes: Option<Size>,
    /// Longest on the air. Default 5.484 ms.
    pub aggregate_time: Option<Time>,
    /// Aggregates in a sender's hardware, made before the channel is won. Default 0; ath9k has 2.
    pub ahead: Option<usize>,
    /// A frame of an aggregate fails. Default never.
    pub error: Option<FromWords<Probability>>,
    /// A qdisc inside every driver, in place of the ring's order. Default none.
    pub driver: Option<FromWords<Tree>>,
    /// The stations' drivers have this one instead. Default the same.
    pub station_driver: Option<FromWords<Tree>>,
}

/// The standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Standard {
    /// Wi-Fi 4.
    #[serde(rename = "802.11n")]
    N,
    /// Wi-Fi 5.
    #[serde(rename = "802.11ac")]
    Ac,
}

/// Width of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Width {
    /// 20 MHz.
    #[serde(rename = "20mhz")]
    Mhz20,
    /// 40 MHz.
    #[serde(rename = "40mhz")]
    Mhz40,
    /// 80 MHz.
    #[serde(rename = "80mhz")]
    Mhz80,
    /// 160 MHz.
    #[serde(rename = "160mhz")]
    Mhz160,
}

/// The guard interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// 0.8 µs.
    Long,
    /// 0.4 µs.
    Short,
}

/// An LTE cell. The stations' RLC buffers, and the base station's for each, are the rings of hosts
/// and links.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lte {
    /// Its name.
    pub name: String,
    /// A router.
    pub base: String,
    /// Hosts with a cable to it.
    pub stations: Vec<String>,
    /// Resource blocks in each direction. Default 25.
    pub resource_blocks: Option<u32>,
    /// Modulation and coding to the stations, 0 to 28. Default 27.
    pub mcs_down: Option<u8>,
    /// From them. Default 27.
    pub mcs_up: Option<u8>,
    /// Time between two buffer status reports. Default 1 ms.
    pub report_every: Option<Time>,
    /// Time between a grant and its transmission. Default 4 ms.
    pub grant_delay: Option<Time>,
    /// The base station takes what it has granted already off what a report says. Default false, as
    /// ns-3.
    pub counts_outstanding: Option<bool>,
}
