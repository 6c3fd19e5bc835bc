//! tokio sockets over two hosts, each on a thread of its own, joined by a cable. Every test ends in
//! bounded time.

mod datagrams;
mod habits;
mod hosts;
mod world;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tautline_base::Bytes;
use tautline_rt::handle::Failure;
use tautline_rt::{TcpListener, TcpStream};
use tautline_stack::{CloseReason, TcpConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{JoinSet, yield_now};

use world::{PORT, SERVER, World, noise, within};

/// Sends back what it reads, then the end.
async fn echo(mut stream: TcpStream) {
    let mut block = vec![0; 10_000];
    loop {
        match stream
            .read(&mut block)
            .await
            .expect("the peer closes in order")
        {
            0 => break,
            count => stream
                .write_all(&block[..count])
                .await
                .expect("the peer reads"),
        }
    }
    stream.shutdown().await.expect("shutting down cannot fail");
}

#[test]
fn a_mebibyte_there_and_back_is_equal() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        tokio::spawn(async move { echo(listener.accept().await.expect("accepted").0).await });
        let stream = world.connect().await;
        assert_eq!(stream.peer_addr().expect("known"), SocketAddr::from(SERVER));
        let sent = noise(1 << 20);
        let (mut read, mut write) = stream.into_split();
        let writer = tokio::spawn({
            let sent = sent.clone();
            async move {
                write.write_all(&sent).await.expect("the peer reads");
                write.shutdown().await.expect("shutting down cannot fail");
            }
        });
        let mut received = Vec::new();
        read.read_to_end(&mut received)
            .await
            .expect("the peer closes in order");
        assert!(
            received == sent,
            "{} of {} bytes, or different ones",
            received.len(),
            sent.len()
        );
        writer.await.expect("no panic");
    });
}

#[test]
fn a_stream_behaves_as_any_other_in_tokios_hands() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("accepted");
            let (mut read, mut write) = tokio::io::split(stream);
            tokio::io::copy(&mut read, &mut write)
                .await
                .expect("copied");
            write.shutdown().await.expect("shutting down cannot fail");
        });
        let mut stream = world.connect().await;
        let (mut near, mut far) = tokio::io::duplex(1000);
        let pump = tokio::spawn(async move {
            tokio::io::copy_bidirectional(&mut far, &mut stream)
                .await
                .expect("copied")
        });
        let sent = noise(100_000);
        let (mut read, mut write) = tokio::io::split(&mut near);
        let mut received = vec![0; sent.len()];
        let (read, written) = tokio::join!(read.read_exact(&mut received), write.write_all(&sent));
        assert!(read.is_ok() && written.is_ok() && received == sent);
        drop(near);
        assert_eq!(pump.await.expect("no panic"), (100_000, 100_000));
    });
}

#[test]
fn after_its_own_end_a_stream_still_reads() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let mut client = world.connect().await;
        let (mut server, _) = listener.accept().await.expect("accepted");
        client.write_all(b"question").await.expect("written");
        client.shutdown().await.expect("shutting down cannot fail");
        assert_eq!(
            client.write(b"more").await.expect_err("shut down").kind(),
            ErrorKind::BrokenPipe
        );
        let mut question = String::new();
        server
            .read_to_string(&mut question)
            .await
            .expect("read to the end");
        assert_eq!(question, "question");
        let sent = noise(300_000);
        server.write_all(&sent).await.expect("written");
        drop(server);
        let mut received = Vec::new();
        client
            .read_to_end(&mut received)
            .await
            .expect("read to the end");
        assert!(received == sent);
    });
}

#[test]
fn what_was_written_before_the_drop_arrives() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let mut client = world.connect().await;
        let (mut server, _) = listener.accept().await.expect("accepted");
        // More than the ring and the host's buffer hold together, as long as nobody reads.
        let sent = noise(5 << 20);
        let writer = tokio::spawn({
            let sent = sent.clone();
            async move { client.write_all(&sent).await.expect("written") }
        });
        let mut received = Vec::new();
        server
            .read_to_end(&mut received)
            .await
            .expect("closed in order");
        writer.await.expect("no panic");
        assert!(received == sent);
    });
}

