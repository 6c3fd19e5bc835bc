//! [`UmemFrame`]: exclusive ownership of one chunk of packet memory, or of several in a row.
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
//! Longer packets span chunks (`XDP_USE_SG`, Linux 6.6), with a descriptor for each. A frame for
//! them has several chunks in a row. Its owner sees one slice, which begins in the first chunk and
//! goes on through the heads of the others. Before such a packet is sent, the bytes of each further
//! chunk are shifted behind its head; the last ones first, so that none is overwritten. The kernel
//! fills chunks one by one, so a received packet that spans chunks is copied into such a frame.
//!
//! A frame is created once, with the UMEM, and only moved, so safe access through it cannot alias.
//! While the kernel has the chunk its frame is in the ownership table of the device that gave it. Each frame is an
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
/// Bytes of two VLAN tags.
const TAGS: usize = 2 * 4;
/// Bytes that a NIC counts besides the MTU: header, two VLAN tags, frame check sequence.
const LINK_OVERHEAD: usize = ETHERNET_HEADER + TAGS + 4;
/// Most chunks of a frame. The kernel sends a packet of 17 at most (`MAX_SKB_FRAGS`).
const MOST_CHUNKS: usize = 16;
/// The packet goes on in the next descriptor (`XDP_PKT_CONTD`).
const CONTINUED: u32 = 1;

/// The largest MTU that a chunk carries if the kernel copies each packet.
pub(crate) const COPY_MTU: usize = UmemFrame::LEN - ETHERNET_HEADER;
/// The largest MTU that a chunk carries in zero copy, whatever the driver rounds its buffers to.
pub(crate) const ZERO_COPY_MTU: usize = UmemFrame::LEN / BUFFER_UNIT * BUFFER_UNIT - LINK_OVERHEAD;

/// The largest MTU that a frame of several chunks carries.
pub(crate) const CHUNKED_MTU: usize = MOST_CHUNKS * UmemFrame::LEN - ETHERNET_HEADER - TAGS;

/// The parts of a chunk, for the ownership table.
pub(crate) const LAYOUT: Layout = Layout {
    chunk: CHUNK as u64,
    frame_at: FRAME_AT as u64,
    frame_len: UmemFrame::LEN as u64,
};

/// The chunks of a frame that holds a packet of `mtu` bytes.
pub(crate) fn chunks_for(mtu: usize) -> usize {
    if mtu <= COPY_MTU {
        1
    } else {
        (mtu + ETHERNET_HEADER + TAGS).div_ceil(UmemFrame::LEN)
    }
}

/// One frame of a UMEM: move-only, handed out once.
///
/// It may outlive the device and be used from any thread. The UMEM is unmapped, and the queue of the
/// interface released, when the device and its last frame are dropped.
#[derive(Debug)]
pub struct UmemFrame(
    /// Address of the first byte, a multiple of 64, plus the number of further chunks. Not a pointer,
    /// because xsk-rs accesses the buffer too: each access uses an exposed provenance.
    NonZeroUsize,
);

/// The bits of a frame's address that count its further chunks.
const FURTHER: usize = 63;

const _: () = assert!(
    FRAME_AT.is_multiple_of(FURTHER + 1) && MOST_CHUNKS <= FURTHER + 1,
    "the number of further chunks fits the address"
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
    /// Bytes of a frame of one chunk; one of several has a multiple of it.
    pub const LEN: usize = CHUNK - FRAME_AT;

    fn start(&self) -> usize {
        self.0.get() & !FURTHER
    }

    fn chunks(&self) -> usize {
        1 + (self.0.get() & FURTHER)
    }

    /// True if it holds packets that span chunks.
    pub(crate) fn spans_chunks(&self) -> bool {
        self.chunks() > 1
    }
}

