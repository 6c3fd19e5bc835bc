//! A connection in every ECN mode and with the controllers that read marks: segments with any ECN
//! field, any ACE, CWR and ECE flags and AccECN options, right and wrong (RFC 9768, RFC 3168).

use std::time::Duration;

use arbitrary::Arbitrary;
use tautline_cc::Algorithm;
use tautline_stack::{EcnMode, TcpConfig};

use crate::frame::{ACK, Framed, SYN, Tcp};
use crate::rig::{Call, LISTENING, REMOTE, Rig, Settings};
use crate::segment::Segment;
use crate::steps::Steps;

const MODES: [EcnMode; 6] = [
    EcnMode::AccEcn,
    EcnMode::AccEcnAccept,
    EcnMode::AccEcnRequestClassic,
    EcnMode::Request,
    EcnMode::Accept,
    EcnMode::Off,
];
const CONTROLLERS: [Algorithm; 5] = [
    Algorithm::Prague,
    Algorithm::Dctcp,
    Algorithm::Cubic,
    Algorithm::Bbr3,
    Algorithm::Reno,
];
/// Bits of AE, CWR and ECE among the flags.
const AE_CWR_ECE: [u16; 3] = [256, 128, 64];

/// A case.
#[derive(Arbitrary, Debug)]
pub struct Input {
    settings: Settings,
    mode: u8,
    controller: u8,
    by_peer: bool,
    isn: u32,
    /// Flags of the peer's SYN or SYN-ACK, its ECN field, and those of its first ACK.
    opening: (u8, u8, u8),
    steps: Steps<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Segment {
        segment: Segment,
        ecn: u8,
        ace: u8,
        option: Option<Counters>,
    },
    Call(Call),
    Microseconds(u16),
    Milliseconds(u16),
    Hold(bool),
}

/// An AccECN option (RFC 9768 §3.2.3): kind 172 or 174 with up to three counters of 24 bits.
#[derive(Arbitrary, Debug)]
struct Counters {
    order_one: bool,
    counters: [u32; 3],
    cut: u8,
}

/// Runs one case.
pub fn run(input: Input) {
    let config = TcpConfig {
        ecn: MODES[usize::from(input.mode) % MODES.len()],
        congestion: CONTROLLERS[usize::from(input.controller) % CONTROLLERS.len()].factory(),
        ..input.settings.tcp()
    };
    let mut rig = Rig::configured(input.settings.seed, config, true);
    open(&input, &mut rig);
    for step in input.steps.0.iter().take(200) {
        match step {
            Step::Segment {
                segment,
                ecn,
                ace,
                option,
            } => {
                let mut segment = segment.on(&rig.flow);
                segment.ecn = ecn % 4;
                segment.flags |= bits(*ace);
                if let Some(option) = option {
                    segment.options.extend(option.bytes());
                }
                rig.deliver(&segment.to_frame());
            }
            Step::Call(call) => rig.call(*call),
            Step::Microseconds(time) => rig.wait(Duration::from_micros((*time).into())),
            Step::Milliseconds(time) => rig.wait(Duration::from_millis((*time).into())),
            Step::Hold(hold) => rig.hold(*hold),
        }
    }
    rig.finish();
}

/// The handshake with the chosen flags.
fn open(input: &Input, rig: &mut Rig) {
    let (first, ecn, third) = input.opening;
    let segment = |source_port, destination_port, flags| Tcp {
        source_port,
        destination_port,
        seq: input.isn,
        flags,
        window: u16::MAX,
        ecn: ecn % 4,
        ..Tcp::default()
    };
    if input.by_peer {
        rig.deliver(&segment(REMOTE, LISTENING, SYN | bits(first)).to_frame());
    } else {
        rig.connect(0);
        // The peer's SYN-ACK does not scale windows.
        rig.flow.scale = 0;
        let answer = Tcp {
            ack: rig.flow.host_next,
            ..segment(REMOTE, rig.flow.host_port, SYN | ACK | bits(first))
        };
        rig.deliver(&answer.to_frame());
    }
    let acknowledgment = Tcp {
        seq: input.isn.wrapping_add(1),
        ack: rig.flow.host_next,
        ..segment(REMOTE, rig.flow.host_port, ACK | bits(third))
    };
    rig.deliver(&acknowledgment.to_frame());
}

/// AE, CWR and ECE from the low bits of `ace`.
fn bits(ace: u8) -> u16 {
    let set = |(bit, flag): (usize, u16)| if ace >> bit & 1 == 1 { flag } else { 0 };
    AE_CWR_ECE.into_iter().enumerate().map(set).sum()
}

impl Counters {
    fn bytes(&self) -> Vec<u8> {
        let kind = if self.order_one { 174 } else { 172 };
        let counters = self
            .counters
            .iter()
            .flat_map(|counter| counter.to_be_bytes()[1..].to_vec());
        let mut bytes = vec![kind, 0];
        bytes.extend(counters);
        bytes.truncate(2 + usize::from(self.cut) % 10);
        bytes[1] = bytes.len() as u8;
        bytes
    }
}
