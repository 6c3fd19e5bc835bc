//! [`World`]: the host under test in virtual time, and the wire between it and the scripted peer.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tautline_base::{HeapFrame, Instant, Packet, Pool, SocketId};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::Pfifo;
use tautline_stack::{Cidr, CloseReason, Event, Host, HostConfig, NoTrace};
use tautline_testkit::MemoryDevice;

use crate::wire::{self, Ends, HOST_MAC, Sent, WireSegment};

/// The port that scripts bind, as packetdrill's default.
pub(crate) const LOCAL_PORT: u16 = 8080;
/// A script begins at this time of the host's clock.
const BEGINNING: Instant = Instant::from_secs(1000);
/// Descriptors of the transmit ring.
const RING: usize = 4096;
/// Polls at one instant before the host counts as spinning.
const POLLS: usize = 100_000;

/// The host, its clock, and what left it.
pub(crate) struct World {
    pub(crate) host: Host<Pfifo<Packet<HeapFrame>>, MemoryDevice>,
    pub(crate) ends: Ends,
    now: Instant,
    /// Transmitted segments not yet matched by an event.
    pub(crate) left: VecDeque<(Duration, WireSegment)>,
    /// Connections that listeners accepted, oldest first.
    pub(crate) accepted: VecDeque<(SocketId, SocketId)>,
    /// Why connections ended.
    pub(crate) closed: HashMap<SocketId, CloseReason>,
    /// Connections that an active open established.
    pub(crate) connected: Vec<SocketId>,
}

impl World {
    /// A host with one address of the family, its device's `mtu`, everything random from `seed`.
    pub(crate) fn new(ipv6: bool, mtu: usize, seed: u64) -> Self {
        let address = |number: u8| -> IpAddr {
            if ipv6 {
                Ipv6Addr::new(0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, number.into()).into()
            } else {
                Ipv4Addr::new(192, 168, 0, number).into()
            }
        };
        let ends = Ends {
            host: address(1),
            peer: address(2),
        };
        let config = HostConfig::new(HOST_MAC, seed)
            .address(Cidr::new(ends.host, if ipv6 { 64 } else { 24 }));
        let device = MemoryDevice {
            mtu,
            ring: RING,
            announces: true,
            ..MemoryDevice::default()
        };
        let ring = Ring::new(device, Dql::default());
        let qdisc = Pfifo::new(tautline_qdisc::pfifo::Config::default());
        let pool = Pool::new((0..4096).map(|_| HeapFrame::new()).collect());
        Self {
            host: Host::new(config, Port::new(qdisc, ring), pool, NoTrace),
            ends,
            now: BEGINNING,
            left: VecDeque::new(),
            accepted: VecDeque::new(),
            closed: HashMap::new(),
            connected: Vec::new(),
        }
    }

    /// The host's clock.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Time since the script began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.now - BEGINNING
    }

    /// The peer's address with `port`.
    pub(crate) fn peer(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ends.peer, port)
    }

    /// Delivers a frame and lets the host react.
    ///
    /// # Errors
    /// A malformed frame of the host, or a host that spins.
    pub(crate) fn deliver(&mut self, frame: &[u8]) -> Result<(), String> {
        self.host.deliver(frame, self.now);
        self.react().map(drop)
    }

    /// Lets time pass until `end`, or until a segment leaves if `for_segment`; without time to
    /// pass, lets the host react to calls.
    ///
    /// # Errors
    /// A malformed frame of the host, or a host that spins.
    pub(crate) fn run_until(&mut self, end: Duration, for_segment: bool) -> Result<(), String> {
        let end = BEGINNING + end;
        loop {
            let next = self.react()?;
            if self.now >= end || for_segment && !self.left.is_empty() {
                return Ok(());
            }
            self.now = next.map_or(end, |next| next.min(end)).max(self.now);
        }
    }

    /// Lets time pass until the host's next wake or `end`, whichever is first.
    ///
    /// # Errors
    /// As [`run_until`](Self::run_until).
    pub(crate) fn step_until(&mut self, end: Duration) -> Result<(), String> {
        let end = BEGINNING + end;
        let next = self.react()?;
        self.now = next.map_or(end, |next| next.min(end)).max(self.now);
        self.react().map(drop)
    }

    /// Polls until the host has nothing more to do at this instant; its next wake.
    fn react(&mut self) -> Result<Option<Instant>, String> {
        for _ in 0..POLLS {
            let wake = self.host.poll(self.now);
            let answered = self.collect()?;
            let is_due = wake.is_some_and(|wake| wake.at <= self.now);
            if !answered && !is_due && self.host.outstanding() == 0 {
                return Ok(wake.map(|wake| wake.at));
            }
        }
        Err(format!(
            "the host still asks to be polled after {POLLS} polls at one instant"
        ))
    }

    /// Collects frames and events; true if the host requested the peer's hardware address.
    fn collect(&mut self) -> Result<bool, String> {
        let mut answered = false;
        while let Some(frame) = self.host.device_mut().sent.pop_front() {
            match wire::read(&frame)? {
                Sent::AddressRequest => {
                    self.host.deliver(&self.ends.address_reply(), self.now);
                    answered = true;
                }
                Sent::Tcp(segment) => self.left.push_back((self.elapsed(), segment)),
                Sent::Other => {}
            }
        }
        while let Some(event) = self.host.next_event() {
            match event {
                Event::Accepted { listener, socket } => self.accepted.push_back((listener, socket)),
                Event::Connected(socket) => self.connected.push(socket),
                Event::Closed { socket, why } => {
                    self.closed.insert(socket, why);
                }
                _ => {}
            }
        }
        Ok(answered)
    }
}
