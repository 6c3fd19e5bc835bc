//! A web server of axum on one stack, its client on another.

use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::{Router, routing::get};
use tautline_axum::{Listener, Peer};
use tautline_netstack::device::FrameSocket;
use tautline_netstack::{Cidr, Netstack};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

fn stack(wire: tokio::net::UnixDatagram, host: u8) -> Netstack {
    Netstack::builder(FrameSocket::new(wire, 1500))
        .mac([2, 0, 0, 0, 0, host])
        .address(Cidr::new([10, 7, 0, host], 24))
        .build()
        .expect("ready")
}

#[tokio::test]
async fn a_request_is_served_and_its_peer_is_known() {
    let (near, far) = tokio::net::UnixDatagram::pair().expect("descriptors");
    let (client, server) = (stack(near, 1), stack(far, 2));
    let greet =
        |ConnectInfo(Peer(peer)): ConnectInfo<Peer>| async move { format!("hello {}", peer.ip()) };
    let app = Router::new().route("/greeting", get(greet));
    let listener = Listener::bind(server.handle(), 80).await.expect("free");
    let (stop, stopped) = oneshot::channel::<()>();
    let service = app.into_make_service_with_connect_info::<Peer>();
    let served = tokio::spawn(async move {
        let serving = axum::serve(listener, service);
        serving
            .with_graceful_shutdown(async { drop(stopped.await) })
            .await
    });

    for (path, status, body) in [
        ("/greeting", "HTTP/1.1 200 OK", "hello 10.7.0.1"),
        ("/elsewhere", "HTTP/1.1 404 Not Found", ""),
    ] {
        let to = SocketAddr::from(([10, 7, 0, 2], 80));
        let mut stream = client.connect(to).await.expect("accepted");
        let request = format!("GET {path} HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("written");
        let mut answer = String::new();
        let read = timeout(LIMIT, stream.read_to_string(&mut answer));
        read.await.expect("in time").expect("closed in order");
        assert!(answer.starts_with(status), "{answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{answer}");
    }
    stop.send(()).expect("the server runs");
    timeout(LIMIT, served)
        .await
        .expect("in time")
        .expect("no panic")
        .expect("served");
}
