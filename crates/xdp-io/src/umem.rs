//! [`UmemFrame`]: exclusive ownership of one chunk of packet memory.
//!
//! Each chunk of a UMEM is 4096 bytes:
//!
//! | bytes | holds |
//! |---|---|
//! | 0..64 | an owner of the mapping; reserved by `frame_headroom`, so the kernel never uses it |
//! | 64..320 | the headroom of XDP programs |
//! | 320..4096 | the frame, accessible through [`UmemFrame`], for sending and receiving |
//!
//! In zero copy a driver programs the receive buffer length in units of the NIC, rounded down: 128
//! bytes (ice), 1 KiB (igb `SRRCTL.BSIZEPKT`, ixgbe, igc) or 2 KiB. The NIC drops longer frames,
//! and small ones pass. A chunk of 2048 bytes leaves a frame of 1728, which such a NIC takes for
//! 1024. The frame of a 4096-byte chunk has 3776, so a full-sized packet fits what any of them
//! makes of it. 4096 is the largest chunk: an aligned chunk does not exceed a page.
//!
//! A frame is created once, with the UMEM, and only moved, so safe access through it cannot alias.
//! While the kernel has the chunk its frame is in the device's ownership table. Each frame is an
//! owner of the mapping, so it stays valid after the device is dropped; the reference is in the
//! chunk, which keeps the frame at eight bytes.

use std::io::Write;
use std::num::NonZeroU32;
use std::num::NonZeroUsize;
use std::ptr;
use std::sync::Arc;

use tautline_base::headers::ETHERNET_HEADER;
use tautline_base::{Frame, Packet};
use xsk_rs::FrameDesc;
use xsk_rs::config::{FrameSize, QueueSize, UmemConfig};
use xsk_rs::umem::UmemCreateError;

use crate::ownership::Layout;

/// Bytes of a chunk: a page, the kernel's maximum.
const CHUNK: usize = 4096;
/// Bytes of a chunk for the owner of the mapping: a cache line.
const OWN: usize = 64;
/// Offset of the frame: after the owner and `XDP_PACKET_HEADROOM`.
const FRAME_AT: usize = OWN + 256;
/// Coarsest unit to which a driver rounds the length of a receive buffer down.
const BUFFER_UNIT: usize = 2048;
/// Bytes that a NIC counts besides the MTU: header, two VLAN tags, frame check sequence.
const LINK_OVERHEAD: usize = ETHERNET_HEADER + 2 * 4 + 4;

/// The largest MTU that a chunk carries if the kernel copies each packet.
pub(crate) const COPY_MTU: usize = UmemFrame::LEN - ETHERNET_HEADER;
/// The largest MTU that a chunk carries in zero copy, whatever the driver rounds its buffers to.
pub(crate) const ZERO_COPY_MTU: usize = UmemFrame::LEN / BUFFER_UNIT * BUFFER_UNIT - LINK_OVERHEAD;

/// The parts of a chunk, for the ownership table.
pub(crate) const LAYOUT: Layout = Layout {
    chunk: CHUNK as u64,
    frame_at: FRAME_AT as u64,
    frame_len: UmemFrame::LEN as u64,
};

/// One frame of a UMEM: move-only, handed out once.
///
/// It may outlive the device and be used from any thread. The UMEM is unmapped, and the queue of the
/// interface released, when the device and its last frame are dropped.
#[derive(Debug)]
pub struct UmemFrame(
    /// Address of the first byte. Not a pointer, because xsk-rs accesses the buffer too: each access
    /// uses the provenance exposed last.
    NonZeroUsize,
);

const _: () = assert!(
    size_of::<UmemFrame>() == 8 && size_of::<Option<UmemFrame>>() == 8,
    "a frame is one word"
);
const _: () = assert!(
    ZERO_COPY_MTU >= 1500 && COPY_MTU >= ZERO_COPY_MTU,
    "the usual MTU fits in every mode"
);
const _: () = assert!(
    size_of::<Packet<UmemFrame>>() <= 64,
    "a packet fits a cache line"
);

impl UmemFrame {
    /// Bytes in a frame.
    pub const LEN: usize = CHUNK - FRAME_AT;
}

