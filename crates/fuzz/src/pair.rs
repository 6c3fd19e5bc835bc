//! [`Pair`]: two hosts and a wire on which everything may happen to a frame. Whatever happens, the
//! hosts neither panic nor spin nor leak, wake for a reason, answer with few frames, and every byte
//! that one application reads is the one that the other wrote; between two applications that close
//! in order all of them arrive. Under an attacker who sees the link the contents are not compared: he
//! may write them (RFC 5961 §1).

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tautline_base::{Device, HeapFrame, Instant, Packet, Pool, SocketId, Tso};
use tautline_bql::{Dql, Port, Ring};
use tautline_stack::{
    Autoconfiguration, Cidr, CloseReason, Event, Host, HostConfig, NoTrace, Recv, SocketOption,
    TcpConfig,
};
use tautline_tc::{DynQdisc, Tree};
use tautline_testkit::MemoryDevice;

use crate::attack::Attack;
use crate::link::LinkMessage;

/// The port that both hosts listen on.
pub const PORT: u16 = 5001;
/// Packets one poll may transmit (the host's documented budget).
const PER_POLL: usize = 64;
/// Polls at one instant: full send buffers of the smallest segments, one per poll.
const POLLS_AT_ONE_INSTANT: usize = 20_000;
/// Wakes in a row without a frame, an event or the end of a socket.
const FRUITLESS_WAKES: usize = 3_000;
/// Virtual time until everything is over once the applications have closed.
const LAST: Duration = Duration::from_secs(4 * 3600);
/// How often the applications act at least, until then.
const APPLICATION: Duration = Duration::from_secs(10);
/// Delay of the wire where the case says nothing.
const DELAY: Duration = Duration::from_millis(2);

/// A host whose qdisc is a tree of tc's words.
pub type Stack = Host<Box<dyn DynQdisc<Packet<HeapFrame>>>, MemoryDevice>;

/// One application's end of a connection.
#[derive(Clone, Debug)]
struct End {
    socket: SocketId,
    /// Port and family of the connecting end: the name of the connection on both sides.
    port: u16,
    ipv6: bool,
    /// The side that connected.
    opener: usize,
    written: u32,
    read: u32,
    /// Why it ended, if it has.
    ended: Option<CloseReason>,
    /// The application has closed the socket.
    is_closed: bool,
    /// The application discarded data: it aborted, or closed without reading everything.
    is_aborted: bool,
}

/// A fault of a frame on the wire.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    Drop,
    Duplicate,
    /// It overtakes all others.
    First,
    Flip(u16),
    Cut(u16),
}

/// Two hosts and what is between them.
pub struct Pair {
    hosts: [Stack; 2],
    now: Instant,
    wire: VecDeque<(Instant, usize, Vec<u8>)>,
    ends: [Vec<End>; 2],
    listeners: [SocketId; 2],
    fruitless: usize,
    /// The newest frame for each side.
    newest: [Vec<u8>; 2],
    is_attacked: bool,
    /// Frames with a flipped bit. A second flip could undo what the first did to the checksum.
    flipped: Vec<Vec<u8>>,
}

/// The byte at `offset` of the stream that `side` sends on the connection of `port`.
fn pattern(port: u16, side: usize, offset: u32) -> u8 {
    let seed = u32::from(port) * 7 + side as u32 * 131;
    (offset.wrapping_mul(31) ^ (offset >> 8)).wrapping_add(seed) as u8
}

fn host(side: usize, seed: u64, tree: &str, automatic: bool) -> Stack {
    let number = 1 + side as u8;
    let config = HostConfig::new([2, 0, 0, 0, 0, number], seed.wrapping_add(side as u64))
        .address(Cidr::new(Ipv4Addr::new(10, 7, 0, number), 24))
        .address(Cidr::new(address_v6(side), 64));
    let config = HostConfig {
        autoconfiguration: if automatic {
            Autoconfiguration::IPV6
        } else {
            Autoconfiguration::default()
        },
        ..config
    };
    // Of every other pair the first host takes packets of several segments.
    let tso = (side == 0 && seed % 2 == 1).then_some(Tso::MOST);
    let device = MemoryDevice {
        tso,
        gathers: true,
        ..MemoryDevice::default()
    };
    let ring = Ring::new(device, Dql::default());
    let pool = Pool::heap(256, tso);
    let host = Host::new(config, Port::new(built(tree), ring), pool, NoTrace);
    assert_eq!(host.outstanding(), 0);
    host
}

fn address_v6(side: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, 1 + side as u16)
}

fn built(tree: &str) -> Box<dyn DynQdisc<Packet<HeapFrame>>> {
    let tree: Tree = tree.parse().expect("the targets' trees parse");
    tree.with_hash_key(0).build().expect("and build")
}

