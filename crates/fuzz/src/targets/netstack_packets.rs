//! Any packet from the device of a netstack that stands for every address, and any frame from a
//! sandbox of a gateway: scans, martians, our own address, nearly right segments.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use arbitrary::Arbitrary;
use tautline_base::Medium;
use tautline_netstack::device::PacketIo;
use tautline_netstack::gateway::{Gateway, GatewayConfig};
use tautline_netstack::{Bytes, Netstack, Rejection, TcpRequest};
use tautline_testkit::{Ip, SYN, Segment, TCP, checksum, frame, pseudo_header};
use tokio::runtime::Builder;

use crate::steps::Steps;

const UDP: u8 = 17;
const MTU: usize = 1500;
/// Ceiling of the buffers.
const MEMORY: u64 = 1 << 20;
/// SYNs that wait for the application, of them dropped unanswered every so many.
const HELD: usize = 8;

/// A case.
#[derive(Arbitrary, Debug)]
pub struct Input {
    gateway: bool,
    steps: Steps<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Bytes(Vec<u8>),
    Packet {
        ends: Ends,
        protocol: u8,
        payload: Vec<u8>,
    },
    Segment {
        ends: Ends,
        ports: (u16, u8),
        seq: u32,
        ack: u32,
        flags: u8,
        options: Vec<u8>,
        data: u16,
    },
    Datagram {
        ends: Ends,
        ports: (u8, u16),
        payload: Vec<u8>,
    },
    /// SYNs to many ports and addresses.
    Scan {
        from: u8,
        count: u8,
    },
}

/// Addresses: a few, so that packets meet, or any.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Ends {
    Four(u8, u8),
    AnyFour(u32, u32),
    Six(u8, u8),
    AnySix(u128, u128),
}

impl Ends {
    fn ip(self, protocol: u8) -> Ip {
        // The gateway, its sandbox and others are among them.
        let four = |last: u8| Ipv4Addr::new(10, 0, 2, last % 32);
        let six = |last: u8| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into());
        let (from, to): (IpAddr, IpAddr) = match self {
            Self::Four(from, to) => (four(from).into(), four(to).into()),
            Self::AnyFour(from, to) => (Ipv4Addr::from(from).into(), Ipv4Addr::from(to).into()),
            Self::Six(from, to) => (six(from).into(), six(to).into()),
            Self::AnySix(from, to) => (Ipv6Addr::from(from).into(), Ipv6Addr::from(to).into()),
        };
        Ip::new(from, to, protocol)
    }
}

/// The packets of a step.
fn packets(step: &Step) -> Vec<Vec<u8>> {
    match step {
        Step::Bytes(bytes) => vec![bytes.clone()],
        Step::Packet {
            ends,
            protocol,
            payload,
        } => vec![ends.ip(*protocol).packet(payload)],
        Step::Segment {
            ends,
            ports,
            seq,
            ack,
            flags,
            options,
            data,
        } => {
            let segment = Segment {
                source_port: ports.0,
                destination_port: ports.1.into(),
                seq: *seq,
                ack: *ack,
                flags: (*flags).into(),
                window: 1000,
                options: options[..options.len().min(40) / 4 * 4].to_vec(),
                payload: vec![7; usize::from(*data) % 1400],
                ..Segment::default()
            };
            vec![ends.ip(TCP).packet(&segment.to_bytes())]
        }
        Step::Datagram {
            ends,
            ports,
            payload,
        } => {
            let mut datagram = Vec::new();
            datagram.extend_from_slice(&u16::from(ports.0).to_be_bytes());
            datagram.extend_from_slice(&ports.1.to_be_bytes());
            datagram.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
            datagram.extend_from_slice(&[0; 2]);
            datagram.extend_from_slice(payload);
            vec![ends.ip(UDP).packet(&datagram)]
        }
        Step::Scan { from, count } => (0..*count)
            .map(|number| {
                let segment = Segment {
                    source_port: 4000,
                    destination_port: u16::from(number) * 251,
                    flags: SYN,
                    window: 1000,
                    ..Segment::default()
                };
                let ends = Ends::Four(*from, number);
                ends.ip(TCP).packet(&segment.to_bytes())
            })
            .collect(),
    }
}

/// A device whose far end the fuzzer plays.
#[derive(Default)]
struct Wire {
    to_stack: VecDeque<Vec<u8>>,
    from_stack: Vec<Vec<u8>>,
    waker: Option<Waker>,
}

#[derive(Clone, Default)]
struct Device {
    wire: Arc<Mutex<Wire>>,
    ethernet: bool,
}

impl Device {
    fn with<T>(&self, use_it: impl FnOnce(&mut Wire) -> T) -> T {
        use_it(&mut self.wire.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn deliver(&self, packet: Vec<u8>) {
        let packet = if self.ethernet {
            let kind = match packet.first().map(|byte| byte >> 4) {
                Some(6) => frame::IPV6,
                Some(4) => frame::IPV4,
                _ => frame::ARP,
            };
            frame::ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 9], kind, &packet)
        } else {
            packet
        };
        self.with(|wire| {
            wire.to_stack.push_back(packet);
            wire.waker.take().map(Waker::wake)
        });
    }
}

