//! [`WebServerConfig`]: serves objects of any requested size over persistent connections.

use std::sync::Arc;

use tautline_base::{Bytes, SocketId};
use tautline_stack::{Recv, TcpConfig};

use super::applications::CHUNK;
use super::framing::{HEADER, Reader};
use super::service::StreamService;
use super::{AppError, Applications, Context, Flow, When};
use crate::config_error::ConfigError;

/// Serves [clients](super::WebConfig). A request holds its own length and the size of the object;
/// the response is that many bytes. The size is not limited: for trusted networks only.
#[derive(Clone, Debug)]
pub struct WebServerConfig {
    /// Name of the flow.
    pub flow: Flow,
    /// The TCP port.
    pub port: u16,
    /// When it listens. Accepted connections continue afterwards. Default always.
    pub when: When,
    /// Configuration of TCP. Default: the stack's, without Nagle's algorithm, as web servers use
    /// it.
    pub tcp: Arc<TcpConfig>,
}

impl WebServerConfig {
    /// A server on `port`.
    pub fn new(flow: impl Into<Flow>, port: u16) -> Self {
        let tcp = TcpConfig {
            nagle: false,
            ..TcpConfig::default()
        }
        .into();
        Self {
            flow: flow.into(),
            port,
            when: When::default(),
            tcp,
        }
    }
}

impl Applications<'_> {
    /// Adds a web server.
    ///
    /// # Errors
    /// If there are too many applications.
    pub fn web_server(&mut self, config: WebServerConfig) -> Result<&mut Self, ConfigError> {
        let WebServerConfig {
            flow,
            port,
            when,
            tcp,
        } = config;
        self.add(flow, when, StreamService::new(port, tcp, Visit::serve))
    }
}

/// Writes a request of `length` bytes, at least 16, for an object of `size`.
pub(super) fn write_request(request: &mut Vec<u8>, size: Bytes, length: usize) {
    request.clear();
    request.extend(size.get().to_be_bytes());
    request.extend((length as u64).to_be_bytes());
    request.resize(length.max(HEADER), 0);
}

/// One connection.
#[derive(Debug, Default)]
struct Visit {
    requests: Reader,
    /// Bytes requested and not sent.
    owed: u64,
    /// The client has closed its half.
    last: bool,
}

impl Visit {
    /// Parses bytes of requests in order.
    fn read(&mut self, data: &[u8]) -> Result<(), AppError> {
        let owed = &mut self.owed;
        self.requests.read(data, |[a, b, c, d, e, f, g, h, ..]| {
            *owed = owed.saturating_add(u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]));
        })
    }

    /// Reads requests, and sends as much of the objects as the host accepts.
    fn serve(&mut self, cx: &mut Context<'_>, socket: SocketId) -> Result<bool, AppError> {
        while !self.last {
            match cx.recv(socket)? {
                Recv::Data(count) => self.read(&cx.buffer[..count])?,
                Recv::Empty => break,
                Recv::EndOfStream => self.last = true,
            }
        }
        while self.owed > 0 {
            let taken = cx.send_zeros(socket, self.owed.min(CHUNK as u64) as usize)?;
            if taken == 0 {
                break;
            }
            self.owed -= taken as u64;
        }
        Ok(self.last && self.owed == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_however_the_stream_is_cut() {
        let (mut stream, mut request) = (Vec::new(), Vec::new());
        for (size, length) in [(1_000, 16), (0, 400), (u64::MAX, 17), (5, 20)] {
            write_request(&mut request, Bytes::new(size), length);
            assert_eq!(request.len(), length);
            stream.extend(&request);
        }
        for cut in [1, 15, 16, 17, 1000] {
            let mut visit = Visit::default();
            let mut owed = Vec::new();
            for part in stream.chunks(cut) {
                visit.read(part).expect("requests");
                owed.push(visit.owed);
            }
            assert_eq!(visit.owed, u64::MAX, "saturated");
            assert!(owed.is_sorted());
        }
        assert!(Visit::default().read(&[0; 16]).is_err());
    }
}