impl Pair {
    /// Two hosts that listen, with the qdisc `tree`.
    pub fn new(seed: u64, tcp: &TcpConfig, tree: &str, automatic: bool) -> Self {
        let mut hosts = [0, 1].map(|side| host(side, seed, tree, automatic));
        let listeners = hosts
            .each_mut()
            .map(|host| host.listen(PORT, tcp.clone()).expect("the port is free"));
        Self {
            hosts,
            now: Instant::from_secs(1),
            wire: VecDeque::new(),
            ends: [Vec::new(), Vec::new()],
            listeners,
            fruitless: 0,
            newest: [Vec::new(), Vec::new()],
            is_attacked: false,
            flipped: Vec::new(),
        }
    }

    /// Somebody on the link sends `message` to `side`.
    pub fn hear(&mut self, side: usize, message: &LinkMessage) {
        let tentative = self.hosts[side].configuration().tentative;
        let frame = message.frame(&tentative);
        crate::count_hostile();
        self.deliver(side, &frame);
    }

    /// An attacker who sees the link forges segments after the newest frame for `side`.
    pub fn attack(&mut self, side: usize, attack: Attack) {
        if self.newest[side].is_empty() {
            return;
        }
        self.is_attacked = true;
        for frame in attack.frames(&self.newest[side]) {
            crate::count_hostile();
            self.deliver(side, &frame);
        }
        self.run_for(Duration::ZERO);
    }

    /// `side` connects to the other, and writes `len` bytes before the SYN leaves.
    pub fn connect(&mut self, side: usize, ipv6: bool, tcp: TcpConfig, len: u16) {
        let peer = 1 - side;
        let remote = if ipv6 {
            SocketAddr::new(address_v6(peer).into(), PORT)
        } else {
            SocketAddr::new(Ipv4Addr::new(10, 7, 0, 1 + peer as u8).into(), PORT)
        };
        if let Ok(socket) = self.hosts[side].connect(remote, tcp, self.now) {
            let local = self.hosts[side].local(socket).expect("a new socket");
            self.ends[side].push(End::new(socket, local, side));
            self.write(side, (self.ends[side].len() - 1) as u8, len);
        }
    }

    /// The application of `side` writes up to `len` bytes on connection `at`.
    pub fn write(&mut self, side: usize, at: u8, len: u16) {
        self.with_end(side, at, |host, end, side| {
            let data: Vec<u8> = (0..u32::from(len))
                .map(|i| pattern(end.port, side, end.written.wrapping_add(i)))
                .collect();
            end.written += host.send(end.socket, &data).unwrap_or(0) as u32;
        });
    }

    /// It reads up to `len` bytes.
    pub fn read(&mut self, side: usize, at: u8, len: u16) {
        let is_attacked = self.is_attacked;
        self.with_end(side, at, |host, end, side| {
            end.take(host, side, len.into(), is_attacked);
        });
    }

    /// It closes its half.
    pub fn shutdown(&mut self, side: usize, at: u8) {
        self.with_end(side, at, |host, end, _| {
            let _ = host.shutdown(end.socket);
        });
    }

    /// It lets go of the socket: what was not read is lost.
    pub fn close(&mut self, side: usize, at: u8) {
        let (now, is_attacked) = (self.now, self.is_attacked);
        self.with_end(side, at, |host, end, side| {
            let discards = end.take(host, side, 1, is_attacked) > 0;
            end.is_aborted |= discards || end.ended.is_none();
            end.is_closed = true;
            host.close(end.socket, now);
        });
    }

    /// It resets the connection.
    pub fn abort(&mut self, side: usize, at: u8) {
        self.with_end(side, at, |host, end, _| {
            end.is_aborted = true;
            let _ = host.abort(end.socket);
        });
    }

    /// It changes a setting of the connection.
    pub fn set(&mut self, side: usize, at: u8, option: SocketOption) {
        self.with_end(side, at, |host, end, _| {
            let _ = host.set_option(end.socket, option);
        });
    }

