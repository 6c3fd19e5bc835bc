//! [`SinkConfig`]: reads whatever comes on a TCP port, and counts it.

use std::sync::Arc;

use tautline_stack::{Recv, TcpConfig};

use super::service::{Attend, StreamService};
use super::{Applications, Flow, When};
use crate::config_error::ConfigError;

/// The end of TCP streams, or of [messages](super::MessagesConfig) on them. For the delays of
/// messages to mean anything, senders on other machines need the same clock.
#[derive(Clone, Debug)]
pub struct SinkConfig {
    /// The name of what arrives. Streams that are told apart have ports of their own.
    pub flow: Flow,
    /// Where it listens.
    pub port: u16,
    /// When it listens; what it has accepted goes on. Default always.
    pub when: When,
    /// Its TCP. Default: the stack's.
    pub tcp: Arc<TcpConfig>,
}

impl SinkConfig {
    /// A sink on `port`.
    pub fn new(flow: impl Into<Flow>, port: u16) -> Self {
        Self {
            flow: flow.into(),
            port,
            when: When::default(),
            tcp: Arc::default(),
        }
    }
}

impl Applications<'_> {
    /// Also reads what comes on a port.
    ///
    /// # Errors
    /// If there are too many applications.
    pub fn sink(&mut self, config: SinkConfig) -> Result<&mut Self, ConfigError> {
        let SinkConfig {
            flow,
            port,
            when,
            tcp,
        } = config;
        let read: Attend<()> = |(), cx, socket| Ok(cx.recv_all(socket)? == Recv::EndOfStream);
        self.add(flow, when, StreamService::new(port, tcp, read))
    }
}
