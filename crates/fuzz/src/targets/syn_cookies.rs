//! A listener that answers every SYN with a cookie: it keeps nothing of a SYN, a true answer opens a
//! connection, a guessed one does not (RFC 4987 §3.6).

use std::collections::HashSet;
use std::time::Duration;

use arbitrary::Arbitrary;
use tautline_stack::{SynCookies, TcpConfig};

use crate::frame::{ACK, Framed, SYN, Tcp};
use crate::rig::{Call, LISTENING, Rig, Settings};
use crate::steps::Steps;

/// How far an answer may be off and still count as a guess near the truth.
const NEAR: u32 = 64;

/// A case.
#[derive(Arbitrary, Debug)]
pub struct Input {
    settings: Settings,
    steps: Steps<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// A SYN from any port, answered truly if it shall be.
    Open {
        port: u8,
        isn: u32,
        options: Vec<u8>,
        answer: Option<Answer>,
    },
    /// An ACK out of the blue.
    Guess {
        port: u8,
        seq: u32,
        ack: u32,
    },
    Call(Call),
    Seconds(u8),
    Milliseconds(u16),
}

/// The third segment of a handshake.
#[derive(Arbitrary, Debug)]
struct Answer {
    seq_off: i8,
    ack_off: i8,
    payload: u8,
    options: Vec<u8>,
}

/// Runs one case.
pub fn run(input: Input) {
    let config = TcpConfig {
        syn_cookies: SynCookies::Always,
        ..input.settings.tcp()
    };
    let mut rig = Rig::configured(input.settings.seed, config, false);
    let mut opened = HashSet::new();
    for step in input.steps.0.iter().take(100) {
        match step {
            Step::Open {
                port,
                isn,
                options,
                answer,
            } => {
                let port = 1 + u16::from(*port);
                let before = rig.socket_count();
                rig.deliver(&segment(port, *isn, None, options, 0).to_frame());
                if !opened.contains(&port) {
                    assert_eq!(rig.socket_count(), before, "a SYN left state");
                }
                if let Some(answer) = answer {
                    reply(&mut rig, port, *isn, answer);
                    opened.insert(port);
                }
            }
            Step::Guess { port, seq, ack } => {
                let port = 1 + u16::from(*port);
                let is_far = (ack.wrapping_sub(rig.flow.host_next) as i32).unsigned_abs() > NEAR;
                let before = rig.socket_count();
                rig.deliver(&segment(port, *seq, Some(*ack), &[], 0).to_frame());
                if !opened.contains(&port) && is_far {
                    assert!(rig.socket_count() <= before, "a guess opened a connection");
                }
            }
            Step::Call(call) => rig.call(*call),
            Step::Seconds(time) => rig.wait(Duration::from_secs((*time).into())),
            Step::Milliseconds(time) => rig.wait(Duration::from_millis((*time).into())),
        }
    }
    rig.finish();
}

/// The peer answers the SYN-ACK that it just saw.
fn reply(rig: &mut Rig, port: u16, isn: u32, answer: &Answer) {
    let seq = isn
        .wrapping_add(1)
        .wrapping_add_signed(answer.seq_off.into());
    let ack = rig
        .flow
        .host_next
        .wrapping_add_signed(answer.ack_off.into());
    let frame = segment(port, seq, Some(ack), &answer.options, answer.payload).to_frame();
    rig.deliver(&frame);
}

fn segment(port: u16, seq: u32, ack: Option<u32>, options: &[u8], payload: u8) -> Tcp {
    Tcp {
        source_port: port,
        destination_port: LISTENING,
        seq,
        ack: ack.unwrap_or(0),
        flags: if ack.is_some() { ACK } else { SYN },
        window: 2000,
        options: options.to_vec(),
        payload: vec![0; payload.into()],
        ..Tcp::default()
    }
}
