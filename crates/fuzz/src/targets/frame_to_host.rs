//! Any bytes, and frames that are nearly right at each layer, in any order and with any timing.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::frame::{self, Framed, HOST, HOST_MAC, PEER, PEER_MAC, Tcp};
use crate::rig::{Call, Rig, Settings};
use crate::segment::Segment;
use crate::steps::Steps;
use arbitrary::Arbitrary;

/// A case.
#[derive(Arbitrary, Debug)]
pub struct Input {
    settings: Settings,
    steps: Steps<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Bytes(Vec<u8>),
    Ethernet {
        broadcast: bool,
        kind: u16,
        payload: Vec<u8>,
    },
    Arp {
        answer: bool,
        multicast: bool,
        sender: u8,
        target: u8,
    },
    Ipv4 {
        protocol: u8,
        payload: Vec<u8>,
    },
    Echo {
        kind: u8,
        len: u16,
    },
    Segment {
        segment: Segment,
        flaw: Flaw,
    },
    /// A segment that belongs to no connection yet.
    Opening {
        source: u8,
        port: u16,
        seq: u32,
        ack: u32,
        flags: u8,
        options: Vec<u8>,
        listening: bool,
    },
    Call(Call),
    Milliseconds(u16),
    Hold(bool),
}

/// A flaw of a frame.
#[derive(Arbitrary, Debug)]
enum Flaw {
    None,
    Cut(u16),
    Longer(u8),
    Flip {
        at: u16,
        bits: u8,
    },
    /// A flaw in the IP header that its checksum covers.
    Ip {
        at: u8,
        bits: u8,
    },
}

impl Flaw {
    fn apply(&self, mut frame: Vec<u8>) -> Vec<u8> {
        match self {
            Self::None => {}
            Self::Cut(len) => frame.truncate(usize::from(*len)),
            Self::Longer(by) => frame.extend((0..*by).rev()),
            Self::Flip { at, bits } => {
                let at = usize::from(*at) % frame.len();
                frame[at] ^= bits;
            }
            Self::Ip { at, bits } => {
                frame[14 + usize::from(*at) % 20] ^= bits;
                reseal(&mut frame);
            }
        }
        frame
    }
}

/// Makes the IP checksum right.
fn reseal(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let sum = frame::checksum(&[&frame[14..34]]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// Runs one case.
pub fn run(input: Input) {
    let mut rig = Rig::new(&input.settings, false);
    for step in input.steps.0.iter().take(200) {
        match step {
            Step::Call(call) => rig.call(*call),
            Step::Milliseconds(time) => rig.wait(Duration::from_millis((*time).into())),
            Step::Hold(hold) => rig.hold(*hold),
            other => {
                let frame = frame_of(other, &rig);
                rig.deliver(&frame);
            }
        }
    }
    rig.finish();
}

fn frame_of(step: &Step, rig: &Rig) -> Vec<u8> {
    let neighbor = |host: u8| Ipv4Addr::new(10, 7, 0, host);
    match step {
        Step::Bytes(bytes) => bytes.clone(),
        Step::Ethernet {
            broadcast,
            kind,
            payload,
        } => frame::ethernet(
            if *broadcast { [0xff; 6] } else { HOST_MAC },
            *kind,
            payload,
        ),
        Step::Arp {
            answer,
            multicast,
            sender,
            target,
        } => {
            let mac = [PEER_MAC[0] | u8::from(*multicast), 0, 0, 0, 0, *sender];
            frame::arp(
                1 + u16::from(*answer),
                mac,
                neighbor(*sender),
                neighbor(*target),
            )
        }
        Step::Ipv4 { protocol, payload } => frame::ipv4(*protocol, payload),
        Step::Echo { kind, len } => {
            let mut message = vec![0; 8 + usize::from(*len) % 2000];
            message[0] = *kind;
            let sum = frame::checksum(&[&message]);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            frame::ipv4(1, &message)
        }
        Step::Segment { segment, flaw } => flaw.apply(segment.on(&rig.flow).to_frame()),
        Step::Opening {
            source,
            port,
            seq,
            ack,
            flags,
            options,
            listening,
        } => {
            let destination_port = if *listening { crate::rig::LISTENING } else { 9 };
            let segment = Tcp {
                source_port: *port,
                destination_port,
                seq: *seq,
                ack: *ack,
                flags: (*flags).into(),
                window: 1000,
                options: options.clone(),
                ..Tcp::default()
            };
            from(neighbor(*source), segment.to_frame())
        }
        Step::Call(_) | Step::Milliseconds(_) | Step::Hold(_) => {
            unreachable!("these are no frames")
        }
    }
}

/// The same segment from another neighbor, checksums valid.
fn from(source: Ipv4Addr, mut frame: Vec<u8>) -> Vec<u8> {
    frame[26..30].copy_from_slice(&source.octets());
    reseal(&mut frame);
    let (before, after) = (PEER.octets()[3], source.octets()[3]);
    // The addresses differ in their last byte only: the low half of a word of the pseudo-header.
    let sum = u32::from(!u16::from_be_bytes([frame[50], frame[51]]))
        + u32::from(!u16::from(before))
        + u32::from(after);
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[50..52].copy_from_slice(&(!((sum & 0xffff) as u16 + (sum >> 16) as u16)).to_be_bytes());
    debug_assert_eq!(frame[30..34], HOST.octets());
    frame
}
