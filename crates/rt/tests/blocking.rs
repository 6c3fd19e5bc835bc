//! The sockets for threads that wait, without any runtime.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{scope, spawn};
use std::time::Duration;

use tautline_base::{HeapFrame, Pool};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::{Pfifo, pfifo};
use tautline_rt::blocking::{TcpListener, TcpStream, UdpSocket};
use tautline_rt::handle::Config;
use tautline_rt::{Cable, Clock, HostThread, Idle, StackHandle, cable};
use tautline_stack::{Cidr, Host, HostConfig, NoTrace};

const PORT: u16 = 7;
const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 7, 0, 2), PORT);
const SHORT: Duration = Duration::from_millis(50);

fn host(device: Cable, number: u8) -> (HostThread, StackHandle) {
    HostThread::spawn(Config::default(), Idle::Sleep, move || {
        let config = HostConfig::new([2, 0, 0, 0, 0, number], number.into())
            .address(Cidr::new(Ipv4Addr::new(10, 7, 0, number), 24));
        let port = Port::new(
            Pfifo::new(pfifo::Config::default()),
            Ring::new(device, Dql::default()),
        );
        let frames = Pool::new((0..512).map(|_| HeapFrame::new()).collect());
        Ok(Host::new(config, port, frames, NoTrace))
    })
    .expect("a thread")
}

fn with_stacks(test: impl FnOnce(&StackHandle, &StackHandle)) {
    let [left, right] = cable().expect("descriptors");
    let ((left, client), (right, server)) = (host(left, 1), host(right, 2));
    test(&client, &server);
    left.stop().expect("ran to its end");
    right.stop().expect("ran to its end");
}

#[test]
fn lines_and_streams_go_there_and_back() {
    with_stacks(|client, server| {
        let listener = TcpListener::bind(server, PORT).expect("free");
        scope(|threads| {
            threads.spawn(|| {
                let stream = listener
                    .incoming()
                    .next()
                    .expect("endless")
                    .expect("accepted");
                let mut reader = BufReader::new(&stream);
                let mut line = String::new();
                reader.read_line(&mut line).expect("a line");
                (&stream)
                    .write_all(line.to_uppercase().as_bytes())
                    .expect("written");
                let mut rest = Vec::new();
                reader.read_to_end(&mut rest).expect("to the end");
                (&stream).write_all(&rest).expect("written");
            });
            let mut stream = TcpStream::connect(client, SERVER).expect("connected");
            stream.handle().set_nodelay(true).expect("open");
            stream.write_all(b"taut\n").expect("written");
            let mut line = [0; 5];
            assert_eq!(stream.peek(&mut line[..2]).expect("there"), 2);
            stream.read_exact(&mut line).expect("there");
            assert_eq!(&line, b"TAUT\n");
            // Two threads, one stream.
            let stream = Arc::new(stream);
            let sent: Vec<u8> = (0..500_000u32).map(|at| (at ^ (at >> 9)) as u8).collect();
            let writer = spawn({
                let (stream, sent) = (Arc::clone(&stream), sent.clone());
                move || {
                    (&*stream).write_all(&sent).expect("written");
                    stream.shutdown(Shutdown::Write).expect("open");
                    assert_eq!(
                        (&*stream).write(b"x").expect_err("shut down").kind(),
                        ErrorKind::BrokenPipe
                    );
                }
            });
            let mut received = Vec::new();
            (&*stream).read_to_end(&mut received).expect("to the end");
            writer.join().expect("no panic");
            assert!(received == sent);
            assert_eq!(
                stream
                    .shutdown(Shutdown::Both)
                    .expect_err("not alone")
                    .kind(),
                ErrorKind::Unsupported
            );
        });
    });
}

