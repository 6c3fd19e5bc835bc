//! A client of SOCKS 5 (RFC 1928) with user names and passwords (RFC 1929): connections and datagrams.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use tautline_stack::Rejection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::HttpProxy;

const VERSION: u8 = 5;
const NO_LOGIN: u8 = 0;
const PASSWORD: u8 = 2;
const CONNECT: u8 = 1;
const ASSOCIATE: u8 = 3;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// A server, and how to log in.
#[derive(Clone, Debug)]
pub struct Socks5 {
    server: SocketAddr,
    login: Option<(String, String)>,
}

/// Text that names no server. The message leaves out the login, which would end in logs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no proxy: write [socks5://|http://][name:password@]address:port, the address in digits"
)]
pub struct BadProxy(String);

impl BadProxy {
    pub(super) fn new(text: &str) -> Self {
        Self(match text.rsplit_once('@') {
            None => text.to_owned(),
            Some((login, server)) => match login.split_once("://") {
                Some((scheme, _)) => format!("{scheme}://…@{server}"),
                None => format!("…@{server}"),
            },
        })
    }
}

/// As in `socks5://name:password@192.0.2.1:1080`; all but address and port may be left out. Name and
/// password may be percent-encoded (RFC 3986 §2.1), as a colon in a name and `%` before two hex digits must be.
impl FromStr for Socks5 {
    type Err = BadProxy;

    fn from_str(text: &str) -> Result<Self, BadProxy> {
        let rest = text.strip_prefix("socks5://").unwrap_or(text);
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (login, server) = match rest.rsplit_once('@') {
            Some((login, server)) => (Some(login), server),
            None => (None, rest),
        };
        let bad = || BadProxy::new(text);
        let proxy = Self::new(server.parse().map_err(|_| bad())?);
        match login {
            None => Ok(proxy),
            Some(login) => {
                let (name, password) = login.split_once(':').ok_or_else(bad)?;
                // Other percent signs stay.
                let decoded = |text| percent_decode_str(text).decode_utf8().map_err(|_| bad());
                Ok(proxy.login(decoded(name)?, decoded(password)?))
            }
        }
    }
}

/// Why a request to a server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Socks5Error {
    /// The server cannot be reached, or went away.
    #[error("the proxy: {0}")]
    Io(#[from] io::Error),
    /// The server wants another way to log in, or refused the password.
    #[error("the proxy refused the login")]
    Login,
    /// The server's answer to the request: a number from RFC 1928 §6.
    #[error("the proxy refused: reply {0}")]
    Refused(u8),
    /// The answer is not SOCKS 5.
    #[error("the proxy's answer is not SOCKS 5")]
    Protocol,
}

impl Socks5Error {
    /// The same for the client of the tunnel: what it would see without a proxy.
    pub fn rejection(&self) -> Rejection {
        match self {
            Self::Refused(2) => Rejection::Prohibited,
            // Network unreachable, host unreachable, TTL expired.
            Self::Refused(3 | 4 | 6) => Rejection::HostUnreachable,
            _ => Rejection::Reset,
        }
    }
}

impl Socks5 {
    /// A server that needs no login.
    pub fn new(server: SocketAddr) -> Self {
        Self {
            server,
            login: None,
        }
    }

    /// Logs in by name and password, of at most 255 bytes each; the rest is cut off.
    #[must_use]
    pub fn login(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.login = Some((name.into(), password.into()));
        self
    }

    /// The same server and login for HTTP; `None` if there is a colon in the name (RFC 7617 §2).
    pub(super) fn into_http(self) -> Option<HttpProxy> {
        let proxy = HttpProxy::new(self.server);
        match self.login {
            Some((name, _)) if name.contains(':') => None,
            Some((name, password)) => Some(proxy.login(&name, &password)),
            None => Some(proxy),
        }
    }

    /// A connection to `to` by way of the server.
    ///
    /// # Errors
    /// [`Socks5Error`].
    pub async fn connect(&self, to: SocketAddr) -> Result<TcpStream, Socks5Error> {
        let mut stream = self.greet().await?;
        request(&mut stream, CONNECT, to).await?;
        Ok(stream)
    }