impl Frame for UmemFrame {
    fn bytes(&self) -> &[u8] {
        let start = ptr::with_exposed_provenance::<u8>(self.start());
        // SAFETY: `self` was made in `Umem::new` for its chunks, which are in a row, and these bytes
        // end in the last. xsk-rs exposed the pointer to the whole mapping when it passed it to C. They
        // are mapped, because `self` counts as an owner of the mapping. Nothing writes them meanwhile:
        // there is one `UmemFrame` for each chunk, borrowed here, and a chunk the kernel may write has
        // its `UmemFrame` in an ownership table, where nothing borrows it.
        unsafe { core::slice::from_raw_parts(start, self.chunks() * Self::LEN) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let start = ptr::with_exposed_provenance_mut::<u8>(self.start());
        // SAFETY: as in `bytes`, and the borrow of `self` is exclusive.
        unsafe { core::slice::from_raw_parts_mut(start, self.chunks() * Self::LEN) }
    }

    /// The chunks in use.
    fn memory(&self, used: usize) -> usize {
        used.next_multiple_of(Self::LEN).max(Self::LEN)
    }
}

impl Drop for UmemFrame {
    fn drop(&mut self) {
        let own = ptr::with_exposed_provenance::<usize>(self.start() - FRAME_AT);
        // SAFETY: `Umem::new` exposed this part of the chunk and wrote an address there, aligned as
        // chunks are. Nothing else writes it: frames begin behind it, and the kernel keeps off the
        // frame headroom.
        let owner = unsafe { own.read() };
        let owner = ptr::with_exposed_provenance::<xsk_rs::Umem>(owner);
        // SAFETY: the address came from `Arc::into_raw` for this frame, whose only drop this is.
        drop(unsafe { Arc::from_raw(owner) });
    }
}

/// Numbers of frames in a UMEM, in the order of their chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Frames for sending, of `chunks` chunks each; at least one.
    pub(crate) transmit: u32,
    /// Chunks for receiving.
    pub(crate) receive: u32,
    /// Frames of `chunks` chunks for received packets that span chunks.
    pub(crate) assembly: u32,
    /// Chunks of a frame.
    pub(crate) chunks: u32,
}

impl Sizes {
    /// Number of chunks.
    pub(crate) fn total(&self) -> u32 {
        (self.transmit + self.assembly) * self.chunks + self.receive
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.total()) * CHUNK as u64
    }

    /// The frames of both, which have as many chunks each.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            transmit: self.transmit + other.transmit,
            receive: self.receive + other.receive,
            assembly: self.assembly + other.assembly,
            chunks: self.chunks,
        }
    }
}

/// The frames of a new UMEM by their purpose.
#[derive(Debug)]
pub(crate) struct Frames {
    pub(crate) transmit: Vec<UmemFrame>,
    pub(crate) receive: Vec<UmemFrame>,
    pub(crate) assembly: Vec<UmemFrame>,
}

impl Frames {
    /// Takes the frames of one device out of those of several.
    pub(crate) fn take(&mut self, sizes: Sizes) -> Self {
        let take = |frames: &mut Vec<UmemFrame>, count: u32| {
            frames.split_off(frames.len() - count as usize)
        };
        Self {
            transmit: take(&mut self.transmit, sizes.transmit),
            receive: take(&mut self.receive, sizes.receive),
            assembly: take(&mut self.assembly, sizes.assembly),
        }
    }
}

/// The UMEM of one device or of two, and the descriptors of its chunks.
#[derive(Debug)]
pub(crate) struct Umem {
    memory: Arc<xsk_rs::Umem>,
    first: usize,
    descriptors: Vec<FrameDesc>,
    chunks_per_frame: usize,
}

impl Umem {
    /// Maps and registers the chunks; the rings hold at least `fill` and `completion` entries.
    pub(crate) fn new(
        sizes: Sizes,
        fill: u32,
        completion: u32,
    ) -> Result<(Self, Frames), UmemCreateError> {
        let total = NonZeroU32::new(sizes.total()).expect("there is a frame for sending");
        let (memory, descriptors) = xsk_rs::Umem::new(umem_config(fill, completion), total, false)?;
        let memory = Arc::new(memory);
        let mut rest = descriptors.as_slice();
        let mut frames = |count: u32, chunks: u32| -> Vec<UmemFrame> {
            let (these, others) = rest.split_at((count * chunks) as usize);
            rest = others;
            let runs = these.chunks_exact(chunks as usize);
            runs.map(|run| make_frame(&memory, run)).collect()
        };
        let frames = Frames {
            transmit: frames(sizes.transmit, sizes.chunks),
            receive: frames(sizes.receive, 1),
            assembly: frames(sizes.assembly, sizes.chunks),
        };
        let first = frames.transmit.first().map_or(0, UmemFrame::start);
        let umem = Self {
            memory,
            first,
            descriptors,
            chunks_per_frame: sizes.chunks as usize,
        };
        Ok((umem, frames))
    }

    /// The UMEM of xsk-rs, for binding a socket.
    pub(crate) fn memory(&self) -> &xsk_rs::Umem {
        &self.memory
    }

    /// Number of chunks.
    pub(crate) fn chunks(&self) -> usize {
        self.descriptors.len()
    }

    /// Chunks of a frame for sending.
    pub(crate) fn chunks_per_frame(&self) -> usize {
        self.chunks_per_frame
    }

    /// The first chunk of `frame`, unless it belongs to another UMEM.
    pub(crate) fn index(&self, frame: &UmemFrame) -> Option<usize> {
        let index = frame.start().checked_sub(self.first)? / CHUNK;
        (index < self.descriptors.len()).then_some(index)
    }

