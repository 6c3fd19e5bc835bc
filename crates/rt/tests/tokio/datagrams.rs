//! [`UdpSocket`] behaves as tokio's.

use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tautline_base::Bytes;
use tautline_rt::handle::Failure;
use tautline_rt::{Interest, UdpSocket};
use tautline_stack::socket::PathError;
use tautline_stack::{SendError, UdpConfig};
use tokio::task::{JoinSet, yield_now};

use super::world::{SERVER, World, noise};

const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

async fn pair(world: &World) -> (UdpSocket, UdpSocket) {
    let server = UdpSocket::bind(&world.server, SERVER).await.expect("free");
    (
        UdpSocket::bind(&world.client, ANY).await.expect("free"),
        server,
    )
}

#[test]
fn datagrams_there_and_back() {
    World::new().run(async |world| {
        let (client, server) = pair(world).await;
        assert_eq!(server.local_addr().expect("bound"), SERVER.into());
        assert_eq!(
            client.send(b"x").await.expect_err("to whom?").kind(),
            ErrorKind::NotConnected
        );
        assert_eq!(
            client.peer_addr().expect_err("nobody").kind(),
            ErrorKind::NotConnected
        );
        client.connect(SERVER).await.expect("a good address");
        assert_eq!(client.peer_addr().expect("connected"), SERVER.into());
        let mut out = [0; 2000];
        for size in [0, 1, 1472] {
            let sent = noise(size);
            assert_eq!(client.send(&sent).await.expect("sent"), size);
            assert_eq!(
                server
                    .peek_from(&mut out[..size / 2])
                    .await
                    .expect("there")
                    .0,
                size / 2
            );
            let (count, from) = server.recv_from(&mut out).await.expect("there");
            assert!(out[..count] == sent);
            server.send_to(&sent, from).await.expect("sent");
            assert_eq!(client.recv(&mut out).await.expect("there"), size);
            assert!(out[..size] == sent);
        }
        let error = client.send(&[0; 1473]).await.expect_err("too long");
        assert_eq!(
            error.downcast::<Failure>().expect("a failure"),
            Failure::Send(SendError::TooLong {
                len: 1473,
                most: 1472
            })
        );
        assert_eq!(
            client.try_recv(&mut out).expect_err("nothing").kind(),
            ErrorKind::WouldBlock
        );
        let info = server.info().await.expect("open");
        assert_eq!((info.received, info.overflowed), (3, 0));
    });
}

#[test]
fn readiness_says_what_would_not_wait() {
    World::new().run(async |world| {
        let (client, server) = pair(world).await;
        let ready = server
            .ready(Interest::READABLE | Interest::WRITABLE)
            .await
            .expect("ready");
        assert!(ready.is_writable() && !ready.is_readable());
        let mut out = [0; 8];
        let nothing = server.try_io(Interest::READABLE, || -> std::io::Result<()> {
            panic!("nothing is there")
        });
        assert_eq!(nothing.expect_err("nothing").kind(), ErrorKind::WouldBlock);
        let (ready, sent) = tokio::join!(
            server.ready(Interest::READABLE),
            client.send_to(b"taut", SERVER)
        );
        sent.expect("sent");
        assert!(ready.expect("ready").is_readable());
        let (count, _) = server
            .try_io(Interest::READABLE, || server.try_recv_from(&mut out))
            .expect("there");
        assert_eq!(&out[..count], b"taut");
    });
}

#[test]
fn a_refused_datagram_is_told_once() {
    World::new().run(async |world| {
        let client = UdpSocket::bind(&world.client, ANY).await.expect("free");
        client.connect(SERVER).await.expect("a good address");
        client.send(b"anybody?").await.expect("sent");
        let error = client.recv(&mut [0; 1]).await.expect_err("nobody");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(
            error.downcast::<Failure>().expect("a failure"),
            Failure::Path(PathError::PortUnreachable)
        );
        assert!(client.take_error().expect("asked").is_none());
        let far: SocketAddr = "192.0.2.1:1".parse().expect("an address");
        client.send_to(b"x", far).await.expect("taken");
        client.readable().await.expect("trouble");
        assert_eq!(
            client
                .take_error()
                .expect("asked")
                .expect("no route")
                .kind(),
            ErrorKind::NetworkUnreachable
        );
        let everybody: SocketAddr = "10.7.0.255:1".parse().expect("an address");
        client.send_to(b"x", everybody).await.expect("taken");
        assert_eq!(
            client
                .recv(&mut [0; 1])
                .await
                .expect_err("forbidden")
                .kind(),
            ErrorKind::PermissionDenied
        );
        let taken = UdpSocket::bind(&world.client, client.local_addr().expect("bound"))
            .await
            .expect_err("taken");
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        let foreign = UdpSocket::bind(&world.client, SERVER)
            .await
            .expect_err("not ours");
        assert_eq!(foreign.kind(), ErrorKind::AddrNotAvailable);
    });
}

