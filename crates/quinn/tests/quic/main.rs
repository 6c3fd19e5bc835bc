//! A QUIC connection over two stacks: quinn above, our controllers in it, CAKE below.

mod plain;

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use quinn::{ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
use tautline_netstack::device::FrameSocket;
use tautline_netstack::{Cidr, Netstack};
use tautline_quinn::{Algorithm, ControllerConfig, Socket};
use tokio::time::timeout;

use plain::Plain;

const BYTES: usize = 1 << 20;

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([10, 7, 0, host], 4433))
}

fn stack(wire: tokio::net::UnixDatagram, host: u8, qdisc: &str) -> Netstack {
    Netstack::builder(FrameSocket::new(wire, 1500))
        .mac([2, 0, 0, 0, 0, host])
        .address(Cidr::new([10, 7, 0, host], 24))
        .qdisc(qdisc)
        .build()
        .expect("ready")
}

async fn endpoint(stack: &Netstack, host: u8, server: Option<ServerConfig>) -> Endpoint {
    endpoint_at(stack, address(host), server).await
}

async fn endpoint_at(stack: &Netstack, at: SocketAddr, server: Option<ServerConfig>) -> Endpoint {
    let socket = Socket::bind(stack.handle(), at).await;
    let config = EndpointConfig::new(Arc::new(Plain));
    let socket = Arc::new(socket.expect("free"));
    Endpoint::new_with_abstract_socket(config, server, socket, Arc::new(TokioRuntime))
        .expect("an endpoint")
}

fn pattern() -> Vec<u8> {
    (0..BYTES).map(|at| (at % 251) as u8).collect()
}

/// Uploads the pattern under `algorithm` through a bottleneck of 20 Mbit/s; returns the client's
/// connection.
async fn upload(algorithm: Algorithm) -> Connection {
    let (near, far) = tokio::net::UnixDatagram::pair().expect("descriptors");
    let (near, far) = (
        stack(near, 1, "cake bandwidth 20mbit"),
        stack(far, 2, "pfifo"),
    );
    let plain = Arc::new(Plain);
    let server = ServerConfig::new(plain.clone(), plain.clone());
    let server = endpoint(&far, 2, Some(server)).await;
    let mut transport = quinn::TransportConfig::default();
    let controllers = ControllerConfig::new(algorithm).expect("needs no marks");
    transport.congestion_controller_factory(Arc::new(controllers));
    let mut config = ClientConfig::new(plain);
    config.transport_config(Arc::new(transport));
    let client = endpoint(&near, 1, None).await;

    let received = tokio::spawn(async move {
        let connection = server
            .accept()
            .await
            .expect("open")
            .await
            .expect("connected");
        let mut stream = connection.accept_uni().await.expect("a stream");
        stream.read_to_end(2 * BYTES).await.expect("all of it")
    });
    let connecting = client.connect_with(config, address(2), "server");
    let connection = connecting
        .expect("a good address")
        .await
        .expect("connected");
    let mut stream = connection.open_uni().await.expect("a stream");
    stream.write_all(&pattern()).await.expect("written");
    stream.finish().expect("open");
    assert!(
        received.await.expect("no panic") == pattern(),
        "{algorithm}: other bytes"
    );
    connection
}

#[tokio::test]
async fn an_upload_arrives_whole_and_its_controller_reacts_to_the_queues_marks() {
    for (algorithm, fills_queues) in [
        (Algorithm::Cubic, true),
        (Algorithm::Reno, true),
        (Algorithm::Bbr3, false),
    ] {
        let upload = timeout(Duration::from_secs(30), upload(algorithm));
        let path = upload.await.expect("in time").stats().path;
        // 1 MiB fills the queue for longer than CAKE's interval, and ECN is in use: no drops.
        assert!(
            path.congestion_events > 0 || !fills_queues,
            "{algorithm}: {path:?}"
        );
        assert_eq!(path.lost_packets, 0, "{algorithm}: {path:?}");
    }
}

/// As on Linux: an IPv6 socket for both families shows IPv4 peers by mapped addresses, under which
/// quinn looks for them.
#[tokio::test]
async fn an_endpoint_for_both_families_connects_over_ipv4() {
    let (near, far) = tokio::net::UnixDatagram::pair().expect("descriptors");
    let (near, far) = (stack(near, 1, "fq_codel"), stack(far, 2, "pfifo"));
    let plain = Arc::new(Plain);
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 4433));
    let server = ServerConfig::new(plain.clone(), plain.clone());
    let server = endpoint_at(&far, any, Some(server)).await;
    let client = endpoint_at(&near, any, None).await;
    let accepted = tokio::spawn(async move { server.accept().await.expect("open").await });
    let connecting = client.connect_with(ClientConfig::new(plain), address(2), "server");
    let connecting = timeout(Duration::from_secs(10), connecting.expect("a good address"));
    let connection = connecting.await.expect("in time").expect("connected");
    let accepted = accepted.await.expect("no panic").expect("connected");
    for (end, peer) in [(connection, 2), (accepted, 1)] {
        let remote = end.remote_address().ip().to_canonical();
        assert_eq!(remote, address(peer).ip());
    }
}