#[test]
fn timeouts_bound_every_wait() {
    with_stacks(|client, server| {
        let clock = Clock::start();
        let silent: SocketAddr = "10.7.0.77:1".parse().expect("an address");
        let error = TcpStream::connect_timeout(client, silent, SHORT).expect_err("nobody is there");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let never = TcpStream::connect_timeout(client, silent, Duration::ZERO);
        assert_eq!(never.expect_err("zero").kind(), ErrorKind::InvalidInput);
        let listener = TcpListener::bind(server, PORT).expect("free");
        listener.set_accept_timeout(Some(SHORT)).expect("not zero");
        assert_eq!(
            listener.accept().expect_err("nobody").kind(),
            ErrorKind::TimedOut
        );
        let mut stream =
            TcpStream::connect_timeout(client, SERVER, Duration::from_secs(10)).expect("connected");
        let (mut peer, _) = listener.accept().expect("accepted");
        stream.set_read_timeout(Some(SHORT)).expect("not zero");
        assert_eq!(
            stream
                .set_read_timeout(Some(Duration::ZERO))
                .expect_err("zero")
                .kind(),
            ErrorKind::InvalidInput
        );
        assert_eq!(
            stream.read(&mut [0; 1]).expect_err("silence").kind(),
            ErrorKind::TimedOut
        );
        // A read that timed out has taken nothing.
        peer.write_all(b"late").expect("written");
        let mut out = [0; 4];
        stream.read_exact(&mut out).expect("there");
        assert_eq!(&out, b"late");
        stream.set_write_timeout(Some(SHORT)).expect("not zero");
        let error = loop {
            if let Err(error) = stream.write(&[0; 100_000]) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut, "nobody reads");
        let waited = clock.now().as_millis();
        assert!(waited >= 200, "four timeouts took {waited} ms");
    });
}

/// Nobody should block a thread of tokio's, but the kernel's sockets work there: a task has a budget for
/// asynchronous calls, which these are within.
#[test]
fn blocking_calls_in_a_task_go_on_when_its_budget_is_used_up() {
    const CALLS: usize = 1000;
    let (over, is_over) = channel();
    spawn(move || {
        with_stacks(|client, server| {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            runtime.expect("a runtime").block_on(async {
                let far = UdpSocket::bind(server, SERVER).expect("free");
                let near = UdpSocket::bind(client, SocketAddr::from(([0; 4], 0)));
                let near = near.expect("free");
                for _ in 0..CALLS {
                    near.handle().try_send_to(b"one", SERVER).expect("room");
                    assert_eq!(far.recv(&mut [0; 10]).expect("there"), 3);
                }
            });
        });
        over.send(()).expect("the test waits");
    });
    let waited = is_over.recv_timeout(Duration::from_secs(20));
    waited.expect("a call spins");
}

#[test]
fn datagrams_with_patience() {
    with_stacks(|client, server| {
        let far = UdpSocket::bind(server, SERVER).expect("free");
        let near = UdpSocket::bind(
            client,
            "0.0.0.0:0".parse::<SocketAddr>().expect("an address"),
        )
        .expect("free");
        near.connect(SERVER).expect("a good address");
        near.send(b"ping").expect("sent");
        let mut out = [0; 10];
        let (count, from) = far.recv_from(&mut out).expect("there");
        assert_eq!(&out[..count], b"ping");
        far.send_to(b"pong", from).expect("sent");
        assert_eq!(near.recv(&mut out).expect("there"), 4);
        near.set_read_timeout(Some(SHORT)).expect("not zero");
        assert_eq!(
            near.recv(&mut out).expect_err("silence").kind(),
            ErrorKind::TimedOut
        );
    });
}

#[expect(clippy::disallowed_methods, reason = "a linger time is of real time")]
fn wait(time: Duration) {
    std::thread::sleep(time);
}

/// Writes until neither host takes more, and drops the stream.
fn fill_and_drop(mut stream: TcpStream) -> usize {
    let timeout = Some(Duration::from_millis(300));
    stream.set_write_timeout(timeout).expect("not zero");
    let mut written = 0;
    while let Ok(count) = stream.write(&[7; 10_000]) {
        written += count;
    }
    written
}

