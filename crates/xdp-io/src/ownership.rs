//! The owner of each chunk of the UMEM: the caller, the fill ring, or the transmit ring.
//!
//! The kernel names chunks by address. An address outside the UMEM, or of a chunk that the kernel
//! does not hold for this purpose, is refused, so a duplicate or bogus descriptor never makes two
//! owners of one chunk. The owner of a chunk holds its linear frame; the table holds the frames of
//! the chunks that the kernel owns.
//!
//! A packet of several chunks has a descriptor for each. The kernel completes them one by one; the
//! packet returns with the last.

use tautline_base::{Frame, Packet};

/// Layout of a chunk in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Distance from one chunk to the next.
    pub chunk: u64,
    /// Offset of the frame in its chunk.
    pub frame_at: u64,
    /// Length of a frame.
    pub frame_len: u64,
}

impl Layout {
    /// The chunk of `address`.
    fn index(self, address: u64) -> usize {
        usize::try_from(address / self.chunk).unwrap_or(usize::MAX)
    }

    /// The descriptors of the first `len` bytes of the frame at chunk `index`: address and number of
    /// bytes of each, as many in a chunk as a frame of one has. One if `len` is zero.
    pub fn pieces(self, index: usize, len: u32) -> impl Iterator<Item = (u64, u32)> {
        let most = self.frame_len as u32;
        (0..len.div_ceil(most).max(1)).map(move |number| {
            let address = (index as u64 + u64::from(number)) * self.chunk + self.frame_at;
            (address, most.min(len - number * most))
        })
    }

    /// Offset in its frame of `len` bytes at `address`; `None` if they exceed the frame.
    fn start(self, address: u64, len: u64) -> Option<u32> {
        let start = (address % self.chunk).checked_sub(self.frame_at)?;
        let end = start.checked_add(len)?;
        (end <= self.frame_len).then_some(start as u32)
    }
}

#[derive(Debug)]
enum Holder<F> {
    /// Outside: in a packet, a pool, a received frame not yet recycled, or the table of another socket on the
    /// UMEM.
    Caller,
    /// In the fill ring or the receive ring.
    FillRing(F),
    /// Between `put` and completion.
    Transmit(Packet<F>),
}

/// Whether the kernel still has to complete a descriptor in a chunk.
#[derive(Clone, Copy, Debug, Default)]
enum Outstanding {
    #[default]
    No,
    /// Of the packet whose frame begins that many chunks before.
    Behind(u8),
    /// Of a packet that a reset has returned already.
    Late,
}

#[derive(Debug)]
struct Chunk<F> {
    holder: Holder<F>,
    outstanding: Outstanding,
    /// Descriptors that the kernel has to complete of the packet that begins here.
    incomplete: u8,
}

/// Why a received descriptor was refused.
#[derive(Debug, PartialEq, Eq)]
pub enum BadReceived<F> {
    /// It names no chunk of the fill ring. No owner changes.
    NotLent,
    /// The chunk was in the fill ring, but the bytes exceed its frame. The frame is returned.
    OutsideFrame(F),
}

/// Why a completion was refused.
#[derive(Debug, PartialEq, Eq)]
pub enum BadCompleted {
    /// It names no chunk in flight.
    NotInFlight,
    /// A reset has returned its packet already.
    Late,
}

/// The table, one entry for each chunk. All chunks start with the caller.
#[derive(Debug)]
pub struct Ownership<F> {
    layout: Layout,
    chunks: Vec<Chunk<F>>,
    in_flight: usize,
    late: usize,
}

impl<F: Frame> Ownership<F> {
    pub fn new(layout: Layout, chunks: usize) -> Self {
        let chunk = || Chunk {
            holder: Holder::Caller,
            outstanding: Outstanding::No,
            incomplete: 0,
        };
        Self {
            layout,
            chunks: core::iter::repeat_with(chunk).take(chunks).collect(),
            in_flight: 0,
            late: 0,
        }
    }

