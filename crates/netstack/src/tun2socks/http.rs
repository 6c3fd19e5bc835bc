//! A client of HTTP proxies: the method CONNECT (RFC 9110 §9.3.6) with basic authentication (RFC
//! 7617).

use std::io;
use std::net::SocketAddr;

use tautline_stack::Rejection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest header of an answer in bytes.
const LONGEST: usize = 8 << 10;

/// An HTTP proxy and its credentials. It forwards connections, not datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpProxy {
    server: SocketAddr,
    /// Name, colon and password.
    login: Option<String>,
}

/// Why a request to a server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The server cannot be reached, or went away.
    #[error("the proxy: {0}")]
    Io(#[from] io::Error),
    /// The status code of the server's answer.
    #[error("the proxy refused: status {0}")]
    Refused(u16),
    /// The answer is not HTTP/1.
    #[error("the proxy's answer is not HTTP/1")]
    Protocol,
}

impl HttpError {
    /// The answer to the client of the tunnel, as it would be without a proxy.
    pub fn rejection(&self) -> Rejection {
        match self {
            Self::Refused(403) => Rejection::Prohibited,
            Self::Refused(504) => Rejection::HostUnreachable,
            _ => Rejection::Reset,
        }
    }
}

impl HttpProxy {
    /// A proxy without credentials.
    pub fn new(server: SocketAddr) -> Self {
        Self {
            server,
            login: None,
        }
    }

    /// Sets the credentials; `name` has no colon.
    #[must_use]
    pub fn login(mut self, name: &str, password: &str) -> Self {
        self.login = Some(format!("{name}:{password}"));
        self
    }

    /// A connection to `to` by way of the server.
    ///
    /// # Errors
    /// [`HttpError`].
    pub async fn connect(&self, to: SocketAddr) -> Result<TcpStream, HttpError> {
        let mut stream = TcpStream::connect(self.server).await?;
        stream.set_nodelay(true)?;
        let login = self.login.as_ref().map_or(String::new(), |login| {
            let login = base64(login.as_bytes());
            format!("Proxy-Authorization: Basic {login}\r\n")
        });
        let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{login}\r\n");
        stream.write_all(request.as_bytes()).await?;
        loop {
            let header = header(&mut stream).await?;
            match status(&header).ok_or(HttpError::Protocol)? {
                // Any number of interim answers may precede the final one (RFC 9110 §15.2).
                100..200 => {}
                200..300 => return Ok(stream),
                refused => return Err(HttpError::Refused(refused)),
            }
        }
    }
}

/// The header of an answer. Read byte by byte: what follows is the destination's.
async fn header(stream: &mut TcpStream) -> Result<Vec<u8>, HttpError> {
    let mut header = Vec::new();
    while !header.ends_with(b"\r\n\r\n") {
        if header.len() == LONGEST {
            return Err(HttpError::Protocol);
        }
        header.push(stream.read_u8().await?);
    }
    Ok(header)
}

/// The status code in the header of an answer.
fn status(header: &[u8]) -> Option<u16> {
    let rest = header.strip_prefix(b"HTTP/1.")?;
    let code = rest.get(2..5).filter(|_| rest[1] == b' ')?;
    std::str::from_utf8(code).ok()?.parse().ok()
}

/// `bytes` in base 64 (RFC 4648 §4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |group: &[u8]| {
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        let digits = group.len() + 1;
        [18, 12, 6, 0]
            .into_iter()
            .enumerate()
            .map(move |(index, shift)| {
                let digit = DIGITS[(bits >> shift & 63) as usize];
                char::from(if index < digits { digit } else { b'=' })
            })
    };
    bytes.chunks(3).flat_map(group).collect()
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn base_64_is_padded_as_in_the_examples_of_rfc_4648() {
        for (text, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(text.as_bytes()), encoded);
        }
    }

    /// Connects by way of a server that gives this answer.
    async fn connect(answer: &'static str) -> Result<TcpStream, HttpError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let proxy = HttpProxy::new(listener.local_addr()?).login("name", "word");
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            let expected = "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n\
                            Proxy-Authorization: Basic bmFtZTp3b3Jk\r\n\r\n";
            let mut request = vec![0; expected.len()];
            stream.read_exact(&mut request).await?;
            assert_eq!(request, expected.as_bytes());
            stream.write_all(answer.as_bytes()).await
        });
        proxy
            .connect(SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 443)))
            .await
    }

    #[tokio::test]
    async fn the_destinations_bytes_follow_the_header_and_refusals_keep_their_meaning() {
        for answer in [
            "HTTP/1.1 200 Connected\r\nVia: x\r\n\r\ndata",
            "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\ndata",
        ] {
            let mut stream = connect(answer).await.expect("accepted");
            let mut data = String::new();
            stream.read_to_string(&mut data).await.expect("open");
            assert_eq!(data, "data", "{answer}");
        }
        for (answer, rejection) in [
            ("HTTP/1.1 403 No\r\n\r\n", Rejection::Prohibited),
            ("HTTP/1.0 504 Late\r\n\r\n", Rejection::HostUnreachable),
            ("HTTP/1.1 407 Login\r\n\r\n", Rejection::Reset),
            ("SSH-2.0\r\n\r\n", Rejection::Reset),
            ("HTTP/1.\r\n\r\n", Rejection::Reset),
            ("", Rejection::Reset),
        ] {
            let refused = connect(answer).await.expect_err("refused");
            assert_eq!(refused.rejection(), rejection, "{answer}");
        }
    }
}
