//! The cells that a document describes.

use tautline_sim::medium::lte::Mcs;
use tautline_sim::medium::wifi::{Aggregate, Guard, Phy, Standard, Width};
use tautline_sim::medium::{LteConfig, WifiConfig};
use tautline_sim::topology::{Cell, Radio};

use crate::scenario::document::{self, Lte, Wifi};

pub(super) fn wifi(cell: &Wifi) -> Cell {
    let (default, fastest) = match cell.standard {
        document::Standard::N => (WifiConfig::n(), 7),
        document::Standard::Ac => (WifiConfig::ac(), 9),
    };
    let phy = Phy {
        standard: match cell.standard {
            document::Standard::N => Standard::N,
            document::Standard::Ac => Standard::Ac,
        },
        width: cell.width.map_or(default.phy.width, |width| match width {
            document::Width::Mhz20 => Width::Mhz20,
            document::Width::Mhz40 => Width::Mhz40,
            document::Width::Mhz80 => Width::Mhz80,
            document::Width::Mhz160 => Width::Mhz160,
        }),
        streams: cell.streams.unwrap_or(default.phy.streams),
        mcs: cell.mcs.unwrap_or(fastest),
        guard: match cell.guard {
            Some(document::Guard::Long) => Guard::Long,
            Some(document::Guard::Short) | None => Guard::Short,
        },
    };
    let aggregate = Aggregate {
        frames: cell.aggregate_frames.unwrap_or(default.aggregate.frames),
        bytes: cell
            .aggregate_bytes
            .map_or(default.aggregate.bytes, |size| size.0),
        time: cell
            .aggregate_time
            .map_or(default.aggregate.time, |time| time.0),
    };
    let config = WifiConfig {
        phy,
        aggregate,
        ahead: cell.ahead.unwrap_or(default.ahead),
        error: cell.error.map_or(default.error, |word| word.0),
        driver: cell.driver.as_ref().map(|words| words.0.clone()),
        station_driver: cell.station_driver.as_ref().map(|words| words.0.clone()),
        ..default
    };
    Cell {
        base: cell.access_point.clone(),
        stations: cell.stations.clone(),
        radio: Radio::Wifi {
            config,
            stations: Vec::new(),
        },
    }
}

pub(super) fn lte(cell: &Lte) -> Cell {
    let default = LteConfig::default();
    let mcs = Mcs {
        down: cell.mcs_down.unwrap_or(default.mcs.down),
        up: cell.mcs_up.unwrap_or(default.mcs.up),
    };
    let config = LteConfig {
        resource_blocks: cell.resource_blocks.unwrap_or(default.resource_blocks),
        mcs,
        report_every: cell
            .report_every
            .map_or(default.report_every, |time| time.0),
        grant_delay: cell.grant_delay.map_or(default.grant_delay, |time| time.0),
        counts_outstanding: cell
            .counts_outstanding
            .unwrap_or(default.counts_outstanding),
    };
    Cell {
        base: cell.base.clone(),
        stations: cell.stations.clone(),
        radio: Radio::Lte {
            config,
            stations: Vec::new(),
        },
    }
}
