//! The protocol between `tautline netperf` and `tautline netserver`.
//!
//! On the control connection messages of JSON follow a length of four bytes: the client's
//! [`Request`], the server's [`Ready`] with the port for data, and, once the client has shut the data
//! connection (or says [`Done`]), the server's [`Remote`] results.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Port of netperf's servers.
pub(super) const PORT: u16 = 12865;

/// Kinds of test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub(super) enum Test {
    /// The client sends
    #[value(name = "TCP_STREAM")]
    Stream,
    /// The server sends
    #[value(name = "TCP_MAERTS")]
    Maerts,
    /// Requests and responses over a connection
    #[value(name = "TCP_RR")]
    TcpRr,
    /// Requests and responses in datagrams
    #[value(name = "UDP_RR")]
    UdpRr,
}

impl Test {
    pub(super) fn is_udp(self) -> bool {
        self == Self::UdpRr
    }

    pub(super) fn is_stream(self) -> bool {
        matches!(self, Self::Stream | Self::Maerts)
    }
}

/// Parameters of a test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) test: Test,
    /// Type of service of the server's packets.
    pub(super) tos: u8,
    pub(super) congestion: Option<String>,
    pub(super) nodelay: bool,
    /// Bytes of the client's writes.
    pub(super) send_size: u32,
    /// Bytes of the server's.
    pub(super) remote_size: u32,
    /// Bytes of a request.
    pub(super) request: u32,
    /// Bytes of a response.
    pub(super) response: u32,
}

/// The server waits for data, or says why not.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Ready {
    Port(u16),
    Refused(String),
}

/// The client has finished.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Done;

/// The server's end of the test.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Remote {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) congestion: String,
    pub(super) retransmits: u64,
}
