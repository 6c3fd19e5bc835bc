//! [`Frame`]: the memory a packet's bytes live in.

use alloc::boxed::Box;

/// A piece of memory that holds one Ethernet frame. Owning the value is owning the memory: frames are moved, never copied.
///
/// A device hands out each of its frames once (a UMEM chunk, a heap buffer); `()` stands for "no bytes" in queue-only tests.
pub trait Frame {
    /// The whole memory, however much of it a packet uses.
    fn bytes(&self) -> &[u8];

    /// The whole memory, for writing.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Another piece of memory of the same kind holding the same bytes, for packets that a discipline doubles. `None` if the
    /// kind has no allocator at hand, as a UMEM chunk has none, or no memory is left.
    fn duplicate(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
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
}

/// A frame on the heap, for simulated devices and TAP.
#[derive(Debug)]
pub struct HeapFrame(Box<[u8; Self::LEN]>);

impl HeapFrame {
    /// Bytes in a frame: as a UMEM chunk of half a page.
    pub const LEN: usize = 2048;

    /// A zeroed frame.
    pub fn new() -> Self {
        Self(Box::new([0; Self::LEN]))
    }
}

impl Default for HeapFrame {
    fn default() -> Self {
        Self::new()
    }
}

impl Frame for HeapFrame {
    fn bytes(&self) -> &[u8] {
        &self.0[..]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0[..]
    }

    fn duplicate(&self) -> Option<Self> {
        Some(Self(self.0.clone()))
    }
}
