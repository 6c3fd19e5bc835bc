//! A bulk flow between two stacks in one thread: ours with the whole send path in place, and
//! smoltcp's.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use tautline_base::{Device, HeapFrame, Instant, Packet, Pool, SocketId, Tso};
use tautline_bql::{Dql, Port, Ring};
use tautline_offload::{self as offload, SoftwareOffload};
use tautline_qdisc::{FqCodel, fq_codel};
use tautline_stack::{Cidr, Event, Host, HostConfig, NoTrace, Recv, SocketError, TcpConfig};

use crate::back_to_back::{BackToBack, RING};

/// Payload of a full segment with timestamps.
pub const SEGMENT: u64 = 1448;
/// Virtual time one round of polls takes. A poll handles 64 packets, so this is a host that keeps
/// up with about 10 Gbit/s.
const ROUND: Duration = Duration::from_micros(50);
const PORT: u16 = 5001;

/// A host of the rig.
pub type Stack<D = BackToBack> = Host<FqCodel<Packet<HeapFrame>>, D>;

/// A device of the rig: its frames are carried to its peer.
pub trait Joined: Device<Frame = HeapFrame> {
    /// The ends of the wire.
    fn end(&mut self) -> &mut BackToBack;
}

impl Joined for BackToBack {
    fn end(&mut self) -> &mut BackToBack {
        self
    }
}

impl Joined for SoftwareOffload<BackToBack> {
    fn end(&mut self) -> &mut BackToBack {
        self.inner_mut()
    }
}

/// Two hosts with pacing, TSQ, fq_codel and DQL, connected.
pub struct Bulk<D: Device = BackToBack> {
    hosts: [Stack<D>; 2],
    client: SocketId,
    server: SocketId,
    now: Instant,
    chunk: bytes::Bytes,
    /// Buffers are owned and lent, not copied.
    pub zero_copy: bool,
}

impl Bulk {
    /// Two hosts with an established connection that has left slow start's first rounds behind.
    pub fn new(config: TcpConfig) -> Self {
        Self::with_tso(config, None)
    }

    /// The same over devices that carry packets of several segments.
    pub fn with_tso(config: TcpConfig, tso: Option<Tso>) -> Self {
        Self::over(config, || BackToBack::with_tso(tso))
    }
}

impl Bulk<SoftwareOffload<BackToBack>> {
    /// The same over devices that carry frames of the MTU, with large packets cut and merged in
    /// software.
    pub fn with_software_offload(config: TcpConfig) -> Self {
        Self::over(config, || {
            let frames = Pool::heap(RING, None);
            SoftwareOffload::new(BackToBack::new(), frames, offload::Config::default())
        })
    }
}

impl<D: Joined> Bulk<D> {
    fn over(config: TcpConfig, device: impl Fn() -> D) -> Self {
        let mut hosts = [0, 1].map(|side| host(side, device()));
        let mut now = Instant::from_secs(1);
        hosts[1]
            .listen(PORT, config.clone())
            .expect("the port is free");
        let remote = SocketAddrV4::new(address(1), PORT);
        let client = hosts[0]
            .connect(remote, config, now)
            .expect("the address is good");
        let server = loop {
            exchange(&mut hosts, &mut now);
            if let Some(Event::Accepted { socket, .. }) = hosts[1].next_event() {
                break socket;
            }
        };
        let mut bulk = Self {
            hosts,
            client,
            server,
            now,
            chunk: vec![0x5a; 64 << 10].into(),
            zero_copy: false,
        };
        bulk.transfer(32 << 20);
        bulk
    }

    /// The sending connection.
    pub fn info(&self) -> tautline_stack::TcpInfo {
        self.hosts[0]
            .info(self.client)
            .expect("the connection lives as long as the rig")
    }

    /// The sending host.
    pub const fn sender(&self) -> &Stack<D> {
        &self.hosts[0]
    }

    /// Moves `bytes` bytes from one application to the other. Returns the virtual time it took.
    pub fn transfer(&mut self, bytes: u64) -> Duration {
        let start = self.now;
        let (mut sent, mut received) = (0, 0);
        let mut buffer = [0; 64 << 10];
        while received < bytes {
            let want = self.chunk.len().min((bytes - sent) as usize);
            sent += self.send(want).expect("open") as u64;
            exchange(&mut self.hosts, &mut self.now);
            while let Ok(Recv::Data(count)) = self.receive(&mut buffer) {
                received += count as u64;
            }
        }
        self.now - start
    }

    fn send(&mut self, len: usize) -> Result<usize, SocketError> {
        if self.zero_copy {
            let mut chunk = self.chunk.slice(..len);
            self.hosts[0].tcp(self.client)?.send_owned(&mut chunk)
        } else {
            self.hosts[0].send(self.client, &self.chunk[..len])
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<Recv, SocketError> {
        if self.zero_copy {
            self.hosts[1].tcp(self.server)?.recv_with(<[u8]>::len)
        } else {
            self.hosts[1].recv(self.server, buffer)
        }
    }
}

/// One round: what was acknowledged in the last one arrives, so the round-trip time is one round.
fn exchange<D: Joined>(hosts: &mut [Stack<D>; 2], now: &mut Instant) {
    *now += ROUND;
    let [a, b] = hosts;
    while a.receive(*now) == 64 {}
    let _ = a.poll(*now);
    a.device_mut().end().carry(b.device_mut().end());
    while b.receive(*now) == 64 {}
    let _ = b.poll(*now);
    b.device_mut().end().carry(a.device_mut().end());
    while a.next_event().is_some() {}
}

fn address(side: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 7, 0, 1 + side)
}

fn host<D: Joined>(side: u8, device: D) -> Stack<D> {
    let config = HostConfig::new([2, 0, 0, 0, 0, 1 + side], u64::from(side))
        .address(Cidr::new(address(side), 24));
    // A drawn key would put the flows elsewhere in each run.
    let fair = fq_codel::Config {
        perturbation: Some(0),
        ..fq_codel::Config::default()
    };
    let qdisc = FqCodel::new(fair).expect("the default is valid");
    let pool = Pool::heap(1024, device.tso());
    let port = Port::new(qdisc, Ring::new(device, Dql::default()));
    Host::new(config, port, pool, NoTrace)
}
