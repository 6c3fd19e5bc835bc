//! [`FrameDevice`]: a file descriptor that passes one frame per read and write, or several
//! as one, as a [`Device`].

mod read_error;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, OnceLock};

use rustix::io::Errno;
use tautline_base::headers::Headers;
use tautline_base::{
    Deferred, Device, Frame, HeapFrame, Instant, Item, KeptPacket, Medium, Offload, Packet,
    Received, Segmentation, Tso,
};

pub use self::read_error::ReadError;
use crate::kept_memory::KeptMemory;

/// A non-blocking descriptor whose unit is one frame.
pub trait FrameIo: AsFd {
    /// Writes one frame.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if the descriptor is full; another if the frame is lost.
    fn write_frame(&self, frame: &[u8]) -> io::Result<usize>;

    /// Reads one frame.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if there is no frame.
    fn read_frame(&self, frame: &mut [u8]) -> io::Result<usize>;

    /// Kind of its frames. Default: Ethernet.
    fn medium(&self) -> Medium {
        Medium::Ethernet
    }

    /// Limits of packets of several segments, in both directions: frames to read into must be large
    /// enough for one. With limits, it also takes packets whose checksum is [left to
    /// it](Packet::leave_checksum).
    fn tso(&self) -> Option<Tso> {
        None
    }

    /// True if the kernel may refuse a packet of several segments as if its queue were full, and
    /// take its segments one by one. Default: false.
    fn refuses_segments(&self) -> bool {
        false
    }

    /// True if [`write_packet`](Self::write_packet) writes the [slices](Packet::slices) of a packet, so that
    /// the device [gathers](Device::gathers). Default: false.
    fn gathers(&self) -> bool {
        false
    }

    /// True once the descriptor will never work again. May cost a system call. Default: false.
    fn is_gone(&self) -> bool {
        false
    }

    /// Writes one packet, possibly of several segments.
    ///
    /// # Errors
    /// As [`write_frame`](Self::write_frame).
    fn write_packet(&self, packet: &Packet<HeapFrame>) -> io::Result<usize> {
        self.write_frame(packet.bytes())
    }

    /// Reads one frame, or several merged into one.
    ///
    /// # Errors
    /// As [`read_frame`](Self::read_frame).
    fn read_packet(&self, frame: &mut [u8]) -> io::Result<Arrival> {
        self.read_frame(frame).map(|len| Arrival {
            len,
            unit: Unit::Frame(Offload::default()),
        })
    }
}

/// A frame or several that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Length in bytes.
    pub len: usize,
    /// Kind of the packet.
    pub unit: Unit,
}

/// Kind of a packet that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A frame, or TCP segments as one.
    Frame(Offload),
    /// Several datagrams of this payload size merged into one; they are delivered one by one.
    Datagrams(usize),
}

/// Reads in a row that fail, or return nothing, until the device is gone. One that fails may have cost a
/// packet.
const FAILED_READS: u32 = 16;
/// Packets that may wait for the descriptor to take them.
const TRANSMIT_RING: usize = 256;

/// Counters of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames the kernel took, each packet of several segments counted once.
    pub transmitted: u64,
    /// Frames that the kernel refused for good; they are lost.
    pub refused: u64,
    /// Frames received, TCP segments that came as one counted once.
    pub received: u64,
    /// Packets of several segments that the kernel refused whole, and took segment by segment.
    pub cut: u64,
}

/// Datagrams that arrived as one.
#[derive(Debug)]
struct Datagrams {
    whole: HeapFrame,
    len: usize,
    /// Bytes of payload in each.
    size: usize,
    /// Datagrams delivered so far.
    taken: usize,
}

/// A device that writes each packet at the doorbell; the write is its completion.
#[derive(Debug)]
pub struct FrameDevice<S> {
    io: S,
    mtu: usize,
    waiting: VecDeque<Packet<HeapFrame>>,
    done: Vec<Packet<HeapFrame>>,
    spare: Vec<HeapFrame>,
    kept: KeptMemory,
    datagrams: Option<Datagrams>,
    cutter: Cutter,
    counters: Counters,
    /// The interface was removed.
    is_removed: bool,
    read_error: Arc<OnceLock<ReadError>>,
}

