//! The end of a host on a loop of its own.

use std::io::{ErrorKind, PipeReader, Read, Write, pipe};
use std::os::unix::net::UnixDatagram;
use std::rc::Rc;

use tautline_base::{HeapFrame, Pool};
use tautline_bql::{Port, Ring, Unlimited};
use tautline_qdisc::Pfifo;
use tautline_stack::{Cidr, HostConfig, NoTrace};

use super::*;
use crate::HostThread;
use crate::blocking::{TcpListener, TcpStream};
use crate::frame_device::{FrameDevice, FrameIo};
use crate::handle::Config;

/// A device whose descriptor has hung up. It counts its reads.
struct HungUp {
    descriptor: PipeReader,
    reads: Rc<Cell<u32>>,
}

impl AsFd for HungUp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl FrameIo for HungUp {
    fn write_frame(&self, _frame: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn read_frame(&self, _frame: &mut [u8]) -> io::Result<usize> {
        self.reads.set(self.reads.get() + 1);
        Err(io::ErrorKind::WouldBlock.into())
    }
}

type Machine<S> = Host<Pfifo<Packet<HeapFrame>>, FrameDevice<S>, NoTrace, Unlimited>;

fn host<S: FrameIo>(io: S, last: u8) -> Machine<S> {
    let device = FrameDevice::new(io, 1500);
    let ring = Ring::new(device, Unlimited::default());
    let address = Cidr::new([10, 7, 0, last], 24);
    let config = HostConfig::new([2, 0, 0, 0, 0, last], last.into()).address(address);
    let port = Port::new(Pfifo::new(Default::default()), ring);
    let pool = Pool::new((0..16).map(|_| HeapFrame::new()).collect());
    Host::new(config, port, pool, NoTrace)
}

/// The packets of a device that has failed do not leave any more: nothing is worth a wait, which
/// would return at once, over and over.
#[test]
fn a_host_on_a_failed_device_does_not_spin_while_it_drains() {
    let (descriptor, writer) = pipe().expect("descriptors");
    drop(writer);
    let reads = Rc::new(Cell::new(0));
    let io = HungUp {
        descriptor,
        reads: Rc::clone(&reads),
    };
    let mut host = host(io, 1);
    let event_loop = EventLoop::new(Clock::start(), Idle::Sleep).expect("descriptors");
    let now = event_loop.clock().now();
    let connected = host.connect(
        ([10, 7, 0, 2], 80),
        tautline_stack::TcpConfig::default(),
        now,
    );
    connected.expect("on the link");
    let _ = host.poll(now);
    assert_eq!(host.outstanding(), 1, "a question for the neighbor");
    let drained = event_loop.drain(&mut host, Duration::from_millis(500));
    drained.expect("the kernel waits");
    assert_eq!(reads.get(), 1);
}

/// One end of a cable that loses frames with payload once it is told to.
struct Lossy {
    socket: UnixDatagram,
    is_lossy: Arc<AtomicBool>,
}

impl AsFd for Lossy {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl FrameIo for Lossy {
    fn write_frame(&self, frame: &[u8]) -> io::Result<usize> {
        const LONGEST_HEADERS: usize = 14 + 20 + 60;
        if self.is_lossy.load(Ordering::Relaxed) && frame.len() > LONGEST_HEADERS {
            return Ok(frame.len());
        }
        self.socket.send(frame)
    }

    fn read_frame(&self, frame: &mut [u8]) -> io::Result<usize> {
        self.socket.recv(frame)
    }
}

/// The peer has missed data, so that it challenges the first reset.
#[test]
fn a_host_that_stops_resets_what_it_could_not_deliver() {
    let is_lossy = Arc::new(AtomicBool::new(false));
    let (left, right) = UnixDatagram::pair().expect("descriptors");
    let [(near, client), (far, server)] = [(left, 1), (right, 2)].map(|(socket, last)| {
        socket.set_nonblocking(true).expect("a socket");
        let is_lossy = Arc::clone(&is_lossy);
        let make = move || Ok(host(Lossy { socket, is_lossy }, last));
        HostThread::spawn(Config::default(), Idle::Sleep, make).expect("a thread")
    });
    let listener = TcpListener::bind(&server, 7).expect("free");
    let mut stream = TcpStream::connect(&client, ([10, 7, 0, 2], 7)).expect("it listens");
    let (mut accepted, _) = listener.accept().expect("one");
    is_lossy.store(true, Ordering::Relaxed);
    stream.write_all(&[7; 500]).expect("room");
    drop(stream);
    let limit = Duration::from_millis(100);
    near.stop_within(limit).expect("ran to its end");
    let patience = Some(Duration::from_secs(20));
    accepted.set_read_timeout(patience).expect("not zero");
    let end = accepted.read(&mut [0; 1000]).expect_err("nothing came");
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    far.stop().expect("ran to its end");
}
