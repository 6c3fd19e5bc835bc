//! Devices: where a stack's packets come from and go to.

mod frames;
mod messages;
mod packets;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod tun;

use std::io;
use std::task::{Context, Poll};

use tautline_base::Medium;
use tautline_rt::StackHandle;

pub use frames::FrameStream;
#[cfg(unix)]
pub use frames::{FrameDescriptor, FrameSocket};
pub use messages::Messages;
pub use packets::Packets;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use tun::{Nic, Tun};

use crate::driver::{self, Driver};
use crate::settings::Settings;

/// A device that is polled by a task.
pub trait PacketIo: Send + Unpin + 'static {
    /// The kind of its frames.
    fn medium(&self) -> Medium {
        Medium::Ip
    }

    /// Longest IP packet in bytes.
    fn mtu(&self) -> usize;

    /// Reads one frame into `out`. 0 bytes mean that the device has ended.
    ///
    /// # Errors
    /// Any error ends the stack.
    fn poll_recv(&mut self, context: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes one frame, whole.
    ///
    /// # Errors
    /// The frame is lost.
    fn poll_send(&mut self, context: &mut Context<'_>, frame: &[u8]) -> Poll<io::Result<()>>;

    /// Writes what [`poll_send`](Self::poll_send) has buffered.
    ///
    /// # Errors
    /// Any error ends the stack.
    fn poll_flush(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Starts a stack on a device, as a task of tokio or, for a [`Tun`] that wants it, on a thread of its
/// own.
pub trait Device: sealed::Start {}

impl<S: sealed::Start> Device for S {}

pub(crate) mod sealed {
    use super::{Driver, Settings, StackHandle, io};

    pub trait Start {
        /// Runs a stack with these settings.
        ///
        /// # Errors
        /// If the process has no thread or descriptor left, or there is no runtime.
        fn start(self, settings: Settings) -> io::Result<(StackHandle, Driver)>;
    }
}

impl<I: PacketIo> sealed::Start for I {
    fn start(self, settings: Settings) -> io::Result<(StackHandle, Driver)> {
        driver::spawn(self, settings)
    }
}
