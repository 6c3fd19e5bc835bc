//! HTTP/1.1 (RFC 9112) as the servers of this program speak it: one request per connection, no chunks.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use tautline_rt::Clock;

/// Longest request.
const LONGEST: usize = 64 << 10;
/// Longest wait for a whole request, and for the client to take a part of the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Content type of JSON.
pub const JSON: &str = "application/json";
/// Content type of text.
pub const PLAIN: &str = "text/plain; charset=utf-8";

/// A request.
pub struct HttpRequest {
    /// Method, for example `GET`.
    pub method: String,
    /// Path with its query.
    pub path: String,
    /// By name in lower case; values of a repeated one joined (RFC 9110 §5.3), so that two hosts are
    /// no host.
    headers: BTreeMap<String, String>,
    /// The content.
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// The value of a header, whose name is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Reads one request; nothing if it is malformed, too long, or its body in chunks.
    ///
    /// # Errors
    /// As the stream.
    pub fn read(stream: &mut TcpStream) -> io::Result<Option<Self>> {
        let (clock, mut bytes) = (Clock::start(), Vec::new());
        let deadline = clock.now() + CLIENT_TIMEOUT;
        loop {
            let end = bytes.windows(4).position(|part| part == b"\r\n\r\n");
            if let Some(end) = end {
                let Some(mut request) = Self::parse(&bytes[..end]) else {
                    return Ok(None);
                };
                let length = request.header("content-length").unwrap_or("0").parse();
                let length: usize = length.unwrap_or(usize::MAX);
                if length > LONGEST || request.header("transfer-encoding").is_some() {
                    return Ok(None);
                }
                if let Some(body) = bytes[end + 4..].get(..length) {
                    request.body = body.to_vec();
                    return Ok(Some(request));
                }
            }
            let left = deadline - clock.now();
            if bytes.len() > 2 * LONGEST || left.is_zero() {
                return Ok(None);
            }
            stream.set_read_timeout(Some(left))?;
            let mut part = [0; 4096];
            match stream.read(&mut part)? {
                0 => return Ok(None),
                count => bytes.extend(&part[..count]),
            }
        }
    }

    /// Parses the lines before the empty one.
    pub fn parse(head: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        words
            .next()
            .filter(|version| version.starts_with("HTTP/1."))?;
        let mut headers = BTreeMap::<String, String>::new();
        for line in lines {
            let (name, value) = line.split_once(':')?;
            headers
                .entry(name.to_ascii_lowercase())
                .and_modify(|values| *values = format!("{values}, {}", value.trim()))
                .or_insert_with(|| value.trim().to_owned());
        }
        Some(Self {
            method,
            path,
            headers,
            body: Vec::new(),
        })
    }
}

/// Streams that were turned away and are kept open.
const TURNED_AWAY: usize = 32;

/// The clients beyond those that a server has at one time: they are asked to come again (RFC 9110
/// §15.6.4), without a thread.
#[derive(Default)]
pub struct TurnedAway(VecDeque<TcpStream>);

impl TurnedAway {
    /// Answers the client, whatever it requests. The stream stays open until others have come: a close with
    /// the request unread would reset the connection, and the client might lose the answer (RFC 9112 §9.6).
    pub fn add(&mut self, mut stream: TcpStream) {
        let busy = Reply::new("503 Service Unavailable", PLAIN, "too many connections\n");
        let answered = busy.write(&mut stream, "Retry-After: 1\r\n");
        if answered
            .and_then(|()| stream.shutdown(Shutdown::Write))
            .is_ok()
        {
            self.0.truncate(TURNED_AWAY - 1);
            self.0.push_front(stream);
        }
    }
}

/// The answer to a request.
pub struct Reply {
    /// Status code and reason.
    pub status: &'static str,
    /// Content type.
    pub kind: &'static str,
    /// The content.
    pub body: String,
}

impl Reply {
    /// An answer with content.
    pub fn new(status: &'static str, kind: &'static str, body: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            body: body.into(),
        }
    }

    /// The answer to a malformed request.
    pub fn unintelligible() -> Self {
        Self::new("400 Bad Request", PLAIN, "this is not understood\n")
    }

    /// Writes the answer with these further headers, each ending in CR LF.
    ///
    /// # Errors
    /// As the stream.
    pub fn write(&self, stream: &mut TcpStream, headers: &str) -> io::Result<()> {
        let Self { status, kind, body } = self;
        stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{headers}Connection: close\r\n\r\n{body}",
        )
    }
}
