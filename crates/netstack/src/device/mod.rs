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
use tautline_stack::HostConfig;

pub use frames::FrameStream;
#[cfg(unix)]
pub use frames::{FrameDescriptor, FrameSocket};
pub use messages::Messages;
pub use packets::Packets;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use tun::{Nic, Tun};

use crate::driver::{self, Driver};
use crate::settings::Settings;

/// A device that is polled by a task, and dropped by it: soon after its stack. The last packets are resets; if
/// the runtime is shut down before the stack is dropped, they are written without a task, once.
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
    use super::{Driver, HostConfig, Settings, StackHandle, io};

    pub trait Start: Sized {
        /// Agrees with the host on addresses, before it starts. Its MAC address is zero unless the
        /// application has chosen one.
        ///
        /// # Errors
        /// The kernel's.
        fn prepare(&mut self, _host: &mut HostConfig) -> io::Result<()> {
            Ok(())
        }

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
