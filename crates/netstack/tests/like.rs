//! Programs in the shape of other crates' documented use, against a client of ours.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tautline_netstack::device::Packets;
use tautline_netstack::like::{ipstack, smoltcp as netstack_smoltcp};
use tautline_netstack::{Cidr, Netstack};
use tautline_rt::UdpSocket;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

const MTU: usize = 1500;
const LIMIT: Duration = Duration::from_secs(30);
const DESTINATION: &str = "192.0.2.77:8080";

/// One end of a link whose reads and writes are packets.
struct End(UnboundedSender<Vec<u8>>, UnboundedReceiver<Vec<u8>>);

fn link() -> [End; 2] {
    let (to_right, from_left) = unbounded_channel();
    let (to_left, from_right) = unbounded_channel();
    [End(to_right, from_right), End(to_left, from_left)]
}

/// Carries packets between `stack` and `end`.
fn join(stack: netstack_smoltcp::Stack, End(sender, mut receiver): End) {
    let (mut stack_sink, mut stack_stream) = stack.split();
    tokio::spawn(async move {
        while let Some(Ok(packet)) = stack_stream.next().await {
            let _ = sender.send(packet);
        }
    });
    tokio::spawn(async move {
        while let Some(packet) = receiver.recv().await {
            stack_sink.send(packet).await.expect("the stack runs");
        }
    });
}

impl AsyncRead for End {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.1.poll_recv(context).map(|packet| {
            buffer.put_slice(&packet.unwrap_or_default());
            Ok(())
        })
    }
}

