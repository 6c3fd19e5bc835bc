//! quinn's calls on [`Socket`] over two stacks, without QUIC above them: `examples/quinn` has that.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use quinn::AsyncUdpSocket;
use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use tautline_netstack::device::FrameSocket;
use tautline_netstack::{Cidr, Netstack};
use tautline_quinn::Socket;
use tokio::time::timeout;

const PORT: u16 = 4433;

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([10, 7, 0, host], PORT))
}

/// Two stacks on one wire, with a socket each; `qdisc` is below the first.
async fn pair(qdisc: &str) -> [(Netstack, Arc<Socket>); 2] {
    let (near, far) = tokio::net::UnixDatagram::pair().expect("descriptors");
    let stack = |wire, host, qdisc: &str| {
        Netstack::builder(FrameSocket::new(wire, 1500))
            .mac([2, 0, 0, 0, 0, host])
            .address(Cidr::new([10, 7, 0, host], 24))
            .qdisc(qdisc)
            .build()
            .expect("ready")
    };
    let (near, far) = (stack(near, 1, qdisc), stack(far, 2, "pfifo"));
    let mut pair = Vec::new();
    for (stack, host) in [(near, 1), (far, 2)] {
        let socket = Socket::bind(stack.handle(), address(host))
            .await
            .expect("free");
        pair.push((stack, Arc::new(socket)));
    }
    pair.try_into().expect("two")
}

fn transmit(contents: &[u8], ecn: Option<EcnCodepoint>) -> Transmit<'_> {
    Transmit {
        destination: address(2),
        ecn,
        contents,
        segment_size: None,
        src_ip: Some(address(1).ip()),
    }
}

/// The next datagrams, as one call of quinn's returns them.
async fn receive(socket: &Socket) -> io::Result<Vec<(RecvMeta, Vec<u8>)>> {
    let mut space = [[0; 1500]; 4];
    let mut meta = [RecvMeta::default(); 4];
    let mut buffers = space.each_mut().map(|buffer| IoSliceMut::new(buffer));
    let received = poll_fn(|context| socket.poll_recv(context, &mut buffers, &mut meta));
    let count = timeout(Duration::from_secs(10), received)
        .await
        .expect("in time")?;
    let filled = meta.iter().zip(&space).take(count);
    Ok(filled
        .map(|(meta, buffer)| (*meta, buffer[..meta.len].to_vec()))
        .collect())
}

#[tokio::test]
async fn datagrams_arrive_with_their_ends_and_their_ecn_field() {
    let [(_near, client), (_far, server)] = pair("fq_codel").await;
    assert_eq!(server.local_addr().expect("bound"), address(2));
    assert!(!server.may_fragment());
    let marks = [
        None,
        Some(EcnCodepoint::Ect0),
        Some(EcnCodepoint::Ect1),
        Some(EcnCodepoint::Ce),
    ];
    let mut received = Vec::new();
    for (at, ecn) in (1..).zip(marks) {
        client
            .try_send(&transmit(&vec![at; 300 * usize::from(at)], ecn))
            .expect("space");
    }
    while received.len() < marks.len() {
        received.extend(receive(&server).await.expect("open"));
    }
    for ((at, ecn), (meta, data)) in (1..).zip(marks).zip(received) {
        assert_eq!(data, vec![at; 300 * usize::from(at)]);
        assert_eq!(
            (meta.addr, meta.dst_ip),
            (address(1), Some(address(2).ip()))
        );
        assert_eq!((meta.ecn, meta.stride), (ecn, data.len()));
    }
}

#[tokio::test]
async fn a_queue_below_marks_what_quic_sends_as_ecn_capable() {
    let [(_near, client), (_far, server)] = pair("cake bandwidth 2mbit").await;
    let mut marked = 0;
    // Above the rate for five seconds at most; CAKE marks after a tenth of a second.
    for _ in 0..5000 {
        let _ = client.try_send(&transmit(&[7; 1200], Some(EcnCodepoint::Ect0)));
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut batch = Vec::new();
        if timeout(Duration::ZERO, async {
            batch = receive(&server).await.expect("open")
        })
        .await
        .is_ok()
        {
            marked += batch
                .iter()
                .filter(|(meta, _)| meta.ecn == Some(EcnCodepoint::Ce))
                .count();
        }
        if marked > 0 {
            return;
        }
    }
    panic!("no mark in five seconds of a standing queue");
}

#[tokio::test]
async fn a_full_queue_holds_the_sender_back_until_it_drains() {
    let [(_near, client), (_far, server)] = pair("tbf rate 4mbit burst 3kb latency 1s").await;
    let mut poller = client.clone().create_io_poller();
    let mut sent = 0;
    let full = loop {
        match client.try_send(&transmit(&[7; 1200], None)) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        // Lets the stack fetch what the ring holds.
        tokio::task::yield_now().await;
        assert!(sent < 10_000, "nothing holds the sender back");
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    let pending =
        poll_fn(|context| Poll::Ready(poller.as_mut().poll_writable(context).is_pending()));
    assert!(pending.await);
    let writable = poll_fn(|context| poller.as_mut().poll_writable(context));
    timeout(Duration::from_secs(10), writable)
        .await
        .expect("woken")
        .expect("open");
    client
        .try_send(&transmit(&[7; 1200], None))
        .expect("space again");
    assert!(!receive(&server).await.expect("open").is_empty());
}

#[tokio::test]
async fn errors_of_single_datagrams_are_losses_and_the_end_of_the_stack_is_an_error() {
    let [(near, client), (far, server)] = pair("fq_codel").await;
    client
        .try_send(&transmit(&[7; 1473], None))
        .expect("a probe for a larger MTU is lost");
    assert_eq!(client.failed(), 1);
    let nowhere = Transmit {
        destination: SocketAddr::from(([192, 0, 2, 1], PORT)),
        ..transmit(b"no route", None)
    };
    // The stack's answer comes later, to any call on the socket.
    let refused = async {
        while client.failed() < 2 {
            client.try_send(&nowhere).expect("lost");
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), refused)
        .await
        .expect("an answer");
    let answer = Transmit {
        destination: address(1),
        src_ip: None,
        ..transmit(b"answer", None)
    };
    server.try_send(&answer).expect("space");
    let received = receive(&client).await.expect("no error reaches quinn");
    assert_eq!(received[0].1, b"answer");
    drop((near, far));
    let end = receive(&client).await.expect_err("the stack has ended");
    assert_eq!(end.kind(), ErrorKind::ConnectionAborted);
}
