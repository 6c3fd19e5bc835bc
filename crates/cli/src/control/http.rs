//! The HTTP/1.1 server (RFC 9112) of a middlebox, or of one end of a transfer: a live page, its state,
//! counters for Prometheus.
//!
//! | request | answer |
//! |---|---|
//! | `GET /metrics` | counters in Prometheus' text format |
//! | `GET /` | the live page |
//! | `GET /state` | the answer to `{"command":"show"}` |
//! | `POST /control` | carries out a request of the control socket |
//!
//! Anyone who reaches the port may read. Only clients on this machine and holders of the token may
//! change. A page of another site can do neither: requests with its `Origin` are refused, and so are
//! those with a `Host` that is neither an address nor `localhost`, which a rebound name would send.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::Arc;

use super::request::Request;
use super::{Client, metrics};
use crate::accept::accepted;
use crate::http::{HttpRequest, JSON, PLAIN, Reply, TurnedAway};

/// Connections at one time; more are turned away.
const CONNECTIONS: usize = 32;

/// The page loads nothing from elsewhere and is shown in no frame of another site.
const HEADERS: &str = "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n";

/// The pages and who may change what.
pub(super) struct Site {
    pub(super) client: Client,
    /// Allows changes from other machines.
    pub(super) token: Option<String>,
}

impl Site {
    /// Serves every connection on a thread of its own.
    pub(super) fn serve(self, listener: &TcpListener) {
        let (site, mut turned_away) = (Arc::new(self), TurnedAway::default());
        for mut stream in accepted(listener.incoming()) {
            if Arc::strong_count(&site) > CONNECTIONS {
                turned_away.add(stream);
                continue;
            }
            let site = Arc::clone(&site);
            std::thread::spawn(move || {
                // A client may hang up early.
                let _ = site.converse(&mut stream);
            });
        }
    }

    fn converse(&self, stream: &mut TcpStream) -> io::Result<()> {
        let peer = stream.peer_addr()?.ip();
        HttpRequest::read(stream)?
            .map_or_else(Reply::unintelligible, |request| self.answer(&request, peer))
            .write(stream, HEADERS)
    }

    fn answer(&self, request: &HttpRequest, peer: IpAddr) -> Reply {
        let (method, path) = (request.method.as_str(), request.path.as_str());
        if (method, path) == ("GET", "/metrics") {
            let body = metrics::text(&self.client.ask(Request::Show).ports);
            return Reply::new("200 OK", "text/plain; version=0.0.4", body);
        }
        let host = request.header("host").unwrap_or_default();
        if !is_address(host) {
            let why = "name this server by its address or as localhost\n";
            return Reply::new("421 Misdirected Request", PLAIN, why);
        }
        let origin = request.header("origin");
        if origin.is_some_and(|origin| origin != format!("http://{host}")) {
            return Reply::new("403 Forbidden", PLAIN, "another site's page asks\n");
        }
        match (method, path) {
            ("GET", "/") => {
                let page = include_str!("page.html");
                Reply::new("200 OK", "text/html; charset=utf-8", page)
            }
            ("GET", "/state") => self.carry_out(Request::Show),
            ("POST", "/control") if !self.may_change(request, peer) => {
                let why = "changes need a client on this machine, or the token\n";
                Reply::new("403 Forbidden", PLAIN, why)
            }
            // A form of another site cannot send this type.
            ("POST", "/control") if request.header("content-type") != Some(JSON) => {
                Reply::new("415 Unsupported Media Type", PLAIN, "send JSON\n")
            }
            ("POST", "/control") => serde_json::from_slice(&request.body).map_or_else(
                |error| Reply::new("400 Bad Request", PLAIN, error.to_string()),
                |request| self.carry_out(request),
            ),
            _ => Reply::new("404 Not Found", PLAIN, "see / and /metrics\n"),
        }
    }

    fn carry_out(&self, request: Request) -> Reply {
        let answer = self.client.ask(request);
        let status = if answer.error.is_none() {
            "200 OK"
        } else {
            "422 Unprocessable Content"
        };
        let body = serde_json::to_string(&answer).unwrap_or_default();
        Reply::new(status, JSON, body)
    }

    /// On loopback a proxy may forward requests of other hosts.
    fn may_change(&self, request: &HttpRequest, peer: IpAddr) -> bool {
        let forwarded = ["forwarded", "x-forwarded-for", "via"]
            .iter()
            .any(|name| request.header(name).is_some());
        let given = request
            .header("authorization")
            .and_then(|words| words.strip_prefix("Bearer "));
        let has_token = self.token.as_deref().zip(given);
        (peer.to_canonical().is_loopback() && !forwarded)
            || has_token.is_some_and(|(token, given)| same(token.as_bytes(), given.as_bytes()))
    }
}

/// Compares in a time that does not depend on where the two differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && differences == 0
}

