//! [`Peer`]: the other end of one connection, played by the test segment by segment.
//!
//! Segments are written and read without the code under test; the checksums of everything the host
//! sends are verified.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;
use std::time::Duration;

use tautline_base::SocketId;
use tautline_stack::{EcnMode, Event, Recv, SynCookies, TcpConfig, TcpInfo};

use crate::pair::{PORT, Pair, address};
pub(crate) use tautline_testkit::*;

pub(crate) const URG: u16 = 32;
pub(crate) const ECE: u16 = 64;
pub(crate) const CWR: u16 = 128;
pub(crate) const AE: u16 = 256;

/// ECN field of an IP header.
pub(crate) const ECT0: u8 = 0b10;
pub(crate) const ECT1: u8 = 0b01;
pub(crate) const CE: u8 = 0b11;

/// The side of the [`Pair`] that is under test; the test plays the other one.
pub(crate) const HOST: usize = 1;
/// The peer's port.
pub(crate) const PEER_PORT: u16 = 40_000;
/// The peer's initial sequence number: its stream wraps early.
pub(crate) const ISN: u32 = u32::MAX - 5_000;
/// The window the peer offers.
pub(crate) const WINDOW: u16 = 60_000;

/// Segments of the peer in frames.
pub(crate) trait ToFrame {
    /// The frame that carries it from the peer to the host.
    fn to_frame(&self) -> Vec<u8>;
}

impl ToFrame for Segment {
    fn to_frame(&self) -> Vec<u8> {
        let ip = Ip {
            tos: self.ecn,
            ..to_host(TCP)
        };
        ip.frame(mac(HOST), mac(1 - HOST), &self.to_bytes())
    }
}

/// The segment in a frame of the host, if it holds one. Its checksums must be right.
fn segment_in(frame: &[u8]) -> Option<Segment> {
    if frame[12..14] != [8, 0] || frame[23] != TCP {
        return None;
    }
    let (ip, tcp) = frame[14..].split_at(20);
    assert_eq!(checksum(&[ip]), 0, "IP checksum");
    assert_eq!(
        checksum(&[&pseudo_header(&ip[12..], TCP, tcp.len()), tcp]),
        0,
        "TCP checksum"
    );
    Some(Segment::from_bytes(tcp, ip[1]))
}

pub(crate) const fn mac(side: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, 1 + side as u8]
}

fn to_host(protocol: u8) -> Ip {
    Ip::new(address(1 - HOST), address(HOST), protocol)
}

/// An IPv4 packet from the peer to the host in its frame; a checksum of the payload is filled in.
pub(crate) fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    to_host(protocol).frame(mac(HOST), mac(1 - HOST), payload)
}

