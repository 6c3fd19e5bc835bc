//! Many connections at once, opened by SYN cookies or not, with limits so small that everything
//! runs out: segments near what the newest one expects, SYNs and stray segments from anywhere,
//! settings changed while connections live, and time that stands still, creeps, jumps by hours or
//! steps back.

use std::time::Duration;

use crate::frame::{Framed, Tcp};
use crate::rig::{Call, LISTENING, Limited, Rig, Setting, Settings};
use crate::segment::Segment;
use crate::steps::Steps;
use arbitrary::Arbitrary;
use tautline_base::Bytes;
use tautline_stack::Limits;

/// A case.
#[derive(Arbitrary, Debug)]
pub struct Input {
    settings: Settings,
    limited: Limited,
    steps: Steps<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// Near what the newest connection expects.
    Near(Segment),
    /// On any connection, or none: with cookies about, it may open one.
    Stray {
        port: u8,
        seq: u32,
        ack: u32,
        flags: u8,
        payload: u8,
    },
    /// A whole handshake, the answer's number taken from what the host said.
    Open {
        port: u8,
        isn: u32,
        options: Vec<u8>,
    },
    /// A SYN with data and the cookie that the host gave, or a request for one.
    Early {
        port: u8,
        isn: u32,
        payload: u8,
    },
    Call(Call),
    Setting(Setting),
    Limits {
        time_wait: u8,
        orphans: u8,
        memory: u32,
    },
    Microseconds(u16),
    Seconds(u16),
    Back(u16),
    Hold(bool),
}

/// Runs one case.
pub fn run(input: Input) {
    let mut rig = Rig::limited(&input.settings, &input.limited);
    for step in input.steps.0.iter().take(200) {
        match step {
            Step::Near(segment) => {
                let frame = segment.on(&rig.flow).to_frame();
                rig.deliver(&frame);
            }
            Step::Stray {
                port,
                seq,
                ack,
                flags,
                payload,
            } => {
                let payload = vec![0; usize::from(*payload)];
                let segment = segment(*port, *seq, *ack, *flags);
                rig.deliver(&Tcp { payload, ..segment }.to_frame());
            }
            Step::Open { port, isn, options } => {
                let syn = Tcp {
                    options: options.clone(),
                    ..segment(*port, *isn, 0, 2)
                };
                rig.deliver(&syn.to_frame());
                let acknowledgment = segment(*port, isn.wrapping_add(1), rig.flow.host_next, 16);
                rig.deliver(&acknowledgment.to_frame());
            }
            Step::Early { port, isn, payload } => {
                let cookie = &rig.cookie[..];
                let syn = Tcp {
                    options: [&[34, 2 + cookie.len() as u8], cookie].concat(),
                    payload: vec![0; usize::from(*payload)],
                    ..segment(*port, *isn, 0, 2)
                };
                rig.deliver(&syn.to_frame());
            }
            Step::Call(call) => rig.call(*call),
            Step::Setting(setting) => rig.set(*setting),
            Step::Limits {
                time_wait,
                orphans,
                memory,
            } => rig.limit(Limits {
                time_wait: usize::from(*time_wait),
                orphans: usize::from(*orphans),
                memory: Bytes::new(u64::from(*memory)),
                ..Limits::default()
            }),
            Step::Microseconds(time) => rig.wait(Duration::from_micros((*time).into())),
            Step::Seconds(time) => rig.wait(Duration::from_secs((*time).into())),
            Step::Back(time) => rig.step_back(Duration::from_secs((*time).into())),
            Step::Hold(hold) => rig.hold(*hold),
        }
    }
    rig.finish();
}

fn segment(port: u8, seq: u32, ack: u32, flags: u8) -> Tcp {
    Tcp {
        source_port: u16::from(port % 16) + 1,
        destination_port: LISTENING,
        seq,
        ack,
        flags: flags.into(),
        window: 2_000,
        ..Tcp::default()
    }
}
