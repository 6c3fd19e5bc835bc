//! The four rings shared with the kernel, over xsk-rs.
//!
//! xsk-rs requires that a descriptor handed to the kernel is not used until the kernel returns it.
//! Ownership guarantees it: a chunk enters a ring only by moving its linear frame into the table,
//! where it stays until the kernel returns the chunk. Two sockets on one UMEM have a table each: a
//! frame moves into one of them, so the other refuses what its kernel side says about that chunk. The
//! interface of this module is safe.

use std::error::Error;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use rustix::io::{Errno, FdFlags};
use rustix::net::SendFlags;
use tautline_base::{Frame, Packet};
use xsk_rs::config::{BindFlags, Interface, LibxdpFlags, QueueSize, SocketConfig};
use xsk_rs::socket::SocketCreateError;
use xsk_rs::{CompQueue, FillQueue, FrameDesc, RxQueue, Socket, TxQueue};

use crate::doorbell::Wake;
use crate::ownership::{BadCompleted, BadReceived, Ownership};
use crate::statistics::Counters;
use crate::sys;
use crate::umem::{LAYOUT, Umem, UmemFrame};

/// Most descriptors per call.
const BATCH: usize = 64;

/// Descriptors taken from the receive ring and not yet handed out.
#[derive(Debug)]
struct Arrived {
    descriptors: [FrameDesc; BATCH],
    next: usize,
    end: usize,
}

/// A received packet of which chunks are still to come.
#[derive(Debug)]
struct Partial {
    frame: UmemFrame,
    len: usize,
    /// A descriptor of it was refused, or it is longer than a frame.
    is_broken: bool,
}

/// The rings of one bound socket, its UMEM, and the frames that the kernel owns.
#[derive(Debug)]
pub(crate) struct Rings {
    transmit: TxQueue,
    completion: CompQueue,
    fill: FillQueue,
    receive: RxQueue,
    umem: Arc<Umem>,
    /// The socket is the first on its UMEM.
    is_first: bool,
    ownership: Ownership<UmemFrame>,
    /// Descriptors put since the last doorbell.
    staged: Vec<FrameDesc>,
    /// Free entries of the transmit ring at the last check; a lower bound.
    free_slots: usize,
    /// Recycled descriptors not yet in the fill ring.
    refill: Vec<FrameDesc>,
    arrived: Arrived,
    partial: Option<Partial>,
    /// Frames for packets that span chunks: at most `for_assembly`.
    assembly: Vec<UmemFrame>,
    for_assembly: usize,
    /// Scratch for the completion ring.
    returned: [FrameDesc; BATCH],
    pub(crate) counters: Counters,
}

/// Parameters of a bind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding<'a> {
    pub(crate) interface: &'a str,
    pub(crate) queue: u32,
    pub(crate) transmit_ring: u32,
    pub(crate) receive_ring: u32,
    pub(crate) flags: BindFlags,
}

/// Binds a socket without libxdp's own XDP program.
pub(crate) fn bind(umem: &Umem, binding: Binding<'_>) -> Result<BoundSocket, Errno> {
    let size = |entries| QueueSize::new(entries).map_err(|_| Errno::INVAL);
    let config = SocketConfig::builder()
        .rx_queue_size(size(binding.receive_ring)?)
        .tx_queue_size(size(binding.transmit_ring)?)
        .libxdp_flags(LibxdpFlags::XSK_LIBXDP_FLAGS_INHIBIT_PROG_LOAD)
        .bind_flags(binding.flags)
        .build();
    let interface: Interface = binding.interface.parse().map_err(|_| Errno::NODEV)?;
    // SAFETY: the hazard is detaching libxdp's program twice; its load is inhibited.
    let queues = unsafe { Socket::new(config, umem.memory(), &interface, binding.queue) }
        .map_err(|e| errno(&e))?;
    match queues {
        (transmit, receive, Some((fill, completion))) => {
            // libxdp does not set it; a child process would keep the queue busy after our exit.
            rustix::io::fcntl_setfd(
                sys::borrow_fd(&transmit, transmit.fd().as_raw_fd()),
                FdFlags::CLOEXEC,
            )?;
            Ok(BoundSocket {
                transmit,
                receive,
                fill,
                completion,
            })
        }
        // Only a second socket on one UMEM and queue has no such rings.
        (_, _, None) => Err(Errno::BUSY),
    }
}

