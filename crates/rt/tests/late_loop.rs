//! A loop whose thread had no processor: what has arrived meanwhile is heard before timers speak. A
//! queue that stands is no such thing.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::rc::Rc;
use std::time::Duration;

use tautline_base::{Device, Frame, HeapFrame, Instant, Packet, Pool, Received, SocketId};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::Pfifo;
use tautline_rt::{Application, Clock, Ended, EventLoop, Idle, Next};
use tautline_stack::{Cidr, Event, Host, HostConfig, LossRecovery, TcpConfig};
use tautline_testkit::Ip;

type Machine = Host<Pfifo<Packet<HeapFrame>>, Wire>;
type Queue = Rc<RefCell<VecDeque<Vec<u8>>>>;

const PORT: u16 = 5001;
/// More than a batch of the loop.
const JUNK: usize = 200;

/// One end of a wire of any length; its descriptor never has anything to say.
struct Wire {
    inbox: Queue,
    outbox: Queue,
    done: Vec<Packet<HeapFrame>>,
    descriptor: UnixDatagram,
}

impl Device for Wire {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        1500
    }

    fn room(&self) -> usize {
        1024 - self.done.len()
    }

    fn put(&mut self, packet: Packet<HeapFrame>, _now: Instant) {
        self.outbox.borrow_mut().push_back(packet.bytes().to_vec());
        self.done.push(packet);
    }

    fn doorbell(&mut self, _now: Instant) {}

    fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        done.append(&mut self.done);
    }

    fn announces_completions(&self) -> bool {
        true
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn receive(&mut self, _now: Instant) -> Option<Received<HeapFrame>> {
        let bytes = self.inbox.borrow_mut().pop_front()?;
        let mut frame = HeapFrame::new();
        frame.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
        Some(Received::new(frame, 0, bytes.len() as u32))
    }

    fn recycle(&mut self, _frame: HeapFrame) {}

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        lost.append(&mut self.done);
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn host(last: u8, inbox: &Queue, outbox: &Queue, descriptor: UnixDatagram) -> Machine {
    let wire = Wire {
        inbox: Rc::clone(inbox),
        outbox: Rc::clone(outbox),
        done: Vec::new(),
        descriptor,
    };
    let address = Cidr::new(Ipv4Addr::new(10, 7, 0, last), 24);
    let config = HostConfig::new([2, 0, 0, 0, 0, last], last.into()).address(address);
    let port = Port::new(
        Pfifo::new(Default::default()),
        Ring::new(wire, Dql::default()),
    );
    Host::new(
        config,
        port,
        Pool::new((0..1024).map(|_| HeapFrame::new()).collect()),
        tautline_stack::NoTrace,
    )
}

/// Sends one byte and then has no processor for a while.
struct Client {
    socket: SocketId,
    peer: Machine,
    inbox: Queue,
    /// When the byte was sent.
    sent: Option<Instant>,
    /// The time of the turn that lasted long.
    delayed: Option<Instant>,
    /// Probes that were sent by the end of that turn: the test itself may be late, and its clock
    /// stands while it lasts.
    probes_before: Option<u64>,
    probes: u64,
    acknowledged: bool,
}

impl Application<Machine> for Client {
    fn on_event(&mut self, host: &mut Machine, event: Event, now: Instant) {
        if event == Event::Connected(self.socket) {
            assert_eq!(host.send(self.socket, &[1]).expect("open"), 1);
            self.sent = Some(now);
        }
    }

    fn turn(&mut self, host: &mut Machine, now: Instant) -> Next {
        let info = host.info(self.socket).expect("a connection");
        self.probes = info.tail_probes;
        self.acknowledged = self.delayed.is_some() && info.in_flight.get() == 0;
        if self.delayed.is_some_and(|at| now > at) {
            self.probes_before.get_or_insert(info.tail_probes);
        }
        if self.acknowledged
            || self
                .sent
                .is_some_and(|at| now > at + Duration::from_secs(5))
        {
            return Next::Done;
        }
        // The byte left in the turn before this one; its acknowledgment comes after much else.
        let left = info.in_flight.get() > 0;
        if self.sent.is_some() && left && self.delayed.is_none() {
            self.delayed = Some(now);
            self.inbox
                .borrow_mut()
                .extend(std::iter::repeat_n(vec![0; 60], JUNK));
            let _ = self.peer.receive(now);
            let _ = self.peer.poll(now);
            std::thread::park_timeout(Duration::from_millis(100));
        } else {
            let _ = self.peer.receive(now);
            let _ = self.peer.poll(now);
        }
        Next::At(now + Duration::from_micros(200))
    }
}

#[test]
fn an_acknowledgment_behind_a_batch_forestalls_the_probe() {
    let (left, right): (Queue, Queue) = Default::default();
    let (one, other) = UnixDatagram::pair().expect("descriptors");
    let event_loop = EventLoop::new(Clock::start(), Idle::Sleep).expect("a descriptor");
    let mut peer = host(2, &right, &left, other);
    peer.listen(
        PORT,
        TcpConfig {
            delayed_ack: Duration::ZERO,
            ..TcpConfig::default()
        },
    )
    .expect("the port is free");
    let mut ours = host(1, &left, &right, one);
    let loss_recovery = LossRecovery {
        max_ack_delay: Duration::ZERO,
        ..LossRecovery::default()
    };
    let config = TcpConfig {
        loss_recovery,
        ..TcpConfig::default()
    };
    let remote = SocketAddrV4::new(Ipv4Addr::new(10, 7, 0, 2), PORT);
    let socket = ours
        .connect(remote, config, event_loop.clock().now())
        .expect("a good address");
    let mut client = Client {
        socket,
        peer,
        inbox: Rc::clone(&left),
        sent: None,
        delayed: None,
        probes_before: None,
        probes: 0,
        acknowledged: false,
    };
    assert_eq!(
        event_loop.run(&mut ours, &mut client).expect("poll works"),
        Ended::Application
    );
    assert!(
        client.delayed.is_some() && client.acknowledged,
        "the byte was sent, and heard of"
    );
    assert_eq!(
        Some(client.probes),
        client.probes_before,
        "what was acknowledged is not sent again"
    );
}

/// Keeps the host's inbox full, and looks how much of it each turn takes.
struct Flood {
    inbox: Queue,
    request: Vec<u8>,
    turns: u32,
    /// Turns that took a batch and no more.
    single: u32,
    /// Turns that began with packets waiting to be sent.
    standing: u32,
}

/// Frames in the inbox before each turn, and those of a batch.
const WAITING: usize = 4 * BATCH;
const BATCH: usize = 64;

impl Application<Machine> for Flood {
    fn on_event(&mut self, _: &mut Machine, _: Event, _: Instant) {}

    fn turn(&mut self, host: &mut Machine, _: Instant) -> Next {
        let mut inbox = self.inbox.borrow_mut();
        if inbox.len() == WAITING - BATCH {
            self.single += 1;
        }
        self.standing += u32::from(!host.port().backlog().is_empty());
        self.turns += 1;
        inbox.resize(WAITING, self.request.clone());
        if self.turns == 200 {
            Next::Done
        } else {
            Next::Event
        }
    }
}

/// Packets that wait for the device make no turn late: it takes one batch, and then sends.
#[test]
fn a_standing_queue_does_not_count_as_lateness() {
    let (left, right): (Queue, Queue) = Default::default();
    let (one, _other) = UnixDatagram::pair().expect("descriptors");
    let event_loop = EventLoop::new(Clock::start(), Idle::Sleep).expect("a descriptor");
    let mut host = host(1, &left, &right, one);
    let echo = [
        &[8, 0][..],
        &internet_checksum(&[8, 0, 0, 0, 0, 1, 0, 1]),
        &[0, 1, 0, 1],
    ]
    .concat();
    let (from, to) = (Ipv4Addr::new(10, 7, 0, 2), Ipv4Addr::new(10, 7, 0, 1));
    let request = Ip::new(from, to, 1).frame([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], &echo);
    // More answers than a poll transmits.
    for _ in 0..WAITING {
        host.deliver(&request, event_loop.clock().now());
    }
    let mut flood = Flood {
        inbox: Rc::clone(&left),
        request,
        turns: 0,
        single: 0,
        standing: 0,
    };
    let ended = event_loop.run(&mut host, &mut flood).expect("poll works");
    assert_eq!(ended, Ended::Application);
    assert!(
        flood.standing > 150,
        "{} turns with a queue",
        flood.standing
    );
    // The thread may really have been late in some.
    assert!(flood.single > 20, "{} turns took one batch", flood.single);
}

fn internet_checksum(bytes: &[u8]) -> [u8; 2] {
    tautline_testkit::checksum(&[bytes]).to_be_bytes()
}
