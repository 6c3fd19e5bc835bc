//! Address, MTU and queues of an interface.
//!
//! Queried through a socket: `/sys` shows the network namespace in which it was mounted, possibly
//! another one.

use std::ffi::CString;
use std::io;

use rustix::io::Errno;

use crate::config::Bind;
use crate::error::OpenError;
use crate::sys;
use crate::umem::{CHUNKED_MTU, COPY_MTU, ZERO_COPY_MTU};

/// The MAC address of `name`, an interface in the network namespace of the calling thread.
///
/// # Errors
/// The kernel's error: `ENODEV` if there is no such interface.
pub fn interface_mac(name: &str) -> io::Result<[u8; 6]> {
    Ok(sys::interface_mac(&c_name(name)?)?)
}

/// The MTU of `name` in bytes, without the link header.
///
/// # Errors
/// The kernel's error: `ENODEV` if there is no such interface.
pub fn interface_mtu(name: &str) -> io::Result<usize> {
    Ok(sys::interface_mtu(&c_name(name)?)?)
}

/// The number of receive queues of `name`; one if the driver does not report it. A device serves one
/// queue; the kernel keeps the packets of queues without a device, so serve all queues or reduce
/// their number (`ethtool -L`).
///
/// # Errors
/// The kernel's error: `ENODEV` if there is no such interface.
pub fn interface_queues(name: &str) -> io::Result<u32> {
    match sys::interface_queues(&c_name(name)?) {
        Err(Errno::OPNOTSUPP) => Ok(1),
        answer => Ok(answer?),
    }
}

/// How a device carries the packets of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carriage {
    /// MTU of the interface.
    pub(crate) mtu: usize,
    /// MTU that a frame holds, no less.
    pub(crate) held: usize,
    /// The largest MTU of packets of one chunk, and the mode that limits it.
    limit: usize,
    mode: &'static str,
    /// Packets may be longer than one chunk.
    pub(crate) spans_chunks: bool,
}

impl Carriage {
    fn new(mtu: usize, bind: Bind, least: usize) -> Self {
        let (limit, mode) = match bind {
            Bind::ZeroCopy => (ZERO_COPY_MTU, "zero copy of its driver"),
            Bind::Auto | Bind::Copy => (COPY_MTU, "AF_XDP of this kernel and driver"),
        };
        let held = mtu.max(least);
        Self {
            mtu,
            held,
            limit,
            mode,
            spans_chunks: held > limit,
        }
    }

    /// The error of an interface that cannot carry packets of several chunks.
    pub(crate) fn refused(self, interface: &str) -> OpenError {
        OpenError::FrameTooSmall {
            interface: interface.to_owned(),
            mtu: self.mtu,
            limit: self.limit,
            mode: self.mode,
        }
    }
}

/// How packets of the MTU of `name`, or of `least` bytes if that is more, are carried in the mode that
/// `bind` requests.
pub(crate) fn fitting_mtu(name: &str, bind: Bind, least: usize) -> Result<Carriage, OpenError> {
    let interface = || name.to_owned();
    match interface_mtu(name) {
        Ok(mtu) if mtu <= CHUNKED_MTU => Ok(Carriage::new(mtu, bind, least)),
        Ok(mtu) => Err(OpenError::FrameTooSmall {
            interface: interface(),
            mtu,
            limit: CHUNKED_MTU,
            mode: "AF_XDP",
        }),
        Err(_) => Err(OpenError::NoSuchInterface {
            interface: interface(),
        }),
    }
}

/// The number of receive queues of `name`, one if unknown, for messages.
pub(crate) fn queues_or_one(name: &str) -> u32 {
    interface_queues(name).unwrap_or(1)
}

/// True if `name` is up and has a carrier; false if it does not exist.
pub(crate) fn is_running(name: &str) -> bool {
    c_name(name).is_ok_and(|name| sys::interface_is_running(&name) == Ok(true))
}

/// The sizes of the rings of `name` (`ethtool -g`), if the driver reports them.
pub(crate) fn ring_sizes(name: &str) -> Option<[u32; 4]> {
    sys::ring_sizes(&c_name(name).ok()?).ok()
}

/// The interface index of `name`.
pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    Ok(sys::interface_index(&c_name(name)?)?)
}

/// Longest interface name, without its terminating zero.
const LONGEST_NAME: usize = libc::IFNAMSIZ - 1;

/// Converts an interface name; an invalid one gives `ENODEV`, as in the kernel.
fn c_name(name: &str) -> io::Result<CString> {
    let no_device = || io::Error::from_raw_os_error(libc::ENODEV);
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Err(no_device());
    }
    CString::new(name).map_err(|_| no_device())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_names_are_missing_interfaces() {
        for name in [
            "",
            "a\0b",
            "longer-than-an-interface-name-may-be",
            "tl-no-such-if",
        ] {
            let error = interface_mtu(name).expect_err("no such interface");
            assert_eq!(error.raw_os_error(), Some(libc::ENODEV), "{name:?}");
        }
    }

    #[test]
    fn the_loopback_has_an_mtu_and_a_mac() {
        assert!(interface_mtu("lo").unwrap() >= 1500);
        assert_eq!(interface_mac("lo").unwrap(), [0; 6]);
        assert_eq!(interface_queues("lo").unwrap(), 1);
    }
}
