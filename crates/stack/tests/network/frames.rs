//! Frames, read and written here from the RFCs, without the code under test.

use std::net::{IpAddr, Ipv6Addr};

use tautline_testkit::Ip;

pub(crate) fn is_ipv6(frame: &[u8]) -> bool {
    frame[12..14] == [0x86, 0xdd]
}

/// Length of the IP packet in an untagged frame.
pub(crate) fn packet_len(frame: &[u8]) -> usize {
    frame.len() - 14
}

/// The TCP payload's length in an untagged frame without extension headers; `None` if it is not
/// TCP.
pub(crate) fn payload_len(frame: &[u8]) -> Option<usize> {
    let (protocol, header) = if is_ipv6(frame) {
        (frame[20], 40)
    } else {
        (frame[23], 20)
    };
    let tcp = frame.get(14 + header..)?;
    (protocol == 6 && frame[12..14] != [8, 6]).then(|| tcp.len() - usize::from(tcp[12] >> 4) * 4)
}

/// A router's word that the packet in `frame` was longer than `mtu`: from `router`, as it would
/// come back to the sender.
pub(crate) fn too_big(frame: &[u8], router: IpAddr, mtu: u32) -> Vec<u8> {
    let ethernet = [&frame[6..12], &frame[..6], &frame[12..14]].concat();
    let quoted = &frame[14..frame.len().min(14 + 68)];
    match router {
        IpAddr::V4(router) => {
            let to: [u8; 4] = frame[26..30].try_into().expect("an IPv4 header");
            let icmp = [&[3, 4, 0, 0, 0, 0][..], &(mtu as u16).to_be_bytes(), quoted].concat();
            [ethernet, Ip::new(router, to, 1).packet(&icmp)].concat()
        }
        IpAddr::V6(router) => {
            let to: [u8; 16] = frame[22..38].try_into().expect("an IPv6 header");
            let body = [&mtu.to_be_bytes()[..], quoted].concat();
            [
                &ethernet[..12],
                &icmpv6(router, Ipv6Addr::from(to), 64, (2, 0), &body),
            ]
            .concat()
        }
    }
}

/// An ICMPv6 message from `from` to `to`, from the Ethertype on.
pub(crate) fn icmpv6(
    from: Ipv6Addr,
    to: Ipv6Addr,
    hop_limit: u8,
    (kind, code): (u8, u8),
    body: &[u8],
) -> Vec<u8> {
    let ip = Ip {
        hop_limit,
        ..Ip::new(from, to, 58)
    };
    let icmp = [&[kind, code, 0, 0][..], body].concat();
    [&[0x86, 0xdd][..], &ip.packet(&icmp)].concat()
}
