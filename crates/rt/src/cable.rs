//! [`cable`]: two devices joined in memory, for hosts on separate threads of one process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;

use crate::frame_device::{FrameDevice, FrameIo};

/// One end of a cable, which delivers in order. Packets wait in the ring of the sending end while
/// the far end is slow, and are lost once it is gone.
pub type Cable = FrameDevice<End>;

/// A socket that keeps frames apart.
#[derive(Debug)]
pub struct End(UnixDatagram);

/// Both ends of a new cable, for IP packets of up to 1500 bytes.
///
/// # Errors
/// If the process has no file descriptors left.
pub fn cable() -> io::Result<[Cable; 2]> {
    const MTU: usize = 1500;
    let (left, right) = UnixDatagram::pair()?;
    for end in [&left, &right] {
        end.set_nonblocking(true)?;
    }
    Ok([left, right].map(|end| FrameDevice::new(End(end), MTU)))
}

impl FrameIo for End {
    fn write_frame(&self, frame: &[u8]) -> io::Result<usize> {
        self.0.send(frame)
    }

    fn read_frame(&self, frame: &mut [u8]) -> io::Result<usize> {
        self.0.recv(frame)
    }
}

impl AsFd for End {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