    /// The descriptor of chunk `index`, with length zero.
    pub(crate) fn descriptor(&self, index: usize) -> FrameDesc {
        self.descriptors[index]
    }

    /// Appends the descriptors that send `packet`, whose frame begins at chunk `index`; returns their
    /// number. Shifts the bytes of a packet that spans chunks. The exclusive borrow excludes other
    /// readers.
    pub(crate) fn append_descriptors(
        &self,
        index: usize,
        packet: &mut Packet<UmemFrame>,
        to: &mut Vec<FrameDesc>,
    ) -> u8 {
        let (before, len) = (to.len(), packet.bytes().len());
        if len > UmemFrame::LEN {
            let run = (packet.frame().chunks() - 1) * CHUNK + UmemFrame::LEN;
            let start = ptr::with_exposed_provenance_mut::<u8>(packet.frame().start());
            // SAFETY: as in `UmemFrame::bytes_mut`, up to the end of the last chunk.
            shift(unsafe { core::slice::from_raw_parts_mut(start, run) }, len);
        }
        for (chunk, (_, len)) in (index..).zip(LAYOUT.pieces(index, len as u32)) {
            let mut descriptor = self.descriptors[chunk];
            // SAFETY: the descriptor is of this UMEM. `packet` owns the chunk's only frame and is
            // borrowed exclusively, so nothing else refers to the bytes while xsk-rs makes a slice of
            // them; the kernel has not got them yet.
            let mut data = unsafe { self.memory.data_mut(&mut descriptor) };
            data.cursor().set_pos(len as usize);
            data.contents_mut().as_mut_ptr().expose_provenance();
            descriptor.set_options(CONTINUED);
            to.push(descriptor);
        }
        if let Some(last) = to.last_mut() {
            last.set_options(0);
        }
        (to.len() - before) as u8
    }
}

/// Moves the bytes of a packet of `len` bytes that begins with `run`, all but those of the first chunk,
/// to the places of data in their chunks.
fn shift(run: &mut [u8], len: usize) {
    for piece in (1..len.div_ceil(UmemFrame::LEN)).rev() {
        let start = piece * UmemFrame::LEN;
        let end = len.min(start + UmemFrame::LEN);
        run.copy_within(start..end, piece * CHUNK);
    }
}

/// The only frame of the chunks behind `run`, which are in a row.
fn make_frame(memory: &Arc<xsk_rs::Umem>, run: &[FrameDesc]) -> UmemFrame {
    let mut descriptor = run[0];
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
    let start = NonZeroUsize::new(start.as_mut_ptr().expose_provenance())
        .expect("mapped memory is not at address zero");
    let further = run.len() - 1;
    assert!(
        start.get() & FURTHER == 0 && run[further].addr() - run[0].addr() == further * CHUNK,
        "xsk-rs puts one chunk after the other"
    );
    UmemFrame(start | further)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_hold_their_mtu_and_two_tags() {
        let edges = [COPY_MTU, COPY_MTU + 1, CHUNKED_MTU];
        for mtu in (1500..=CHUNKED_MTU).step_by(7).chain(edges) {
            let len = chunks_for(mtu) * UmemFrame::LEN;
            let tags = if mtu > COPY_MTU { TAGS } else { 0 };
            assert!(len >= mtu + ETHERNET_HEADER + tags, "{mtu}: {len} bytes");
            assert!(
                mtu <= COPY_MTU || len - UmemFrame::LEN < mtu + ETHERNET_HEADER + TAGS,
                "{mtu}: a chunk too many"
            );
        }
        assert_eq!((chunks_for(1500), chunks_for(9000)), (1, 3));
        assert_eq!(chunks_for(CHUNKED_MTU), MOST_CHUNKS);
    }

    #[test]
    fn shifted_pieces_are_the_packet() {
        const CHUNKS: usize = 4;
        let packet: Vec<u8> = (0..CHUNKS * UmemFrame::LEN)
            .map(|at| (at % 251) as u8)
            .collect();
        let edge = |chunks| [chunks * UmemFrame::LEN - 1, chunks * UmemFrame::LEN];
        for len in (1..CHUNKS).flat_map(edge).chain([1, 9014, packet.len()]) {
            let mut run = vec![0; (CHUNKS - 1) * CHUNK + UmemFrame::LEN];
            run[..packet.len()].copy_from_slice(&packet);
            shift(&mut run, len);
            let pieces = LAYOUT.pieces(0, len as u32).map(|(address, len)| {
                let start = address as usize - FRAME_AT;
                &run[start..start + len as usize]
            });
            assert!(
                pieces.collect::<Vec<_>>().concat() == packet[..len],
                "{len} bytes"
            );
        }
    }
}