impl PacketIo for Device {
    fn medium(&self) -> Medium {
        if self.ethernet {
            Medium::Ethernet
        } else {
            Medium::Ip
        }
    }

    fn mtu(&self) -> usize {
        MTU
    }

    fn poll_recv(&mut self, context: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        self.with(|wire| {
            wire.waker = Some(context.waker().clone());
            // As a device does, without what is too long or empty.
            while let Some(packet) = wire.to_stack.pop_front() {
                if !packet.is_empty() && packet.len() <= out.len() {
                    out[..packet.len()].copy_from_slice(&packet);
                    return Poll::Ready(Ok(packet.len()));
                }
            }
            Poll::Pending
        })
    }

    fn poll_send(&mut self, _: &mut Context<'_>, frame: &[u8]) -> Poll<io::Result<()>> {
        self.with(|wire| wire.from_stack.push(frame.to_vec()));
        Poll::Ready(Ok(()))
    }
}

/// Verifies lengths and checksums of a packet from the stack.
fn verify(packet: &[u8]) {
    assert!(packet.len() <= MTU, "{} bytes", packet.len());
    let (header, addresses, protocol) = match packet[0] >> 4 {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            assert_eq!(checksum(&[&packet[..header]]), 0, "IP checksum");
            let len = u16::from_be_bytes([packet[2], packet[3]]);
            assert_eq!(usize::from(len), packet.len());
            (header, &packet[12..20], packet[9])
        }
        6 => {
            let len = u16::from_be_bytes([packet[4], packet[5]]);
            assert_eq!(usize::from(len) + 40, packet.len());
            (40, &packet[8..40], packet[6])
        }
        version => panic!("version {version}"),
    };
    let payload = &packet[header..];
    if protocol == TCP || protocol == UDP {
        let pseudo = pseudo_header(addresses, protocol, payload.len());
        assert_eq!(checksum(&[&pseudo, payload]), 0, "checksum");
    }
}

/// Answers a SYN, each `number` in another way.
fn decide(request: TcpRequest, number: usize, held: &mut VecDeque<TcpRequest>) {
    match number % 6 {
        0 => request.reject(Rejection::Reset),
        1 => request.reject(Rejection::HostUnreachable),
        2 => request.reject(Rejection::Silence),
        3 => {
            held.push_back(request);
            if held.len() > HELD {
                held.pop_front();
            }
        }
        _ => {
            tokio::spawn(async move {
                let (mut read, mut write) = request.accept().await?.into_split();
                tokio::io::copy(&mut read, &mut write).await
            });
        }
    }
}

/// Runs one case.
pub fn run(input: Input) {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(play(&input));
}

async fn play(input: &Input) {
    let device = Device {
        ethernet: input.gateway,
        ..Device::default()
    };
    let memory = Bytes::new(MEMORY);
    let (gateway, alone);
    let stack = if input.gateway {
        let started = Gateway::start(GatewayConfig::default(), |stack| stack.memory_limit(memory));
        gateway = started.expect("a runtime");
        let attached = gateway.attach(5, device.clone());
        attached.expect("there is room");
        gateway.stack()
    } else {
        let builder = Netstack::builder(device.clone()).memory_limit(memory);
        alone = builder.build().expect("a runtime");
        &alone
    };
    let incoming = stack.tcp_incoming().await.expect("the first");
    let datagrams = stack.udp_incoming().await.expect("the first");
    tokio::spawn(async move {
        let (mut number, mut held) = (0, VecDeque::new());
        while let Ok(request) = incoming.next().await {
            decide(request, number, &mut held);
            number += 1;
        }
    });
    tokio::spawn(async move {
        let mut buffer = [0; 2000];
        while let Ok((len, from, to)) = datagrams.recv(&mut buffer).await {
            // Datagrams from impossible senders are refused.
            let _ = datagrams.send(&buffer[..len], to, from).await;
        }
    });
    let (mut received, mut sent) = (0, 0);
    for step in input.steps.0.iter().take(200) {
        for packet in packets(step) {
            received += 1;
            device.deliver(packet);
        }
        let report = stack.report().await.expect("it runs");
        assert!(report.memory <= 2 * MEMORY, "{} bytes", report.memory);
        assert!(report.sockets <= received + 2, "{} sockets", report.sockets);
        for packet in device.with(|wire| std::mem::take(&mut wire.from_stack)) {
            sent += 1;
            if input.gateway {
                assert!(packet.len() >= 14, "no Ethernet frame");
            } else {
                verify(&packet);
            }
        }
    }
    // An answer each, SYN-ACKs again, and what an echo sends.
    assert!(sent <= 8 * received + 16, "{sent} packets for {received}");
}
