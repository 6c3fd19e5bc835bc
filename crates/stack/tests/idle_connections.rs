//! Memory of an idle connection, to the byte, at both ends, after it has carried data both ways.
//!
//! With `--release` or `-- --ignored` there are 100 000 of them, else fewer. `cargo bench -p
//! tautline-benches --bench idle_connections` shows that they cost packets of others nothing.

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use tautline_base::{Device, HeapFrame, Instant, Packet, Pool, Received, SocketId};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::Pfifo;
use tautline_stack::{Cidr, Event, Host, HostConfig, Keepalive, NoTrace, Recv, TcpConfig};

/// The budget for one connection.
const BUDGET: f64 = 2048.0;
const MANY: usize = 100_000;
/// They fill the tables as well as the many.
const FEWER: usize = 3_125;
/// Ports listened on: one has no more than 28 232 connections of one peer.
const PORTS: usize = 4;
/// Connections opened together.
const BATCH: usize = 32;

thread_local! {
    /// The owner whose allocations are being measured. 0: the test; 1 and 2: the hosts.
    static OWNER: Cell<usize> = const { Cell::new(0) };
    /// Bytes allocated and not freed, by owner.
    static HELD: [Cell<i64>; 3] = const { [const { Cell::new(0) }; 3] };
}

/// Runs `work` and charges its allocations to `owner`.
fn on_account_of<R>(owner: usize, work: impl FnOnce() -> R) -> R {
    let before = OWNER.replace(owner);
    let mut result = None;
    let bytes = measure(|| result = Some(work())).bytes_current;
    OWNER.set(before);
    // The enclosing measurement counts these bytes, too.
    HELD.with(|held| {
        held[owner].set(held[owner].get() + bytes);
        held[before].set(held[before].get() - bytes);
    });
    result.expect("`measure` runs its argument")
}

/// A device without a wire; its memory is not counted.
#[derive(Default)]
struct Nic {
    sent: VecDeque<Vec<u8>>,
    done: Vec<Packet<HeapFrame>>,
}

impl Device for Nic {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        1500
    }

    fn room(&self) -> usize {
        256 - self.done.len()
    }

    fn put(&mut self, packet: Packet<HeapFrame>, _now: Instant) {
        on_account_of(0, || {
            self.sent.push_back(packet.bytes().to_vec());
            self.done.push(packet);
        });
    }

    fn doorbell(&mut self, _now: Instant) {}

    fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        on_account_of(0, || done.append(&mut self.done));
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn receive(&mut self, _now: Instant) -> Option<Received<HeapFrame>> {
        None
    }

    fn recycle(&mut self, _frame: HeapFrame) {}

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        lost.append(&mut self.done);
    }
}

type Stack = Host<Pfifo<Packet<HeapFrame>>, Nic>;

fn address(side: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 7, 0, 1 + side as u8)
}

fn host(side: usize) -> Stack {
    let config = HostConfig::new([2, 0, 0, 0, 0, 1 + side as u8], side as u64)
        .address(Cidr::new(address(side), 24));
    let port = Port::new(
        Pfifo::new(tautline_qdisc::pfifo::Config::default()),
        Ring::new(Nic::default(), Dql::default()),
    );
    let pool = Pool::new((0..512).map(|_| HeapFrame::new()).collect());
    Host::new(config, port, pool, NoTrace)
}

/// Two hosts; whatever either does is on its own account.
struct Rig {
    hosts: [Stack; 2],
    now: Instant,
    accepted: Vec<SocketId>,
}

impl Rig {
    fn on<R>(&mut self, side: usize, work: impl FnOnce(&mut Stack, Instant) -> R) -> R {
        let host = &mut self.hosts[side];
        on_account_of(1 + side, || work(host, self.now))
    }

    /// Lets `time` pass while frames cross in no time.
    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let mut next = end;
            for side in 0..2 {
                let wake = self.on(side, |host, now| host.poll(now));
                next = next.min(wake.map_or(end, |wake| wake.at.max(self.now)));
                while let Some(frame) = self.hosts[side].device_mut().sent.pop_front() {
                    self.on(1 - side, |host, now| host.deliver(&frame, now));
                    next = self.now;
                }
                while let Some(event) = self.on(side, |host, _| host.next_event()) {
                    if let Event::Accepted { socket, .. } = event {
                        self.accepted.push(socket);
                    }
                }
            }
            if self.now >= end && next >= end {
                return;
            }
            self.now = next;
        }
    }
}

