//! [`TcpStream`] and [`TcpListener`] behave as tokio's.

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tautline_cc::{Algorithm, Factory};
use tautline_rt::handle::{Config, Failure};
use tautline_rt::{Interest, TcpListener, TcpStream};
use tautline_stack::{CloseReason, Keepalive, SocketOption, TcpConfig};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::task::{JoinSet, yield_now};

use super::world::{PORT, SERVER, World, config, noise};

/// Both ends of a new connection.
async fn pair(world: &World, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let (client, accepted) = tokio::join!(world.connect(), listener.accept());
    (client, accepted.expect("accepted").0)
}

/// Not their rings and settings, which are pages in an error message.
#[test]
fn sockets_print_their_addresses() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let (client, server) = pair(world, &listener).await;
        let ends = |socket: &TcpStream| {
            let local = socket.local_addr().expect("open");
            let peer = socket.peer_addr().expect("open");
            format!("TcpStream {{ local: Some({local}), peer: Some({peer}), .. }}")
        };
        for socket in [&client, &server] {
            assert_eq!(format!("{socket:?}"), ends(socket));
        }
        let (read, write) = client.into_split();
        assert!(format!("{listener:?} {read:?} {write:?}").len() < 300);
    });
}

/// As tokio's `AsyncBufRead` is used: by lines, and to copy without a buffer in between.
#[test]
fn received_bytes_are_read_where_they_are() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let (mut client, server) = pair(world, &listener).await;
        let sent = noise(300_000);
        let sending = async {
            client.write_all(b"first\nsecond\n").await.expect("open");
            client.write_all(&sent).await.expect("open");
            client.shutdown().await.expect("shutting down cannot fail");
        };
        let receiving = async {
            let (mut read, _write) = server.into_split();
            let mut line = String::new();
            for expected in ["first\n", "second\n"] {
                line.clear();
                read.read_line(&mut line).await.expect("text");
                assert_eq!(line, expected);
            }
            // A part is left for the next call.
            let begin = read.fill_buf().await.expect("open")[..2].to_vec();
            read.consume(1);
            assert_eq!(read.fill_buf().await.expect("open")[0], begin[1]);
            let mut rest = Vec::new();
            let copied = tokio::io::copy_buf(&mut read, &mut rest).await;
            assert_eq!(copied.expect("closed in order"), sent.len() as u64 - 1);
            assert!(rest == sent[1..]);
            assert!(read.fill_buf().await.expect("the end").is_empty());
        };
        tokio::join!(sending, receiving);
    });
}

#[test]
fn the_ends_know_each_other() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let (client, server) = pair(world, &listener).await;
        assert_eq!(
            client.local_addr().expect("open"),
            server.peer_addr().expect("open")
        );
        assert_eq!(server.local_addr().expect("open"), SERVER.into());
        let (read, write) = client.into_split();
        assert_eq!(
            read.local_addr().expect("open"),
            write.local_addr().expect("open")
        );
    });
}

