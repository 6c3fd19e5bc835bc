//! Two stacks joined in memory, over each kind of device that needs no privileges.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::SinkExt;
use tautline_base::Medium;
use tautline_netstack::device::{FrameSocket, FrameStream, Messages, PacketIo};
use tautline_netstack::{Builder, Cidr, Netstack, Rejection, TcpIncoming};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

/// No test takes longer.
const LIMIT: Duration = Duration::from_secs(30);
const ANYWHERE: [&str; 2] = ["192.0.2.77:8080", "[2001:db8::77]:443"];

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn cidr(text: &str) -> Cidr {
    text.parse().expect("a prefix")
}

/// One end of a link in memory.
struct End {
    sender: UnboundedSender<Vec<u8>>,
    receiver: UnboundedReceiver<Vec<u8>>,
    /// Times that the stack has asked for a packet.
    polls: Arc<AtomicUsize>,
}

fn link() -> [End; 2] {
    let (to_right, from_left) = unbounded_channel();
    let (to_left, from_right) = unbounded_channel();
    let end = |sender, receiver| End {
        sender,
        receiver,
        polls: Arc::default(),
    };
    [end(to_right, from_right), end(to_left, from_left)]
}

impl PacketIo for End {
    fn medium(&self) -> Medium {
        Medium::Ip
    }

    fn mtu(&self) -> usize {
        1500
    }

    fn poll_recv(
        &mut self,
        context: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<std::io::Result<usize>> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        self.receiver.poll_recv(context).map(|packet| {
            let packet = packet.unwrap_or_default();
            out[..packet.len()].copy_from_slice(&packet);
            Ok(packet.len())
        })
    }

    fn poll_send(&mut self, _: &mut Context<'_>, frame: &[u8]) -> Poll<std::io::Result<()>> {
        // The far end may be gone, as behind an unplugged cable.
        let _ = self.sender.send(frame.to_vec());
        Poll::Ready(Ok(()))
    }
}

/// A client with addresses of both families.
fn client<D: tautline_netstack::device::Device>(device: D) -> Netstack {
    with_addresses(Netstack::builder(device))
}

fn with_addresses<D: tautline_netstack::device::Device>(builder: Builder<D>) -> Netstack {
    let builder = builder.address(cidr("10.7.0.1/24"));
    let builder = builder.address(cidr("fd07::1/64"));
    builder.build().expect("a runtime")
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    timeout(LIMIT, what).await.expect("in time")
}

