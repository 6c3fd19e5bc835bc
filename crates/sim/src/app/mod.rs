//! [`App`] and [`Program`]: what runs on a host; [`Programs`], any number of applications on one.
//!
//! They use nothing but the host's public calls, so they drive a host on any device.
//!
//! | module | holds |
//! |---|---|
//! | [`programs`] | [`Programs`]: applications of one host, each with its events and its time |
//! | [`application`] | [`Application`] and its [`Scene`]: what one of them is told and may do |
//! | [`calls`] | [`HostCalls`]: what a host does for applications, whatever it runs on |
//! | [`meter`] | [`Meter`]: what applications measured, flow by flow |
//! | [`upload`], [`sink`] | a TCP stream and its end |
//! | [`ping`] | ICMP echo |
//! | [`datagrams`] | UDP at a constant rate or on and off, and its end |
//! | [`requests`] | UDP questions and answers |
//! | [`messages`] | TCP messages at intervals, and their end |
//! | [`web`], [`web_server`] | pages of many objects |
//! | [`traffic`] | when messages are due |
//! | `service` | who waits on a port, TCP or UDP |
//! | `framing` | messages on a stream |
//! | `outstanding` | which requests have no reply yet |
//! | [`bulk`] | [`BulkSender`], [`BulkReceiver`]: one given stream |
//! | `slab` | what an application keeps of each of its connections |
//! | `owners` | whose socket it is |

pub mod application;
pub mod bulk;
pub mod calls;
pub mod datagrams;
mod framing;
pub mod messages;
pub mod meter;
mod outstanding;
mod owners;
pub mod ping;
pub mod programs;
pub mod requests;
mod service;
pub mod sink;
mod slab;
pub mod traffic;
pub mod upload;
pub mod web;
pub mod web_server;

use std::io;
use std::sync::Arc;

use tautline_base::Instant;
use tautline_stack::{
    BindError, CloseReason, ConnectError, Event, ListenError, PathError, PingError, SendError,
    SocketError,
};

pub use application::{Application, Scene, When};
pub use bulk::{BulkReceiver, BulkSender};
pub use calls::HostCalls;
pub use datagrams::{DatagramSinkConfig, DatagramsConfig};
pub use messages::MessagesConfig;
pub use meter::{Failure, Flow, Measured, Meter, Sample};
pub use ping::PingConfig;
pub use programs::Programs;
pub use requests::{Pace, RequestsConfig, ResponderConfig};
pub use sink::SinkConfig;
pub use traffic::{OnOff, Period, Traffic};
pub use upload::{Ending, UploadConfig};
pub use web::{Page, WebConfig};
pub use web_server::WebServerConfig;

/// What a program does to its host `H`.
pub trait App<H>: Program {
    /// The simulation begins.
    fn start(&mut self, host: &mut H, now: Instant);

    /// The host has told of `event`.
    fn on_event(&mut self, host: &mut H, event: Event, now: Instant);

    /// It is time for what [`call_at`](Program::call_at) announced.
    fn on_call(&mut self, _host: &mut H, _now: Instant) {}
}

/// How far a program is.
pub trait Program {
    /// When it wants to be called without an event.
    fn call_at(&self) -> Option<Instant> {
        None
    }

    /// True when the program has done what it was for.
    fn is_done(&self) -> bool;

    /// Why it cannot do it any more.
    fn failure(&self) -> Option<&AppError>;
}

/// What ended a program early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// The connection could not be begun.
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
    /// The datagram port could not be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A datagram was refused.
    #[error(transparent)]
    Send(#[from] SendError),
    /// An echo request was refused.
    #[error(transparent)]
    Ping(#[from] PingError),
    /// The way there is closed, so somebody on it says.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The peer does not speak as this application expects.
    #[error("the peer does not keep to the protocol: {0}")]
    Protocol(&'static str),
    /// One of several applications failed.
    #[error("{flow}: {why}")]
    Of {
        /// Whose flow it was.
        flow: Flow,
        /// What ended it.
        why: Arc<Self>,
    },
    /// The data to send could not be read.
    #[error("cannot read the data to send: {0}")]
    Source(#[from] io::Error),
}