#[test]
fn a_shared_stream_reads_and_writes_without_waiting() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let (client, server) = pair(world, &listener).await;
        let mut out = [0; 8];
        assert_eq!(
            server.try_read(&mut out).expect_err("nothing").kind(),
            ErrorKind::WouldBlock
        );
        // Three tasks wait on one handle, and all of them are told.
        let server = Arc::new(server);
        let mut waiting = JoinSet::new();
        for _ in 0..3 {
            let server = Arc::clone(&server);
            waiting.spawn(async move { server.readable().await.expect("readable") });
        }
        yield_now().await;
        client.writable().await.expect("writable");
        assert_eq!(
            client
                .try_write_vectored(&[
                    IoSlice::new(b"tau"),
                    IoSlice::new(b""),
                    IoSlice::new(b"tline")
                ])
                .expect("room"),
            8
        );
        while let Some(told) = waiting.join_next().await {
            told.expect("no panic");
        }
        let (mut first, mut second) = ([0; 3], [0; 9]);
        let mut parts = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!(server.try_read_vectored(&mut parts).expect("there"), 8);
        assert_eq!((&first, &second[..5]), (b"tau", &b"tline"[..]));
        // A full ring says so, and is writable again once the other end has read.
        let mut written = 0;
        loop {
            match client.try_write(&noise(10_000)) {
                Ok(count) => written += count,
                Err(error) => break assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        let mut read = 0;
        while read < written {
            server.readable().await.expect("readable");
            match server.try_read(&mut [0; 4096]) {
                Ok(count) => read += count,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        client.writable().await.expect("writable");
        assert!(client.try_write(b"x").expect("room") == 1);
    });
}

#[test]
fn readiness_says_what_would_not_wait() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let (mut client, server) = pair(world, &listener).await;
        let both = Interest::READABLE | Interest::WRITABLE;
        let ready = server.ready(both).await.expect("ready");
        assert!(ready.is_writable() && !ready.is_readable() && !ready.is_write_closed());
        let nothing = server.try_io(Interest::READABLE, || -> std::io::Result<()> {
            panic!("nothing is there")
        });
        assert_eq!(nothing.expect_err("nothing").kind(), ErrorKind::WouldBlock);
        // A task that waits is woken, and tries.
        let (ready, written) =
            tokio::join!(server.ready(Interest::READABLE), client.write_all(b"taut"));
        written.expect("written");
        let ready = ready.expect("ready");
        assert!(ready.is_readable() && !ready.is_read_closed());
        let mut out = [0; 8];
        assert_eq!(
            server
                .try_io(Interest::READABLE, || server.try_read(&mut out))
                .expect("there"),
            4
        );
        client.shutdown().await.expect("shut down");
        let closed = server.ready(Interest::READABLE).await.expect("ready");
        assert!(closed.is_read_closed() && closed.is_readable() && !closed.is_writable());
        assert_eq!(
            server
                .try_io(Interest::READABLE, || server.try_read(&mut out))
                .expect("the end"),
            0
        );
        let shut = client.ready(Interest::WRITABLE).await.expect("ready");
        assert!(shut.is_write_closed() && shut.is_writable());
    });
}

#[test]
fn a_listener_of_one_address() {
    World::new().run(async |world| {
        let listener = TcpListener::bind(&world.server, SERVER)
            .await
            .expect("free");
        assert_eq!(listener.local_addr().expect("bound"), SERVER.into());
        let (client, accepted) = tokio::join!(world.connect(), listener.accept());
        assert_eq!(
            accepted.expect("accepted").1,
            client.local_addr().expect("open")
        );
        let elsewhere = TcpListener::bind(&world.server, ([192, 0, 2, 1], 80))
            .await
            .expect_err("not its address");
        assert_eq!(elsewhere.kind(), ErrorKind::AddrNotAvailable);
        // The port of all addresses is another place.
        let all = world.listen().await;
        assert_eq!(all.port(), SERVER.port());
    });
}

#[test]
fn peeking_leaves_everything_in_place() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let (mut client, mut server) = pair(world, &listener).await;
        client.write_all(b"look twice").await.expect("written");
        let mut out = [0; 4];
        for _ in 0..2 {
            assert_eq!(server.peek(&mut out).await.expect("there"), 4);
            assert_eq!(&out, b"look");
        }
        let mut all = [0; 10];
        server.read_exact(&mut all).await.expect("there");
        assert_eq!(&all, b"look twice");
        drop(client);
        assert_eq!(server.peek(&mut out).await.expect("the end"), 0);
        assert_eq!(server.read(&mut out).await.expect("the end"), 0);
    });
}

