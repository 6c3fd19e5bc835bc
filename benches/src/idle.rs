//! Two hosts with idle connections between them, and one that is busy: what a packet of the busy
//! one costs among the idle ones.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tautline_base::{HeapFrame, Instant, Packet, Pool, SocketId};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::{FqCodel, fq_codel};
use tautline_stack::{Cidr, Event, Host, HostConfig, NoTrace, Recv, TcpConfig};

use crate::back_to_back::BackToBack;

type Stack = Host<FqCodel<Packet<HeapFrame>>, BackToBack>;

/// Virtual time of one round of polls.
const ROUND: Duration = Duration::from_micros(50);
/// The first port listened on; one has no more than 28 232 connections of one peer.
const PORT: u16 = 5001;
const PORTS: usize = 4;
/// Connections opened together.
const BATCH: usize = 32;
/// Bytes of a request, and of its answer.
const MESSAGE: usize = 100;

/// The two hosts.
pub struct AmongIdle {
    hosts: [Stack; 2],
    now: Instant,
    clients: Vec<SocketId>,
    servers: Vec<SocketId>,
}

impl AmongIdle {
    /// Two hosts with `connections` connections, all quiet for ten seconds.
    pub fn new(connections: usize) -> Self {
        let mut hosts = [host(0), host(1)];
        let config = Arc::new(TcpConfig::default());
        for port in 0..PORTS as u16 {
            hosts[1]
                .listen(PORT + port, config.clone())
                .expect("the port is free");
        }
        let now = Instant::from_secs(1);
        let mut rig = Self {
            hosts,
            now,
            clients: Vec::new(),
            servers: Vec::new(),
        };
        while rig.clients.len() < connections {
            for _ in 0..BATCH.min(connections - rig.clients.len()) {
                let port = PORT + (rig.clients.len() % PORTS) as u16;
                let remote = SocketAddr::from((address(1), port));
                let client = rig.hosts[0]
                    .connect(remote, config.clone(), rig.now)
                    .expect("a port is free");
                rig.clients.push(client);
            }
            while rig.servers.len() < rig.clients.len() {
                rig.round();
            }
        }
        rig.now += Duration::from_secs(10);
        for _ in 0..10 {
            rig.round();
        }
        rig
    }

    /// Requests and answers, one after the other, on the first connection: four packets each, with
    /// nothing else to do.
    pub fn converse(&mut self, requests: usize) {
        let mut buffer = [0; MESSAGE];
        for _ in 0..requests {
            for (from, to) in [(0, 1), (1, 0)] {
                let ends = [self.clients[0], self.servers[0]];
                self.hosts[from]
                    .send(ends[from], &[7; MESSAGE])
                    .expect("open");
                let mut read = 0;
                while read < MESSAGE {
                    self.round();
                    if let Ok(Recv::Data(count)) = self.hosts[to].recv(ends[to], &mut buffer) {
                        read += count;
                    }
                }
            }
        }
    }

    fn round(&mut self) {
        self.now += ROUND;
        let [a, b] = &mut self.hosts;
        while a.receive(self.now) == 64 {}
        let _ = a.poll(self.now);
        a.device_mut().carry(b.device_mut());
        while b.receive(self.now) == 64 {}
        let _ = b.poll(self.now);
        b.device_mut().carry(a.device_mut());
        while a.next_event().is_some() {}
        while let Some(event) = b.next_event() {
            if let Event::Accepted { socket, .. } = event {
                self.servers.push(socket);
            }
        }
    }
}

fn address(side: u8) -> std::net::Ipv4Addr {
    std::net::Ipv4Addr::new(10, 7, 0, 1 + side)
}

fn host(side: u8) -> Stack {
    let config = HostConfig::new([2, 0, 0, 0, 0, 1 + side], side.into())
        .address(Cidr::new(address(side), 24));
    // A drawn key would put the flows elsewhere in each run.
    let fair = fq_codel::Config {
        perturbation: Some(0),
        ..fq_codel::Config::default()
    };
    let qdisc = FqCodel::new(fair).expect("the default is valid");
    let port = Port::new(qdisc, Ring::new(BackToBack::new(), Dql::default()));
    let pool = Pool::new((0..1024).map(|_| HeapFrame::new()).collect());
    Host::new(config, port, pool, NoTrace)
}