impl AsyncWrite for End {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        packet: &[u8],
    ) -> Poll<io::Result<usize>> {
        // The far end may be gone.
        let _ = self.0.send(packet.to_vec());
        Poll::Ready(Ok(packet.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    timeout(LIMIT, what).await.expect("in time")
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Sends a stream and datagrams to an echo of every destination.
async fn use_echo(device: End) {
    let client = Netstack::builder(Packets::new(device, MTU))
        .address("10.7.0.1/24".parse::<Cidr>().expect("a prefix"))
        .build()
        .expect("ready");
    let stream = within(client.connect(at(DESTINATION))).await;
    let (mut read, mut write) = stream.expect("accepted").into_split();
    let data: Vec<u8> = (0..700_000u32).map(|at| (at >> 5) as u8).collect();
    let mut back = Vec::new();
    let (sent, received) = within(async {
        tokio::join!(
            async {
                write.write_all(&data).await?;
                write.shutdown().await
            },
            read.read_to_end(&mut back)
        )
    })
    .await;
    sent.expect("open");
    received.expect("open");
    assert!(back == data, "{} bytes came back", back.len());
    let socket = UdpSocket::bind(client.handle(), at("10.7.0.1:99")).await;
    let (socket, mut buffer) = (socket.expect("a free port"), [0; 2000]);
    for (to, len) in [(DESTINATION, 40), ("192.0.2.2:53", 1200), (DESTINATION, 1)] {
        socket.send_to(&vec![7; len], at(to)).await.expect("room");
        let received = within(socket.recv_from(&mut buffer)).await;
        assert_eq!(received.expect("it runs"), (len, at(to)));
    }
}

#[tokio::test]
async fn as_ipstack_documents() {
    use ipstack::IpStackStream;

    let [near, far] = link();
    let echo = tokio::spawn(async move {
        let mut config = ipstack::IpStackConfig::default();
        config.mtu(MTU as u16).expect("enough for IPv6");
        let mut stack = ipstack::IpStack::new(config, far);
        while let Ok(stream) = stack.accept().await {
            match stream {
                IpStackStream::Tcp(tcp) => {
                    assert_eq!(tcp.peer_addr(), at(DESTINATION));
                    assert_eq!(tcp.local_addr().ip(), at("10.7.0.1:0").ip());
                    tokio::spawn(async move {
                        let (mut read, mut write) = tokio::io::split(tcp);
                        let _ = tokio::io::copy(&mut read, &mut write).await;
                        let _ = write.shutdown().await;
                    });
                }
                IpStackStream::Udp(udp) => {
                    assert_eq!(udp.local_addr(), at("10.7.0.1:99"));
                    tokio::spawn(async move {
                        let (mut read, mut write) = tokio::io::split(udp);
                        let _ = tokio::io::copy(&mut read, &mut write).await;
                    });
                }
                IpStackStream::UnknownTransport(other) => panic!("{:?}", other.ip_protocol()),
                IpStackStream::UnknownNetwork(packet) => panic!("{} bytes", packet.len()),
            }
        }
    });
    use_echo(near).await;
    echo.abort();
}

#[tokio::test]
async fn as_netstack_smoltcp_documents() {
    let [near, far] = link();
    let (stack, runner, udp_socket, tcp_listener) = netstack_smoltcp::StackBuilder::default()
        .stack_buffer_size(512)
        .tcp_buffer_size(4096)
        .enable_udp(true)
        .enable_tcp(true)
        .enable_icmp(true)
        .mtu(MTU)
        .build()
        .expect("both are enabled");
    let udp_socket = udp_socket.expect("enabled");
    let mut tcp_listener = tcp_listener.expect("enabled");
    if let Some(runner) = runner {
        tokio::spawn(runner);
    }
    join(stack, far);
    tokio::spawn(async move {
        while let Some((stream, local, remote)) = tcp_listener.next().await {
            assert_eq!(
                (local.ip(), remote),
                (at("10.7.0.1:0").ip(), at(DESTINATION))
            );
            tokio::spawn(async move {
                let (mut read, mut write) = tokio::io::split(stream);
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.shutdown().await;
            });
        }
    });
    tokio::spawn(async move {
        let (mut read_half, mut write_half) = udp_socket.split();
        while let Some((data, local, remote)) = read_half.next().await {
            let sent = write_half.send((data, remote, local)).await;
            sent.expect("the stack runs");
        }
    });
    use_echo(near).await;
}

/// Connections that nobody takes hold no memory: further clients wait for the answer to their SYN.
#[tokio::test]
async fn a_full_queue_of_connections_accepts_no_more() {
    let [near, far] = link();
    let (stack, runner, _, tcp_listener) = netstack_smoltcp::StackBuilder::default()
        .tcp_buffer_size(2)
        .enable_tcp(true)
        .mtu(MTU)
        .build()
        .expect("enabled");
    tokio::spawn(runner.expect("there is one"));
    join(stack, far);
    let client = Netstack::builder(Packets::new(near, MTU))
        .address("10.7.0.1/24".parse::<Cidr>().expect("a prefix"))
        .build()
        .expect("ready");
    let client = std::sync::Arc::new(client);
    let (connected, mut connections) = unbounded_channel();
    // At once: none is in the queue yet when the last one asks.
    for _ in 0..20 {
        let (client, connected) = (std::sync::Arc::clone(&client), connected.clone());
        tokio::spawn(async move { connected.send(client.connect(at(DESTINATION)).await) });
    }
    let mut held = Vec::new();
    for _ in 0..2 {
        let connection = within(connections.recv()).await.expect("some are left");
        held.push(connection.expect("room"));
    }
    let further = timeout(Duration::from_millis(500), connections.recv()).await;
    assert!(further.is_err(), "a third one was accepted");
    let mut tcp_listener = tcp_listener.expect("enabled");
    let _taken = within(tcp_listener.next()).await;
    let third = within(connections.recv()).await.expect("some are left");
    third.expect("room again");
}

/// Connections that nobody takes fill their queue to its end and no further, and hold no datagram back.
#[tokio::test]
async fn ipstacks_full_queue_of_connections_holds_no_datagram_back() {
    const QUEUE: usize = 1024;
    let [near, far] = link();
    let mut config = ipstack::IpStackConfig::default();
    config.mtu(MTU as u16).expect("enough for IPv6");
    let mut stack = ipstack::IpStack::new(config, far);
    let client = Netstack::builder(Packets::new(near, MTU))
        .address("10.7.0.1/24".parse::<Cidr>().expect("a prefix"))
        .build()
        .expect("ready");
    let client = std::sync::Arc::new(client);
    let (connected, mut connections) = unbounded_channel();
    for _ in 0..QUEUE + 30 {
        let (client, connected) = (std::sync::Arc::clone(&client), connected.clone());
        tokio::spawn(async move { connected.send(client.connect(at(DESTINATION)).await) });
    }
    let mut held = Vec::new();
    for _ in 0..QUEUE {
        let connection = within(connections.recv()).await.expect("some are left");
        held.push(connection.expect("accepted"));
    }
    let further = timeout(Duration::from_millis(500), connections.recv()).await;
    assert!(further.is_err(), "the queue is full");
    let socket = UdpSocket::bind(client.handle(), at("10.7.0.1:99")).await;
    let socket = socket.expect("a free port");
    let sent = socket.send_to(b"data", at(DESTINATION)).await;
    sent.expect("room");
    // It arrives. Either queue is first now and then.
    tokio::time::sleep(Duration::from_millis(300)).await;
    for _ in 0..100 {
        if let ipstack::IpStackStream::Udp(mut session) =
            within(stack.accept()).await.expect("it runs")
        {
            let mut data = [0; 4];
            within(session.read_exact(&mut data)).await.expect("there");
            return assert_eq!(&data, b"data");
        }
    }
    panic!("the datagram waits behind the connections");
}

/// A session ends when it has been idle; the sender's next datagram begins another. Senders beyond the
/// bound are not served.
#[tokio::test]
async fn sessions_of_datagrams_are_bounded_in_time_and_number() {
    let [near, far] = link();
    let client = Netstack::builder(Packets::new(near, MTU))
        .address("10.7.0.1/24".parse::<Cidr>().expect("a prefix"))
        .build()
        .expect("ready");
    let server = Netstack::builder(Packets::new(far, MTU)).build();
    let server = server.expect("ready");
    let datagrams = server.udp_incoming().await.expect("the first");
    let idle = Duration::from_millis(200);
    let mut sessions = tautline_netstack::UdpSessions::new(datagrams, idle, 2);
    let socket = UdpSocket::bind(client.handle(), at("10.7.0.1:99")).await;
    let socket = socket.expect("a free port");
    let send = async |port: u16| {
        let to = SocketAddr::new(at(DESTINATION).ip(), port);
        socket.send_to(b"data", to).await.expect("room");
    };
    for port in [1, 2, 3] {
        send(port).await;
    }
    let mut first = within(sessions.next()).await.expect("it runs");
    let second = within(sessions.next()).await.expect("it runs");
    let ports = [&first, &second].map(|session| session.destination_addr().port());
    assert_eq!(ports, [1, 2]);
    let third = timeout(idle / 2, sessions.next()).await;
    third.expect_err("two are enough");
    let mut all = Vec::new();
    within(first.read_to_end(&mut all)).await.expect("no error");
    assert_eq!(all, b"data", "then it was idle");
    drop((first, second));
    send(1).await;
    let again = within(sessions.next()).await.expect("it runs");
    assert_eq!(again.destination_addr().port(), 1);
}

/// An IPv4 packet with a UDP datagram, which has no checksum.
fn datagram(from: (Ipv4Addr, u16), to: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let len = payload.len() as u16;
    let header = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    let mut packet = [&header[..], &from.0.octets(), &to.ip().octets()].concat();
    packet[2..4].copy_from_slice(&(28 + len).to_be_bytes());
    let words = packet
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    for field in [from.1, to.port(), 8 + len, 0] {
        packet.extend(field.to_be_bytes());
    }
    packet.extend(payload);
    packet
}

/// Answers all datagrams.
async fn answer(mut session: impl AsyncRead + AsyncWrite + Unpin) {
    let mut buffer = [0; MTU];
    while let Ok(len @ 1..) = session.read(&mut buffer).await {
        let _ = session.write(&buffer[..len]).await;
    }
}

/// A datagram from or to port 0 cannot be answered, and that is its sender's affair.
#[tokio::test]
async fn a_datagram_that_cannot_be_answered_does_not_end_those_of_others() {
    let client = Ipv4Addr::new(10, 7, 0, 1);
    let to = |port| SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), port);
    for (source, destination) in [(99, 53), (0, 53), (99, 0)] {
        let [mut near, far] = link();
        let server = Netstack::builder(Packets::new(far, MTU)).build();
        let server = server.expect("ready");
        let incoming = server.udp_incoming().await.expect("the first");
        let mut sessions = tautline_netstack::UdpSessions::new(incoming, LIMIT, 100);
        tokio::spawn(async move {
            while let Some(session) = sessions.next().await {
                tokio::spawn(answer(session));
            }
        });
        let send = |packet| near.0.send(packet).expect("it runs");
        send(datagram((client, source), to(destination), b"first"));
        tokio::time::sleep(Duration::from_millis(100)).await;
        send(datagram((client, 100), to(53), b"other"));
        let answered = async {
            while let Some(packet) = near.1.recv().await {
                // A datagram, not an ICMP error about ours.
                if packet[9] == 17 && packet.ends_with(b"other") {
                    return;
                }
            }
        };
        within(answered).await;
    }
}

/// The same in the shape of `ipstack`, where datagrams and connections are of one queue.
#[tokio::test]
async fn ipstack_goes_on_after_a_datagram_that_cannot_be_answered() {
    let [near, far] = link();
    let mut stack = ipstack::IpStack::new(ipstack::IpStackConfig::default(), far);
    let accepting = tokio::spawn(async move {
        while let Ok(stream) = stack.accept().await {
            if let ipstack::IpStackStream::Udp(session) = stream {
                tokio::spawn(answer(session));
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let to = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 53);
    let packet = datagram((Ipv4Addr::new(10, 7, 0, 1), 0), to, b"first");
    near.0.send(packet).expect("it runs");
    let ended = timeout(Duration::from_millis(500), accepting).await;
    assert!(ended.is_err(), "the stack has ended");
}

#[tokio::test]
async fn an_empty_datagram_does_not_end_a_session() {
    let [near, far] = link();
    let build = |device, number: u8| {
        Netstack::builder(Packets::new(device, MTU))
            .address(Cidr::new([10, 7, 0, number], 24))
            .build()
            .expect("ready")
    };
    let (client, server) = (build(near, 1), build(far, 2));
    let incoming = server.udp_incoming().await.expect("the first");
    let mut sessions = tautline_netstack::UdpSessions::new(incoming, LIMIT, 10);
    let socket = UdpSocket::bind(client.handle(), at("10.7.0.1:99")).await;
    let socket = socket.expect("a free port");
    for data in [&b"one"[..], b"", b"two"] {
        let sent = socket.send_to(data, at("10.7.0.2:53")).await;
        sent.expect("room");
    }
    let mut session = within(sessions.next()).await.expect("it runs");
    let mut all = [0; 6];
    within(session.read_exact(&mut all)).await.expect("both");
    assert_eq!(&all, b"onetwo");
}

/// The standard library's way to say "never".
#[tokio::test]
async fn a_session_may_never_end() {
    let [near, far] = link();
    let mut config = ipstack::IpStackConfig::default();
    config.udp_timeout(Duration::MAX);
    let mut stack = ipstack::IpStack::new(config, far);
    let to = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 53);
    let packet = datagram((Ipv4Addr::new(10, 7, 0, 1), 99), to, b"data");
    let accepted = async {
        loop {
            near.0.send(packet.clone()).expect("it runs");
            let wait = Duration::from_millis(50);
            if let Ok(stream) = timeout(wait, stack.accept()).await {
                return stream.expect("it runs");
            }
        }
    };
    let ipstack::IpStackStream::Udp(mut session) = within(accepted).await else {
        panic!("a session")
    };
    let mut data = [0; 4];
    within(session.read_exact(&mut data)).await.expect("there");
    assert_eq!(&data, b"data");
    session.write_all(&data).await.expect("open");
}

/// A datagram that waits in the device when the stack begins is one of its sessions.
#[tokio::test]
async fn ipstack_refuses_no_datagram_while_it_opens_its_sockets() {
    for _ in 0..20 {
        let [near, far] = link();
        let to = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 77), 53);
        let early = datagram((Ipv4Addr::new(10, 0, 0, 2), 1000), to, b"early");
        near.0.send(early).expect("the far end is there");
        let mut stack = ipstack::IpStack::new(ipstack::IpStackConfig::default(), far);
        let accepted = timeout(Duration::from_secs(10), stack.accept()).await;
        let accepted = accepted.expect("not refused").expect("the stack runs");
        assert!(matches!(accepted, ipstack::IpStackStream::Udp(_)));
    }
}

/// A datagram that waits in the sink when the stack begins arrives, with connections and without.
#[tokio::test(flavor = "multi_thread")]
async fn netstack_smoltcp_refuses_no_datagram_while_it_opens_its_sockets() {
    for round in 0..40 {
        let (stack, runner, udp_socket, _listener) = netstack_smoltcp::StackBuilder::default()
            .enable_udp(true)
            .enable_tcp(round % 4 != 0)
            .build()
            .expect("enabled");
        let (mut sink, _stream) = stack.split();
        let to = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 77), 53);
        let early = datagram((Ipv4Addr::new(10, 0, 0, 2), 1000), to, b"early");
        sink.send(early).await.expect("room");
        tokio::spawn(runner.expect("there always is one"));
        let (mut datagrams, _) = udp_socket.expect("enabled").split();
        let received = timeout(Duration::from_secs(10), datagrams.next()).await;
        let (data, ..) = received.expect("not refused").expect("the stack runs");
        assert_eq!(data, b"early");
    }
}

/// `forward` closes the sink at the end of the device, and the other half of the stack is still there.
#[tokio::test]
async fn a_closed_sink_ends_a_stack_in_the_shape_of_netstack_smoltcp() {
    let (stack, runner, _udp, listener) = netstack_smoltcp::StackBuilder::default()
        .enable_udp(true)
        .enable_tcp(true)
        .build()
        .expect("enabled");
    let running = tokio::spawn(runner.expect("there always is one"));
    let (mut sink, mut stream) = stack.split();
    sink.close().await.expect("never fails");
    let ended = within(running).await.expect("no panic");
    assert_eq!(
        ended.expect_err("the device has ended").kind(),
        io::ErrorKind::ConnectionAborted
    );
    assert!(within(stream.next()).await.is_none());
    let mut listener = listener.expect("enabled");
    assert!(within(listener.next()).await.is_none());
    let refused = sink.send(vec![0x45; 20]).await.expect_err("closed");
    assert_eq!(refused.kind(), io::ErrorKind::BrokenPipe);
}