    /// A socket for datagrams by way of the server; it works while the stream is open.
    ///
    /// # Errors
    /// [`Socks5Error`].
    pub async fn associate(&self) -> Result<(TcpStream, UdpSocket), Socks5Error> {
        let mut stream = self.greet().await?;
        let mut relay = request(&mut stream, ASSOCIATE, any(self.server)).await?;
        if relay.ip().is_unspecified() {
            relay.set_ip(self.server.ip());
        }
        // A server with one socket for both families may write IPv4 as IPv6.
        relay.set_ip(relay.ip().to_canonical());
        let socket = UdpSocket::bind(any(relay)).await?;
        socket.connect(relay).await?;
        Ok((stream, socket))
    }

    /// A connection to the server, logged in.
    async fn greet(&self) -> Result<TcpStream, Socks5Error> {
        let mut stream = TcpStream::connect(self.server).await?;
        stream.set_nodelay(true)?;
        let method = if self.login.is_some() {
            PASSWORD
        } else {
            NO_LOGIN
        };
        stream.write_all(&[VERSION, 1, method]).await?;
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).await?;
        match answer {
            [VERSION, chosen] if chosen == method => {}
            [VERSION, _] => return Err(Socks5Error::Login),
            _ => return Err(Socks5Error::Protocol),
        }
        if let Some((name, password)) = &self.login {
            let mut message = vec![1];
            for part in [name, password] {
                let part = &part.as_bytes()[..part.len().min(255)];
                message.push(part.len() as u8);
                message.extend_from_slice(part);
            }
            stream.write_all(&message).await?;
            stream.read_exact(&mut answer).await?;
            if answer[1] != 0 {
                return Err(Socks5Error::Login);
            }
        }
        Ok(stream)
    }
}

/// Any address and port, of the family of `address`.
fn any(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// Sends a request; the address in the server's answer.
async fn request(
    stream: &mut TcpStream,
    command: u8,
    to: SocketAddr,
) -> Result<SocketAddr, Socks5Error> {
    let mut message = vec![VERSION, command, 0];
    push_address(&mut message, to);
    stream.write_all(&message).await?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    match head {
        [VERSION, 0, ..] => {}
        [VERSION, reply, ..] => return Err(Socks5Error::Refused(reply)),
        _ => return Err(Socks5Error::Protocol),
    }
    let ip: IpAddr = match head[3] {
        IPV4 => {
            let mut octets = [0; 4];
            stream.read_exact(&mut octets).await?;
            octets.into()
        }
        IPV6 => {
            let mut octets = [0; 16];
            stream.read_exact(&mut octets).await?;
            octets.into()
        }
        NAME => {
            let len = stream.read_u8().await?;
            stream.read_exact(&mut vec![0; len.into()]).await?;
            Ipv4Addr::UNSPECIFIED.into()
        }
        _ => return Err(Socks5Error::Protocol),
    };
    Ok(SocketAddr::new(ip, stream.read_u16().await?))
}

/// Longest header of a datagram to the relay: that of IPv6.
pub(super) const LONGEST_HEADER: usize = 22;

/// Appends an address as the protocol writes it.
fn push_address(message: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            message.push(IPV4);
            message.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            message.push(IPV6);
            message.extend_from_slice(&ip.octets());
        }
    }
    message.extend_from_slice(&address.port().to_be_bytes());
}

/// The datagram that asks the relay to send `data` to `to` (RFC 1928 §7).
pub(super) fn wrap(message: &mut Vec<u8>, to: SocketAddr, data: &[u8]) {
    message.clear();
    message.extend_from_slice(&[0; 3]);
    push_address(message, to);
    message.extend_from_slice(data);
}

/// Sender and data of a datagram from the relay. Fragments are dropped, as the RFC allows, and so are
/// senders that are only named.
pub(super) fn unwrap(message: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let [_, _, 0, kind, rest @ ..] = message else {
        return None;
    };
    let (ip, rest): (IpAddr, _) = match *kind {
        IPV4 => {
            let (octets, rest) = rest.split_first_chunk::<4>()?;
            ((*octets).into(), rest)
        }
        IPV6 => {
            let (octets, rest) = rest.split_first_chunk::<16>()?;
            ((*octets).into(), rest)
        }
        _ => return None,
    };
    let (port, data) = rest.split_first_chunk()?;
    Some((SocketAddr::new(ip, u16::from_be_bytes(*port)), data))
}