    /// The next frame for `side` suffers.
    pub fn spoil(&mut self, side: usize, fault: Fault) {
        let Some(at) = self.wire.iter().position(|(_, to, _)| *to == side) else {
            return;
        };
        let (arrival, _, mut frame) = self.wire.remove(at).expect("the position is in range");
        if !matches!(fault, Fault::Drop) {
            crate::count_hostile();
        }
        match fault {
            Fault::Drop => return,
            // smoltcp, which reads what is not a plain segment, verifies no checksum under cargo-fuzz.
            Fault::Flip(_) if cfg!(fuzzing) => return,
            Fault::Duplicate => self.wire.push_front((arrival, side, frame.clone())),
            Fault::First => {
                self.wire.push_front((self.now, side, frame));
                return;
            }
            Fault::Flip(_) if self.flipped.contains(&frame) => {}
            Fault::Flip(bit) => {
                let at = usize::from(bit) % (8 * frame.len());
                frame[at / 8] ^= 1 << (at % 8);
                self.flipped.push(frame.clone());
            }
            Fault::Cut(len) => frame.truncate(usize::from(len).min(frame.len())),
        }
        self.wire.push_back((arrival, side, frame));
    }

    /// Completions of `side` stop, or go on.
    pub fn hold(&mut self, side: usize, hold: bool) {
        self.hosts[side].device_mut().stuck = hold;
    }

    /// The device of `side` is reset.
    pub fn reset(&mut self, side: usize) {
        self.hosts[side].reset_device(self.now);
    }

    /// The qdisc of `side` is replaced by `tree`.
    pub fn replace_qdisc(&mut self, side: usize, tree: &str) {
        let _ = self.hosts[side].set_qdisc(built(tree), self.now);
    }

    /// The driver's clock steps back and forth.
    pub fn step_back(&mut self, time: Duration) {
        let before =
            Instant::from_nanos(self.now.as_nanos().saturating_sub(time.as_nanos() as u64));
        for side in 0..2 {
            let _ = self.hosts[side].poll(before);
            self.collect(side);
        }
    }

    /// Time jumps, as under a driver that was not scheduled.
    pub fn jump(&mut self, time: Duration) {
        self.now += time;
        self.run_for(Duration::ZERO);
    }