#[test]
fn halves_are_put_together_again() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let (mut client, mut server) = pair(world, &listener).await;
        let (other, _kept) = pair(world, &listener).await;
        {
            let (read, write) = client.split();
            let (mut back, sent) = ([0; 2], noise(2));
            let echo = async {
                let mut block = [0; 2];
                server.read_exact(&mut block).await.expect("there");
                server.write_all(&block).await.expect("written");
            };
            let (read, written, ()) =
                tokio::join!(read.read_exact(&mut back), write.write_all(&sent), echo);
            assert!(read.is_ok() && written.is_ok() && back[..] == sent);
        }
        let (read, write) = client.into_split();
        let (other_read, other_write) = other.into_split();
        let error = read.reunite(other_write).expect_err("of another stream");
        let mut client = error.0.reunite(write).expect("of one stream");
        let _other = other_read.reunite(error.1).expect("of one stream");
        client.write_all(b"!").await.expect("written");
        assert_eq!(server.read_u8().await.expect("there"), b'!');
    });
}

#[test]
fn vectored_writes_arrive_in_order() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let (mut client, mut server) = pair(world, &listener).await;
        assert!(tokio::io::AsyncWrite::is_write_vectored(&client));
        let sent = noise(90_000);
        let (front, back) = sent.split_at(7);
        // More than the ring holds: the rest of the second part is not taken.
        let count = client
            .write_vectored(&[IoSlice::new(front), IoSlice::new(back)])
            .await
            .expect("written");
        assert_eq!(count, Config::default().send_ring.get());
        client.write_all(&sent[count..]).await.expect("written");
        let mut received = vec![0; sent.len()];
        server.read_exact(&mut received).await.expect("there");
        assert!(received == sent);
    });
}

#[test]
fn lingering_for_no_time_resets() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        for (zero, kind) in [(false, None), (true, Some(ErrorKind::ConnectionReset))] {
            let (client, mut server) = pair(world, &listener).await;
            assert_eq!(client.linger().expect("open"), None);
            if zero {
                client.set_zero_linger().expect("open");
                assert_eq!(client.linger().expect("open"), Some(Duration::ZERO));
            }
            drop(client);
            assert_eq!(
                server
                    .read(&mut [0; 1])
                    .await
                    .err()
                    .map(|error| error.kind()),
                kind
            );
        }
    });
}

#[test]
fn the_controller_changes_while_data_flows() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let (mut client, mut server) = pair(world, &listener).await;
        assert_eq!(client.info().await.expect("open").congestion, "cubic");
        let sent = noise(1 << 20);
        let received = async {
            let mut received = vec![0; sent.len()];
            server.read_exact(&mut received).await.map(|_| received)
        };
        let sending = async {
            client.write_all(&sent[..500_000]).await?;
            client.set_congestion("bbr")?;
            client.write_all(&sent[500_000..]).await
        };
        let (received, sending) = tokio::join!(received, sending);
        sending.expect("written");
        assert!(received.expect("there") == sent);
        let info = client.info().await.expect("open");
        assert_eq!((info.congestion, info.state), ("bbr", "ESTABLISHED"));
        assert!(info.bytes_acked > 900_000, "{}", info.bytes_acked);
        let unknown = client.set_congestion("bic").expect_err("unknown");
        assert_eq!(unknown.kind(), ErrorKind::InvalidInput);
        assert!(unknown.to_string().contains("cubic"), "{unknown}");
    });
}

#[test]
fn a_connection_that_is_over_cannot_be_changed_or_asked() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let (mut client, server) = pair(world, &listener).await;
        server.abort();
        assert_eq!(
            client.read(&mut [0; 1]).await.expect_err("reset").kind(),
            ErrorKind::ConnectionReset
        );
        assert!(
            client.take_error().expect("asked").is_none(),
            "the read has told"
        );
        client.set_nodelay(true).expect("harmless");
        let error = client.info().await.expect_err("over");
        assert_eq!(error.kind(), ErrorKind::NotConnected);
        let (client, server) = pair(world, &listener).await;
        server.abort();
        client.readable().await.expect("readable");
        let error = client.take_error().expect("asked").expect("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert!(client.take_error().expect("asked").is_none());
        let error = client.try_write(b"x").expect_err("broken");
        assert_eq!(
            error.downcast::<Failure>().expect("a failure"),
            Failure::Broken(CloseReason::Reset)
        );
    });
}

