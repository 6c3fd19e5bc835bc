//! [`SinkConfig`]: reads everything on a TCP port and counts it.

use std::sync::Arc;

use tautline_stack::{Recv, TcpConfig};

use super::service::{Handler, StreamService};
use super::{Applications, Flow, When};
use crate::config_error::ConfigError;

/// Receives TCP streams, or [messages](super::MessagesConfig) on them. Delays of messages from
/// other machines are meaningful only with a synchronized clock.
#[derive(Clone, Debug)]
pub struct SinkConfig {
    /// Name of the flow. Streams to be distinguished need ports of their own.
    pub flow: Flow,
    /// The TCP port.
    pub port: u16,
    /// When it listens. Accepted connections continue afterwards. Default always.
    pub when: When,
    /// Configuration of TCP. Default: the stack's.
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
    /// Adds a sink of TCP streams.
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
        let read: Handler<()> = |(), cx, socket| Ok(cx.recv_all(socket)? == Recv::EndOfStream);
        self.add(flow, when, StreamService::new(port, tcp, read))
    }
}
