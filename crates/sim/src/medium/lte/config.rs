//! Configuration of an LTE cell, and the capacity of resource blocks.

use std::time::Duration;

use tautline_base::{Bytes, Rate};

use crate::config_error::ConfigError;

/// An LTE cell (FDD, one layer). The default is that of paper 002: 5 MHz, about 16 Mbit/s each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LteConfig {
    /// Resource blocks in each direction: 6, 15, 25, 50, 75 or 100 for 1.4 to 20 MHz. Default 25, 5
    /// MHz (thesis).
    pub resource_blocks: u32,
    /// Coding of stations without one of their own. Default [`Mcs::default`].
    pub mcs: Mcs,
    /// Interval of the buffer status reports of a station with data; whole milliseconds, at least
    /// 1. Default 1 ms, as in ns-3's LTE model.
    pub report_every: Duration,
    /// Time from a grant to its transmission; whole milliseconds. Default 4 ms (TS 36.213, clause
    /// 8: n + 4).
    pub grant_delay: Duration,
    /// Subtracts outstanding grants from reports. Default false, as in ns-3's LTE model: the same
    /// bytes are granted again in every TTI until they are sent, so a station with a short buffer
    /// always has a grant, and some grants are padding. If true, throughput is at most one buffer
    /// per round trip of report and grant: too little if dynamic queue limits keep the buffer
    /// short.
    pub counts_outstanding: bool,
}

impl Default for LteConfig {
    fn default() -> Self {
        let (report_every, grant_delay) = (Duration::from_millis(1), Duration::from_millis(4));
        Self {
            resource_blocks: 25,
            mcs: Mcs::default(),
            report_every,
            grant_delay,
            counts_outstanding: false,
        }
    }
}

impl LteConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let blocks = self.resource_blocks;
        ConfigError::check(
            (1..=110).contains(&blocks),
            "resource_blocks",
            blocks,
            "from 1 to 110",
        )?;
        self.mcs.check()?;
        let whole = |time: Duration| time.as_nanos().is_multiple_of(1_000_000);
        let (report, grant) = (self.report_every, self.grant_delay);
        let reports = !report.is_zero() && whole(report);
        ConfigError::check(
            reports,
            "report_every",
            format!("{report:?}"),
            "whole milliseconds, at least 1",
        )?;
        ConfigError::check(
            whole(grant),
            "grant_delay",
            format!("{grant:?}"),
            "whole milliseconds",
        )
    }
}

/// Modulation and coding of a station's two directions: 0 to 28.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mcs {
    /// To the station.
    pub down: u8,
    /// From it.
    pub up: u8,
}

impl Mcs {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        ConfigError::check(self.down <= 28, "mcs.down", self.down, "from 0 to 28")?;
        ConfigError::check(self.up <= 28, "mcs.up", self.up, "from 0 to 28")
    }
}

impl Default for Mcs {
    /// 27: 15.84 Mbit/s on 25 resource blocks, closest to "approximately 16" of paper 002.
    fn default() -> Self {
        Self { down: 27, up: 27 }
    }
}

/// Bits of a transport block of 25 resource blocks by index: 3GPP TS 36.213, table 7.1.7.2.1-1.
const TRANSPORT_BLOCK_25: [u64; 27] = [
    680, 904, 1096, 1416, 1800, 2216, 2600, 3112, 3496, 4008, 4392, 4968, 5736, 6456, 7224, 7736,
    7992, 9144, 9912, 10680, 11448, 12576, 13536, 14112, 15264, 15840, 18336,
];

/// Size of a transport block of `blocks` resource blocks at `mcs`, in proportion to the table's
/// column of 25 blocks, rounded down to bytes; the standard's own columns differ by a few percent.
pub fn transport_block(mcs: u8, blocks: u32) -> Bytes {
    // Table 7.1.7.1-1: two MCS share an index at a change of modulation.
    let index = match mcs {
        0..=9 => mcs,
        10..=16 => mcs - 1,
        _ => mcs.min(28) - 2,
    };
    Bytes::new(TRANSPORT_BLOCK_25[usize::from(index)] * u64::from(blocks) / 25 / 8)
}

/// Resource blocks that `bytes` need at `mcs`.
pub(super) fn blocks_for(mcs: u8, bytes: u64) -> u32 {
    let per_25 = transport_block(mcs, 25).get().max(1);
    u32::try_from(bytes.saturating_mul(25).div_ceil(per_25)).unwrap_or(u32::MAX)
}

/// Data rate of `blocks` resource blocks at `mcs`, overhead included.
pub fn peak_rate(mcs: u8, blocks: u32) -> Rate {
    Rate::from_amount(transport_block(mcs, blocks), Duration::from_millis(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_coding_make_a_rate() {
        let mbit = |mcs, blocks| peak_rate(mcs, blocks).as_bits_per_sec() as f64 / 1e6;
        assert_eq!(mbit(27, 25), 15.84);
        assert_eq!(mbit(28, 25), 18.336);
        assert_eq!(mbit(28, 100), 73.344);
        assert_eq!(mbit(0, 25), 0.68);
        // 64-QAM begins where 16-QAM ended.
        assert_eq!(
            (transport_block(9, 25), transport_block(16, 25)),
            (transport_block(10, 25), transport_block(17, 25))
        );
        // A tenth of the cell: 2.5 blocks do not exist, 2 hold 1267 bits.
        assert_eq!(transport_block(27, 2), Bytes::new(158));
        assert_eq!(
            (
                blocks_for(27, 158),
                blocks_for(27, 159),
                blocks_for(27, 1980)
            ),
            (2, 3, 25)
        );
        assert_eq!(blocks_for(0, u64::MAX), u32::MAX);
    }

    #[test]
    fn nonsense_is_refused() {
        let good = LteConfig::default();
        assert_eq!(good.check(), Ok(()));
        for bad in [
            LteConfig {
                resource_blocks: 0,
                ..good
            },
            LteConfig {
                mcs: Mcs { down: 29, up: 0 },
                ..good
            },
            LteConfig {
                report_every: Duration::ZERO,
                ..good
            },
            LteConfig {
                grant_delay: Duration::from_micros(1500),
                ..good
            },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
