//! [`WebConfig`]: parameters of a web client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tautline_base::Bytes;
use tautline_stack::TcpConfig;

use super::Page;
use crate::app::{Flow, When};

/// Fetches a page repeatedly from a [server](super::super::WebServerConfig).
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// Name of the flow.
    pub flow: Flow,
    /// The server.
    pub remote: SocketAddr,
    /// When it fetches. A fetch in progress at the end is aborted. Default from the beginning,
    /// forever.
    pub when: When,
    /// The page: at least one object, each of at least 1 byte.
    pub page: Page,
    /// Maximum number of connections, from 1. Default 6 (browsers with HTTP/1.1).
    pub connections: usize,
    /// Bytes of a request, from 16. Default 400.
    pub request: Bytes,
    /// Time from the end of one fetch to the next. Default 1 s.
    pub pause: Duration,
    /// Number of fetches. Default unlimited.
    pub count: Option<u64>,
    /// Timeout of a fetch, which is then aborted and counted as lost, above 0. Default 60 s.
    pub timeout: Duration,
    /// Name server, a [responder](super::super::ResponderConfig), that each fetch queries first.
    /// Default none.
    pub look_up: Option<SocketAddr>,
    /// Configuration of TCP. Default: the stack's, without Nagle's algorithm, as browsers use it.
    pub tcp: Arc<TcpConfig>,
}

impl WebConfig {
    /// Fetches the small page of paper 003 from `remote`.
    pub fn new(flow: impl Into<Flow>, remote: SocketAddr) -> Self {
        Self {
            flow: flow.into(),
            remote,
            when: When::default(),
            page: Page::small(),
            connections: 6,
            request: Bytes::new(400),
            pause: Duration::from_secs(1),
            count: None,
            timeout: Duration::from_secs(60),
            look_up: None,
            tcp: TcpConfig {
                nagle: false,
                ..TcpConfig::default()
            }
            .into(),
        }
    }
}
