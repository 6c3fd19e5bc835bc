//! A valid handshake with any options, then segments with any flags and options near the window,
//! checksums right.

use std::time::Duration;

use crate::frame::{ACK, Framed, SYN, Tcp};
use crate::rig::{Call, LISTENING, REMOTE, Rig, Settings};
use crate::segment::{Segment, timestamp};
use crate::steps::Steps;
use arbitrary::Arbitrary;

/// A case.
#[derive(Arbitrary, Debug)]
pub struct Input {
    settings: Settings,
    handshake: Handshake,
    steps: Steps<Step>,
}

/// The peer's side of the opening.
#[derive(Arbitrary, Debug)]
struct Handshake {
    /// The peer connects to the host, or the host to the peer.
    by_peer: bool,
    isn: u32,
    window: u16,
    mss: Option<u16>,
    scale: Option<u8>,
    sack: bool,
    timestamp: Option<u32>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Segment(Segment),
    Call(Call),
    Microseconds(u16),
    Milliseconds(u16),
    Hold(bool),
}

/// Runs one case.
pub fn run(input: Input) {
    let mut rig = Rig::new(&input.settings, true);
    input.handshake.run(&mut rig);
    for step in input.steps.0.iter().take(200) {
        match step {
            Step::Segment(segment) => {
                let frame = segment.on(&rig.flow).to_frame();
                rig.deliver(&frame);
            }
            Step::Call(call) => rig.call(*call),
            Step::Microseconds(time) => rig.wait(Duration::from_micros((*time).into())),
            Step::Milliseconds(time) => rig.wait(Duration::from_millis((*time).into())),
            Step::Hold(hold) => rig.hold(*hold),
        }
    }
    rig.finish();
}

impl Handshake {
    fn run(&self, rig: &mut Rig) {
        if self.by_peer {
            let syn = self.segment(REMOTE, LISTENING, self.isn, None);
            rig.deliver(&syn.to_frame());
            let acknowledgment = self.segment(
                REMOTE,
                LISTENING,
                self.isn.wrapping_add(1),
                Some(rig.flow.host_next),
            );
            rig.deliver(&acknowledgment.to_frame());
        } else {
            rig.connect(0);
            let (port, expected) = (rig.flow.host_port, rig.flow.host_next);
            if self.scale.is_none() {
                rig.flow.scale = 0;
            }
            let answer = Tcp {
                flags: SYN | ACK,
                ..self.segment(REMOTE, port, self.isn, Some(expected))
            };
            rig.deliver(&answer.to_frame());
        }
        assert_eq!(rig.state(), Some("ESTABLISHED"), "a valid handshake failed");
        assert_eq!(rig.flow.host_ack, self.isn.wrapping_add(1));
        if let (Some(value), Some((_, echo))) = (self.timestamp, rig.flow.timestamp) {
            rig.flow.timestamp = Some((value, echo));
        }
    }

    fn segment(&self, from: u16, to: u16, seq: u32, ack: Option<u32>) -> Tcp {
        Tcp {
            source_port: from,
            destination_port: to,
            seq,
            ack: ack.unwrap_or(0),
            flags: if ack.is_some() { ACK } else { SYN },
            window: self.window,
            options: self.options(),
            ..Tcp::default()
        }
    }

    fn options(&self) -> Vec<u8> {
        let mut options = Vec::new();
        if let Some(mss) = self.mss {
            options.extend([&[2, 4][..], &mss.to_be_bytes()].concat());
        }
        if let Some(scale) = self.scale {
            options.extend([3, 3, scale]);
        }
        if self.sack {
            options.extend([4, 2]);
        }
        if let Some(value) = self.timestamp {
            timestamp(&mut options, value, 0);
        }
        options
    }
}