    /// Lets time pass.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let mut next = self.settle().unwrap_or(end);
            let arrived = self.wire.iter().position(|(at, ..)| *at <= self.now);
            if let Some(at) = arrived {
                let (_, side, frame) = self.wire.remove(at).expect("the position is in range");
                self.deliver(side, &frame);
                continue;
            }
            next = self.wire.iter().fold(next, |next, (at, ..)| next.min(*at));
            if next >= end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
        }
    }

    fn deliver(&mut self, side: usize, frame: &[u8]) {
        self.fruitless = 0;
        let host = &mut self.hosts[side];
        let before = host.stats();
        crate::count_delivery();
        host.deliver(frame, self.now);
        let after = host.stats();
        assert!(
            after.births <= before.births + 2,
            "more than two packets written before the poll"
        );
        assert!(
            after.refused() <= before.refused() + 1,
            "a frame refused for two reasons: {before:?}, {after:?}"
        );
    }

    /// Polls both until they have nothing more to do at this instant; the next wake.
    fn settle(&mut self) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        for side in 0..2 {
            let mut polls = 0;
            let wake = loop {
                polls += 1;
                assert!(polls < POLLS_AT_ONE_INSTANT, "host {side} spins");
                let wake = self.hosts[side].poll(self.now);
                let happened = self.collect(side);
                let ready = self.hosts[side].device_mut().completions() > 0;
                if !happened && !ready && wake.is_none_or(|wake| wake.at > self.now) {
                    break wake;
                }
            };
            let is_stuck = self.hosts[side].device_mut().stuck;
            let wake = wake.filter(|_| !is_stuck).map(|wake| wake.at);
            next = [next, wake].into_iter().flatten().min();
        }
        self.fruitless += 1;
        assert!(
            self.fruitless < FRUITLESS_WAKES,
            "{FRUITLESS_WAKES} wakes in a row without work"
        );
        next
    }

    /// Takes frames and events of a side; true if there were any.
    fn collect(&mut self, side: usize) -> bool {
        let device = self.hosts[side].device_mut();
        let segments = device.tso.map_or(1, |tso| tso.max_segments.into());
        let sent = std::mem::take(&mut device.sent);
        let mut happened = !sent.is_empty();
        assert!(
            sent.len() <= PER_POLL * segments,
            "a poll transmitted {} frames",
            sent.len()
        );
        for frame in sent {
            assert!(frame.len() <= 1514, "a frame of {} bytes", frame.len());
            self.newest[1 - side].clone_from(&frame);
            self.wire.push_back((self.now + DELAY, 1 - side, frame));
        }
        while let Some(event) = self.hosts[side].next_event() {
            happened = true;
            match event {
                Event::Accepted { socket, .. } => {
                    let peer = self.hosts[side].peer(socket).expect("a new connection");
                    self.ends[side].push(End::new(socket, peer, 1 - side));
                }
                Event::Closed { socket, why } => {
                    let mut ends = self.ends[side].iter_mut();
                    if let Some(end) = ends.find(|end| end.socket == socket) {
                        end.ended = Some(why);
                    }
                }
                _ => {}
            }
        }
        if happened {
            self.fruitless = 0;
        }
        happened
    }

    fn with_end(&mut self, side: usize, at: u8, act: impl FnOnce(&mut Stack, &mut End, usize)) {
        let count = self.ends[side].len();
        if count > 0 {
            let end = &mut self.ends[side][usize::from(at) % count];
            if !end.is_closed {
                act(&mut self.hosts[side], end, side);
            }
        }
        self.run_for(Duration::ZERO);
    }

    /// The faults end; the applications read everything and close. Nothing is left of either host,
    /// and connections that ended in order were whole.
    pub fn finish(mut self) {
        for side in 0..2 {
            self.hold(side, false);
            self.hosts[side].close(self.listeners[side], self.now);
        }
        let (end, patience) = (self.now + LAST, self.now + LAST / 2);
        while self.now < end && !self.is_over() {
            for side in 0..2 {
                self.drain(side, self.now > patience);
            }
            let wake = self.settle().unwrap_or(end).max(self.now) - self.now;
            self.run_for(wake.min(APPLICATION) + DELAY);
        }
        for host in &mut self.hosts {
            assert_eq!(host.outstanding(), 0, "frames leaked");
            assert_eq!(host.port().ring().device().in_flight(), 0);
            assert_eq!(host.socket_count(), 0, "sockets leaked");
        }
        if !self.is_attacked {
            self.check_streams();
        }
    }

    fn is_over(&self) -> bool {
        let idle = |host: &Stack| host.socket_count() == 0 && host.outstanding() == 0;
        self.wire.is_empty() && self.hosts.iter().all(idle)
    }

    /// The application of `side` reads all there is, and closes what is over. One without patience
    /// closes all: a peer whose reset was lost never closes its half.
    fn drain(&mut self, side: usize, is_impatient: bool) {
        let (host, now) = (&mut self.hosts[side], self.now);
        for end in self.ends[side].iter_mut().filter(|end| !end.is_closed) {
            while end.take(host, side, 4096, self.is_attacked) > 0 {}
            let _ = host.shutdown(end.socket);
            if end.ended.is_some() || is_impatient {
                end.is_aborted |= end.ended.is_none();
                end.is_closed = true;
                host.close(end.socket, now);
            }
        }
    }

    /// A reader got no byte that was not written; and all of them, if both ends closed in order. What
    /// arrives twice may open two connections: a SYN with data (RFC 7413 §2.1), or the last segment of
    /// a handshake by cookies. Ends of one address and port are therefore left out.
    fn check_streams(&self) {
        let [nears, fars] = [0, 1].map(|side| {
            let mut ends: HashMap<_, Vec<&End>> = HashMap::new();
            for end in &self.ends[side] {
                let key = (end.opener, end.port, end.ipv6);
                ends.entry(key).or_default().push(end);
            }
            ends
        });
        for (key, near) in &nears {
            let far = fars.get(key).map(Vec::as_slice);
            let (&[near], Some(&[far])) = (near.as_slice(), far) else {
                continue;
            };
            for (reader, writer) in [(near, far), (far, near)] {
                assert!(
                    reader.read <= writer.written,
                    "bytes from nowhere: {reader:?}, {writer:?}"
                );
                let in_order = |end: &End| end.ended == Some(CloseReason::Finished);
                if in_order(near) && in_order(far) && !near.is_aborted && !far.is_aborted {
                    assert_eq!(
                        reader.read, writer.written,
                        "bytes lost in good order: {reader:?}, {writer:?}"
                    );
                }
            }
        }
    }
}

impl End {
    fn new(socket: SocketId, connecting: SocketAddr, opener: usize) -> Self {
        Self {
            socket,
            port: connecting.port(),
            ipv6: connecting.is_ipv6(),
            opener,
            written: 0,
            read: 0,
            ended: None,
            is_closed: false,
            is_aborted: false,
        }
    }

    /// Reads up to `len` bytes, and verifies them unless an attacker may have written them; how many
    /// there were.
    fn take(&mut self, host: &mut Stack, side: usize, len: usize, is_attacked: bool) -> usize {
        let mut buffer = vec![0; len];
        let Ok(Recv::Data(count)) = host.recv(self.socket, &mut buffer) else {
            return 0;
        };
        for byte in &buffer[..count] {
            let expected = pattern(self.port, 1 - side, self.read);
            assert!(
                is_attacked || *byte == expected,
                "byte {} of port {}",
                self.read,
                self.port
            );
            self.read = self.read.wrapping_add(1);
        }
        count
    }
}
