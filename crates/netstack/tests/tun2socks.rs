//! A tunnel's client reaches servers by way of a SOCKS 5 server.

use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, sink, stream};
use tautline_netstack::device::{FrameSocket, Messages};
use tautline_netstack::tun2socks::{Socks5, Tun2Socks};
use tautline_netstack::{Cidr, Netstack};
use tautline_rt::UdpSocket;
use tautline_testkit::frame::Ip;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

async fn within<T>(what: impl Future<Output = T>) -> T {
    timeout(LIMIT, what).await.expect("in time")
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// A server that connects everything to `target`: port 81 it refuses with reply 5, port 82 with reply 4;
/// its relay echoes datagrams. It wants a login.
async fn proxy(target: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = serve(stream, target).await;
            });
        }
    });
    address
}

async fn serve(mut stream: TcpStream, target: SocketAddr) -> std::io::Result<()> {
    let mut greeting = [0; 3];
    stream.read_exact(&mut greeting).await?;
    assert_eq!(greeting, [5, 1, 2]);
    stream.write_all(&[5, 2]).await?;
    let mut login = [0; 11];
    stream.read_exact(&mut login).await?;
    assert_eq!(&login, b"\x01\x04name\x04word");
    stream.write_all(&[1, 0]).await?;
    let mut request = [0; 10];
    stream.read_exact(&mut request).await?;
    let [5, command, 0, 1, .., high, low] = request else {
        panic!("{request:?}")
    };
    let answer = |reply| [5, reply, 0, 1, 0, 0, 0, 0];
    match (command, u16::from_be_bytes([high, low])) {
        (3, _) => {
            let relay = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
            let port = relay.local_addr()?.port().to_be_bytes();
            stream.write_all(&[&answer(0)[..], &port].concat()).await?;
            let mut buffer = [0; 2000];
            loop {
                let (len, from) = relay.recv_from(&mut buffer).await?;
                relay.send_to(&buffer[..len], from).await?;
            }
        }
        (_, 81) => stream.write_all(&[&answer(5)[..], &[0; 2]].concat()).await,
        (_, 82) => stream.write_all(&[&answer(4)[..], &[0; 2]].concat()).await,
        _ => {
            let mut upstream = TcpStream::connect(target).await?;
            stream
                .write_all(&[&answer(0)[..], &[0; 2]].concat())
                .await?;
            copy_bidirectional(&mut stream, &mut upstream).await?;
            Ok(())
        }
    }
}

async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    address
}

/// The stack of a client, and one that owns every address.
fn network() -> [Netstack; 2] {
    let (near, far) = tokio::net::UnixDatagram::pair().expect("descriptors");
    let cidr = |text: &str| text.parse::<Cidr>().expect("a prefix");
    let client = Netstack::builder(FrameSocket::new(near, 1500))
        .mac([2, 0, 0, 0, 0, 9])
        .address(cidr("10.0.2.15/24"))
        .gateway(at("10.0.2.2:0").ip())
        .build()
        .expect("ready");
    let gateway = Netstack::builder(FrameSocket::new(far, 1500))
        .address(cidr("10.0.2.2/24"))
        .owns(Cidr::ALL_IPV4)
        .build()
        .expect("ready");
    [client, gateway]
}

#[tokio::test]
async fn streams_refusals_and_datagrams_pass_through_the_proxy() {
    let [client, gateway] = network();
    let proxy = Socks5::new(proxy(echo().await).await).login("name", "word");
    tokio::spawn(async move { Tun2Socks::new(proxy).run(&gateway).await });
    for size in [1, 700_000] {
        let mut stream = within(client.connect(at("192.0.2.1:80"))).await;
        let stream = stream.as_mut().expect("accepted");
        let data: Vec<u8> = (0..size).map(|at: u32| (at >> 5) as u8).collect();
        let (mut read, mut write) = tokio::io::split(stream);
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
        assert!(back == data, "{} of {size} bytes came back", back.len());
    }
    for (to, kind) in [
        ("192.0.2.1:81", ErrorKind::ConnectionRefused),
        ("192.0.2.1:82", ErrorKind::HostUnreachable),
    ] {
        let refused = within(client.connect(at(to))).await.expect_err("refused");
        assert_eq!(refused.kind(), kind);
    }
    let socket = UdpSocket::bind(client.handle(), at("10.0.2.15:99")).await;
    let (socket, mut buffer) = (socket.expect("a free port"), [0; 2000]);
    for (to, len) in [("192.0.2.1:53", 40), ("192.0.2.2:53", 1200)] {
        socket.send_to(&vec![7; len], at(to)).await.expect("room");
        let received = within(socket.recv_from(&mut buffer)).await;
        assert_eq!(received.expect("it runs"), (len, at(to)));
    }
}

/// A proxy that accepts and says nothing holds a sender's place no longer than a connection may take.
#[tokio::test]
async fn a_proxy_that_was_silent_does_not_end_datagrams() {
    let [client, gateway] = network();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let target = echo().await;
    tokio::spawn(async move {
        let (_silent, _) = listener.accept().await.expect("a descriptor");
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, target));
        }
    });
    let mut tunnel = Tun2Socks::new(Socks5::new(address).login("name", "word"));
    tunnel.limits.udp_senders = 1;
    tunnel.limits.udp_idle = Duration::from_millis(200);
    tunnel.limits.connect_timeout = Duration::from_millis(200);
    tokio::spawn(async move { tunnel.run(&gateway).await });
    let bind = async |port| {
        let from = SocketAddr::new(at("10.0.2.15:0").ip(), port);
        let socket = UdpSocket::bind(client.handle(), from).await;
        socket.expect("a free port")
    };
    let ask = async |socket: &UdpSocket| {
        let sent = socket.send_to(&[7; 40], at("192.0.2.1:53")).await;
        sent.expect("room");
        let mut buffer = [0; 2000];
        let answer = timeout(Duration::from_millis(300), socket.recv_from(&mut buffer)).await;
        answer.is_ok()
    };
    let (first, second) = (bind(100).await, bind(101).await);
    assert!(!ask(&first).await, "the proxy is silent");
    let answered = async { while !ask(&second).await {} };
    within(answered).await;
}

/// A datagram that waits in the device when the tunnel begins is relayed. A relay that opened its socket
/// for datagrams after the stack had begun would refuse it.
#[tokio::test(flavor = "multi_thread")]
async fn no_datagram_is_refused_while_the_tunnel_begins() {
    const UDP: u8 = 17;
    for _ in 0..20 {
        let ports_and_length = [1000_u16, 53, 8 + 5, 0].map(u16::to_be_bytes).concat();
        let early = [&ports_and_length[..], b"early"].concat();
        let early = Ip::new([10, 0, 0, 2], [192, 0, 2, 77], UDP).packet(&early);
        let received = stream::iter([Bytes::from(early)]).chain(stream::pending());
        let device = Messages::new(received, sink::drain(), 1500);
        let stack = Netstack::builder(device).build().expect("a runtime");
        let proxy = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let tunnel = Tun2Socks::new(Socks5::new(proxy.local_addr().expect("bound")));
        let running = tokio::spawn(async move { tunnel.run(&stack).await });
        let asked = timeout(Duration::from_secs(10), proxy.accept()).await;
        asked.expect("not refused").expect("a descriptor");
        running.abort();
    }
}