/// Its ring is full, too, when it is dropped.
#[test]
fn the_linger_time_of_a_full_stream_begins_when_it_is_dropped() {
    with_stacks(|client, server| {
        let listener = TcpListener::bind(server, PORT).expect("free");
        let stream = TcpStream::connect(client, SERVER).expect("it listens");
        let (mut accepted, _) = listener.accept().expect("one");
        let linger = Some(Duration::from_millis(200));
        stream.handle().set_linger(linger).expect("open");
        fill_and_drop(stream);
        wait(Duration::from_secs(1));
        let mut buffer = vec![0; 65_536];
        let end = loop {
            match accepted.read(&mut buffer) {
                Ok(1..) => {}
                end => break end,
            }
        };
        let reset = end.expect_err("no orderly end").kind();
        assert_eq!(reset, ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_host_that_stops_delivers_what_a_dropped_stream_has_left() {
    let [left, right] = cable().expect("descriptors");
    let ((left, client), (right, server)) = (host(left, 1), host(right, 2));
    let listener = TcpListener::bind(&server, PORT).expect("free");
    let stream = TcpStream::connect(&client, SERVER).expect("it listens");
    let (mut accepted, _) = listener.accept().expect("one");
    let patience = Some(Duration::from_secs(20));
    accepted.set_read_timeout(patience).expect("not zero");
    let written = fill_and_drop(stream);
    let reader = spawn(move || {
        wait(SHORT);
        let mut all = Vec::new();
        accepted.read_to_end(&mut all).map(|_| all.len())
    });
    // The reader may be scheduled late.
    left.stop_within(Duration::from_secs(20))
        .expect("ran to its end");
    let read = reader.join().expect("no panic");
    assert_eq!(read.expect("an orderly end"), written);
    right.stop().expect("ran to its end");
}

#[test]
fn a_host_that_stops_resets_what_its_peer_does_not_take() {
    let [left, right] = cable().expect("descriptors");
    let ((left, client), (right, server)) = (host(left, 1), host(right, 2));
    let listener = TcpListener::bind(&server, PORT).expect("free");
    let stream = TcpStream::connect(&client, SERVER).expect("it listens");
    let (mut accepted, _) = listener.accept().expect("one");
    let patience = Some(Duration::from_secs(20));
    accepted.set_read_timeout(patience).expect("not zero");
    fill_and_drop(stream);
    left.stop_within(SHORT).expect("ran to its end");
    let end = accepted.read_to_end(&mut Vec::new());
    let reset = end.expect_err("no orderly end").kind();
    assert_eq!(reset, ErrorKind::ConnectionReset);
    right.stop().expect("ran to its end");
}

/// As in Linux, whose `tcp_shutdown` wakes those who wait for space: they get a broken pipe.
#[test]
fn a_shutdown_ends_the_write_of_another_thread() {
    with_stacks(|client, server| {
        let listener = TcpListener::bind(server, PORT).expect("free");
        let stream = TcpStream::connect(client, SERVER).expect("it listens");
        let (_accepted, _) = listener.accept().expect("one");
        let timeout = Some(Duration::from_secs(10));
        stream.set_write_timeout(timeout).expect("not zero");
        let (sender, ended) = channel();
        scope(|threads| {
            threads.spawn(|| {
                let error = loop {
                    if let Err(error) = (&stream).write(&[7; 10_000]) {
                        break error.kind();
                    }
                };
                sender.send(error).expect("it is awaited");
            });
            // Until the rings and buffers are full.
            wait(Duration::from_millis(500));
            stream.shutdown(Shutdown::Write).expect("supported");
            let error = ended.recv_timeout(Duration::from_secs(5));
            assert_eq!(error, Ok(ErrorKind::BrokenPipe));
        });
    });
}