/// Makes the checksums of an IPv4 frame right, whatever else was changed in it.
pub(crate) fn seal(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let sum = checksum(&[&frame[14..34]]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    if frame[23] == TCP {
        frame[50..52].fill(0);
        let (ip, tcp) = frame[14..].split_at(20);
        let sum = checksum(&[&pseudo_header(&ip[12..], TCP, tcp.len()), tcp]);
        frame[50..52].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Options, as they stand on the wire.
pub(crate) fn mss(mss: u16) -> Vec<u8> {
    [&[2, 4][..], &mss.to_be_bytes()].concat()
}

pub(crate) fn scale(shift: u8) -> Vec<u8> {
    vec![1, 3, 3, shift]
}

pub(crate) fn sack_permitted() -> Vec<u8> {
    vec![1, 1, 4, 2]
}

pub(crate) fn sack(blocks: &[(u32, u32)]) -> Vec<u8> {
    let mut option = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
    for (left, right) in blocks {
        option.extend(left.to_be_bytes());
        option.extend(right.to_be_bytes());
    }
    option
}

pub(crate) fn timestamp(value: u32, echo: u32) -> Vec<u8> {
    [
        &[1, 1, 8, 10][..],
        &value.to_be_bytes(),
        &echo.to_be_bytes(),
    ]
    .concat()
}

/// Flags that ask for AccECN, and that agree and report a packet without a codepoint (RFC 9768
/// table 2), if `config` asks for it. A SYN cookie does not remember that.
fn accurate(config: &TcpConfig) -> (u16, u16) {
    if config.ecn == EcnMode::AccEcn && config.syn_cookies != SynCookies::Always {
        (AE | CWR | ECE, CWR)
    } else {
        (0, 0)
    }
}

/// A connection to the host.
pub(crate) struct Peer {
    pub(crate) pair: Pair,
    /// Segments the host has sent since they were last taken.
    seen: Rc<RefCell<Vec<Segment>>>,
    /// The host's socket.
    pub(crate) socket: SocketId,
    /// The host's port.
    pub(crate) port: u16,
    /// The host's initial sequence number.
    pub(crate) host_isn: u32,
}

impl Peer {
    /// A host that listens, and nobody connected.
    pub(crate) fn stranger(config: TcpConfig) -> Self {
        // `hostile_large` is `hostile` on a device that takes packets of several segments.
        let mut pair = if env!("CARGO_CRATE_NAME") == "hostile_large" {
            Pair::large(77)
        } else {
            Pair::new(77)
        };
        let listener = pair.hosts[HOST]
            .listen(PORT, config)
            .expect("the port is free");
        let seen = Rc::new(RefCell::new(Vec::new()));
        let keep = seen.clone();
        // The other host of the pair only answers ARP.
        pair.filter = Box::new(move |side, frame| match segment_in(frame) {
            Some(segment) => {
                assert_eq!(side, HOST, "the test plays this side");
                keep.borrow_mut().push(segment);
                false
            }
            None => true,
        });
        Self {
            pair,
            seen,
            socket: listener,
            port: PORT,
            host_isn: 0,
        }
    }

    /// A connection that the peer opened with `options` in its SYN. It takes part in AccECN if that
    /// is what `config` asks for.
    pub(crate) fn connected(config: TcpConfig, options: Vec<u8>) -> Self {
        let (asks, reflects) = accurate(&config);
        let mut peer = Self::stranger(config);
        let echoes = options.windows(2).any(|kind| kind == [8, 10]);
        let answers = peer.send(&Segment {
            flags: SYN | asks,
            seq: ISN,
            ack: 0,
            options,
            ..peer.ack()
        });
        let [answer] = &answers[..] else {
            panic!("one SYN-ACK, not {answers:?}")
        };
        assert_eq!(
            (answer.flags, answer.ack),
            (SYN | ACK | reflects, ISN.wrapping_add(1))
        );
        peer.host_isn = answer.seq;
        let options = if echoes { timestamp(1, 0) } else { Vec::new() };
        peer.send(&Segment {
            flags: ACK | reflects,
            options,
            ..peer.ack()
        });
        peer.socket = peer.accepted().expect("the handshake is complete");
        peer
    }

    /// A connection that the host opened; the peer's SYN-ACK carries `options`.
    pub(crate) fn connected_by_host(config: TcpConfig, options: Vec<u8>) -> Self {
        let (asks, reflects) = accurate(&config);
        let mut peer = Self::stranger(config.clone());
        let remote = SocketAddrV4::new(address(1 - HOST), PEER_PORT);
        peer.socket = peer.pair.hosts[HOST]
            .connect(remote, config, peer.pair.now)
            .expect("the address is good");
        let seen = peer.run_for(Duration::from_millis(20));
        let [syn] = &seen[..] else {
            panic!("one SYN, not {seen:?}")
        };
        assert_eq!(syn.flags, SYN | asks);
        (peer.port, peer.host_isn) = (syn.source_port, syn.seq);
        let answers = peer.send(&Segment {
            flags: SYN | ACK | reflects,
            seq: ISN,
            options,
            ..peer.ack()
        });
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!(peer.state(), Some("ESTABLISHED"));
        peer
    }

    pub(crate) fn accepted(&self) -> Option<SocketId> {
        self.pair.events[HOST].iter().find_map(|event| match event {
            Event::Accepted { socket, .. } => Some(*socket),
            _ => None,
        })
    }

    /// A bare acknowledgment of the host's SYN: the template of what the peer sends.
    pub(crate) fn ack(&self) -> Segment {
        Segment {
            source_port: PEER_PORT,
            destination_port: self.port,
            seq: self.at(0),
            ack: self.host_isn.wrapping_add(1),
            flags: ACK,
            window: WINDOW,
            urgent: 0,
            ecn: 0,
            options: Vec::new(),
            payload: Vec::new(),
        }
    }

    /// The sequence number of byte `offset` of the peer's stream.
    pub(crate) fn at(&self, offset: u32) -> u32 {
        ISN.wrapping_add(1).wrapping_add(offset)
    }

    /// The sequence number of byte `offset` of the host's stream.
    pub(crate) fn host_at(&self, offset: u32) -> u32 {
        self.host_isn.wrapping_add(1).wrapping_add(offset)
    }

    /// Data at `offset` of the peer's stream.
    pub(crate) fn data(&self, offset: u32, payload: &[u8]) -> Segment {
        Segment {
            seq: self.at(offset),
            flags: ACK | PSH,
            payload: payload.to_vec(),
            ..self.ack()
        }
    }

    /// An acknowledgment of the host's stream up to `offset`.
    pub(crate) fn acknowledges(&self, offset: u32) -> Segment {
        Segment {
            ack: self.host_at(offset),
            ..self.ack()
        }
    }

    /// Puts a segment in front of the host; what it answers within a millisecond.
    pub(crate) fn send(&mut self, segment: &Segment) -> Vec<Segment> {
        self.send_frame(&segment.to_frame())
    }

    /// Puts a frame in front of the host; what it answers within a millisecond.
    pub(crate) fn send_frame(&mut self, frame: &[u8]) -> Vec<Segment> {
        self.pair.inject(HOST, frame);
        // The first answer may have to ask for our hardware address.
        let time = if self.pair.carried < 2 { 20 } else { 1 };
        self.run_for(Duration::from_millis(time))
    }

    /// Lets time pass; what the host sends meanwhile.
    pub(crate) fn run_for(&mut self, time: Duration) -> Vec<Segment> {
        self.pair.run_for(time);
        self.seen.take()
    }

    /// The host's application writes; what the host sends within a millisecond.
    pub(crate) fn host_writes(&mut self, len: usize) -> Vec<Segment> {
        let data: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        assert_eq!(self.pair.hosts[HOST].send(self.socket, &data), Ok(len));
        self.run_for(Duration::from_millis(1))
    }

    /// Everything the host's application can read, and what comes after.
    pub(crate) fn host_reads(&mut self) -> (Vec<u8>, Recv) {
        self.pair.read(HOST, self.socket)
    }

    /// The state of the connection; `None` when it is gone.
    pub(crate) fn state(&self) -> Option<&'static str> {
        self.pair.state(HOST, self.socket)
    }

    /// A look into the connection.
    pub(crate) fn info(&self) -> TcpInfo {
        self.pair.hosts[HOST]
            .info(self.socket)
            .expect("the connection is there")
    }

    /// The connection still works: it takes data at `offset` and acknowledges it.
    #[track_caller]
    pub(crate) fn still_works_at(&mut self, offset: u32) {
        assert_eq!(self.state(), Some("ESTABLISHED"));
        let answers = self.send(&self.data(offset, b"alive"));
        assert!(
            answers
                .iter()
                .any(|answer| answer.ack == self.at(offset + 5)),
            "{answers:?}"
        );
        assert_eq!(self.host_reads(), (b"alive".to_vec(), Recv::Empty));
    }
}

/// The frame with another source address, checksums right.
pub(crate) fn from_address(source: Ipv4Addr, segment: &Segment) -> Vec<u8> {
    let mut frame = segment.to_frame();
    frame[26..30].copy_from_slice(&source.octets());
    seal(&mut frame);
    frame
}
