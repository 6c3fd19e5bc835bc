//! [`Tally`]: a running total of packets and bytes.

use core::fmt;

use crate::units::Bytes;

/// A running total of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packet objects.
    pub packets: u64,
    /// Their accounted length.
    pub bytes: Bytes,
}

impl Tally {
    /// Adds a packet of `len`.
    pub fn add(&mut self, len: Bytes) {
        self.packets += 1;
        self.bytes += len;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}p {}", self.packets, self.bytes)
    }
}
