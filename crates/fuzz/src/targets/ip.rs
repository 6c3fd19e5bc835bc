//! IPv4 fragments and options, IPv6 extension headers and fragments, ICMP of both families, and
//! neighbor discovery, with automatic configuration on or off: nearly right packets in any order, with time between them.

use std::net::Ipv6Addr;
use std::time::Duration;

use arbitrary::Arbitrary;
use tautline_testkit::Ip;

use crate::frame::{HOST, HOST_MAC, PEER, PEER_MAC};
use crate::link::LinkMessage;
use crate::rig::{Call, HOST_V6, Rig, Settings};
use crate::steps::Steps;

const PEER_V6: Ipv6Addr = Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, 2);
/// Protocol numbers: ICMP, ICMPv6, TCP, UDP.
const PROTOCOLS: [u8; 4] = [1, 58, 6, 17];
/// Extension headers: hop-by-hop, destination options, routing, authentication, fragment, none.
const EXTENSIONS: [u8; 6] = [0, 60, 43, 51, 44, 59];

/// A case.
#[derive(Arbitrary, Debug)]
pub struct Input {
    settings: Settings,
    automatic: bool,
    steps: Steps<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Fragment {
        identification: u8,
        /// In units of eight bytes.
        offset: u16,
        more: bool,
        protocol: u8,
        options: Vec<u8>,
        payload: Vec<u8>,
    },
    Extended {
        headers: Vec<(u8, Vec<u8>)>,
        protocol: u8,
        payload: Vec<u8>,
    },
    /// An ICMP message with a right checksum; it may quote a packet of ours.
    Icmp {
        ipv6: bool,
        kind: u8,
        code: u8,
        word: u32,
        quote: Option<(u32, u8)>,
        payload: Vec<u8>,
    },
    Link(LinkMessage),
    Call(Call),
    Seconds(u8),
    Milliseconds(u16),
}

/// Runs one case.
pub fn run(input: Input) {
    let mut rig = if input.automatic {
        Rig::automatic(&input.settings)
    } else {
        Rig::new(&input.settings, false)
    };
    for step in input.steps.0.iter().take(200) {
        match step {
            Step::Call(call) => rig.call(*call),
            Step::Seconds(time) => rig.wait(Duration::from_secs((*time).into())),
            Step::Milliseconds(time) => rig.wait(Duration::from_millis((*time).into())),
            packet => {
                let frame = frame_of(packet, &rig);
                rig.deliver(&frame);
            }
        }
    }
    rig.finish();
}

fn frame_of(step: &Step, rig: &Rig) -> Vec<u8> {
    match step {
        Step::Fragment {
            identification,
            offset,
            more,
            protocol,
            options,
            payload,
        } => {
            let field = u32::from(offset & 0x1fff | u16::from(*more) << 13);
            let mut options = options[..options.len().min(40)].to_vec();
            options.resize(options.len().next_multiple_of(4), 0);
            let ip = Ip {
                fragment: u32::from(*identification) << 16 | field,
                options,
                ..Ip::new(PEER, HOST, protocol_of(*protocol))
            };
            ip.frame(HOST_MAC, PEER_MAC, payload)
        }
        Step::Extended {
            headers,
            protocol,
            payload,
        } => extended(headers, *protocol, payload),
        Step::Icmp {
            ipv6,
            kind,
            code,
            word,
            quote,
            payload,
        } => {
            let quoted = quote.map(|(seq, len)| quoted(rig, *ipv6, seq, len));
            let body = quoted.as_deref().unwrap_or(payload);
            icmp(*ipv6, [*kind, *code], *word, body)
        }
        Step::Link(message) => message.frame(&rig.tentative()),
        Step::Call(_) | Step::Seconds(_) | Step::Milliseconds(_) => {
            unreachable!("these are no packets")
        }
    }
}

fn protocol_of(number: u8) -> u8 {
    PROTOCOLS
        .get(usize::from(number % 8))
        .copied()
        .unwrap_or(number)
}

/// An IPv6 packet with a chain of extension headers.
fn extended(headers: &[(u8, Vec<u8>)], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let headers = &headers[..headers.len().min(8)];
    let kinds: Vec<u8> = headers
        .iter()
        .map(|(kind, _)| {
            EXTENSIONS
                .get(usize::from(kind % 8))
                .copied()
                .unwrap_or(*kind)
        })
        .chain([protocol_of(protocol)])
        .collect();
    let mut body = Vec::new();
    for (at, (_, content)) in headers.iter().enumerate() {
        let mut header = vec![kinds[at + 1], 0];
        header.extend(&content[..content.len().min(64)]);
        header.resize(header.len().next_multiple_of(8), 0);
        header[1] = (header.len() / 8 - 1) as u8;
        body.extend(header);
    }
    body.extend(payload);
    let ip = Ip::new(PEER_V6, HOST_V6, kinds[0]);
    ip.frame(HOST_MAC, PEER_MAC, &body)
}

/// The start of a packet of ours, as an ICMP error quotes it.
fn quoted(rig: &Rig, ipv6: bool, seq_off: u32, len: u8) -> Vec<u8> {
    let mut tcp = Vec::new();
    tcp.extend(rig.flow.host_port.to_be_bytes());
    tcp.extend(rig.flow.peer_port.to_be_bytes());
    let seq = rig.flow.host_next.wrapping_sub(seq_off % 4096);
    tcp.extend(seq.to_be_bytes());
    tcp.extend([0; 12]);
    tcp.truncate(usize::from(len) % 24);
    let ip = if ipv6 {
        Ip::new(HOST_V6, PEER_V6, 6)
    } else {
        Ip::new(HOST, PEER, 6)
    };
    ip.packet_of(&tcp)
}

fn icmp(ipv6: bool, head: [u8; 2], word: u32, body: &[u8]) -> Vec<u8> {
    let mut message = head.to_vec();
    message.extend([0, 0]);
    message.extend(word.to_be_bytes());
    message.extend(body);
    let ip = if ipv6 {
        Ip::new(PEER_V6, HOST_V6, 58)
    } else {
        Ip::new(PEER, HOST, 1)
    };
    // Neighbor discovery is valid with this hop limit only.
    let ip = Ip {
        hop_limit: 255,
        ..ip
    };
    ip.frame(HOST_MAC, PEER_MAC, &message)
}