/// More than the first window holds: a program may end as soon as it has dropped its streams.
#[test]
fn what_was_written_before_the_host_stops_arrives() {
    for _ in 0..10 {
        World::new().run(async |world| {
            let listener = world.listen().await;
            let (mut stream, accepted) = tokio::join!(world.connect(), listener.accept());
            let sent = noise(50_000);
            stream.write_all(&sent).await.expect("written");
            drop(stream);
            world.stop_client();
            let (mut peer, _) = accepted.expect("accepted");
            let mut received = Vec::new();
            peer.read_to_end(&mut received)
                .await
                .expect("closed in order");
            assert!(received == sent);
        });
    }
}

#[test]
fn dropping_unread_data_resets() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let mut client = world.connect().await;
        let (mut server, _) = listener.accept().await.expect("accepted");
        client
            .write_all(b"nobody reads this")
            .await
            .expect("written");
        server.read_exact(&mut [0; 6]).await.expect("nobody");
        drop(server);
        let error = client.read(&mut [0; 10]).await.expect_err("reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert_eq!(
            error.downcast::<Failure>().expect("a failure"),
            Failure::Closed(CloseReason::Reset)
        );
        // The reset has been told: from now on it is a broken pipe, but never an end of the stream.
        assert_eq!(
            client.write(b"more").await.expect_err("reset").kind(),
            ErrorKind::BrokenPipe
        );
        assert_eq!(
            client.read(&mut [0; 10]).await.expect_err("reset").kind(),
            ErrorKind::ConnectionReset
        );
    });
}

#[test]
fn an_aborted_stream_resets_its_peer_even_while_it_is_blocked() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let mut client = world.connect().await;
        let (server, _) = listener.accept().await.expect("accepted");
        let writer = tokio::spawn(async move {
            let block = vec![1; 1 << 20];
            loop {
                if let Err(error) = client.write_all(&block).await {
                    return error.kind();
                }
            }
        });
        // Until all buffers are full.
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!writer.is_finished());
        server.abort();
        assert_eq!(writer.await.expect("no panic"), ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_port_without_listener_refuses() {
    World::new().run(async |world| {
        let error = TcpStream::connect(&world.client, SERVER)
            .await
            .expect_err("nobody listens");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let own = TcpStream::connect(&world.server, SERVER)
            .await
            .expect_err("its own address");
        assert_eq!(own.kind(), ErrorKind::InvalidInput);
        let elsewhere: SocketAddr = "192.0.2.1:80".parse().expect("an address");
        let error = TcpStream::connect(&world.client, elsewhere)
            .await
            .expect_err("no gateway");
        assert_eq!(error.kind(), ErrorKind::NetworkUnreachable);
    });
}

#[test]
fn a_dropped_listener_frees_its_port_and_resets_whom_nobody_accepted() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let taken = TcpListener::bind(&world.server, PORT)
            .await
            .expect_err("taken");
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        assert_eq!(
            TcpListener::bind(&world.server, 0)
                .await
                .expect_err("0")
                .kind(),
            ErrorKind::InvalidInput
        );
        let mut waiting = world.connect().await;
        drop(listener);
        assert_eq!(
            waiting.read(&mut [0; 1]).await.expect_err("reset").kind(),
            ErrorKind::ConnectionReset
        );
        let refused = TcpStream::connect(&world.client, SERVER)
            .await
            .expect_err("nobody listens any more");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let again = world.listen().await;
        let (_client, accepted) = tokio::join!(world.connect(), again.accept());
        accepted.expect("the port works again");
    });
}

