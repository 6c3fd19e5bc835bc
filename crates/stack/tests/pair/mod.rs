//! Two hosts on a wire in virtual time: what scenario tests are written in.
//!
//! The wire delays every frame by the same time and shows each one to a filter, which may drop it.
//! Anything richer (rates, rings, random impairments) is `tautline-sim`'s.
#![expect(
    unreachable_pub,
    reason = "a module shared by test files; each is a crate of its own"
)]

use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};
use std::time::Duration;

use tautline_base::{HeapFrame, Instant, Medium, Packet, Pool, SocketId, Tso};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::Pfifo;
use tautline_stack::{Cidr, Event, Host, HostConfig, Recv, TcpConfig};
use tautline_testkit::MemoryDevice;

pub const PORT: u16 = 5001;
pub const DELAY: Duration = Duration::from_millis(5);
/// Frames of each host, without large ones.
pub const FRAMES: usize = 512;

pub type Stack = Host<Pfifo<Packet<HeapFrame>>, MemoryDevice>;

pub fn address(side: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 7, 0, 1 + side as u8)
}

/// The address of `side` in IPv6.
pub fn address_v6(side: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, 1 + side as u16)
}

fn host(
    side: usize,
    seed: u64,
    device: MemoryDevice,
    change: fn(HostConfig) -> HostConfig,
) -> Stack {
    let config = HostConfig::new([2, 0, 0, 0, 0, 1 + side as u8], seed + side as u64)
        .address(Cidr::new(address(side), 24))
        .address(Cidr::new(address_v6(side), 64));
    let config = change(config);
    let pool = Pool::new((0..FRAMES).map(|_| HeapFrame::new()).collect());
    let pool = match device.tso {
        None => pool,
        Some(tso) => {
            let large = |_| HeapFrame::with_len(tso.frame_len());
            pool.with_large((0..8).map(large).collect())
        }
    };
    let ring = Ring::new(device, Dql::default());
    let qdisc = Pfifo::new(tautline_qdisc::pfifo::Config::default());
    Host::new(
        config,
        Port::new(qdisc, ring),
        pool,
        tautline_stack::NoTrace,
    )
}

/// Sees every frame: side it comes from, its bytes. False drops it.
pub type Filter = Box<dyn FnMut(usize, &[u8]) -> bool>;

/// Changes a frame: side it comes from, its bytes.
pub type Mangle = Box<dyn FnMut(usize, &mut [u8])>;

/// Two hosts, the frames between them, and the events they reported.
pub struct Pair {
    pub hosts: [Stack; 2],
    pub now: Instant,
    pub events: [Vec<Event>; 2],
    /// The application of a side takes no events.
    pub deaf: [bool; 2],
    pub filter: Filter,
    /// Changes the frames that passed the filter.
    pub mangle: Mangle,
    /// Frames on the wire: arrival, side they go to, bytes.
    wire: VecDeque<(Instant, usize, Vec<u8>)>,
    /// Frames carried so far.
    pub carried: usize,
}

impl Pair {
    pub fn new(seed: u64) -> Self {
        Self::configured(seed, |config| config)
    }

    /// A pair whose hosts' configuration `change` has changed.
    pub fn configured(seed: u64, change: fn(HostConfig) -> HostConfig) -> Self {
        Self::over(Medium::Ethernet, seed, change)
    }

    /// A pair on a wire of this kind.
    pub fn over(medium: Medium, seed: u64, change: fn(HostConfig) -> HostConfig) -> Self {
        let device = || MemoryDevice {
            medium,
            ..MemoryDevice::default()
        };
        Self::on(device, seed, change)
    }

    /// A pair whose devices take packets of several segments, gather their payload, and cut them.
    pub fn large(seed: u64) -> Self {
        let device = || MemoryDevice {
            tso: Some(Tso::MOST),
            gathers: true,
            ..MemoryDevice::default()
        };
        Self::on(device, seed, |config| config)
    }

    /// As [`large`](Self::large), but packets arrive as they left, and the hosts keep them.
    pub fn keeping(seed: u64) -> Self {
        let device = || MemoryDevice {
            tso: Some(Tso::MOST),
            whole: true,
            ..MemoryDevice::default()
        };
        Self::on(device, seed, |config| HostConfig {
            keeps_packets: true,
            ..config
        })
    }