    /// Packets put and not returned.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Descriptors of packets returned by a reset that the kernel may still be reading.
    pub fn late(&self) -> usize {
        self.late
    }

    /// Takes the frame of chunk `index` for the fill ring.
    pub fn lend(&mut self, index: usize, frame: F) {
        self.hand_over(index, Holder::FillRing(frame));
    }

    /// Takes the packet whose frame begins at chunk `index` for the transmit ring, in `descriptors`
    /// descriptors, one for each of as many chunks.
    pub fn put(&mut self, index: usize, packet: Packet<F>, descriptors: u8) {
        for behind in 0..descriptors {
            self.chunks[index + usize::from(behind)].outstanding = Outstanding::Behind(behind);
        }
        self.chunks[index].incomplete = descriptors;
        self.hand_over(index, Holder::Transmit(packet));
        self.in_flight += 1;
    }

    fn hand_over(&mut self, index: usize, to: Holder<F>) {
        let before = core::mem::replace(&mut self.chunks[index].holder, to);
        debug_assert!(
            matches!(before, Holder::Caller),
            "a frame is linear: its owner cannot have handed it over before"
        );
    }

    /// Accepts `len` bytes that the kernel received at `address`. Returns their frame and offset.
    ///
    /// # Errors
    /// If the chunk is not in the fill ring, or the bytes exceed its frame.
    pub fn received(&mut self, address: u64, len: u32) -> Result<(F, u32), BadReceived<F>> {
        let Some(chunk) = self.chunks.get_mut(self.layout.index(address)) else {
            return Err(BadReceived::NotLent);
        };
        let frame = match core::mem::replace(&mut chunk.holder, Holder::Caller) {
            Holder::FillRing(frame) => frame,
            other => {
                chunk.holder = other;
                return Err(BadReceived::NotLent);
            }
        };
        match self.layout.start(address, len.into()) {
            Some(start) => Ok((frame, start)),
            None => Err(BadReceived::OutsideFrame(frame)),
        }
    }

    /// Accepts the completion of the descriptor at `address`. Returns its packet if all others of it
    /// are complete.
    ///
    /// # Errors
    /// If no descriptor in flight has this address.
    pub fn completed(&mut self, address: u64) -> Result<Option<Packet<F>>, BadCompleted> {
        let index = self.layout.index(address);
        let Some(chunk) = self.chunks.get_mut(index) else {
            return Err(BadCompleted::NotInFlight);
        };
        let behind = match core::mem::take(&mut chunk.outstanding) {
            Outstanding::No => return Err(BadCompleted::NotInFlight),
            Outstanding::Late => {
                self.late -= 1;
                return Err(BadCompleted::Late);
            }
            Outstanding::Behind(behind) => usize::from(behind),
        };
        let first = &mut self.chunks[index - behind];
        first.incomplete -= 1;
        if first.incomplete > 0 {
            return Ok(None);
        }
        match core::mem::replace(&mut first.holder, Holder::Caller) {
            Holder::Transmit(packet) => {
                self.in_flight -= 1;
                Ok(Some(packet))
            }
            other => {
                first.holder = other;
                Err(BadCompleted::NotInFlight)
            }
        }
    }

    /// Appends every packet in flight to `lost` without waiting for the kernel. The completions of
    /// their descriptors count as late.
    pub fn abandon(&mut self, lost: &mut Vec<Packet<F>>) {
        for chunk in &mut self.chunks {
            if let Outstanding::Behind(_) = chunk.outstanding {
                chunk.outstanding = Outstanding::Late;
                self.late += 1;
            }
            match core::mem::replace(&mut chunk.holder, Holder::Caller) {
                Holder::Transmit(packet) => {
                    lost.push(packet);
                    chunk.incomplete = 0;
                }
                other => chunk.holder = other,
            }
        }
        self.in_flight = 0;
    }
}

#[cfg(test)]
mod tests;