/// The queues of a socket that was just bound.
#[derive(Debug)]
pub(crate) struct BoundSocket {
    transmit: TxQueue,
    receive: RxQueue,
    fill: FillQueue,
    completion: CompQueue,
}

fn errno(error: &SocketCreateError) -> Errno {
    let cause = error
        .source()
        .and_then(|source| source.downcast_ref::<std::io::Error>());
    cause.and_then(Errno::from_io_error).unwrap_or(Errno::IO)
}

impl Rings {
    /// The rings of a socket that is bound, as the first or not; `assembly` are the frames for packets that
    /// span chunks.
    pub(crate) fn new(
        socket: BoundSocket,
        umem: Arc<Umem>,
        is_first: bool,
        assembly: Vec<UmemFrame>,
    ) -> Self {
        let BoundSocket {
            mut transmit,
            receive,
            fill,
            completion,
        } = socket;
        let chunks = umem.chunks();
        let free_slots = transmit.nb_free_exact() as usize;
        Self {
            transmit,
            completion,
            fill,
            receive,
            ownership: Ownership::new(LAYOUT, chunks),
            umem,
            is_first,
            staged: Vec::with_capacity(chunks),
            free_slots,
            refill: Vec::with_capacity(chunks),
            returned: [FrameDesc::default(); BATCH],
            arrived: Arrived {
                descriptors: [FrameDesc::default(); BATCH],
                next: 0,
                end: 0,
            },
            partial: None,
            for_assembly: assembly.len(),
            assembly,
            counters: Counters::default(),
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        sys::borrow_fd(&self.transmit, self.transmit.fd().as_raw_fd())
    }

    /// Closes the socket at once. Frames outside keep their memory mapped and, by libxdp, the descriptor
    /// of its first socket open, so the file behind that is closed.
    pub(crate) fn close(self) -> Result<(), Errno> {
        let Self {
            transmit,
            completion,
            fill,
            receive,
            umem,
            is_first,
            ..
        } = self;
        let fd = transmit.fd().as_raw_fd();
        // The mappings of the rings keep the file open, too.
        drop((transmit, completion, fill, receive));
        if is_first {
            sys::close_behind(sys::borrow_fd(&umem, fd))
        } else {
            Ok(())
        }
    }

    /// True if `frame` belongs to this UMEM.
    pub(crate) fn owns(&self, frame: &UmemFrame) -> bool {
        self.umem.index(frame).is_some()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.ownership.in_flight()
    }

    /// True while completions from before a reset are outstanding.
    pub(crate) fn has_late(&self) -> bool {
        self.ownership.late() > 0
    }

    /// Number of packets that can be staged, each of as many chunks as a frame has. Zero while
    /// completions from before a reset are outstanding: their chunks must not be sent again before.
    pub(crate) fn room(&self) -> usize {
        if self.has_late() {
            0
        } else {
            self.free_slots.saturating_sub(self.staged.len()) / self.umem.chunks_per_frame()
        }
    }

    /// Updates the free entries of the transmit ring.
    fn look_for_slots(&mut self) {
        self.free_slots = self.transmit.nb_free_exact() as usize;
    }

    /// Takes a packet for the next [`submit`](Self::submit).
    ///
    /// # Panics
    /// If the packet's frame is not of this UMEM.
    pub(crate) fn stage(&mut self, mut packet: Packet<UmemFrame>) {
        let index = self
            .umem
            .index(packet.frame())
            .expect("a packet put to a device lies in a frame of that device");
        let descriptors = self
            .umem
            .append_descriptors(index, &mut packet, &mut self.staged);
        self.ownership.put(index, packet, descriptors);
        self.counters.transmitted += 1;
    }

    /// Moves the staged descriptors to the transmit ring.
    pub(crate) fn submit(&mut self) {
        // SAFETY: every staged descriptor is of this UMEM and its frame lies in the table, where it
        // stays until the completion ring names it: the kernel alone uses it.
        if unsafe { self.transmit.produce(&self.staged) } == self.staged.len() {
            self.staged.clear();
        }
        self.look_for_slots();
    }

    /// Appends the staged packets to `lost`.
    pub(crate) fn unstage(&mut self, lost: &mut Vec<Packet<UmemFrame>>) {
        let before = lost.len();
        for descriptor in self.staged.drain(..) {
            let completed = self.ownership.completed(descriptor.addr() as u64);
            lost.extend(completed.ok().flatten());
        }
        self.counters.dropped += (lost.len() - before) as u64;
    }

    /// True if the kernel needs a wake to send.
    pub(crate) fn transmit_sleeps(&self) -> bool {
        self.transmit.needs_wakeup()
    }

    /// Wakes the kernel's sender once.
    pub(crate) fn wake(&mut self) -> Result<Wake, Errno> {
        self.counters.wakes += 1;
        let before = self.transmit.nb_free_exact() as usize;
        let answer = rustix::net::send(self.fd(), &[], SendFlags::DONTWAIT);
        self.look_for_slots();
        match answer {
            Ok(_) => Ok(Wake::Done),
            Err(Errno::AGAIN) if self.free_slots != before => Ok(Wake::Progress),
            Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => Ok(Wake::Blocked),
            Err(error) => Err(error),
        }
    }

    /// Appends every completed packet to `done`.
    pub(crate) fn reap(&mut self, done: &mut Vec<Packet<UmemFrame>>) {
        self.look_for_slots();
        loop {
            // SAFETY: xsk-rs overwrites the descriptors with those of the kernel, which are checked
            // below before use.
            let count = unsafe { self.completion.consume(&mut self.returned) };
            for descriptor in &self.returned[..count] {
                match self.ownership.completed(descriptor.addr() as u64) {
                    Ok(packet) => {
                        self.counters.completed += u64::from(packet.is_some());
                        done.extend(packet);
                    }
                    Err(BadCompleted::Late) => self.counters.late_completed += 1,
                    Err(BadCompleted::NotInFlight) => self.counters.bad_completed += 1,
                }
            }
            if count < BATCH {
                return;
            }
        }
    }

    /// Appends every packet in flight to `lost` without waiting for the kernel.
    pub(crate) fn abandon(&mut self, lost: &mut Vec<Packet<UmemFrame>>) {
        let before = lost.len();
        self.ownership.abandon(lost);
        self.counters.dropped += (lost.len() - before) as u64;
    }

    /// The next received packet: its frame, offset and number of its bytes. A packet that spans chunks
    /// is copied into a frame that holds all of it.
    pub(crate) fn receive(&mut self) -> Option<(UmemFrame, u32, u32)> {
        loop {
            let descriptor = self.next_arrived()?;
            let len = u32::try_from(descriptor.lengths().data()).unwrap_or(u32::MAX);
            let is_last = !descriptor.has_more_frames();
            let chunk = self.received(descriptor.addr() as u64, len);
            if is_last && self.partial.is_none() {
                if let Some((frame, start)) = chunk {
                    self.counters.received += 1;
                    return Some((frame, start, len));
                }
                continue;
            }
            self.append(chunk, len);
            if is_last && let Some(packet) = self.assembled() {
                self.counters.received += 1;
                return Some(packet);
            }
        }
    }

    /// The frame of a descriptor and the offset of its bytes; `None` if it is refused.
    fn received(&mut self, address: u64, len: u32) -> Option<(UmemFrame, u32)> {
        match self.ownership.received(address, len) {
            Ok(chunk) => Some(chunk),
            Err(BadReceived::NotLent) => {
                self.counters.bad_received += 1;
                None
            }
            Err(BadReceived::OutsideFrame(frame)) => {
                self.counters.bad_received += 1;
                self.recycle(frame);
                None
            }
        }
    }

    /// Appends `len` bytes of a chunk to the packet that is being received, and recycles the chunk. A
    /// packet without one of its chunks, or longer than a frame, will be dropped.
    fn append(&mut self, chunk: Option<(UmemFrame, u32)>, len: u32) {
        let mut partial = self.partial.take().or_else(|| {
            self.assembly.pop().map(|frame| Partial {
                frame,
                len: 0,
                is_broken: false,
            })
        });
        if let Some(partial) = &mut partial {
            let end = partial.len + len as usize;
            let to = partial.frame.bytes_mut().get_mut(partial.len..end);
            match (to, &chunk) {
                (Some(to), Some((frame, start))) => {
                    let start = *start as usize;
                    to.copy_from_slice(&frame.bytes()[start..start + len as usize]);
                    partial.len = end;
                }
                (None, Some(_)) => {
                    self.counters.bad_received += 1;
                    partial.is_broken = true;
                }
                (_, None) => partial.is_broken = true,
            }
        }
        self.partial = partial;
        if let Some((frame, _)) = chunk {
            self.recycle(frame);
        }
    }

    /// The packet of which the last chunk has arrived, unless it is broken.
    fn assembled(&mut self) -> Option<(UmemFrame, u32, u32)> {
        let Partial {
            frame,
            len,
            is_broken,
        } = self.partial.take()?;
        if is_broken {
            self.recycle(frame);
            return None;
        }
        Some((frame, 0, len as u32))
    }

    /// The next descriptor of the receive ring. None while the caller holds all frames for packets that
    /// span chunks, so that such a packet waits for one.
    fn next_arrived(&mut self) -> Option<FrameDesc> {
        if self.arrived.next == self.arrived.end {
            self.refill();
            // SAFETY: xsk-rs overwrites the descriptors with those of the kernel, which `receive`
            // checks before use.
            let end = unsafe { self.receive.consume(&mut self.arrived.descriptors) };
            (self.arrived.next, self.arrived.end) = (0, end);
            if end == 0 {
                self.wake_receiver();
            }
        }
        let next = *self.arrived.descriptors[..self.arrived.end].get(self.arrived.next)?;
        let begins = next.has_more_frames() && self.partial.is_none();
        if begins && self.assembly.is_empty() {
            return None;
        }
        self.arrived.next += 1;
        Some(next)
    }

    /// Takes a frame for the fill ring, or for packets that span chunks. A frame of another UMEM is
    /// counted and dropped.
    pub(crate) fn recycle(&mut self, frame: UmemFrame) {
        let Some(index) = self.umem.index(&frame) else {
            self.counters.foreign_frames += 1;
            return;
        };
        // In zero copy a chunk may hold more than a driver's buffer: then all frames are alike.
        let is_for_assembly = if self.umem.chunks_per_frame() > 1 {
            frame.spans_chunks()
        } else {
            self.assembly.len() < self.for_assembly
        };
        if is_for_assembly {
            self.assembly.push(frame);
            return;
        }
        self.ownership.lend(index, frame);
        self.refill.push(self.umem.descriptor(index));
        if self.refill.len() >= BATCH {
            self.refill();
        }
    }

    /// Moves recycled frames to the fill ring and wakes a driver that waits for them.
    pub(crate) fn refill(&mut self) {
        if self.refill.is_empty() {
            return;
        }
        // The ring accepts all or none, and has fewer entries than there are chunks: the rest stays.
        let fits = self
            .refill
            .len()
            .min(self.fill.nb_free(self.refill.len() as u32) as usize);
        let from = self.refill.len() - fits;
        // SAFETY: every descriptor here is of this UMEM and its frame lies in the table, where it
        // stays until the receive ring names it: the kernel alone uses it.
        if unsafe { self.fill.produce(&self.refill[from..]) } == fits {
            self.refill.truncate(from);
        }
        self.wake_receiver();
    }

    /// Wakes a driver that stopped for want of frames. It may say so just after the frames came, and `epoll`
    /// asks a socket only when something happens, where each `poll(2)` would wake the driver.
    fn wake_receiver(&mut self) {
        if self.fill.needs_wakeup() {
            // A failure shows at the next doorbell or poll; the frames are in the ring already.
            let _ = self.fill.wakeup(self.receive.fd_mut(), 0);
        }
    }
}
