//! The event loop in real time: hosts on threads of their own, joined by a cable; a TAP interface
//! and the kernel behind it.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::Command;
use std::thread;
use std::time::Duration;

use tautline_base::{HeapFrame, Instant, Packet, Pool, SocketId};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::Pfifo;
use tautline_rt::frame_device::{FrameDevice, FrameIo};
use tautline_rt::{Application, Clock, Ended, EventLoop, Idle, Next, Tap, TapError, cable};
use tautline_stack::{Cidr, Event, Host, HostConfig, NoTrace, Recv, TcpConfig};

type Machine<S> = Host<Pfifo<Packet<HeapFrame>>, FrameDevice<S>, NoTrace>;

const PORT: u16 = 5001;
const BYTES: usize = 5_000_000;
/// Far beyond what anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

fn host<S: FrameIo>(device: FrameDevice<S>, last: u8) -> Machine<S> {
    let address = Ipv4Addr::new(10, 7, 0, last);
    let config =
        HostConfig::new([2, 0, 0, 0, 0, last], last.into()).address(Cidr::new(address, 24));
    let port = Port::new(
        Pfifo::new(Default::default()),
        Ring::new(device, Dql::default()),
    );
    Host::new(
        config,
        port,
        Pool::new((0..512).map(|_| HeapFrame::new()).collect()),
        NoTrace,
    )
}

fn byte(at: usize) -> u8 {
    (at ^ (at >> 7)) as u8
}

/// Sends the stream, then waits for the other end to close.
struct Sender {
    socket: SocketId,
    sent: usize,
    over: bool,
}

impl<S: FrameIo> Application<Machine<S>> for Sender {
    fn on_event(&mut self, host: &mut Machine<S>, event: Event, _now: Instant) {
        match event {
            Event::Connected(_) | Event::Writable(_) => {
                while self.sent < BYTES {
                    let chunk: Vec<u8> = (self.sent..BYTES.min(self.sent + 10_000))
                        .map(byte)
                        .collect();
                    match host.send(self.socket, &chunk).expect("open") {
                        0 => return,
                        taken => self.sent += taken,
                    }
                }
                host.shutdown(self.socket).expect("open");
            }
            Event::Readable(_) => {
                self.over = host.recv(self.socket, &mut [0]).expect("open") == Recv::EndOfStream
            }
            other => panic!("{other:?}"),
        }
    }

    fn turn(&mut self, _host: &mut Machine<S>, _now: Instant) -> Next {
        if self.over { Next::Done } else { Next::Event }
    }
}

/// Checks every byte, and closes at the end.
struct Receiver {
    received: usize,
    over: bool,
}

impl<S: FrameIo> Application<Machine<S>> for Receiver {
    fn on_event(&mut self, host: &mut Machine<S>, event: Event, _now: Instant) {
        let mut buffer = [0; 4096];
        match event {
            Event::Readable(socket) => loop {
                match host.recv(socket, &mut buffer).expect("open") {
                    Recv::Data(count) => {
                        for (offset, found) in buffer[..count].iter().enumerate() {
                            assert_eq!(*found, byte(self.received + offset));
                        }
                        self.received += count;
                    }
                    Recv::Empty => break,
                    Recv::EndOfStream => {
                        host.shutdown(socket).expect("open");
                        break;
                    }
                }
            },
            Event::Closed { .. } => self.over = true,
            _ => {}
        }
    }

    fn turn(&mut self, _host: &mut Machine<S>, _now: Instant) -> Next {
        if self.over { Next::Done } else { Next::Event }
    }
}

fn transfer(idle: Idle, gather: Duration) {
    let [left, right] = cable().expect("descriptors");
    let receiving = thread::spawn(move || {
        let event_loop = EventLoop::new(Clock::start(), idle)
            .expect("a descriptor")
            .gathering(gather);
        let (mut host, mut receiver) = (
            host(right, 2),
            Receiver {
                received: 0,
                over: false,
            },
        );
        host.listen(PORT, TcpConfig::default())
            .expect("the port is free");
        assert_eq!(
            event_loop
                .run(&mut host, &mut receiver)
                .expect("poll works"),
            Ended::Application
        );
        receiver.received
    });
    let event_loop = EventLoop::new(Clock::start(), idle)
        .expect("a descriptor")
        .gathering(gather);
    let mut host = host(left, 1);
    let remote = SocketAddrV4::new(Ipv4Addr::new(10, 7, 0, 2), PORT);
    // Nobody listens before the other thread runs; a lost ARP request is asked again.
    let socket = host
        .connect(remote, TcpConfig::default(), event_loop.clock().now())
        .expect("a good address");
    let mut sender = Sender {
        socket,
        sent: 0,
        over: false,
    };
    assert_eq!(
        event_loop.run(&mut host, &mut sender).expect("poll works"),
        Ended::Application
    );
    event_loop.drain(&mut host, LIMIT).expect("poll works");
    assert_eq!(host.outstanding(), 0);
    assert_eq!(receiving.join().expect("no panic"), BYTES);
}

#[test]
fn a_stream_crosses_a_cable_asleep() {
    transfer(Idle::Sleep, Duration::from_micros(20));
    transfer(Idle::Sleep, Duration::ZERO);
}

#[test]
fn a_stream_crosses_a_cable_spinning() {
    transfer(Idle::Spin, Duration::ZERO);
}

/// Waits for twenty moments, one after the other.
struct Alarm {
    at: Instant,
    rings: u32,
}

