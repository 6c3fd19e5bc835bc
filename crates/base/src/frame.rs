//! [`Frame`]: the buffer of a packet.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Most fragments of a frame (Linux `MAX_SKB_FRAGS`).
pub const MAX_FRAGMENTS: usize = 17;

/// A buffer for one Ethernet frame. The value owns the buffer: frames are moved, never copied.
///
/// A device hands out each of its frames once (a UMEM chunk, a heap buffer); `()` is a frame without
/// bytes, for queue-only tests.
pub trait Frame {
    /// The whole buffer, including bytes that the packet does not use.
    fn bytes(&self) -> &[u8];

    /// The whole buffer, for writing.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Another buffer with the same bytes, for packets that a qdisc duplicates. `None` (the
    /// default) if the frame type cannot allocate, such as UMEM chunks.
    fn duplicate(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// A zeroed buffer of the same kind for at least `len` bytes, for the pieces of a split packet.
    /// `None` (the default) if the frame type cannot allocate.
    fn allocate(&self, _len: usize) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// True if the buffer belongs to no device, so that any device of this frame type may send and
    /// recycle it. Default: false, as for UMEM chunks, which a device [accepts](crate::Device::accepts)
    /// if they are of its own UMEM.
    fn is_portable(&self) -> bool {
        false
    }

    /// The payload of a packet that stays in the application's memory instead of the buffer, in order
    /// (the fragments of Linux's `sk_buff`). At most [`MAX_FRAGMENTS`]. Default: none.
    fn fragments(&self) -> &[bytes::Bytes] {
        &[]
    }

    /// The list of [`fragments`](Self::fragments), for writing; `None` (the default) if the frame type
    /// has none.
    fn fragments_mut(&mut self) -> Option<&mut Vec<bytes::Bytes>> {
        None
    }

    /// Bytes of buffer that a packet of `used` bytes is charged for. Default: the whole buffer.
    fn memory(&self, used: usize) -> usize {
        self.bytes().len().max(used)
    }
}

impl Frame for () {
    fn bytes(&self) -> &[u8] {
        &[]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut []
    }

    fn duplicate(&self) -> Option<Self> {
        Some(())
    }

    fn allocate(&self, _len: usize) -> Option<Self> {
        Some(())
    }
}

/// A frame on the heap, for simulated devices and TAP: [`LEN`](Self::LEN) bytes, or more for
/// packets of several segments. The handle takes eight bytes in either case.
#[derive(Debug)]
pub struct HeapFrame(Box<Memory>);

/// The bytes of an ordinary frame, which nearly every packet has, are one pointer away.
#[derive(Clone, Debug)]
#[repr(C)]
struct Memory {
    large: Option<Box<[u8]>>,
    fragments: Vec<bytes::Bytes>,
    ordinary: [u8; HeapFrame::LEN],
}

impl HeapFrame {
    /// Bytes of an ordinary frame: half a page, as a UMEM chunk.
    pub const LEN: usize = 2048;

    /// A zeroed ordinary frame.
    pub fn new() -> Self {
        Self(Box::new(Memory {
            large: None,
            fragments: Vec::new(),
            ordinary: [0; Self::LEN],
        }))
    }

    /// A zeroed frame of at least `len` bytes, an ordinary one if that is enough.
    pub fn with_len(len: usize) -> Self {
        let large = (len > Self::LEN).then(|| vec![0; len].into_boxed_slice());
        Self(Box::new(Memory {
            large,
            fragments: Vec::new(),
            ordinary: [0; Self::LEN],
        }))
    }
}

impl Default for HeapFrame {
    fn default() -> Self {
        Self::new()
    }
}

impl Frame for HeapFrame {
    fn bytes(&self) -> &[u8] {
        match &self.0.large {
            None => &self.0.ordinary,
            Some(large) => large,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0.large {
            None => &mut self.0.ordinary,
            Some(large) => large,
        }
    }

    fn is_portable(&self) -> bool {
        true
    }

    fn fragments(&self) -> &[bytes::Bytes] {
        &self.0.fragments
    }

    fn fragments_mut(&mut self) -> Option<&mut Vec<bytes::Bytes>> {
        Some(&mut self.0.fragments)
    }

    fn duplicate(&self) -> Option<Self> {
        Some(Self(self.0.clone()))
    }

    fn allocate(&self, len: usize) -> Option<Self> {
        Some(Self::with_len(len))
    }

    /// A large frame counts its used bytes, rounded up to ordinary frames: the pool bounds the number
    /// of large frames (Linux's `truesize` of such a packet is 1.02 times its bytes).
    fn memory(&self, used: usize) -> usize {
        match &self.0.large {
            None => Self::LEN.max(used),
            Some(large) => used.next_multiple_of(Self::LEN).min(large.len()).max(used),
        }
    }
}
