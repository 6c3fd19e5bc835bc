//! [`Failure`]: the reasons why a socket call fails.

use std::io::{self, ErrorKind};

use tautline_stack::socket::PathError;
use tautline_stack::{BindError, CloseReason, ConnectError, ListenError, SendError, Stuck};

/// Why a call failed. It is inside every `io::Error` of this module: `error.downcast::<Failure>()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The connection is over.
    #[error(transparent)]
    Closed(CloseReason),
    /// The host refused to connect.
    #[error(transparent)]
    Connect(ConnectError),
    /// The host refused to listen.
    #[error(transparent)]
    Listen(ListenError),
    /// The host refused to bind a datagram socket.
    #[error(transparent)]
    Bind(BindError),
    /// The host refused to send a datagram.
    #[error(transparent)]
    Send(SendError),
    /// An earlier datagram did not arrive.
    #[error(transparent)]
    Path(PathError),
    /// The connection failed, and an earlier call has returned the reason; or the peer, which had closed its
    /// end, has refused data.
    #[error("the connection cannot be written to: {0}")]
    Broken(CloseReason),
    /// The host has freed the connection.
    #[error("the connection is over; the host has freed it")]
    NotOpen,
    /// The type of the host's qdisc is fixed at compile time.
    #[error("the qdisc of this host cannot be replaced: drive it with `ByWords`")]
    FixedQdisc,
    /// The parameters of the qdisc contradict each other.
    #[error("invalid qdisc: its parameters contradict each other")]
    BadQdisc,
    /// The current qdisc does not release its packets.
    #[error(transparent)]
    StuckQdisc(Stuck),
    /// This end has shut down its sending half.
    #[error("the sending half was shut down; nothing more can be written")]
    ShutDown,
    /// The event loop of the host has ended.
    #[error("the event loop of the host has ended, and its connections with it")]
    HostGone,
}

impl Failure {
    /// The kind that the standard library's sockets use for the same thing.
    pub fn kind(self) -> ErrorKind {
        match self {
            Self::Closed(CloseReason::Refused) => ErrorKind::ConnectionRefused,
            Self::Closed(CloseReason::Reset) => ErrorKind::ConnectionReset,
            Self::Closed(CloseReason::TimedOut) => ErrorKind::TimedOut,
            Self::Closed(CloseReason::Unreachable) => ErrorKind::HostUnreachable,
            Self::Closed(CloseReason::AddressLost) => ErrorKind::AddrNotAvailable,
            Self::Closed(CloseReason::Aborted | CloseReason::Local | CloseReason::OutOfMemory)
            | Self::HostGone => ErrorKind::ConnectionAborted,
            Self::Closed(CloseReason::Finished) | Self::Broken(_) | Self::ShutDown => {
                ErrorKind::BrokenPipe
            }
            Self::FixedQdisc => ErrorKind::Unsupported,
            Self::BadQdisc => ErrorKind::InvalidInput,
            Self::StuckQdisc(_) => ErrorKind::ResourceBusy,
            Self::NotOpen => ErrorKind::NotConnected,
            Self::Connect(ConnectError::NoRoute(_)) => ErrorKind::NetworkUnreachable,
            Self::Connect(ConnectError::NoPort(_) | ConnectError::NotOurs(_)) => {
                ErrorKind::AddrNotAvailable
            }
            Self::Connect(ConnectError::InUse(..)) => ErrorKind::AddrInUse,
            Self::Connect(ConnectError::BadAddress(_)) | Self::Listen(ListenError::PortZero) => {
                ErrorKind::InvalidInput
            }
            Self::Listen(ListenError::InUse(_)) | Self::Bind(BindError::InUse(_)) => {
                ErrorKind::AddrInUse
            }
            Self::Listen(ListenError::NotOurs(_))
            | Self::Bind(BindError::NotOurs(_) | BindError::NoPort) => ErrorKind::AddrNotAvailable,
            Self::Send(SendError::NoSuchSocket | SendError::NotConnected) => {
                ErrorKind::NotConnected
            }
            Self::Send(SendError::Full) => ErrorKind::WouldBlock,
            Self::Send(
                SendError::TooLong { .. } | SendError::BadAddress(_) | SendError::BadSource(_),
            ) => ErrorKind::InvalidInput,
            Self::Send(SendError::Broadcast(_)) => ErrorKind::PermissionDenied,
            Self::Send(SendError::NoRoute(_)) => ErrorKind::NetworkUnreachable,
            Self::Send(SendError::Path(why)) | Self::Path(why) => match why {
                PathError::PortUnreachable => ErrorKind::ConnectionRefused,
                PathError::TooBig { .. } => ErrorKind::InvalidInput,
                _ => ErrorKind::HostUnreachable,
            },
        }
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        Self::new(failure.kind(), failure)
    }
}
