//! [`FrameDevice`]: a file descriptor that passes one Ethernet frame per read and write, as a [`Device`].

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

use tautline_base::{Device, Frame, HeapFrame, Instant, Packet, Received};

/// A non-blocking descriptor whose unit is one Ethernet frame.
pub trait FrameIo: AsFd {
    /// Writes one frame.
    fn write_frame(&self, frame: &[u8]) -> io::Result<usize>;

    /// Reads one frame.
    fn read_frame(&self, frame: &mut [u8]) -> io::Result<usize>;
}

/// Packets that may wait for the descriptor to take them.
const TRANSMIT_RING: usize = 256;

/// What a device counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames the kernel took.
    pub transmitted: u64,
    /// Frames the kernel refused for good, and which are lost.
    pub refused: u64,
    /// Frames received.
    pub received: u64,
}

/// A device that writes each packet at the doorbell; the write is its completion.
#[derive(Debug)]
pub struct FrameDevice<S> {
    io: S,
    mtu: usize,
    waiting: VecDeque<Packet<HeapFrame>>,
    done: Vec<Packet<HeapFrame>>,
    spare: Vec<HeapFrame>,
    counters: Counters,
}

impl<S: FrameIo> FrameDevice<S> {
    /// A device on `io` that carries IP packets of up to `mtu` bytes.
    pub(crate) fn new(io: S, mtu: usize) -> Self {
        let waiting = VecDeque::with_capacity(TRANSMIT_RING);
        Self { io, mtu, waiting, done: Vec::new(), spare: Vec::new(), counters: Counters::default() }
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Writes what waits, as far as the descriptor takes it.
    fn flush(&mut self) {
        while let Some(packet) = self.waiting.pop_front() {
            match self.io.write_frame(packet.bytes()) {
                Ok(_) => self.counters.transmitted += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.waiting.push_front(packet);
                    return;
                }
                // As a cable that is not plugged in: the packet is gone, TCP will notice.
                Err(_) => self.counters.refused += 1,
            }
            self.done.push(packet);
        }
    }
}

impl<S: FrameIo> Device for FrameDevice<S> {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn room(&self) -> usize {
        TRANSMIT_RING - self.waiting.len()
    }

    fn put(&mut self, packet: Packet<HeapFrame>, _now: Instant) {
        assert!(self.room() > 0, "put without room");
        self.waiting.push_back(packet);
    }

    fn doorbell(&mut self, _now: Instant) {
        self.flush();
    }

    fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        self.flush();
        done.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        self.waiting.len() + self.done.len()
    }

    fn receive(&mut self, _now: Instant) -> Option<Received<HeapFrame>> {
        let mut frame = self.spare.pop().unwrap_or_default();
        match self.io.read_frame(frame.bytes_mut()) {
            Ok(len) => {
                self.counters.received += 1;
                Some(Received { frame, start: 0, len: len as u32 })
            }
            Err(_) => {
                self.spare.push(frame);
                None
            }
        }
    }

    fn recycle(&mut self, frame: HeapFrame) {
        self.spare.push(frame);
    }

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        lost.append(&mut self.done);
        lost.extend(self.waiting.drain(..));
    }
}

impl<S: FrameIo> AsFd for FrameDevice<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}