/// Packets refused whole in a row after which whole packets are tried only now and then.
const REFUSALS: u32 = 8;
/// Packets that are cut between two trials.
const BETWEEN_TRIALS: u32 = 1024;

/// Cuts packets for an interface that takes no packets of several segments, such as one whose TSO
/// is off or was switched off by an XDP program on the veth peer; and those with CWR, which the kernel
/// would leave to the first segment only (`tcp_gso_segment`): it is part of AccECN's count in all of them
/// (RFC 9768 §3.2.2).
#[derive(Debug, Default)]
struct Cutter {
    /// Packets in a row that were refused whole and taken in segments.
    refusals: u32,
    /// Segments of the first waiting packet that are written.
    written: usize,
    segment: Vec<u8>,
}

impl Cutter {
    /// Writes `packet`, or the segments of it that are not written yet.
    fn write(&mut self, io: &impl FrameIo, packet: &Packet<HeapFrame>) -> io::Result<()> {
        let has_cwr = packet.segments() > 1 && has_cwr(packet);
        if packet.segments() == 1 || !(has_cwr || io.refuses_segments()) {
            return io.write_packet(packet).map(drop);
        }
        let trial = self.refusals < REFUSALS || self.refusals.is_multiple_of(BETWEEN_TRIALS);
        if self.written == 0 && trial && !has_cwr {
            match io.write_packet(packet) {
                // Full, or unable to take it whole: the first segment shows which.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                answer => {
                    self.refusals = 0;
                    return answer.map(drop);
                }
            }
        }
        let whole = packet.segmentation().ok_or(ErrorKind::InvalidData)?;
        while self.written < whole.count() {
            self.segment.resize(whole.len_of(self.written), 0);
            whole.write(self.written, &mut self.segment);
            io.write_frame(&self.segment)?;
            self.written += 1;
        }
        self.refusals = self.refusals.saturating_add(u32::from(!has_cwr));
        Ok(())
    }
}

/// Whether `packet` is of TCP and has the CWR flag.
fn has_cwr(packet: &Packet<HeapFrame>) -> bool {
    const CWR: u16 = 0x80;
    let flags = Headers::of(packet).ip.and_then(|ip| ip.tcp_flags);
    flags.is_some_and(|flags| flags & CWR != 0)
}

impl<S: FrameIo> FrameDevice<S> {
    /// A device on `io` that carries IP packets of up to `mtu` bytes.
    pub(crate) fn new(io: S, mtu: usize) -> Self {
        let waiting = VecDeque::with_capacity(TRANSMIT_RING);
        Self {
            io,
            mtu,
            waiting,
            done: Vec::new(),
            spare: Vec::new(),
            kept: KeptMemory::default(),
            datagrams: None,
            cutter: Cutter::default(),
            counters: Counters::default(),
            is_removed: false,
            read_error: Arc::default(),
        }
    }

    /// Set once the device is gone because nothing more can be read from it, although its interface was not
    /// removed.
    pub fn read_error(&self) -> Arc<OnceLock<ReadError>> {
        Arc::clone(&self.read_error)
    }

    /// Counters since the device was opened.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Its descriptor.
    #[cfg(target_os = "linux")]
    pub(crate) fn io(&self) -> &S {
        &self.io
    }

    /// A frame to receive into.
    fn spare_frame(&mut self) -> HeapFrame {
        let len = self.io.tso().map_or(HeapFrame::LEN, |tso| tso.frame_len());
        let spare = self.spare.pop().or_else(|| self.kept.take_frame());
        spare.unwrap_or_else(|| HeapFrame::with_len(len))
    }

    /// The next of the datagrams that arrived as one.
    fn next_datagram(&mut self) -> Option<Received<HeapFrame>> {
        let mut datagrams = self.datagrams.take()?;
        let mut frame = self.spare_frame();
        let whole = datagrams
            .whole
            .bytes()
            .get(..datagrams.len)
            .and_then(|bytes| {
                let network = self.io.medium().network_offset(bytes);
                Segmentation::of_size(bytes, network, datagrams.size)
            });
        let Some(len) = whole.and_then(|whole| whole.write(datagrams.taken, frame.bytes_mut()))
        else {
            self.spare.extend([frame, datagrams.whole]);
            return None;
        };
        datagrams.taken += 1;
        self.datagrams = Some(datagrams);
        self.counters.received += 1;
        Some(Received::new(frame, 0, len as u32))
    }