#[test]
fn beyond_the_accept_queue_connections_are_reset() {
    let mut config = world::config();
    config.accept_queue = 3.try_into().expect("not zero");
    World::with(config).run(async |world| {
        let listener = world.listen().await;
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(world.connect().await);
        }
        for _ in 3..5 {
            // The reset may be there before anybody looked whether the connection opened.
            let reset = match TcpStream::connect(&world.client, SERVER).await {
                Ok(mut late) => late.read(&mut [0; 1]).await.expect_err("reset"),
                Err(error) => error,
            };
            assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
        }
        for early in &mut clients {
            let (mut stream, _) = listener.accept().await.expect("accepted");
            stream.write_all(b"x").await.expect("written");
            assert_eq!(early.read(&mut [0; 1]).await.expect("read"), 1);
        }
    });
}

#[test]
fn a_hundred_connections_at_once() {
    const BYTES: usize = 20_000;
    World::new().run(async |world| {
        let listener = world.listen().await;
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    break;
                };
                tokio::spawn(echo(stream));
            }
        });
        let mut clients = JoinSet::new();
        for number in 0..100u8 {
            let stack = world.client.clone();
            clients.spawn(async move {
                let mut stream = TcpStream::connect(&stack, SERVER).await.expect("connected");
                let sent: Vec<u8> = noise(BYTES).iter().map(|byte| byte ^ number).collect();
                let mut received = vec![0; BYTES];
                stream.write_all(&sent).await.expect("written");
                stream.read_exact(&mut received).await.expect("read");
                assert!(received == sent, "connection {number}");
            });
        }
        let mut done = 0;
        while let Some(client) = clients.join_next().await {
            client.expect("no panic");
            done += 1;
        }
        assert_eq!(done, 100);
    });
}

/// Futures are dropped half-way, repeatedly; no connection and no byte is lost or duplicated.
#[test]
fn cancelled_calls_lose_nothing() {
    const BYTES: usize = 200_000;
    // Little fits anywhere, so that both ends wait often.
    let mut config = world::config();
    (config.send_ring, config.receive_ring) = (
        1000.try_into().expect("not zero"),
        900.try_into().expect("not zero"),
    );
    (config.tcp.send_buffer, config.tcp.receive_buffer) = (Bytes::kib(8), Bytes::kib(8));
    World::with(config).run(async |world| {
        let listener = world.listen().await;
        let stack = world.client.clone();
        let (mut cancelled_accepts, mut cancelled_reads) = (0, 0);
        tokio::select! {
            biased;
            _ = listener.accept() => panic!("nobody has connected"),
            () = yield_now() => {}
        }
        let writer = tokio::spawn(async move {
            let mut stream = TcpStream::connect(&stack, SERVER).await.expect("connected");
            let (sent, mut cancelled) = (noise(BYTES), 0);
            let mut rest = &sent[..];
            while !rest.is_empty() {
                tokio::select! {
                    biased;
                    count = stream.write(&rest[..rest.len().min(777)]) => rest = &rest[count.expect("written")..],
                    () = yield_now() => cancelled += 1,
                }
            }
            stream.shutdown().await.expect("shutting down cannot fail");
            (stream, cancelled)
        });
        let mut stream = loop {
            tokio::select! {
                biased;
                accepted = listener.accept() => break accepted.expect("accepted").0,
                () = yield_now() => cancelled_accepts += 1,
            }
        };
        let (mut received, mut block) = (Vec::<u8>::new(), [0; 500]);
        loop {
            tokio::select! {
                biased;
                count = stream.read(&mut block) => match count.expect("read") {
                    0 => break,
                    count => received.extend(&block[..count]),
                },
                () = yield_now() => cancelled_reads += 1,
            }
        }
        assert!(received == noise(BYTES), "{} of {BYTES} bytes, or different ones", received.len());
        let (_client, cancelled_writes) = writer.await.expect("no panic");
        assert!(cancelled_accepts.min(cancelled_reads).min(cancelled_writes) > 0, "something was never cancelled");
    });
}