/// A read that returns data does not report the failure behind it.
#[test]
fn a_vectored_read_of_the_last_data_leaves_the_failure_to_the_next_call() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let (client, mut server) = pair(world, &listener).await;
        server.write_all(b"last").await.expect("open");
        client.readable().await.expect("readable");
        server.abort();
        let over = async || {
            let ready = client.ready(Interest::WRITABLE).await;
            ready.expect("never fails").is_write_closed()
        };
        while !over().await {
            yield_now().await;
        }
        let (mut first, mut second) = ([0; 4], [0; 4]);
        let parts = &mut [&mut first, &mut second].map(|part| IoSliceMut::new(part));
        assert_eq!(client.try_read_vectored(parts).expect("data"), 4);
        assert_eq!(&first, b"last");
        let error = client.take_error().expect("asked").expect("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

/// A peer that has closed answers data with a reset. The calls fail as the kernel's do.
#[test]
fn data_for_a_peer_that_has_closed_breaks_the_pipe() {
    let kernels = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = std::net::TcpStream::connect(listener.local_addr().expect("bound"));
        let (mut server, _) = listener.accept().expect("accepted");
        drop(client.expect("connected"));
        let ended = server.read(&mut [0]).expect("the end");
        server.write_all(b"unwanted").expect("not known yet");
        let error = loop {
            match server.write_all(b"more") {
                Err(error) => break error.kind(),
                Ok(()) => std::thread::yield_now(),
            }
        };
        (ended, error, server.read(&mut [0]).expect("the end"))
    };
    World::new().run(async |world| {
        let listener = world.listen().await;
        let (client, mut server) = pair(world, &listener).await;
        drop(client);
        let ended = server.read(&mut [0]).await;
        let unwanted = server.write_all(b"unwanted").await;
        unwanted.expect("not known yet");
        let error = loop {
            match server.try_write(b"more") {
                Err(error) if error.kind() != ErrorKind::WouldBlock => break error.kind(),
                _ => yield_now().await,
            }
        };
        let again = server.read(&mut [0]).await;
        let ours = (ended.expect("the end"), error, again.expect("the end"));
        assert_eq!((ours, error), (kernels, ErrorKind::BrokenPipe));
    });
}

#[test]
fn after_the_peers_end_writing_goes_on() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let (mut client, mut server) = pair(world, &listener).await;
        server.shutdown().await.expect("shut down");
        assert_eq!(client.read(&mut [0; 1]).await.expect("the end"), 0);
        let sent = noise(100_000);
        let (written, received) = tokio::join!(client.write_all(&sent), async {
            let mut received = vec![0; sent.len()];
            server.read_exact(&mut received).await.map(|_| received)
        });
        written.expect("the peer still reads");
        assert!(received.expect("there") == sent);
    });
}

#[test]
fn tasks_share_a_listener() {
    World::new().run(async |world| {
        let listener = Arc::new(world.listen().await);
        let mut acceptors = JoinSet::new();
        for _ in 0..4 {
            let listener = Arc::clone(&listener);
            acceptors.spawn(async move { listener.accept().await.expect("accepted") });
        }
        yield_now().await;
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(world.connect().await);
        }
        let mut peers: Vec<_> = acceptors
            .join_all()
            .await
            .into_iter()
            .map(|(_, peer)| peer)
            .collect();
        let mut known: Vec<_> = clients
            .iter()
            .map(|client| client.local_addr().expect("open"))
            .collect();
        peers.sort();
        known.sort();
        assert_eq!(peers, known);
    });
}

