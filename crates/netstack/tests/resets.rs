//! A stack that ends resets its connections, whatever the shape of its device, and however it ends.
#![cfg(target_os = "linux")]

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixDatagram as Socket;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Sink, Stream, sink, stream};
use tautline_netstack::device::{Device, FrameSocket, FrameStream, Messages, Nic, Packets, Tun};
use tautline_netstack::{Cidr, Netstack, TcpStream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{UnixDatagram, UnixStream};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::timeout;

const SERVER: [u8; 4] = [10, 9, 0, 1];
const CLIENT: [u8; 4] = [10, 9, 0, 2];
const MTU: usize = 1500;
const LIMIT: Duration = Duration::from_secs(20);

fn stack(device: impl Device, address: [u8; 4]) -> Netstack {
    let builder = Netstack::builder(device).address(Cidr::new(address, 24));
    builder.build().expect("a runtime")
}

/// Connections from `client` to `server`: the client's ends first.
async fn connections(client: &Netstack, server: &Netstack, count: usize) -> [Vec<TcpStream>; 2] {
    let listener = server.listen(7).await.expect("free");
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for _ in 0..count {
        near.push(client.connect((SERVER, 7)).await.expect("it listens"));
        far.push(listener.accept().await.expect("one").0);
    }
    [near, far]
}

/// Waits until each of `streams` has ended, by a reset.
async fn all_are_reset(streams: Vec<TcpStream>, why: &str) {
    for mut stream in streams {
        let end = timeout(LIMIT, stream.read(&mut [0; 10])).await;
        let end = end.unwrap_or_else(|_| panic!("{why}: no reset"));
        let error = end.expect_err("no orderly end");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{why}");
    }
}

/// A stack on the first device is dropped, or shut down, with connections that the application holds. They
/// are more than a host resets in one turn, and than the sockets here hold packets.
async fn ends<D: Device>(shape: &str, devices: impl Fn() -> [D; 2]) {
    const CONNECTIONS: usize = 200;
    for is_shut_down in [false, true] {
        let [far, near] = devices();
        let (server, client) = (stack(far, SERVER), stack(near, CLIENT));
        let [near, _held] = connections(&client, &server, CONNECTIONS).await;
        if is_shut_down {
            server.shutdown(Duration::from_millis(100)).await;
        } else {
            drop(server);
        }
        let how = format!("{shape}, shut down: {is_shut_down}");
        all_are_reset(near, &how).await;
    }
}

/// Both ends of a cable for frames.
fn sockets() -> [Socket; 2] {
    Socket::pair().expect("sockets").into()
}

fn asynchronous(socket: Socket) -> UnixDatagram {
    socket.set_nonblocking(true).expect("a socket");
    UnixDatagram::from_std(socket).expect("a runtime")
}

/// One packet per read and write.
struct Datagrams(UnixDatagram);

impl AsyncRead for Datagrams {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.poll_recv(context, buffer)
    }
}

impl AsyncWrite for Datagrams {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_send(context, data)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

type Received = Pin<Box<dyn Stream<Item = Bytes> + Send>>;
type Sent = Pin<Box<dyn Sink<Bytes, Error = io::Error> + Send>>;

/// Two devices of channels.
fn messages() -> [Messages<Received, Sent>; 2] {
    let ((left, from_left), (right, from_right)) = (unbounded_channel(), unbounded_channel());
    [(left, from_right), (right, from_left)].map(|(sender, mut receiver)| {
        let received = stream::poll_fn(move |context| receiver.poll_recv(context));
        let send = |sender: UnboundedSender<Bytes>, packet| async move {
            sender.send(packet).map_err(io::Error::other)?;
            Ok(sender)
        };
        let sent: Sent = Box::pin(sink::unfold(sender, send));
        let received: Received = Box::pin(received);
        Messages::new(received, sent, MTU)
    })
}

#[tokio::test]
async fn a_stack_that_ends_resets_its_connections_on_every_device() {
    let tun = |socket: Socket| Tun::of_descriptor(socket.into(), MTU).expect("a descriptor");
    ends("a TUN descriptor", || sockets().map(tun)).await;
    ends("a thread", || sockets().map(|end| tun(end).with_thread())).await;
    ends("any device", || {
        tautline_rt::cable().expect("sockets").map(Nic::new)
    })
    .await;
    ends("a socket for frames", || {
        sockets().map(|end| FrameSocket::new(asynchronous(end), MTU))
    })
    .await;
    ends("a stream of frames", || {
        let (left, right) = UnixStream::pair().expect("sockets");
        [left, right].map(|end| FrameStream::new(end, MTU))
    })
    .await;
    ends("reads and writes", || {
        sockets().map(|end| Packets::new(Datagrams(asynchronous(end)), MTU))
    })
    .await;
    ends("a stream and a sink", messages).await;
}

/// A runtime may end before the stack: what the device takes at once leaves.
#[tokio::test]
async fn a_stack_whose_runtime_is_shut_down_resets_its_connections_and_says_so() {
    let ends_of = [
        |[far, near]: [Socket; 2], is_server: bool| {
            let device = |end| FrameSocket::new(asynchronous(end), MTU);
            if is_server {
                stack(device(far), SERVER)
            } else {
                stack(device(near), CLIENT)
            }
        },
        |[far, near]: [Socket; 2], is_server: bool| {
            let device = |end: Socket| {
                Nic::new(tautline_rt::TunFd::of_descriptor(end.into(), MTU).expect("a descriptor"))
            };
            if is_server {
                stack(device(far), SERVER)
            } else {
                stack(device(near), CLIENT)
            }
        },
    ];
    for make in ends_of {
        let ends = sockets();
        let again = ends
            .each_ref()
            .map(|end| end.try_clone().expect("a descriptor"));
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build();
        let runtime = runtime.expect("threads");
        let guard = runtime.enter();
        let server = make(ends, true);
        drop(guard);
        let client = make(again, false);
        let [near, _held] = connections(&client, &server, 5).await;
        runtime.shutdown_background();
        all_are_reset(near, "its runtime").await;
        let error = server.ended().await.expect_err("no end in order");
        assert!(error.to_string().contains("runtime"), "{error}");
    }
}

/// The peer of a stream that is not delivered in time does not wait for its own timeout.
#[tokio::test]
async fn a_stack_that_is_shut_down_resets_what_dropped_streams_have_left() {
    let ends = sockets().map(|end| FrameSocket::new(asynchronous(end), MTU));
    let [far, near] = ends;
    let (server, client) = (stack(far, SERVER), stack(near, CLIENT));
    let [mut near, mut far] = connections(&client, &server, 1).await;
    let mut stream = far.pop().expect("one");
    // More than the client takes that does not read.
    while let Ok(written) = timeout(Duration::from_millis(300), stream.write(&[7; 10_000])).await {
        written.expect("open");
    }
    drop(stream);
    server.shutdown(Duration::from_millis(50)).await;
    let mut stream = near.pop().expect("one");
    let end = timeout(LIMIT, stream.read_to_end(&mut Vec::new())).await;
    let error = end.expect("a reset").expect_err("no orderly end");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}
