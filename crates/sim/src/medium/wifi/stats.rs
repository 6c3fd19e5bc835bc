//! What a Wi-Fi cell counts.

use std::time::Duration;

/// Counts of the whole channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WifiStats {
    /// Times the channel was won, collisions included.
    pub transmissions: u64,
    /// Times it was won by several at once.
    pub collisions: u64,
    /// How long it was busy, acknowledgements included.
    pub busy: Duration,
}

/// Counts of what one nic sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AirStats {
    /// How many transmissions held so many frames; as long as the greatest number + 1.
    pub sizes: Vec<u64>,
    /// Frames that failed and went again.
    pub failed: u64,
    /// Frames that were given up.
    pub lost: u64,
    /// Time on the air, acknowledgements included.
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

    /// Transmissions.
    pub fn transmissions(&self) -> u64 {
        self.sizes.iter().sum()
    }

    /// Frames per transmission, on average; zero before the first.
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
