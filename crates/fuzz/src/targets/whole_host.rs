//! Random sessions of two hosts of both families, with faults of the wire and of the devices, jumps
//! of the clock, settings and qdiscs changed while connections live, routers, rivals and attackers on the link.

use std::time::Duration;

use arbitrary::Arbitrary;
use tautline_base::Bytes;
use tautline_cc::Algorithm;
use tautline_stack::{EcnMode, Keepalive, SocketOption, SynCookies, TcpConfig};

use crate::attack::Attack;
use crate::link::LinkMessage;
use crate::pair::{Fault, Pair};
use crate::rig::Settings;
use crate::steps::Steps;

/// Qdiscs of the hosts.
const TREES: [&str; 8] = [
    "pfifo limit 100",
    "fq_codel",
    "fq",
    "codel ecn",
    "cake bandwidth 100mbit",
    "tbf rate 80mbit burst 16kb latency 50ms",
    "dualpi2",
    "pie ecn",
];

/// A case.
#[derive(Arbitrary, Debug)]
pub struct Input {
    settings: Settings,
    controller: u8,
    ecn: u8,
    cookies: bool,
    tree: u8,
    automatic: bool,
    /// Steps of attackers count.
    is_attacked: bool,
    steps: Steps<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Connect {
        side: bool,
        ipv6: bool,
        len: u16,
    },
    Write {
        side: bool,
        at: u8,
        len: u16,
    },
    Read {
        side: bool,
        at: u8,
        len: u16,
    },
    Shutdown {
        side: bool,
        at: u8,
    },
    Close {
        side: bool,
        at: u8,
    },
    Abort {
        side: bool,
        at: u8,
    },
    Set {
        side: bool,
        at: u8,
        setting: Setting,
    },
    Spoil {
        side: bool,
        fault: Damage,
    },
    Hold {
        side: bool,
        hold: bool,
    },
    Reset {
        side: bool,
    },
    Qdisc {
        side: bool,
        tree: u8,
    },
    Link {
        side: bool,
        message: LinkMessage,
    },
    Attack {
        side: bool,
        attack: Attack,
    },
    Milliseconds(u16),
    Jump(u16),
    Back(u16),
}

#[derive(Arbitrary, Debug)]
enum Damage {
    Drop,
    Duplicate,
    First,
    Flip(u16),
    Cut(u16),
}

#[derive(Arbitrary, Debug)]
enum Setting {
    Controller(u8),
    Keepalive(Option<u8>),
    Linger(Option<u16>),
    Nodelay(bool),
    UserTimeout(Option<u16>),
}

fn controller(number: u8) -> tautline_cc::Factory {
    Algorithm::ALL[usize::from(number) % Algorithm::ALL.len()].factory()
}

fn tree(number: u8) -> &'static str {
    TREES[usize::from(number) % TREES.len()]
}

impl Input {
    fn tcp(&self) -> TcpConfig {
        let modes = [
            EcnMode::Accept,
            EcnMode::Request,
            EcnMode::AccEcn,
            EcnMode::Off,
        ];
        let base = self.settings.tcp();
        TcpConfig {
            congestion: controller(self.controller),
            ecn: modes[usize::from(self.ecn) % modes.len()],
            syn_cookies: if self.cookies {
                SynCookies::Always
            } else {
                SynCookies::WhenFull
            },
            // A buffer of a few bytes makes a case of a million segments.
            send_buffer: base.send_buffer.max(Bytes::new(2048)),
            receive_buffer: base.receive_buffer.max(Bytes::new(2048)),
            ..base
        }
    }
}

/// Runs one case.
pub fn run(input: Input) {
    let tcp = input.tcp();
    let mut pair = Pair::new(input.settings.seed, &tcp, tree(input.tree), input.automatic);
    pair.connect(0, input.settings.seed % 2 == 1, tcp.clone(), 0);
    pair.run_for(Duration::from_millis(10));
    for step in input.steps.0.iter().take(150) {
        if input.is_attacked || !matches!(step, Step::Attack { .. }) {
            play(step, &mut pair, &tcp);
        }
    }
    pair.finish();
}

fn play(step: &Step, pair: &mut Pair, tcp: &TcpConfig) {
    match *step {
        Step::Connect { side, ipv6, len } => pair.connect(side.into(), ipv6, tcp.clone(), len),
        Step::Write { side, at, len } => pair.write(side.into(), at, len),
        Step::Read { side, at, len } => pair.read(side.into(), at, len),
        Step::Shutdown { side, at } => pair.shutdown(side.into(), at),
        Step::Close { side, at } => pair.close(side.into(), at),
        Step::Abort { side, at } => pair.abort(side.into(), at),
        Step::Set {
            side,
            at,
            ref setting,
        } => pair.set(side.into(), at, setting.option()),
        Step::Spoil { side, ref fault } => pair.spoil(side.into(), fault.fault()),
        Step::Hold { side, hold } => pair.hold(side.into(), hold),
        Step::Reset { side } => pair.reset(side.into()),
        Step::Qdisc { side, tree: number } => pair.replace_qdisc(side.into(), tree(number)),
        Step::Link { side, ref message } => pair.hear(side.into(), message),
        Step::Attack { side, attack } => pair.attack(side.into(), attack),
        Step::Milliseconds(time) => pair.run_for(Duration::from_millis(u64::from(time) / 16)),
        Step::Jump(time) => pair.jump(Duration::from_millis(time.into())),
        Step::Back(time) => pair.step_back(Duration::from_millis(time.into())),
    }
}

impl Damage {
    fn fault(&self) -> Fault {
        match *self {
            Self::Drop => Fault::Drop,
            Self::Duplicate => Fault::Duplicate,
            Self::First => Fault::First,
            Self::Flip(bit) => Fault::Flip(bit),
            Self::Cut(len) => Fault::Cut(len),
        }
    }
}

impl Setting {
    fn option(&self) -> SocketOption {
        let milliseconds = |time: u16| Duration::from_millis(time.into());
        match *self {
            Self::Controller(number) => SocketOption::Congestion(controller(number)),
            Self::Keepalive(idle) => SocketOption::Keepalive(idle.map(|idle| Keepalive {
                idle: Duration::from_secs(1 + u64::from(idle)),
                ..Keepalive::default()
            })),
            Self::Linger(time) => SocketOption::Linger(time.map(milliseconds)),
            Self::Nodelay(on) => SocketOption::Nodelay(on),
            Self::UserTimeout(time) => SocketOption::UserTimeout(time.map(milliseconds)),
        }
    }
}
