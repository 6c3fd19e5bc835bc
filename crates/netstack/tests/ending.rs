//! The end of a stack: by its device, with the reason, and in order, with everything delivered.
#![cfg(unix)]

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tautline_netstack::device::{FrameSocket, FrameStream, PacketIo};
use tautline_netstack::{Cidr, Netstack};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixDatagram, UnixStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

const SERVER: [u8; 4] = [10, 9, 0, 1];
const CLIENT: [u8; 4] = [10, 9, 0, 2];

/// Fails once its other end is dropped.
struct Failing(oneshot::Receiver<()>);

impl PacketIo for Failing {
    fn mtu(&self) -> usize {
        1500
    }

    fn poll_recv(&mut self, context: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
        let _ = ready!(Pin::new(&mut self.0).poll(context));
        let why = "revoked by the user";
        Poll::Ready(Err(io::Error::new(ErrorKind::PermissionDenied, why)))
    }

    fn poll_send(&mut self, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Waits for the end, and fails rather than waiting for ever.
async fn ended(stack: &Netstack) -> io::Result<()> {
    let limit = Duration::from_secs(20);
    timeout(limit, stack.ended()).await.expect("it ends")
}

#[tokio::test]
async fn a_device_that_fails_ends_its_stack_with_its_error() {
    let (user, failure) = oneshot::channel();
    let stack = Netstack::builder(Failing(failure)).build();
    let stack = stack.expect("a runtime");
    let incoming = stack.tcp_incoming().await.expect("the first");
    drop(user);
    for _ in 0..2 {
        let error = ended(&stack).await.expect_err("the device's");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert_eq!(error.to_string(), "revoked by the user");
    }
    let error = incoming.next().await.expect_err("the stack is gone");
    assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
}

#[tokio::test]
async fn the_end_of_a_device_is_no_error() {
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    let stack = Netstack::builder(FrameStream::new(ours, 1500)).build();
    let stack = stack.expect("a runtime");
    let _incoming = stack.tcp_incoming().await.expect("the first");
    // A program asks again after each other thing that it waits for.
    for _ in 0..10 {
        let early = timeout(Duration::from_millis(1), stack.ended()).await;
        early.expect_err("the other end is there");
    }
    drop(theirs);
    ended(&stack).await.expect("an end in order");
}

#[tokio::test]
async fn a_stream_of_frames_that_ends_within_one_is_an_error() {
    let (ours, mut theirs) = UnixStream::pair().expect("sockets");
    let stack = Netstack::builder(FrameStream::new(ours, 1500)).build();
    let stack = stack.expect("a runtime");
    let _incoming = stack.tcp_incoming().await.expect("the first");
    theirs.write_all(&[0, 0, 0, 60, 1]).await.expect("room");
    drop(theirs);
    let error = ended(&stack).await.expect_err("59 bytes are missing");
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
}

/// A descriptor whose other end is closed, and one that cannot be read at all.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_interface_that_cannot_be_read_any_more_ends_its_stack_with_the_reason() {
    use std::os::fd::OwnedFd;

    use tautline_netstack::device::Tun;

    for has_thread in [false, true] {
        let (ours, _) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let (_reader, writer) = std::io::pipe().expect("descriptors");
        let kinds = [ErrorKind::UnexpectedEof, bad_descriptor()];
        for (descriptor, kind) in [OwnedFd::from(ours), writer.into()].into_iter().zip(kinds) {
            let tun = Tun::of_descriptor(descriptor, 1500).expect("a descriptor");
            let tun = if has_thread { tun.with_thread() } else { tun };
            let stack = Netstack::builder(tun).build().expect("a runtime");
            let _incoming = stack.tcp_incoming().await.expect("the first");
            for _ in 0..2 {
                let error = ended(&stack).await.expect_err("no end in order");
                assert_eq!(error.kind(), kind, "{error}");
                assert!(error.to_string().contains("open"), "no remedy: {error}");
            }
        }
    }
}

/// The kind of EBADF.
#[cfg(target_os = "linux")]
fn bad_descriptor() -> ErrorKind {
    const EBADF: i32 = 9;
    io::Error::from_raw_os_error(EBADF).kind()
}

#[tokio::test]
async fn a_stack_that_is_shut_down_delivers_what_dropped_streams_have_left() {
    const BYTES: usize = 3_000_000;
    let stack = |socket, address: [u8; 4]| {
        let [.., last] = address;
        Netstack::builder(FrameSocket::new(socket, 1500))
            .mac([2, 0, 0, 0, 0, last])
            .address(Cidr::new(address, 24))
            .build()
            .expect("a runtime")
    };
    let (left, right) = UnixDatagram::pair().expect("sockets");
    let (server, client) = (stack(left, SERVER), stack(right, CLIENT));
    let listener = server.listen(7).await.expect("free");
    let sending = async {
        let mut stream = client.connect((SERVER, 7)).await.expect("listening");
        stream.write_all(&vec![7; BYTES]).await.expect("open");
        drop(stream);
        client.shutdown(Duration::from_secs(20)).await;
    };
    let receiving = async {
        let (mut stream, _) = listener.accept().await.expect("open");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.map(|_| all.len())
    };
    let both = async { tokio::join!(sending, receiving) };
    let limit = Duration::from_secs(30);
    let ((), received) = timeout(limit, both).await.expect("the stream ends");
    assert_eq!(received.expect("closed in order"), BYTES);
}