    /// Whether nothing more is to be read after `failed` reads in a row that returned no frame, the last with
    /// this error.
    fn has_ended(&mut self, error: ReadError, failed: u32) -> bool {
        // The interface of a TUN descriptor was removed (`tun_chr_read_iter`).
        self.is_removed |= error == ReadError::Os(Errno::BADFD.raw_os_error());
        if failed >= FAILED_READS && !self.is_removed {
            // The first error stays.
            let _ = self.read_error.set(error);
        }
        self.is_removed || self.read_error.get().is_some()
    }

    /// Writes waiting packets until the descriptor would block.
    fn flush(&mut self) {
        while let Some(packet) = self.waiting.pop_front() {
            match self.cutter.write(&self.io, &packet) {
                Ok(()) => self.counters.transmitted += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.waiting.push_front(packet);
                    return;
                }
                // The packet is lost, as on an unplugged cable; TCP retransmits it.
                Err(_) => self.counters.refused += 1,
            }
            self.counters.cut += u64::from(self.cutter.written > 0 && !has_cwr(&packet));
            self.cutter.written = 0;
            self.done.push(packet);
        }
    }
}

impl<S: FrameIo> Device for FrameDevice<S> {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn medium(&self) -> Medium {
        self.io.medium()
    }

    fn tso(&self) -> Option<Tso> {
        self.io.tso()
    }

    fn completes(&self) -> bool {
        self.io.tso().is_some()
    }

    fn gathers(&self) -> bool {
        self.io.gathers()
    }

    fn room(&self) -> usize {
        TRANSMIT_RING - self.waiting.len()
    }

    fn put(&mut self, mut packet: Packet<HeapFrame>, _now: Instant) {
        assert!(self.room() > 0, "put without room");
        if !(self.io.gathers() && packet.deferred() == Deferred::Payload) {
            packet.leave_checksum();
        }
        self.waiting.push_back(packet);
    }

    fn doorbell(&mut self, _now: Instant) {
        self.flush();
    }

    fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        self.flush();
        done.append(&mut self.done);
    }

    fn has_completed(&self) -> bool {
        !self.done.is_empty()
    }

    fn in_flight(&self) -> usize {
        self.waiting.len() + self.done.len()
    }

    fn receive(&mut self, _now: Instant) -> Option<Received<HeapFrame>> {
        let mut failed = 0;
        loop {
            if let Some(datagram) = self.next_datagram() {
                return Some(datagram);
            }
            let mut frame = self.spare_frame();
            let error = match self.io.read_packet(frame.bytes_mut()) {
                Ok(Arrival { len: 0, .. }) => Some(ReadError::EndOfFile),
                Ok(Arrival {
                    len,
                    unit: Unit::Frame(offload),
                }) => {
                    self.counters.received += 1;
                    return Some(Received {
                        offload,
                        ..Received::new(frame, 0, len as u32)
                    });
                }
                // The first of them is next. Those that cannot be cut are skipped: `None` would say that
                // the descriptor is empty, and nobody would read on before another packet arrives.
                Ok(Arrival {
                    len,
                    unit: Unit::Datagrams(size),
                }) => {
                    self.datagrams = Some(Datagrams {
                        whole: frame,
                        len,
                        size,
                        taken: 0,
                    });
                    continue;
                }
                Err(error) => ReadError::of(&error),
            };
            self.spare.push(frame);
            failed += 1;
            if self.has_ended(error?, failed) {
                return None;
            }
        }
    }

    fn recycle(&mut self, frame: HeapFrame) {
        self.spare.push(frame);
    }

    fn keep(&mut self, received: Received<HeapFrame>) -> Result<KeptPacket, Received<HeapFrame>> {
        let (packet, frame) = self.kept.keep(received);
        self.spare.extend(frame);
        Ok(packet)
    }

    fn is_gone(&mut self) -> bool {
        self.is_removed || self.read_error.get().is_some() || self.io.is_gone()
    }

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        lost.append(&mut self.done);
        lost.extend(self.waiting.drain(..));
        self.cutter.written = 0;
    }
}

impl<S: FrameIo> AsFd for FrameDevice<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

#[cfg(test)]
mod tests;
