//! `TCP_INFO` of a connection of the kernel's, by the netlink family that `ss` asks (sock_diag(7)).
//! Layouts: `linux/inet_diag.h` (`inet_diag_req_v2`, `inet_diag_msg`), `linux/tcp.h` (`tcp_info`).

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use super::TcpState;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const INET_DIAG_INFO: u16 = 2;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
/// Length of `nlmsghdr`.
const HEADER: usize = 16;
/// Length of `inet_diag_msg`.
const MESSAGE: usize = 72;

/// The state of the connection between `local` and `peer`; `v4` tells the family of its socket.
pub(super) fn state(local: SocketAddr, peer: SocketAddr, v4: bool) -> io::Result<TcpState> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    send(&socket, &request(local, peer, v4), SendFlags::empty())?;
    let mut answer = [0; 4096];
    let (_, len) = recv(&socket, &mut answer, RecvFlags::empty())?;
    parse(&answer[..len.min(answer.len())]).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn request(local: SocketAddr, peer: SocketAddr, v4: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + 56);
    bytes.extend((HEADER as u32 + 56).to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    bytes.extend([0; 8]); // sequence number, port
    let family = if v4 { AF_INET } else { AF_INET6 };
    bytes.extend([family, IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), 0]);
    bytes.extend(u32::MAX.to_ne_bytes()); // every state
    bytes.extend(local.port().to_be_bytes());
    bytes.extend(peer.port().to_be_bytes());
    for end in [local, peer] {
        match (end.ip(), v4) {
            (IpAddr::V4(ip), true) => {
                bytes.extend(ip.octets());
                bytes.extend([0; 12]);
            }
            (IpAddr::V4(ip), false) => bytes.extend(ip.to_ipv6_mapped().octets()),
            (IpAddr::V6(ip), _) => bytes.extend(ip.octets()),
        }
    }
    bytes.extend([0; 4]); // any interface
    bytes.extend([0xff; 8]); // no cookie
    bytes
}

/// The attribute with `tcp_info` of an answer.
fn parse(answer: &[u8]) -> Option<TcpState> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let mut rest = answer.get(HEADER + MESSAGE..)?;
    while kind == SOCK_DIAG_BY_FAMILY && rest.len() >= 4 {
        let len = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        let body = rest.get(4..len)?;
        if u16::from_ne_bytes([rest[2], rest[3]]) == INET_DIAG_INFO {
            return tcp_info(body);
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
    None
}

fn tcp_info(info: &[u8]) -> Option<TcpState> {
    let word = |at: usize| Some(u32::from_ne_bytes(info.get(at..at + 4)?.try_into().ok()?));
    let mss = word(16)?;
    Some(TcpState {
        mss,
        path_mtu: word(60)?,
        rtt: word(68)?,
        rttvar: word(72)?,
        cwnd: u64::from(word(80)?) * u64::from(mss),
        retransmits: word(100)?.into(),
        // Linux 5.4 has no `tcpi_snd_wnd`.
        peer_window: word(228).unwrap_or_default().into(),
    })
}