    fn on(
        device: impl Fn() -> MemoryDevice,
        seed: u64,
        change: fn(HostConfig) -> HostConfig,
    ) -> Self {
        Self {
            hosts: [0, 1].map(|side| host(side, seed, device(), change)),
            now: Instant::from_secs(1),
            events: [Vec::new(), Vec::new()],
            deaf: [false; 2],
            filter: Box::new(|_, _| true),
            mangle: Box::new(|_, _| {}),
            wire: VecDeque::new(),
            carried: 0,
        }
    }

    /// A pair with an established connection: side 0 connected to side 1.
    pub fn connected(seed: u64, config: TcpConfig) -> (Self, SocketId, SocketId) {
        let mut pair = Self::new(seed);
        let (client, server) = pair.open(config);
        (pair, client, server)
    }

    /// Connects side 0 to side 1.
    pub fn open(&mut self, config: TcpConfig) -> (SocketId, SocketId) {
        self.hosts[1]
            .listen(PORT, config.clone())
            .expect("the port is free");
        let client = self.connect(config);
        self.run_for(DELAY * 8);
        assert!(
            self.events[0].contains(&Event::Connected(client)),
            "{:?}",
            self.events
        );
        let server = self.events[1]
            .iter()
            .find_map(|event| match event {
                Event::Accepted { socket, .. } => Some(*socket),
                _ => None,
            })
            .expect("accepted");
        (client, server)
    }

    pub fn connect(&mut self, config: TcpConfig) -> SocketId {
        let remote = SocketAddrV4::new(address(1), PORT);
        self.hosts[0]
            .connect(remote, config, self.now)
            .expect("the address is good")
    }

    /// Lets `time` pass.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let mut next = end;
            for side in 0..2 {
                let mut polls = 0;
                while let Some(wake) = self.hosts[side].poll(self.now) {
                    polls += 1;
                    assert!(polls < 10_000, "side {side} spins");
                    if wake.at > self.now {
                        next = next.min(wake.at);
                        break;
                    }
                }
                self.collect(side);
            }
            if let Some((arrival, ..)) = self.wire.front() {
                next = next.min(*arrival);
            }
            if self.now >= end {
                return;
            }
            self.now = next.max(self.now);
            while self
                .wire
                .front()
                .is_some_and(|(arrival, ..)| *arrival <= self.now)
            {
                let (_, side, bytes) = self.wire.pop_front().expect("just seen");
                self.hosts[side].device_mut().arrived.push_back(bytes);
                let _ = self.hosts[side].receive(self.now);
            }
        }
    }

    fn collect(&mut self, side: usize) {
        while let Some(mut frame) = self.hosts[side].device_mut().sent.pop_front() {
            self.carried += 1;
            if (self.filter)(side, &frame) {
                (self.mangle)(side, &mut frame);
                self.wire.push_back((self.now + DELAY, 1 - side, frame));
            }
        }
        while !self.deaf[side]
            && let Some(event) = self.hosts[side].next_event()
        {
            self.events[side].push(event);
        }
    }

    /// Puts a frame in front of `side`, as an attacker would.
    pub fn inject(&mut self, side: usize, frame: &[u8]) {
        self.hosts[side].deliver(frame, self.now);
    }

    /// Reads everything `side` has.
    pub fn read(&mut self, side: usize, socket: SocketId) -> (Vec<u8>, Recv) {
        let mut all = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match self.hosts[side]
                .recv(socket, &mut buffer)
                .expect("the socket exists")
            {
                Recv::Data(count) => all.extend(&buffer[..count]),
                end => return (all, end),
            }
        }
    }

    /// Sends all of `data` from `side` while the other side reads; returns what was read.
    pub fn transfer(
        &mut self,
        side: usize,
        from: SocketId,
        to: SocketId,
        data: &[u8],
        limit: Duration,
    ) -> Vec<u8> {
        let (mut sent, mut received) = (0, Vec::new());
        let end = self.now + limit;
        while received.len() < data.len() && self.now < end {
            sent += self.hosts[side].send(from, &data[sent..]).expect("open");
            self.run_for(Duration::from_millis(1));
            received.extend(self.read(1 - side, to).0);
        }
        received
    }

    pub fn state(&self, side: usize, socket: SocketId) -> Option<&'static str> {
        self.hosts[side].info(socket).map(|info| info.state)
    }

    pub fn closed(&self, side: usize) -> Option<tautline_stack::CloseReason> {
        self.events[side].iter().find_map(|event| match event {
            Event::Closed { why, .. } => Some(*why),
            _ => None,
        })
    }
}
