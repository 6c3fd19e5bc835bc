//! Applications: one trait, [`Application`], one set of them per host, [`Applications`], and the
//! ready-made ones.
//!
//! An application uses only the socket calls of a host, so it runs on any device, simulated or not.

pub mod application;
pub mod applications;
pub mod bulk;
pub mod datagrams;
mod framing;
pub mod messages;
pub mod meter;
mod outstanding;
mod owners;
pub mod ping;
pub mod requests;
mod service;
pub mod sink;
mod slab;
pub mod sockets;
pub mod traffic;
pub mod upload;
pub mod web;
pub mod web_server;

use std::io;
use std::sync::Arc;

use tautline_stack::{
    BindError, CloseReason, ConnectError, ListenError, PathError, PingError, SendError, SocketError,
};

pub use application::{Application, Context, When};
pub use applications::Applications;
pub use bulk::{BulkReceiver, BulkSender};
pub use datagrams::{DatagramSinkConfig, DatagramsConfig};
pub use messages::MessagesConfig;
pub use meter::{Failure, Flow, Measured, Meter, Sample, TcpCounts};
pub use ping::PingConfig;
pub use requests::{Pace, RequestsConfig, ResponderConfig};
pub use sink::SinkConfig;
pub use sockets::SocketApi;
pub use traffic::{OnOff, Period, Traffic};
pub use upload::{Ending, UploadConfig};
pub use web::{Page, WebConfig};
pub use web_server::WebServerConfig;

/// Why an application ended early, or an operation of it failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// The connection could not be opened.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The port could not be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A socket call was refused.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The connection ended before the stream did.
    #[error("the connection ended early: {0}")]
    Closed(CloseReason),
    /// The UDP port could not be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A datagram was refused.
    #[error(transparent)]
    Send(#[from] SendError),
    /// An echo request was refused.
    #[error(transparent)]
    Ping(#[from] PingError),
    /// The destination is unreachable.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The peer violated the protocol of this application.
    #[error("the peer does not keep to the protocol: {0}")]
    Protocol(&'static str),
    /// One of several applications failed.
    #[error("{flow}: {why}")]
    Of {
        /// The application's flow.
        flow: Flow,
        /// Its error.
        why: Arc<Self>,
    },
    /// The data to send could not be read.
    #[error("cannot read the data to send: {0}")]
    Source(#[from] io::Error),
}
