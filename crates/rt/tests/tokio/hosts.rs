//! Many hosts behind one listener; a host's qdisc replaced while it has a backlog.

use std::io::ErrorKind;
use std::time::Duration;

use tautline_base::{HeapFrame, Packet, Pool};
use tautline_bql::{Dql, Port, Ring};
use tautline_rt::handle::{Config, Failure};
use tautline_rt::{ByWords, HostThread, Idle, ListenerGroup, TcpListener, TcpStream, cable};
use tautline_stack::{Host, NoTrace};
use tautline_tc::{DynQdisc, build};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::world::{PORT, SERVER, World, identity, noise, within};

#[test]
fn one_listener_serves_the_connections_of_two_hosts() {
    let (left, right) = (World::new(), World::new());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(within(async {
        let stacks = [left.server.clone(), right.server.clone()];
        let taken = left.listen().await;
        let error = ListenerGroup::bind(&stacks, PORT)
            .await
            .expect_err("the first host's port is taken");
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        drop(taken);
        let group = ListenerGroup::bind(&stacks, PORT).await.expect("free");
        let serve = async {
            for _ in 0..20 {
                let (mut stream, peer) = group.accept().await.expect("accepted");
                assert_eq!(stream.peer_addr().expect("known"), peer);
                let mut block = [0; 5];
                stream.read_exact(&mut block).await.expect("there");
                stream.write_all(&block).await.expect("written");
            }
        };
        let ask = async |world: &World, text: &[u8; 5]| {
            for _ in 0..10 {
                let mut stream = world.connect().await;
                stream.write_all(text).await.expect("written");
                let mut block = [0; 5];
                stream.read_exact(&mut block).await.expect("there");
                assert_eq!(&block, text);
            }
        };
        tokio::join!(serve, ask(&left, b"left "), ask(&right, b"right"));
        // One host less: the others serve on. None left: the listener says so.
        left.stop_server();
        let (_client, accepted) = tokio::join!(right.connect(), group.accept());
        accepted.expect("accepted");
        right.stop_server();
        let error = group.accept().await.expect_err("nobody is left");
        assert_eq!(
            error.downcast::<Failure>().expect("a failure"),
            Failure::HostGone
        );
    }));
    left.stop();
    right.stop();
}

#[test]
fn the_discipline_changes_under_a_transfer() {
    const BYTES: usize = 600_000;
    // A minute for all bytes: something waits for as long as it stays.
    const SLOW: &str = "tbf rate 80kbit burst 8kb latency 100s; pfifo limit 100";
    let [left, right] = cable().expect("descriptors");
    let spawn = |device, number: u8| {
        HostThread::spawn_with(Config::default(), Idle::Sleep, ByWords, move || {
            let qdisc: Box<dyn DynQdisc<Packet<HeapFrame>>> =
                build(SLOW).map_err(std::io::Error::other)?;
            let port = Port::new(qdisc, Ring::new(device, Dql::default()));
            Ok(Host::new(
                identity(number),
                port,
                Pool::new((0..1024).map(|_| HeapFrame::new()).collect()),
                NoTrace,
            ))
        })
        .expect("a thread")
    };
    let ((client_thread, client), (server_thread, server)) = (spawn(left, 1), spawn(right, 2));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(within(async {
        let listener = TcpListener::bind(&server, PORT).await.expect("free");
        let (stream, accepted) =
            tokio::join!(TcpStream::connect(&client, SERVER), listener.accept());
        let (mut stream, (mut peer, _)) = (stream.expect("connected"), accepted.expect("accepted"));
        let sent = noise(BYTES);
        let received = async {
            let mut received = Vec::new();
            peer.read_to_end(&mut received).await.map(|_| received)
        };
        let changes = async {
            let change = async |words| {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let replaced = client.set_qdisc(words).await.expect("good words");
                assert_eq!(replaced.dropped, 0, "{words}");
                replaced.moved
            };
            while change(SLOW).await == 0 {}
            for words in [
                "tbf rate 60mbit burst 8kb latency 1s; fq_codel",
                "fq",
                "tbf rate 50mbit burst 8kb latency 1s; pfifo limit 100",
            ] {
                change(words).await;
            }
        };
        let sending = async {
            stream.write_all(&sent).await?;
            stream.shutdown().await
        };
        let (written, (), received) = tokio::join!(sending, changes, received);
        written.expect("written");
        assert!(received.expect("closed in order") == sent);
        let error = client
            .set_qdisc("fq_codel limit many")
            .await
            .expect_err("not a number");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let report = client.qdisc_report().await.expect("driven by words");
        assert_eq!((report.kind, report.packet_limit()), ("tbf", 100));
    }));
    client_thread.stop().expect("ran to its end");
    server_thread.stop().expect("ran to its end");
}

#[test]
fn a_discipline_fixed_at_compile_time_stays() {
    World::new().run(async |world| {
        let error = world.client.set_qdisc("fq_codel").await.expect_err("fixed");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(
            error.downcast::<Failure>().expect("a failure"),
            Failure::FixedQdisc
        );
        let error = world.client.qdisc_report().await.expect_err("unknown");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    });
}
