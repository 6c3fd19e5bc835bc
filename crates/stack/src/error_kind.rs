//! The kinds of error of the standard library's sockets, so that handles over a host can return
//! [`std::io::Error`] as those do.

use std::io::ErrorKind;

use crate::socket::{CloseReason, ConnectError, ListenError, PathError};
use crate::udp::{BindError, SendError};

impl CloseReason {
    /// The kind with which reads and writes of the standard library's sockets fail for it.
    pub const fn kind(self) -> ErrorKind {
        match self {
            Self::Refused => ErrorKind::ConnectionRefused,
            Self::Reset => ErrorKind::ConnectionReset,
            Self::TimedOut => ErrorKind::TimedOut,
            // As Linux for ICMP's code 13 (`icmp_err_convert`).
            Self::Unreachable | Self::Prohibited => ErrorKind::HostUnreachable,
            Self::AddressLost => ErrorKind::AddrNotAvailable,
            Self::Aborted | Self::Local | Self::OutOfMemory => ErrorKind::ConnectionAborted,
            Self::Finished => ErrorKind::BrokenPipe,
        }
    }
}

impl ConnectError {
    /// The kind with which `connect` of the standard library fails for it.
    pub const fn kind(self) -> ErrorKind {
        match self {
            Self::NoRoute(_) => ErrorKind::NetworkUnreachable,
            Self::NoPort(_) | Self::NotOurs(_) => ErrorKind::AddrNotAvailable,
            Self::InUse(..) => ErrorKind::AddrInUse,
            Self::BadAddress(_) => ErrorKind::InvalidInput,
        }
    }
}

impl ListenError {
    /// The kind with which `bind` of the standard library's listeners fails for it.
    pub const fn kind(self) -> ErrorKind {
        match self {
            Self::PortZero => ErrorKind::InvalidInput,
            Self::InUse(_) => ErrorKind::AddrInUse,
            Self::NotOurs(_) => ErrorKind::AddrNotAvailable,
        }
    }
}

impl BindError {
    /// The kind with which `bind` of the standard library's datagram sockets fails for it.
    pub const fn kind(self) -> ErrorKind {
        match self {
            Self::InUse(_) => ErrorKind::AddrInUse,
            Self::NotOurs(_) | Self::NoPort => ErrorKind::AddrNotAvailable,
        }
    }
}

impl SendError {
    /// The kind with which `send_to` of the standard library fails for it.
    pub const fn kind(self) -> ErrorKind {
        match self {
            Self::NoSuchSocket | Self::NotConnected => ErrorKind::NotConnected,
            Self::Full => ErrorKind::WouldBlock,
            Self::TooLong { .. } | Self::BadAddress(_) | Self::BadSource(_) => {
                ErrorKind::InvalidInput
            }
            Self::Broadcast(_) => ErrorKind::PermissionDenied,
            Self::NoRoute(_) => ErrorKind::NetworkUnreachable,
            Self::Path(why) => why.kind(),
        }
    }
}

impl PathError {
    /// The kind with which the standard library's datagram sockets report it.
    pub const fn kind(self) -> ErrorKind {
        match self {
            Self::PortUnreachable => ErrorKind::ConnectionRefused,
            Self::TooBig { .. } => ErrorKind::InvalidInput,
            Self::HostUnreachable | Self::Prohibited | Self::TimeExceeded | Self::Parameter => {
                ErrorKind::HostUnreachable
            }
        }
    }
}