impl<S: FrameIo> Application<Machine<S>> for Alarm {
    fn on_event(&mut self, _host: &mut Machine<S>, event: Event, _now: Instant) {
        panic!("{event:?}");
    }

    fn turn(&mut self, _host: &mut Machine<S>, now: Instant) -> Next {
        if now >= self.at {
            self.rings += 1;
            self.at = now + Duration::from_millis(1);
        }
        if self.rings == 20 {
            Next::Done
        } else {
            Next::At(self.at)
        }
    }
}

#[test]
fn an_application_is_called_when_it_asked_to_be() {
    let [left, _right] = cable().expect("descriptors");
    let event_loop = EventLoop::new(Clock::start(), Idle::Sleep).expect("a descriptor");
    let begun = event_loop.clock().now();
    let mut alarm = Alarm {
        at: begun + Duration::from_millis(1),
        rings: 0,
    };
    assert_eq!(
        event_loop
            .run(&mut host(left, 1), &mut alarm)
            .expect("poll works"),
        Ended::Application
    );
    assert!(event_loop.clock().now() - begun >= Duration::from_millis(20));
}

#[test]
fn an_idle_loop_is_stopped_from_elsewhere() {
    let [left, _right] = cable().expect("descriptors");
    let event_loop = EventLoop::new(Clock::start(), Idle::Sleep).expect("a descriptor");
    let stopper = event_loop.stopper();
    let mut never = Receiver {
        received: 0,
        over: false,
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            // Long enough that the loop is asleep in most runs; either way it must end.
            thread::park_timeout(Duration::from_millis(20));
            stopper.stop();
        });
        assert_eq!(
            event_loop
                .run(&mut host(left, 1), &mut never)
                .expect("poll works"),
            Ended::Stopped
        );
    });
}

/// A TAP interface for one test, or the reason why it could not be opened.
fn tap(name: &str) -> Result<Tap, String> {
    match Tap::open(name) {
        Ok(tap) => Ok(tap),
        Err(
            error @ (TapError::NoDriver | TapError::DriverClosed | TapError::NoPermission { .. }),
        ) => Err(error.to_string()),
        Err(error) => panic!("{error}"),
    }
}

fn ip(arguments: &str) -> bool {
    Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .is_ok_and(|status| status.success())
}

#[test]
fn the_kernel_behind_a_tap_interface_gets_its_pings_answered() {
    let name = format!("tlp{}", std::process::id() % 1_000_000);
    let device = match tap(&name) {
        Ok(device) => device,
        Err(why) => return println!("skipped: {why}"),
    };
    assert!(
        matches!(Tap::open(&name), Err(TapError::Busy { .. })),
        "one program per interface"
    );
    assert!(matches!(Tap::open("lo"), Err(TapError::NotTap { .. })));
    // A network nobody has: 198.18.0.0/15 is for benchmarks (RFC 2544).
    let network = std::process::id() % 255;
    if !ip(&format!("address add 198.18.{network}.1/24 dev {name}"))
        || !ip(&format!("link set {name} up"))
    {
        return println!("skipped: `ip` cannot configure {name}");
    }
    let ours = format!("198.18.{network}.2");
    let event_loop = EventLoop::new(Clock::start(), Idle::Sleep).expect("a descriptor");
    let stopper = event_loop.stopper();
    let pinging = thread::spawn({
        let ours = ours.clone();
        move || {
            let answered = Command::new("ping")
                .args(["-c", "3", "-i", "0.1", "-W", "5", &ours])
                .output();
            stopper.stop();
            answered
        }
    });
    let address: Ipv4Addr = ours.parse().expect("an address");
    let config = HostConfig::new([2, 0, 0, 0, 0, 2], 1).address(Cidr::new(address, 24));
    let port = Port::new(
        Pfifo::new(Default::default()),
        Ring::new(device, Dql::default()),
    );
    let frames = (0..64).map(|_| HeapFrame::new()).collect();
    let mut host: Machine<_> = Host::new(config, port, Pool::new(frames), NoTrace);
    let mut nothing = Receiver {
        received: 0,
        over: false,
    };
    assert_eq!(
        event_loop.run(&mut host, &mut nothing).expect("poll works"),
        Ended::Stopped
    );
    match pinging.join().expect("no panic") {
        Ok(output) => assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        ),
        Err(error) => println!("skipped: ping: {error}"),
    }
    assert!(host.device_mut().counters().received >= 3);
    drop(host);
    assert!(
        !ip(&format!("-brief link show {name}")),
        "the interface goes with its device"
    );
}

#[test]
fn a_removed_tap_interface_ends_the_loop() {
    let name = format!("tlr{}", std::process::id() % 1_000_000);
    let device = match tap(&name) {
        Ok(device) => device,
        Err(why) => return println!("skipped: {why}"),
    };
    if !ip(&format!("link set {name} up")) {
        return println!("skipped: `ip` cannot configure {name}");
    }
    let event_loop = EventLoop::new(Clock::start(), Idle::Sleep).expect("a descriptor");
    let removing = thread::spawn(move || {
        thread::park_timeout(Duration::from_millis(50));
        ip(&format!("link delete {name}"))
    });
    let mut nothing = Receiver {
        received: 0,
        over: false,
    };
    assert_eq!(
        event_loop
            .run(&mut host(device, 3), &mut nothing)
            .expect("poll works"),
        Ended::DeviceFailed
    );
    assert!(removing.join().expect("no panic"));
}