#[cfg(test)]
mod tests {
    use super::super::Proxy;
    use super::*;

    #[test]
    fn a_server_is_named_with_or_without_a_login() {
        let proxy: Socks5 = "socks5://name:pass@word@[::1]:1080/"
            .parse()
            .expect("a server");
        assert_eq!(proxy.server.port(), 1080);
        assert_eq!(proxy.login, Some(("name".into(), "pass@word".into())));
        for (text, name, password) in [
            ("user%40x:p%3Aw", "user@x", "p:w"),
            ("n%c3%a9:%25%2f%20", "n\u{e9}", "%/ "),
            ("n:100%:50%5:%+1%g0", "n", "100%:50%5:%+1%g0"),
            ("%3a:", ":", ""),
        ] {
            let proxy: Socks5 = format!("socks5://{text}@127.0.0.1:1")
                .parse()
                .expect("fine");
            assert_eq!(proxy.login, Some((name.into(), password.into())), "{text}");
        }
        for (text, shown) in [
            ("", ""),
            ("127.0.0.1", "127.0.0.1"),
            ("name@127.0.0.1:1", "…@127.0.0.1:1"),
            ("http://127.0.0.1:1", "http://127.0.0.1:1"),
            ("name:secret@host:1", "…@host:1"),
            ("name:%ff@127.0.0.1:1", "…@127.0.0.1:1"),
            ("socks5://name:secret@host:1", "socks5://…@host:1"),
        ] {
            let refused = text.parse::<Socks5>().expect_err("no server");
            assert_eq!(refused, BadProxy(shown.to_owned()));
        }
    }

    #[test]
    fn a_scheme_names_the_protocol_and_a_proxy_keeps_its_login() {
        let proxy = "http://name:word@127.0.0.1:3128".parse().expect("a server");
        let server = SocketAddr::from(([127, 0, 0, 1], 3128));
        let expected = HttpProxy::new(server).login("name", "word");
        assert!(matches!(proxy, Proxy::Http(proxy) if proxy == expected));
        assert!(matches!("127.0.0.1:1".parse(), Ok(Proxy::Socks5(_))));
        let colon = "http://na%3Ame:word@127.0.0.1:3128".parse::<Proxy>();
        let refused = colon.expect_err("HTTP has no such name");
        assert_eq!(refused, BadProxy("http://…@127.0.0.1:3128".to_owned()));
    }

    #[test]
    fn a_datagram_comes_out_of_its_wrapping() {
        for to in ["192.0.2.1:53", "[2001:db8::1]:53"] {
            let to: SocketAddr = to.parse().expect("an address");
            let mut message = vec![9; 9];
            wrap(&mut message, to, b"data");
            assert_eq!(unwrap(&message), Some((to, &b"data"[..])));
            for len in 0..message.len() - 4 {
                assert_eq!(unwrap(&message[..len]), None, "{len} bytes");
            }
            message[2] = 1;
            assert_eq!(unwrap(&message), None, "a fragment");
        }
    }

    #[tokio::test]
    async fn the_relay_may_be_named_in_another_family_than_the_server() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port");
        let proxy = Socks5::new(listener.local_addr().expect("bound"));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 13];
                stream.write_all(&[VERSION, NO_LOGIN]).await.expect("open");
                stream.read_exact(&mut request).await.expect("open");
                let mut answer = vec![VERSION, 0, 0];
                answer.push(IPV6);
                answer.extend(Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets());
                answer.extend(1080_u16.to_be_bytes());
                stream.write_all(&answer).await.expect("open");
            }
        });
        let (_control, socket) = proxy.associate().await.expect("a relay");
        let relay = socket.peer_addr().expect("connected");
        assert_eq!(relay, (Ipv4Addr::LOCALHOST, 1080).into());
    }
}