/// Every waiting call is polled once, dropped, and made again: nothing is lost, nothing comes
/// twice.
#[test]
fn every_waiting_call_may_be_dropped() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let (client, server) = pair(world, &listener).await;
        let sent = noise(50_000);
        let (mut offered, mut received, mut dropped) = (0, Vec::<u8>::new(), 0);
        while received.len() < sent.len() {
            // Each future sees exactly one poll.
            let polls = std::future::poll_fn(|context| {
                let mut out = [0; 64];
                let waiting = [
                    pin!(server.readable()).poll(context).is_pending(),
                    pin!(server.peek(&mut out)).poll(context).is_pending(),
                    pin!(client.writable()).poll(context).is_pending(),
                    pin!(listener.accept()).poll(context).is_pending(),
                    pin!(client.info()).poll(context).is_pending(),
                ];
                Poll::Ready(waiting.into_iter().filter(|pending| *pending).count())
            });
            dropped += polls.await;
            if offered < sent.len() {
                offered += client.try_write(&sent[offered..sent.len().min(offered + 333)]).unwrap_or(0);
            }
            let mut out = [0; 500];
            let looked = server.peek(&mut out);
            tokio::select! {
                biased;
                looked = looked => {
                    let looked = looked.expect("there");
                    let mut taken = [0; 500];
                    let count = server.try_read(&mut taken[..looked]).expect("it was there a moment ago");
                    assert_eq!(taken[..count], out[..count]);
                    received.extend(&taken[..count]);
                }
                () = yield_now() => {}
            }
        }
        assert!(received == sent && dropped > 100, "{dropped} futures were dropped");
    });
}

#[test]
fn failures_to_connect_are_told_apart() {
    let mut config = config();
    config.tcp.syn_retries = 0;
    World::with(config).run(async |world| {
        let listener = world.listen().await;
        let _known = pair(world, &listener).await;
        let silent: SocketAddr = "10.7.0.77:1".parse().expect("an address");
        let error = TcpStream::connect(&world.client, silent)
            .await
            .expect_err("nobody is there");
        assert_eq!(error.kind(), ErrorKind::HostUnreachable);
        world.stop_server();
        // Its hardware address is known, but nobody answers any more.
        let error = TcpStream::connect(&world.client, SERVER)
            .await
            .expect_err("silence");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}

/// Keepalive and the user timeout notice a peer that vanishes.
#[test]
fn a_vanished_peer_is_noticed() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let (mut asks, other) = pair(world, &listener).await;
        let (mut waits, _another) = pair(world, &listener).await;
        let millis = Duration::from_millis;
        let probes = Keepalive {
            idle: millis(100),
            interval: millis(50),
            probes: 3,
        };
        asks.set_keepalive(Some(probes)).expect("open");
        assert_eq!(asks.keepalive().expect("open"), Some(probes));
        waits.set_user_timeout(Some(millis(300))).expect("open");
        // A controller that takes its time holds the server's thread up.
        let (release, held) = channel::<()>();
        let held = Mutex::new(held);
        let slow = Factory::new(move |config| {
            let _ = held.lock().map(|held| held.recv());
            Algorithm::Cubic.factory().build(config)
        });
        other.set_congestion_with(slow).expect("open");
        waits.write_all(b"anybody?").await.expect("written");
        let (asked, waited) = tokio::join!(asks.read_u8(), waits.read_u8());
        assert_eq!(asked.expect_err("no answer").kind(), ErrorKind::TimedOut);
        assert_eq!(waited.expect_err("no answer").kind(), ErrorKind::TimedOut);
        drop(release);
    });
}

/// A value that the stack refuses is refused by the call, which does not wait for the stack.
#[test]
fn an_option_outside_its_range_is_refused() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let (stream, _other) = pair(world, &listener).await;
        let refused = stream.set_option(SocketOption::MaxSegment(87));
        assert_eq!(
            refused.expect_err("too small").kind(),
            ErrorKind::InvalidInput
        );
        stream
            .set_option(SocketOption::MaxSegment(88))
            .expect("88 is enough");
        let never = Keepalive {
            probes: 0,
            ..Keepalive::default()
        };
        let refused = stream.set_keepalive(Some(never)).expect_err("no probes");
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert_eq!(stream.keepalive().expect("open"), None);
    });
}

