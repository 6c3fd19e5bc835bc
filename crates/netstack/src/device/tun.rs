//! [`Tun`]: a TUN interface.

use std::io;
use std::os::fd::OwnedFd;

use tautline_rt::{ByWords, HostThread, Idle, StackHandle, TunFd};
#[cfg(target_os = "linux")]
use tautline_rt::{Tap, TapError};

use super::sealed;
use crate::driver::{self, Driver};
use crate::settings::Settings;

/// A TUN interface. Its stack has a thread of its own.
pub struct Tun(Kind);

enum Kind {
    #[cfg(target_os = "linux")]
    Named(Tap),
    Descriptor(TunFd),
}

impl Tun {
    /// Attaches to the TUN interface `interface`, or makes one that lives as long as the stack;
    /// packets stand for many segments both ways. Whether it is up, and what address the kernel's end
    /// has, is the caller's business (`ip link set`, `ip address add`).
    ///
    /// # Errors
    /// [`TapError`], each with its remedy.
    #[cfg(target_os = "linux")]
    pub fn open(interface: &str) -> Result<Self, TapError> {
        Tap::open_tun(interface, true).map(|tun| Self(Kind::Named(tun)))
    }

    /// Like [`open`](Self::open), with single segments only.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[cfg(target_os = "linux")]
    pub fn open_without_offload(interface: &str) -> Result<Self, TapError> {
        Tap::open_tun(interface, false).map(|tun| Self(Kind::Named(tun)))
    }

    /// A TUN interface that the caller has opened with `IFF_NO_PI` and without `IFF_VNET_HDR`, as
    /// Android's `VpnService` does; packets have up to `mtu` bytes.
    ///
    /// # Errors
    /// If the descriptor cannot be made non-blocking.
    pub fn of_descriptor(descriptor: OwnedFd, mtu: usize) -> io::Result<Self> {
        Ok(Self(Kind::Descriptor(TunFd::of_descriptor(
            descriptor, mtu,
        )?)))
    }
}

impl sealed::Start for Tun {
    fn start(self, settings: Settings) -> io::Result<(StackHandle, Driver)> {
        let (config, idle) = (settings.sockets.clone(), Idle::Sleep);
        let (thread, handle) = match self.0 {
            #[cfg(target_os = "linux")]
            Kind::Named(tun) => {
                let make = move || Ok(driver::host(tun, settings));
                HostThread::spawn_with(config, idle, ByWords, make)?
            }
            Kind::Descriptor(tun) => {
                let make = move || Ok(driver::host(tun, settings));
                HostThread::spawn_with(config, idle, ByWords, make)?
            }
        };
        Ok((handle, Driver::Thread(Some(thread))))
    }
}