/// Tasks share a socket; futures are dropped half-way; each datagram goes to one task, once.
#[test]
fn shared_and_cancelled_sockets_lose_nothing() {
    const COUNT: usize = 2000;
    World::new().run(async |world| {
        let (client, server) = pair(world).await;
        // While the server's hardware address is asked for, few datagrams wait, and others are lost.
        client.send_to(&[7], SERVER).await.expect("sent");
        server.recv_from(&mut [0]).await.expect("there");
        let server = Arc::new(server);
        let mut readers = JoinSet::new();
        for _ in 0..3 {
            let server = Arc::clone(&server);
            readers.spawn(async move {
                let (mut seen, mut dropped) = (Vec::new(), 0);
                loop {
                    let mut out = [0; 8];
                    tokio::select! {
                        biased;
                        received = server.recv_from(&mut out) => {
                            let (count, from) = received.expect("there");
                            if count == 0 {
                                // Told to the others, too.
                                let _ = server.send_to(&out[..1], from).await;
                                return (seen, dropped);
                            }
                            seen.push(usize::from_be_bytes(out));
                        }
                        () = yield_now() => dropped += 1,
                    }
                }
            });
        }
        let mut answer = [0; 1];
        for number in 0..COUNT {
            client
                .send_to(&number.to_be_bytes(), SERVER)
                .await
                .expect("sent");
            if number % 50 == 0 {
                // The receive queue of the host is bounded: not faster than they read.
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        for _ in 0..3 {
            client.send_to(&[], SERVER).await.expect("sent");
            client.recv(&mut answer).await.expect("one is done");
        }
        let (mut all, mut dropped) = (Vec::new(), 0);
        for (seen, cancelled) in readers.join_all().await {
            all.extend(seen);
            dropped += cancelled;
        }
        all.sort_unstable();
        let overflowed = server.info().await.expect("open").overflowed;
        assert_eq!(all.len() + overflowed as usize, COUNT);
        all.dedup();
        assert_eq!(
            all.len() + overflowed as usize,
            COUNT,
            "something came twice"
        );
        assert!(dropped > 0);
    });
}

/// A sender that is faster than its host waits; nothing it was told is sent gets lost on the way to
/// the wire.
#[test]
fn a_fast_sender_waits() {
    let mut config = super::world::config();
    config.udp = UdpConfig {
        send_buffer: Bytes::new(3000),
        ..UdpConfig::default()
    };
    World::with(config).run(async |world| {
        let (client, server) = pair(world).await;
        let mut full = 0;
        for _ in 0..3000 {
            loop {
                match client.try_send_to(&[7; 1000], SERVER) {
                    Ok(_) => break,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        full += 1;
                        client.writable().await.expect("room");
                    }
                }
            }
        }
        let mut last = None;
        while last != Some(3000) {
            tokio::time::sleep(Duration::from_millis(5)).await;
            last = Some(client.info().await.expect("open").sent);
        }
        assert!(full > 0, "never full");
        assert!(server.info().await.expect("open").received > 0);
        world.stop_server();
        assert_eq!(
            server.send_to(b"x", SERVER).await.expect_err("gone").kind(),
            ErrorKind::ConnectionAborted
        );
    });
}

/// The host takes one datagram at a time: most are in the ring when the socket gets another peer.
#[test]
fn a_datagram_goes_to_the_peer_of_its_send() {
    World::new().run(async |world| {
        let first = UdpSocket::bind(&world.server, SERVER).await.expect("free");
        let other = SocketAddrV4::new(*SERVER.ip(), 9999);
        let second = UdpSocket::bind(&world.server, other).await.expect("free");
        let udp = UdpConfig {
            send_buffer: Bytes::new(1),
            ..UdpConfig::default()
        };
        let client = UdpSocket::bind_with(&world.client, ANY, udp)
            .await
            .expect("free");
        client.connect(SERVER).await.expect("a good address");
        let sent = (0..200).map_while(|_| client.try_send(b"first").ok());
        assert_eq!(sent.count(), 200);
        client.connect(other).await.expect("a good address");
        client.send(b"second").await.expect("sent");
        let mut out = [0; 10];
        let (count, _) = second.recv_from(&mut out).await.expect("there");
        assert_eq!(&out[..count], b"second");
        let (count, _) = first.recv_from(&mut out).await.expect("there");
        assert_eq!(&out[..count], b"first");
    });
}

/// The host may have connected the socket already: both sides name the same peer.
#[test]
fn a_cancelled_connect_leaves_one_peer() {
    World::new().run(async |world| {
        let (client, server) = pair(world).await;
        let other = SocketAddrV4::new(*SERVER.ip(), 9999);
        let second = UdpSocket::bind(&world.server, other).await.expect("free");
        loop {
            client.connect(SERVER).await.expect("a good address");
            let mut connecting = pin!(client.connect(other));
            // The host may have answered already.
            let once = poll_fn(|context| Poll::Ready(connecting.as_mut().poll(context)));
            if once.await.is_pending() {
                break;
            }
        }
        client.info().await.expect("open");
        let named = client.peer_addr().expect("connected");
        client.send(b"taut").await.expect("sent");
        let (mut out, mut another) = ([0; 10], [0; 10]);
        let receiver = tokio::select! {
            _ = server.recv_from(&mut out) => SERVER,
            _ = second.recv_from(&mut another) => other,
        };
        assert_eq!(named, receiver.into());
        let (receiving, from) = if receiver == other {
            (second, other)
        } else {
            (server, SERVER)
        };
        let back = client.local_addr().expect("bound").port();
        let back = SocketAddrV4::new(Ipv4Addr::new(10, 7, 0, 1), back);
        receiving.send_to(b"line", back).await.expect("sent");
        let (_, answered) = client.recv_from(&mut [0; 10]).await.expect("there");
        assert_eq!(answered, from.into());
    });
}
