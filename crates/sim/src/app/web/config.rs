//! [`WebConfig`]: which page is fetched, from where, how often.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tautline_base::Bytes;
use tautline_stack::TcpConfig;

use super::Page;
use crate::app::{Flow, When};

/// Fetches a page from a [server](super::super::WebServerConfig), again and again.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// Its name.
    pub flow: Flow,
    /// The server.
    pub remote: SocketAddr,
    /// When it fetches. What is under way at the end is given up. Default from the beginning,
    /// without end.
    pub when: When,
    /// The page: at least one object, each of at least 1 byte.
    pub page: Page,
    /// Most connections at a time, from 1. Default 6 (what browsers open to a server with
    /// HTTP/1.1).
    pub connections: usize,
    /// Bytes of a request, from 16. Default 400.
    pub request: Bytes,
    /// Time from the end of one fetch to the next. Default 1 s.
    pub pause: Duration,
    /// How many fetches; default without end.
    pub count: Option<u64>,
    /// A fetch that takes longer is given up and counted as lost, above 0. Default 60 s.
    pub timeout: Duration,
    /// Who is asked for the server's address first, each time: a
    /// [responder](super::super::ResponderConfig). Default nobody.
    pub look_up: Option<SocketAddr>,
    /// Its TCP. Default: the stack's, but without Nagle's algorithm, as browsers have it.
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