fn held(side: usize) -> i64 {
    HELD.with(|held| held[1 + side].get())
}

#[test]
fn an_idle_connection_stays_within_its_budget() {
    stays_within_its_budget(if cfg!(debug_assertions) { FEWER } else { MANY });
}

#[test]
#[ignore = "takes half a minute without optimisation"]
fn each_of_a_hundred_thousand_idle_connections_does() {
    stays_within_its_budget(MANY);
}

fn stays_within_its_budget(connections: usize) {
    let mut rig = Rig {
        hosts: [host(0), host(1)],
        now: Instant::from_secs(1),
        accepted: Vec::new(),
    };
    let config = Arc::new(TcpConfig::default());
    for port in 0..PORTS {
        rig.on(1, |host, _| host.listen(5000 + port as u16, config.clone()))
            .expect("the port is free");
    }
    let mut clients = Vec::with_capacity(connections);
    let mut buffer = [0; 2048];
    let before = [held(0), held(1)];
    while clients.len() < connections {
        for _ in 0..BATCH {
            let remote = SocketAddr::from((address(1), 5000 + (clients.len() % PORTS) as u16));
            clients.push(
                rig.on(0, |host, now| host.connect(remote, config.clone(), now))
                    .expect("a port is free"),
            );
        }
        rig.run_for(Duration::from_millis(1));
        // Every connection has worked: a request and its answer.
        let ends: Vec<_> = [(0, &clients), (1, &rig.accepted)]
            .into_iter()
            .flat_map(|(side, sockets)| {
                sockets[sockets.len() - BATCH..]
                    .iter()
                    .map(move |socket| (side, *socket))
            })
            .collect();
        for (side, socket) in ends.iter().copied() {
            assert_eq!(
                rig.on(side, |host, _| host.send(socket, &[7; 2000])),
                Ok(2000)
            );
        }
        rig.run_for(Duration::from_millis(100));
        for (side, socket) in ends {
            assert_eq!(
                rig.on(side, |host, _| host.recv(socket, &mut buffer)),
                Ok(Recv::Data(2000))
            );
        }
        rig.run_for(Duration::from_millis(50));
    }
    rig.run_for(Duration::from_secs(10));
    let each = [0, 1].map(|side| (held(side) - before[side]) as f64 / clients.len() as f64);
    println!(
        "{} idle connections: {:.0} bytes each where opened, {:.0} where accepted",
        clients.len(),
        each[0],
        each[1]
    );
    assert!(
        each.iter().all(|bytes| *bytes <= BUDGET),
        "{each:?} bytes a connection"
    );
    assert!(
        rig.hosts
            .iter_mut()
            .all(|host| host.poll(rig.now).is_none()),
        "idle connections want nothing"
    );
    for (side, sockets) in [clients, rig.accepted.clone()].into_iter().enumerate() {
        assert_eq!(rig.hosts[side].buffer_memory(), 0, "nor hold buffers");
        let alive = sockets.iter().all(|socket| {
            rig.hosts[side]
                .info(*socket)
                .is_some_and(|info| info.state == "ESTABLISHED")
        });
        assert!(alive);
    }
}

/// Every delayed acknowledgment is a deadline before the one of a keepalive probe, which is hours away:
/// not each of them may leave an entry for that one behind.
#[test]
fn deadlines_far_away_take_no_memory_for_each_one_before_them() {
    let mut rig = Rig {
        hosts: [host(0), host(1)],
        now: Instant::from_secs(1),
        accepted: Vec::new(),
    };
    let config = Arc::new(TcpConfig {
        keepalive: Some(Keepalive::default()),
        ..TcpConfig::default()
    });
    rig.on(1, |host, _| host.listen(5000, config.clone()))
        .expect("the port is free");
    let remote = SocketAddr::from((address(1), 5000));
    let client = rig.on(0, |host, now| host.connect(remote, config, now));
    let client = client.expect("a port is free");
    rig.run_for(Duration::from_millis(1));
    let mut before = 0;
    for number in 0..20_000 {
        if number == 1_000 {
            before = held(1);
        }
        assert_eq!(rig.on(0, |host, _| host.send(client, &[7])), Ok(1));
        rig.run_for(Duration::from_millis(100));
        let server = rig.accepted[0];
        let read = rig.on(1, |host, _| host.recv(server, &mut [0; 10]));
        assert_eq!(read, Ok(Recv::Data(1)));
    }
    let more = held(1) - before;
    assert!(more < 1_000, "{more} bytes more");
}
