//! [`KeptBytes`]: received bytes that stay in the memory they arrived in.

use bytes::Bytes;
use tautline_base::KeptPacket;

/// A received packet, or a part of it, in memory that is held until all parts are dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptBytes {
    /// The bytes.
    pub bytes: Bytes,
    /// Bytes of memory that are held: that of the whole packet.
    pub memory: usize,
}

/// The owner of a packet.
struct Owner(Box<dyn AsRef<[u8]> + Send>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl KeptBytes {
    /// A whole packet.
    pub(crate) fn of(packet: KeptPacket) -> Self {
        Self {
            bytes: Bytes::from_owner(Owner(packet.bytes)),
            memory: packet.memory,
        }
    }

    /// The part that `bytes` points to.
    pub(crate) fn part(&self, bytes: &[u8]) -> Self {
        Self {
            bytes: self.bytes.slice_ref(bytes),
            memory: self.memory,
        }
    }
}