/// RFC 7413: the second connection's data arrives with its SYN, and long data follows in order.
#[test]
fn data_given_to_connect_arrives_with_the_syn() {
    let mut config = config();
    config.tcp.fast_open = true;
    config.tcp.fast_open_queue = 8;
    World::with(config.clone()).run(async |world| {
        let listener = world.listen().await;
        for (sent, in_syn) in [
            (noise(100), false),
            (noise(100), true),
            (noise(300_000), true),
        ] {
            let stream = tokio::spawn({
                let (client, tcp, sent) = (world.client.clone(), config.tcp.clone(), sent.clone());
                async move {
                    let opened = TcpStream::connect_with_data(&client, SERVER, tcp, &sent).await;
                    let mut stream = opened.expect("somebody listens");
                    stream.shutdown().await.expect("shutting down cannot fail");
                    stream
                }
            });
            let (mut accepted, _) = listener.accept().await.expect("accepted");
            let mut received = Vec::new();
            let read = accepted.read_to_end(&mut received).await;
            read.expect("the peer closes in order");
            assert!(received == sent, "{} bytes arrive", received.len());
            let stream = stream.await.expect("no panic");
            for end in [&stream, &accepted] {
                let info = end.info().await.expect("the connection is there");
                assert_eq!(info.syn_data_acked, in_syn);
            }
        }
    });
}

/// Its listener's configuration is not that of the stack.
#[test]
fn the_options_of_a_requested_connection_are_those_of_its_listener() {
    World::new().run(async |world| {
        let tcp = TcpConfig {
            deferred_accept: true,
            nagle: false,
            linger: Some(Duration::from_secs(3)),
            keepalive: Some(Keepalive::default()),
            ..TcpConfig::default()
        };
        let listener = TcpListener::bind_with(&world.server, PORT, tcp)
            .await
            .expect("free");
        let accepted = async {
            let request = listener.request().await.expect("one");
            request.accept().await.expect("the client waits")
        };
        let (_client, server) = tokio::join!(world.connect(), accepted);
        assert!(server.nodelay().expect("known"));
        let linger = server.linger().expect("known");
        assert_eq!(linger, Some(Duration::from_secs(3)));
        let keepalive = server.keepalive().expect("known");
        assert_eq!(keepalive, Some(Keepalive::default()));
    });
}

/// After an orderly end a client takes an empty answer for the whole one.
#[test]
fn a_request_whose_acceptance_is_given_up_is_reset() {
    for wait in [Duration::ZERO, Duration::from_millis(50)] {
        World::new().run(async |world| {
            let tcp = TcpConfig {
                deferred_accept: true,
                ..TcpConfig::default()
            };
            let listener = TcpListener::bind_with(&world.server, PORT, tcp)
                .await
                .expect("free");
            let given_up = async {
                let request = listener.request().await.expect("one");
                let mut accepting = std::pin::pin!(request.accept());
                let begun = std::future::poll_fn(|context| {
                    Poll::Ready(accepting.as_mut().poll(context).is_pending())
                });
                assert!(begun.await, "the handshake takes a round trip");
                tokio::time::sleep(wait).await;
            };
            let asking = async {
                let mut stream = TcpStream::connect(&world.client, SERVER).await?;
                stream.read(&mut [0; 1]).await
            };
            let (answer, ()) = tokio::join!(asking, given_up);
            let kind = answer.expect_err("no orderly end").kind();
            let kinds = [ErrorKind::ConnectionRefused, ErrorKind::ConnectionReset];
            assert!(kinds.contains(&kind), "{kind}");
        });
    }
}

#[test]
fn an_option_has_one_value_however_it_was_set() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let (client, mut server) = pair(world, &listener).await;
        let (linger, keepalive) = (Some(Duration::ZERO), Some(Keepalive::default()));
        for option in [
            SocketOption::Nodelay(true),
            SocketOption::Keepalive(keepalive),
            SocketOption::Linger(linger),
        ] {
            client.set_option(option).expect("open");
        }
        assert!(client.nodelay().expect("known"));
        assert_eq!(client.keepalive().expect("known"), keepalive);
        assert_eq!(client.linger().expect("known"), linger);
        drop(client);
        let reset = server.read(&mut [0; 1]).await.expect_err("no orderly end");
        assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
    });
}