impl Frame for UmemFrame {
    fn bytes(&self) -> &[u8] {
        let start = ptr::with_exposed_provenance::<u8>(self.0.get());
        // SAFETY: `self` was made in `Umem::new` for the `LEN` bytes at this address, exposed
        // there. They are mapped, because `self` counts as an owner of the mapping. Nothing writes
        // them meanwhile: there is one `UmemFrame` for each chunk, borrowed here, and a chunk the
        // kernel may write has its `UmemFrame` in the ownership table, where nothing borrows it.
        unsafe { core::slice::from_raw_parts(start, Self::LEN) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let start = ptr::with_exposed_provenance_mut::<u8>(self.0.get());
        // SAFETY: as in `bytes`, and the borrow of `self` is exclusive.
        unsafe { core::slice::from_raw_parts_mut(start, Self::LEN) }
    }
}

impl Drop for UmemFrame {
    fn drop(&mut self) {
        let own = ptr::with_exposed_provenance::<usize>(self.0.get() - FRAME_AT);
        // SAFETY: `Umem::new` exposed this part of the chunk and wrote an address there, aligned as
        // chunks are. Nothing else writes it: frames begin behind it, and the kernel keeps off the
        // frame headroom.
        let owner = unsafe { own.read() };
        let owner = ptr::with_exposed_provenance::<xsk_rs::Umem>(owner);
        // SAFETY: the address came from `Arc::into_raw` for this frame, whose only drop this is.
        drop(unsafe { Arc::from_raw(owner) });
    }
}

/// The UMEM of one device, and the descriptors of its frames.
#[derive(Debug)]
pub(crate) struct Umem {
    memory: Arc<xsk_rs::Umem>,
    first: usize,
    descriptors: Vec<FrameDesc>,
}

impl Umem {
    /// Maps and registers `chunks` chunks; the rings hold at least `fill` and `completion` entries.
    pub(crate) fn new(
        chunks: NonZeroU32,
        fill: u32,
        completion: u32,
    ) -> Result<(Self, Vec<UmemFrame>), UmemCreateError> {
        let (memory, descriptors) =
            xsk_rs::Umem::new(umem_config(fill, completion), chunks, false)?;
        let memory = Arc::new(memory);
        let frames: Vec<UmemFrame> = descriptors
            .iter()
            .map(|descriptor| make_frame(&memory, *descriptor))
            .collect();
        let first = frames.first().map_or(0, |frame| frame.0.get());
        Ok((
            Self {
                memory,
                first,
                descriptors,
            },
            frames,
        ))
    }

    /// The UMEM of xsk-rs, for binding a socket.
    pub(crate) fn memory(&self) -> &xsk_rs::Umem {
        &self.memory
    }

    /// Number of chunks.
    pub(crate) fn chunks(&self) -> usize {
        self.descriptors.len()
    }

    /// The chunk of `frame`, unless it belongs to another UMEM.
    pub(crate) fn index(&self, frame: &UmemFrame) -> Option<usize> {
        let index = frame.0.get().checked_sub(self.first)? / CHUNK;
        (index < self.descriptors.len()).then_some(index)
    }

    /// The descriptor of chunk `index`, with length zero.
    pub(crate) fn descriptor(&self, index: usize) -> FrameDesc {
        self.descriptors[index]
    }

    /// The descriptor that sends `packet`, whose frame is chunk `index`. The exclusive borrow excludes
    /// other readers.
    pub(crate) fn packet_descriptor(
        &self,
        index: usize,
        packet: &mut Packet<UmemFrame>,
    ) -> FrameDesc {
        let len = packet.bytes().len();
        let mut descriptor = self.descriptors[index];
        // SAFETY: the descriptor is of this UMEM. `packet` owns the chunk's only frame and is
        // borrowed exclusively, so nothing else refers to the bytes while xsk-rs makes a slice of
        // them; the kernel has not got them yet.
        let mut data = unsafe { self.memory.data_mut(&mut descriptor) };
        data.cursor().set_pos(len);
        data.contents_mut().as_mut_ptr().expose_provenance();
        descriptor
    }
}

/// The only frame of the chunk behind `descriptor`.
fn make_frame(memory: &Arc<xsk_rs::Umem>, mut descriptor: FrameDesc) -> UmemFrame {
    let owner = Arc::into_raw(Arc::clone(memory)).expose_provenance();
    // SAFETY: the descriptor is of this UMEM, and nothing refers to the chunk yet: its frame is
    // being created.
    let (mut own, mut data) = unsafe { memory.frame_mut(&mut descriptor) };
    own.cursor()
        .write_all(&owner.to_ne_bytes())
        .expect("our part of a chunk holds an address");
    own.contents_mut().as_mut_ptr().expose_provenance();
    data.cursor().set_pos(UmemFrame::LEN);
    let start = data.contents_mut();
    assert_eq!(
        start.len(),
        UmemFrame::LEN,
        "xsk-rs lays a chunk out as we do"
    );
    UmemFrame(
        NonZeroUsize::new(start.as_mut_ptr().expose_provenance())
            .expect("mapped memory is not at address zero"),
    )
}

/// Sizes are checked by [`crate::Config`] or constants, so building cannot fail.
fn umem_config(fill: u32, completion: u32) -> UmemConfig {
    UmemConfig::builder()
        .frame_size(FrameSize::new(CHUNK as u32).expect("a page is allowed"))
        .frame_headroom(OWN as u32)
        .fill_queue_size(QueueSize::new(fill).expect("ring sizes are powers of two"))
        .comp_queue_size(QueueSize::new(completion).expect("ring sizes are powers of two"))
        .build()
        .expect("the headrooms leave room in a chunk")
}
