//! Counters of a Wi-Fi cell.

use std::time::Duration;

/// Counters of the channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WifiStats {
    /// Number of transmissions; a collision is one.
    pub transmissions: u64,
    /// Number of collisions.
    pub collisions: u64,
    /// Time that the channel was busy, acknowledgments included.
    pub busy: Duration,
}

/// Counters of one NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AirStats {
    /// Number of transmissions per aggregate size: index = number of frames, from 0 to the largest
    /// aggregate.
    pub sizes: Vec<u64>,
    /// Frames that failed and were sent again.
    pub failed: u64,
    /// Frames lost at the retry limit.
    pub lost: u64,
    /// Airtime, acknowledgments included.
    pub airtime: Duration,
}

impl AirStats {
    pub(super) fn new(frames: usize) -> Self {
        Self {
            sizes: vec![0; frames + 1],
            failed: 0,
            lost: 0,
            airtime: Duration::ZERO,
        }
    }

    /// Number of transmissions.
    pub fn transmissions(&self) -> u64 {
        self.sizes.iter().sum()
    }

    /// Mean number of frames per transmission; zero before the first.
    pub fn mean_size(&self) -> f64 {
        let frames: u64 = self
            .sizes
            .iter()
            .zip(0..)
            .map(|(count, size)| count * size)
            .sum();
        frames as f64 / self.transmissions().max(1) as f64
    }
}