/// Whether a `Host` names an address or `localhost`, with a port or without.
fn is_address(host: &str) -> bool {
    let name = host
        .rsplit_once(':')
        .filter(|(_, port)| port.parse::<u16>().is_ok())
        .map_or(host, |(name, _)| name);
    let bracketed = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<Ipv4Addr>().is_ok()
        || bracketed.is_some_and(|name| name.parse::<Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::SocketAddr;
    use std::time::Duration;

    use super::super::tests::{client, replace};
    use super::*;

    /// A request's status, from `peer`, with these lines after the first.
    fn status(first: &str, lines: &str, peer: &str) -> String {
        let (client, middlebox) = client();
        let site = Site {
            client,
            token: Some("secret".to_owned()),
        };
        let mut request = HttpRequest::parse(format!("{first} HTTP/1.1\r\n{lines}").as_bytes())
            .expect("well-formed");
        request.body = serde_json::to_vec(&replace()).expect("plain fields");
        let reply = site.answer(&request, peer.parse().expect("an address"));
        drop(site);
        middlebox.join().expect("no panic");
        reply.status[..3].to_owned()
    }

    const POST: &str = "POST /control";
    const HOST: &str = "Host: 127.0.0.1:9435\r\nContent-Type: application/json";

    #[test]
    fn changes_come_from_this_machine_or_with_the_token() {
        for (more, peer, expected) in [
            ("", "127.0.0.1", "200"),
            ("", "::1", "200"),
            ("", "::ffff:127.0.0.1", "200"),
            ("", "10.0.0.7", "403"),
            ("\r\nX-Forwarded-For: 10.0.0.7", "127.0.0.1", "403"),
            ("\r\nAuthorization: Bearer secret", "10.0.0.7", "200"),
            ("\r\nAuthorization: Bearer secreT", "10.0.0.7", "403"),
            ("\r\nAuthorization: Bearer secret2", "10.0.0.7", "403"),
            ("\r\nAuthorization: Bearer", "10.0.0.7", "403"),
        ] {
            let found = status(POST, &format!("{HOST}{more}"), peer);
            assert_eq!(found, expected, "{more} from {peer}");
        }
    }

    #[test]
    fn forged_hosts_and_other_origins_are_refused() {
        for (request, lines, expected) in [
            (POST, "Content-Type: application/json", "421"),
            (
                POST,
                "Host: evil.example\r\nContent-Type: application/json",
                "421",
            ),
            ("GET /state", "Host: 127.0.0.1.evil.example", "421"),
            ("GET /state", "Host: 127.0.0.1\r\nHost: evil.example", "421"),
            ("GET /", "Host: localhost:9435", "200"),
            ("GET /state", "Host: [::1]:9435", "200"),
            (
                "GET /state",
                "Host: [::1]:9435\r\nOrigin: http://evil.example",
                "403",
            ),
            (POST, "Host: 127.0.0.1\r\nContent-Type: text/plain", "415"),
            (
                POST,
                "Host: 127.0.0.1\r\nContent-Type: application/json\r\nOrigin: null",
                "403",
            ),
            (
                POST,
                "Host: 127.0.0.1:1\r\nContent-Type: application/json\r\nOrigin: http://127.0.0.1:2",
                "403",
            ),
            ("GET /metrics", "Host: box.example", "200"),
            ("GET /control", "Host: 127.0.0.1", "404"),
        ] {
            assert_eq!(
                status(request, lines, "127.0.0.1"),
                expected,
                "{request} {lines}"
            );
        }
    }

    /// A server on a port of its own.
    fn serving() -> SocketAddr {
        let (client, _middlebox) = client();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let site = Site {
            client,
            token: None,
        };
        std::thread::spawn(move || site.serve(&listener));
        address
    }

    /// The answer to a request for the page, which is sent once the server may have closed the connection.
    fn page(address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        std::thread::park_timeout(Duration::from_millis(50));
        let request = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
        stream.write_all(request).expect("taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer
    }

    #[test]
    fn a_connection_beyond_the_most_is_told_to_come_again() {
        let address = serving();
        let connect = |_| TcpStream::connect(address).expect("it listens");
        let mut silent: Vec<_> = (0..CONNECTIONS).map(connect).collect();
        for _ in 0..3 {
            let answer = page(address);
            assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
            assert!(answer.contains("\r\nRetry-After: 1\r\n"), "{answer}");
        }
        silent.pop();
        assert!((0..100).any(|_| page(address).starts_with("HTTP/1.1 200")));
    }

    #[test]
    fn a_connection_is_answered_and_garbage_is_refused() {
        let address = serving();
        for (request, expected) in [
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "HTTP/1.1 200"),
            ("\u{1}\u{2}\r\n\r\n", "HTTP/1.1 400"),
            (
                "POST /control HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
                "HTTP/1.1 400",
            ),
            (
                "POST /control HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
                "HTTP/1.1 400",
            ),
            ("GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200"),
        ] {
            let mut stream = TcpStream::connect(address).expect("it listens");
            stream.write_all(request.as_bytes()).expect("taken");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("text");
            assert!(answer.starts_with(expected), "{request}: {answer}");
        }
    }
}
