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
    /// The type of the host's qdisc is fixed at compile time, and its report unknown.
    #[error("the qdisc of this host can be neither shown nor replaced: drive it with `ByWords`")]
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
            Self::Closed(why) => why.kind(),
            Self::Connect(why) => why.kind(),
            Self::Listen(why) => why.kind(),
            Self::Bind(why) => why.kind(),
            Self::Send(why) => why.kind(),
            Self::Path(why) => why.kind(),
            Self::Broken(_) | Self::ShutDown => ErrorKind::BrokenPipe,
            Self::NotOpen => ErrorKind::NotConnected,
            Self::FixedQdisc => ErrorKind::Unsupported,
            Self::BadQdisc => ErrorKind::InvalidInput,
            Self::StuckQdisc(_) => ErrorKind::ResourceBusy,
            Self::HostGone => ErrorKind::ConnectionAborted,
        }
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        Self::new(failure.kind(), failure)
    }
}
