//! [`Frame`]: the memory a packet's bytes live in.

use alloc::boxed::Box;
use alloc::vec;

/// A piece of memory that holds one Ethernet frame. Owning the value is owning the memory: frames
/// are moved, never copied.
///
/// A device hands out each of its frames once (a UMEM chunk, a heap buffer); `()` stands for "no
/// bytes" in queue-only tests.
pub trait Frame {
    /// The whole memory, however much of it a packet uses.
    fn bytes(&self) -> &[u8];

    /// The whole memory, for writing.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Another piece of memory of the same kind holding the same bytes, for packets that a
    /// discipline doubles. `None` if the kind has no allocator at hand, as a UMEM chunk has none,
    /// or no memory is left.
    fn duplicate(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// An empty piece of memory of the same kind for a packet of `len` bytes, for the pieces that a
    /// packet is split into. `None` if the kind has no allocator at hand, or no memory is left.
    fn allocate(&self, _len: usize) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// What a packet of `used` bytes in it costs a memory limit. Default: all of it.
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

/// A frame on the heap, for simulated devices and TAP: of [`LEN`](Self::LEN) bytes, or a large one
/// for packets that stand for several segments. A handle of eight bytes in either case.
#[derive(Debug)]
pub struct HeapFrame(Box<Memory>);

/// The bytes of an ordinary frame are where the handle leads, as nearly every packet's are.
#[derive(Clone, Debug)]
#[repr(C)]
struct Memory {
    large: Option<Box<[u8]>>,
    ordinary: [u8; HeapFrame::LEN],
}

impl HeapFrame {
    /// Bytes in an ordinary frame: as a UMEM chunk of half a page.
    pub const LEN: usize = 2048;

    /// A zeroed frame.
    pub fn new() -> Self {
        Self(Box::new(Memory {
            large: None,
            ordinary: [0; Self::LEN],
        }))
    }

    /// A zeroed frame of `len` bytes, an ordinary one if that is enough.
    pub fn with_len(len: usize) -> Self {
        let large = (len > Self::LEN).then(|| vec![0; len].into_boxed_slice());
        Self(Box::new(Memory {
            large,
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

    fn duplicate(&self) -> Option<Self> {
        Some(Self(self.0.clone()))
    }

    fn allocate(&self, len: usize) -> Option<Self> {
        Some(Self::with_len(len))
    }

    /// Of a large frame what is used, in ordinary ones: its unused rest is kept for whole packets,
    /// and the pool bounds how many of them there are (Linux's `truesize` of such a packet is 1.02
    /// of its bytes).
    fn memory(&self, used: usize) -> usize {
        match &self.0.large {
            None => Self::LEN.max(used),
            Some(large) => used.next_multiple_of(Self::LEN).min(large.len()).max(used),
        }
    }
}
