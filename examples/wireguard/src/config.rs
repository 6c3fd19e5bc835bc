//! [`Config`]: a file in the format of `wg-quick(8)` with one peer.

use std::error::Error;
use std::fs;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use boringtun::x25519::{PublicKey, StaticSecret};
use tautline_netstack::Cidr;

/// MTU of a tunnel over paths of 1500 bytes with IPv6 outside (`wg-quick(8)`).
const MTU: usize = 1420;

/// Both ends of a tunnel.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) private_key: StaticSecret,
    pub(crate) address: Cidr,
    /// UDP port; 0 for any.
    pub(crate) listen_port: u16,
    /// Longest IP packet inside the tunnel, in bytes.
    pub(crate) mtu: usize,
    pub(crate) peer_key: PublicKey,
    pub(crate) preshared_key: Option<[u8; 32]>,
    /// `None`: the sender of the first packet with a valid key.
    pub(crate) endpoint: Option<SocketAddr>,
    /// Inner source addresses that the peer may use.
    pub(crate) allowed_ips: Vec<Cidr>,
    /// Seconds.
    pub(crate) keepalive: Option<u16>,
}

type Problem = Box<dyn Error>;

/// A key in base64.
///
/// # Errors
/// If it is not one of 32 bytes.
pub(crate) fn key(text: &str) -> Result<[u8; 32], Problem> {
    let bytes = BASE64_STANDARD.decode(text).ok();
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| "a key is 32 bytes in base64, as `genkey` prints it".into())
}

fn endpoint(text: &str) -> Result<SocketAddr, Problem> {
    let mut found = text.to_socket_addrs()?;
    found
        .next()
        .ok_or_else(|| format!("{text} has no address").into())
}

fn cidr(text: &str) -> Result<Cidr, Problem> {
    let text = text.trim();
    let length = if text.contains(':') { 128 } else { 32 };
    match text.parse::<IpAddr>() {
        Ok(address) => Ok(Cidr::new(address, length)),
        Err(_) => Ok(text.parse()?),
    }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, a line is not understood, or a key or the address is missing.
    pub(crate) fn read(path: &str) -> Result<Self, Problem> {
        let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        Self::parse(&text).map_err(|error| format!("{path}: {error}").into())
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        let (mut private_key, mut address, mut peer_key) = (None, None, None);
        let (mut listen_port, mut mtu, mut preshared_key) = (0, MTU, None);
        let (mut peer, mut allowed_ips, mut keepalive) = (None, Vec::new(), None);
        let mut peers = 0;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() || line == "[Interface]" {
                continue;
            }
            if line == "[Peer]" {
                peers += 1;
                continue;
            }
            let mut set = || -> Result<(), Problem> {
                let (name, value) = line.split_once('=').ok_or("not NAME = VALUE")?;
                let value = value.trim();
                match name.trim() {
                    "PrivateKey" => private_key = Some(StaticSecret::from(key(value)?)),
                    "Address" => address = Some(cidr(value)?),
                    "ListenPort" => listen_port = value.parse()?,
                    "MTU" => mtu = value.parse()?,
                    "PublicKey" => peer_key = Some(PublicKey::from(key(value)?)),
                    "PresharedKey" => preshared_key = Some(key(value)?),
                    "Endpoint" => peer = Some(endpoint(value)?),
                    "AllowedIPs" => {
                        allowed_ips = value.split(',').map(cidr).collect::<Result<_, _>>()?;
                    }
                    "PersistentKeepalive" => keepalive = Some(value.parse()?),
                    other => return Err(format!("{other} is not supported").into()),
                }
                Ok(())
            };
            set().map_err(|error| format!("line {number}: {error}"))?;
        }
        if peers > 1 {
            return Err("there are several peers, and one is supported".into());
        }
        Ok(Self {
            private_key: private_key.ok_or("PrivateKey is missing")?,
            address: address.ok_or("Address is missing")?,
            listen_port,
            mtu,
            peer_key: peer_key.ok_or("PublicKey of the peer is missing")?,
            preshared_key,
            endpoint: peer,
            allowed_ips,
            keepalive,
        })
    }
}