/// Echoes every connection until the stack ends.
fn echo(incoming: TcpIncoming) {
    tokio::spawn(async move {
        while let Ok(request) = incoming.next().await {
            tokio::spawn(async move {
                let wanted = request.local_addr();
                let stream = request.accept().await.expect("the client waits");
                assert_eq!(stream.local_addr().expect("open"), wanted);
                let (mut read, mut write) = stream.into_split();
                // The client resets connections it has done with.
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
}

/// Sends `bytes` to an echo at `to` and reads them back, with the half-close in between.
async fn exchange(stack: &Netstack, to: SocketAddr, bytes: usize) {
    let stream = within(stack.connect(to)).await.expect("accepted");
    assert_eq!(stream.peer_addr().expect("open"), to);
    let data: Vec<u8> = (0..bytes).map(|at| (at ^ (at >> 9)) as u8).collect();
    let (mut read, mut write) = stream.into_split();
    let sent = data.clone();
    let sending = tokio::spawn(async move {
        write.write_all(&sent).await.expect("open");
        write.shutdown().await.expect("open");
    });
    let mut back = Vec::new();
    within(read.read_to_end(&mut back)).await.expect("open");
    sending.await.expect("sent");
    assert!(back == data, "{} of {bytes} bytes came back", back.len());
}

#[tokio::test]
async fn streams_of_both_families_reach_any_destination() {
    let [near, far] = link();
    let (client, server) = (client(near), Netstack::builder(far).build().expect("ready"));
    echo(server.tcp_incoming().await.expect("the first"));
    for to in ANYWHERE.map(at) {
        exchange(&client, to, 2_000_000).await;
    }
    let report = server.report().await.expect("it runs");
    assert_eq!(report.counters.malformed, 0, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_connections_at_once() {
    let [near, far] = link();
    let (client, server) = (client(near), Netstack::builder(far).build().expect("ready"));
    echo(server.tcp_incoming().await.expect("the first"));
    let client = std::sync::Arc::new(client);
    let exchanges = (0..100).map(|_| {
        let client = std::sync::Arc::clone(&client);
        tokio::spawn(async move { exchange(&client, at(ANYWHERE[0]), 20_000).await })
    });
    for exchange in exchanges.collect::<Vec<_>>() {
        exchange.await.expect("it came back");
    }
}

#[tokio::test]
async fn a_refused_upstream_is_a_refused_connection() {
    let [near, far] = link();
    let (client, server) = (client(near), Netstack::builder(far).build().expect("ready"));
    let incoming = server.tcp_incoming().await.expect("the first");
    for (how, kind) in [
        (Rejection::Reset, std::io::ErrorKind::ConnectionRefused),
        (
            Rejection::HostUnreachable,
            std::io::ErrorKind::HostUnreachable,
        ),
    ] {
        let (connected, ()) = tokio::join!(client.connect(at(ANYWHERE[0])), async {
            incoming.next().await.expect("a SYN").reject(how);
        });
        assert_eq!(connected.expect_err("refused").kind(), kind);
    }
    let (connected, ()) = tokio::join!(client.connect(at(ANYWHERE[0])), async {
        drop(incoming.next().await.expect("a SYN"));
    });
    let kind = connected.expect_err("refused").kind();
    assert_eq!(kind, std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn datagrams_come_back_from_the_destination() {
    let [near, far] = link();
    let (client, server) = (client(near), Netstack::builder(far).build().expect("ready"));
    let udp = server.udp_incoming().await.expect("the first");
    let local = at("10.7.0.1:5353");
    let socket = tautline_rt::UdpSocket::bind(client.handle(), local).await;
    let socket = socket.expect("a free port");
    let (to, mut buffer) = (at(ANYWHERE[0]), [0; 2000]);
    for len in [0, 1, 1472] {
        socket.send_to(&vec![7; len], to).await.expect("room");
        let received = within(udp.recv(&mut buffer)).await.expect("it runs");
        assert_eq!(received, (len, local, to));
        udp.send(&buffer[..len], to, local).await.expect("room");
        let received = within(socket.recv_from(&mut buffer)).await;
        assert_eq!(received.expect("it runs"), (len, to));
    }
    let long = udp.send(&[0; 1473], to, local).await;
    let kind = long.expect_err("too long").kind();
    assert_eq!(kind, std::io::ErrorKind::InvalidInput);
}

#[tokio::test]
async fn a_connection_comes_from_any_address() {
    let [near, far] = link();
    let (left, right) = (
        Netstack::builder(near).build().expect("ready"),
        Netstack::builder(far).build().expect("ready"),
    );
    let incoming = right.tcp_incoming().await.expect("the first");
    let from = at("198.51.100.1:4000");
    let (stream, peer) = tokio::join!(left.connect_from(from, at(ANYWHERE[0])), async {
        let request = incoming.next().await.expect("a SYN");
        let peer = request.peer_addr();
        request.accept().await.expect("it waits");
        peer
    });
    let local = stream.expect("accepted").local_addr().expect("open");
    assert_eq!((local, peer), (from, from));
}

/// The sinks and streams of a channel.
struct Packets(UnboundedReceiver<Bytes>);

impl futures_core::Stream for Packets {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.poll_recv(context)
    }
}

#[tokio::test]
async fn streams_and_sinks_of_packets_are_a_device() {
    let (to_right, from_left) = unbounded_channel::<Bytes>();
    let (to_left, from_right) = unbounded_channel::<Bytes>();
    let device = |sender: UnboundedSender<Bytes>, receiver| {
        let sink = futures_util::sink::unfold(sender, |sender, packet: Bytes| async move {
            sender
                .send(packet)
                .map(|()| sender)
                .map_err(std::io::Error::other)
        });
        Messages::new(Packets(receiver), Box::pin(sink.buffer(64)), 1420)
    };
    let client = client(device(to_right, from_right));
    let server = Netstack::builder(device(to_left, from_left)).build();
    let server = server.expect("ready");
    echo(server.tcp_incoming().await.expect("the first"));
    exchange(&client, at(ANYWHERE[1]), 300_000).await;
}

/// Ethernet: the sandbox asks by ARP for its gateway, behind which is everything.
#[tokio::test]
async fn a_sandbox_reaches_everything_behind_its_gateway() {
    let (left, right) = tokio::io::duplex(100_000);
    let (near, far) = tokio::net::UnixDatagram::pair().expect("descriptors");
    sandbox(FrameStream::new(left, 1500), FrameStream::new(right, 1500)).await;
    sandbox(FrameSocket::new(near, 1500), FrameSocket::new(far, 1500)).await;
}

async fn sandbox<D: tautline_netstack::device::Device>(guest: D, gateway: D) {
    let guest = Netstack::builder(guest)
        .mac([2, 0, 0, 0, 0, 9])
        .address(cidr("10.0.2.15/24"))
        .gateway("10.0.2.2".parse::<std::net::IpAddr>().expect("an address"))
        .build()
        .expect("ready");
    let gateway = Netstack::builder(gateway)
        .address(cidr("10.0.2.2/24"))
        .owns(Cidr::ALL_IPV4)
        .build()
        .expect("ready");
    echo(gateway.tcp_incoming().await.expect("the first"));
    exchange(&guest, at(ANYWHERE[0]), 300_000).await;
    exchange(&guest, at("10.0.2.2:53"), 3000).await;
}

/// A frame longer than the device carries, or an end in the middle of one, ends the stack.
#[tokio::test]
async fn a_stream_of_nonsense_ends_the_stack() {
    for nonsense in [[0xff; 9], [0; 9]] {
        let (mut left, right) = tokio::io::duplex(100_000);
        let stack = Netstack::builder(FrameStream::new(right, 1500)).build();
        let incoming = stack.as_ref().expect("ready").tcp_incoming().await;
        left.write_all(&nonsense).await.expect("open");
        let end = within(incoming.expect("the first").next()).await;
        end.expect_err("the stack has ended");
    }
}

/// Between the packets of a shaper, 0.6 ms apart, the task sleeps.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_shaped_stack_does_not_spin() {
    const BYTES: usize = 500_000;
    let [near, far] = link();
    let polls = Arc::clone(&far.polls);
    let client = client(near);
    let server = Netstack::builder(far)
        .qdisc("cake bandwidth 20mbit")
        .build();
    let server = server.expect("ready");
    let incoming = server.tcp_incoming().await.expect("the first");
    let (stream, accepted) = tokio::join!(client.connect(at(ANYWHERE[0])), async {
        incoming.next().await.expect("a SYN").accept().await
    });
    let (mut stream, mut accepted) = (stream.expect("accepted"), accepted.expect("it waits"));
    let sending = tokio::spawn(async move {
        accepted.write_all(&[7; BYTES]).await.expect("open");
        accepted.shutdown().await.expect("open");
    });
    let mut all = Vec::new();
    within(stream.read_to_end(&mut all)).await.expect("open");
    sending.await.expect("sent");
    assert_eq!(all.len(), BYTES);
    // For each packet two turns, for each acknowledgment as many, and as many again to spare.
    let (packets, polls) = (BYTES / 1448, polls.load(Ordering::Relaxed));
    assert!(polls < 12 * packets, "{polls} polls for {packets} packets");
    println!("{polls} polls for {packets} packets");
}

#[tokio::test]
async fn wrong_words_are_refused() {
    let [near, _far] = link();
    let built = Netstack::builder(near)
        .qdisc("fq_codel target soon")
        .build();
    let error = built.expect_err("the qdisc is wrong");
    assert!(error.to_string().contains("soon"), "{error}");
}

/// Packets of a flow leave in bursts, for the kernel behind a TUN wakes a reader for each change of
/// flow.
#[tokio::test]
async fn packets_of_a_flow_leave_in_bursts() {
    const FLOWS: usize = 4;
    const EACH: usize = 1 << 20;
    let [mut near, far] = link();
    let (to_server, from_near) = unbounded_channel();
    let sender = std::mem::replace(&mut near.sender, to_server);
    let mut from_near: UnboundedReceiver<Vec<u8>> = from_near;
    let ports = tokio::spawn(async move {
        let mut ports = Vec::new();
        while let Some(packet) = from_near.recv().await {
            if packet.len() > 1000 {
                ports.push([packet[20], packet[21]]);
            }
            let _ = sender.send(packet);
        }
        ports
    });
    let (client, server) = (client(near), Netstack::builder(far).build());
    let server = server.expect("a runtime");
    let incoming = within(server.tcp_incoming()).await.expect("the first");
    let sink = tokio::spawn(async move {
        let mut sinks = Vec::new();
        for _ in 0..FLOWS {
            let stream = incoming.next().await.expect("four").accept().await;
            sinks.push(tokio::spawn(async move {
                let mut all = Vec::new();
                stream
                    .expect("the client waits")
                    .read_to_end(&mut all)
                    .await
            }));
        }
        for sink in sinks {
            assert_eq!(sink.await.expect("no panic").expect("open"), EACH);
        }
    });
    let to: SocketAddr = at("192.0.2.1:80");
    let mut streams = Vec::new();
    for _ in 0..FLOWS {
        streams.push(within(client.connect(to)).await.expect("accepted"));
    }
    let mut sources = Vec::new();
    for mut stream in streams {
        sources.push(tokio::spawn(async move {
            stream.write_all(&vec![7; EACH]).await?;
            stream.shutdown().await
        }));
    }
    for source in sources {
        within(source).await.expect("no panic").expect("open");
    }
    within(sink).await.expect("all arrived");
    drop((client, server));
    let ports = within(ports).await.expect("no panic");
    let changes = ports.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(
        changes * 4 < ports.len(),
        "{changes} changes of flow in {} packets",
        ports.len()
    );
}
