//! [`TunFd`]: a TUN interface as a descriptor opened by the caller, as Android's
//! `VpnService` hands it to an app.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tautline_base::Medium;

use crate::frame_device::{FrameDevice, FrameIo};

/// A TUN interface as a device, one packet per read and write.
pub type TunFd = FrameDevice<TunFdIo>;

/// The descriptor of a TUN interface without packet information (`IFF_NO_PI`) and without virtio
/// headers.
#[derive(Debug)]
pub struct TunFdIo(OwnedFd);

impl TunFd {
    /// A device on `descriptor`, which becomes non-blocking, for packets of up to `mtu` bytes.
    ///
    /// # Errors
    /// If the descriptor cannot be made non-blocking.
    pub fn of_descriptor(descriptor: OwnedFd, mtu: usize) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&descriptor, true)?;
        Ok(Self::new(TunFdIo(descriptor), mtu))
    }
}

impl FrameIo for TunFdIo {
    fn medium(&self) -> Medium {
        Medium::Ip
    }

    fn write_frame(&self, frame: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.0, frame)?)
    }

    fn read_frame(&self, frame: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.0, frame)?)
    }
}

impl AsFd for TunFdIo {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