/// A connection attempt that is given up leaves nothing behind that would keep its port pair or its
/// peer busy.
#[test]
fn a_cancelled_connect_is_taken_back() {
    World::new().run(async |world| {
        let silent: SocketAddr = "10.7.0.77:1".parse().expect("an address");
        let patience = Duration::from_millis(20);
        let connect =
            tokio::time::timeout(patience, TcpStream::connect(&world.client, silent)).await;
        assert!(connect.is_err(), "nobody is there");
        for len in [1, 100_000] {
            let (tcp, data) = (TcpConfig::default(), vec![7; len]);
            let connect = TcpStream::connect_with_data(&world.client, silent, tcp, &data);
            assert!(tokio::time::timeout(patience, connect).await.is_err());
        }
        let freed = async { while world.client.stats().await.expect("it runs").1 > 0 {} };
        let freed = tokio::time::timeout(Duration::from_secs(1), freed).await;
        freed.expect("before the host finds that nobody is there");
        let listener = world.listen().await;
        let (client, accepted) = tokio::join!(world.connect(), listener.accept());
        drop((client, accepted));
    });
}

#[test]
fn tiny_rings_carry_everything() {
    let mut config = world::config();
    (config.send_ring, config.receive_ring) = (
        7.try_into().expect("not zero"),
        1.try_into().expect("not zero"),
    );
    World::with(config).run(async |world| {
        let listener = world.listen().await;
        tokio::spawn(async move { echo(listener.accept().await.expect("accepted").0).await });
        let (mut read, mut write) = world.connect().await.into_split();
        let sent = noise(3000);
        let mut received = vec![0; sent.len()];
        let (read, written) = tokio::join!(read.read_exact(&mut received), write.write_all(&sent));
        assert!(read.is_ok() && written.is_ok() && received == sent);
    });
}

/// A task whose connection always has something for it lets others run.
#[test]
fn a_busy_stream_does_not_starve_its_thread() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let mut client = world.connect().await;
        let (mut server, _) = listener.accept().await.expect("accepted");
        server.write_all(&noise(60_000)).await.expect("written");
        tokio::time::sleep(Duration::from_millis(200)).await;
        let other = tokio::spawn(async { 1 });
        let mut byte = [0; 1];
        for _ in 0..20_000 {
            client
                .read_exact(&mut byte)
                .await
                .expect("it is in the ring");
        }
        assert!(other.is_finished(), "20 000 reads did not yield once");
    });
}

#[test]
fn when_the_host_stops_every_call_says_so() {
    World::new().run(async |world| {
        let listener = world.listen().await;
        let mut client = world.connect().await;
        let (mut server, _) = listener.accept().await.expect("accepted");
        world.stop_server();
        assert_eq!(
            listener.accept().await.expect_err("gone").kind(),
            ErrorKind::ConnectionAborted
        );
        assert_eq!(
            server.read(&mut [0; 1]).await.expect_err("gone").kind(),
            ErrorKind::ConnectionAborted
        );
        let error = server.write(b"x").await.expect_err("gone");
        assert_eq!(
            error.downcast::<Failure>().expect("a failure"),
            Failure::HostGone
        );
        assert_eq!(
            TcpListener::bind(&world.server, 9)
                .await
                .expect_err("gone")
                .kind(),
            ErrorKind::ConnectionAborted
        );
        // The peer was told, too.
        assert_eq!(
            client.read(&mut [0; 1]).await.expect_err("reset").kind(),
            ErrorKind::ConnectionReset
        );
    });
}

/// The halves of one stream on two threads of a multi-threaded runtime.
#[test]
fn halves_work_on_different_threads() {
    let world = World::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(within(async {
        let listener = world.listen().await;
        let server =
            tokio::spawn(async move { echo(listener.accept().await.expect("accepted").0).await });
        let (mut read, mut write) = world.connect().await.into_split();
        let sent = noise(2 << 20);
        let writer = tokio::spawn({
            let sent = sent.clone();
            async move { write.write_all(&sent).await.expect("written") }
        });
        let reader = tokio::spawn(async move {
            let mut received = Vec::new();
            read.read_to_end(&mut received).await.map(|_| received)
        });
        // The write half is dropped at the end of its task: that, too, ends the stream.
        writer.await.expect("no panic");
        assert!(reader.await.expect("no panic").expect("closed in order") == sent);
        server.await.expect("no panic");
    }));
    world.stop();
}
