//! Two ends over UDP on loopback, with losses between them.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use boringtun::x25519::{PublicKey, StaticSecret};
use sha2::{Digest, Sha256};
use tautline_netstack::Netstack;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::config::Config;
use crate::device::WireGuard;

const BYTES: usize = 4 << 20;

async fn within<T>(what: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(120), what)
        .await
        .expect("in time")
}

/// The keys of two ends; fixed, for nothing here is secret.
fn configs() -> [Config; 2] {
    let keys = [[1; 32], [2; 32]].map(StaticSecret::from);
    let text = |ours: usize| {
        format!(
            "[Interface]\nPrivateKey = {}\nAddress = 10.8.0.{}/24 # of the tunnel\n\n[Peer]\n\
             PublicKey = {}\nAllowedIPs = 10.8.0.{}, fd00::/64\n",
            BASE64_STANDARD.encode(&keys[ours]),
            ours + 1,
            BASE64_STANDARD.encode(PublicKey::from(&keys[1 - ours])),
            2 - ours,
        )
    };
    [0, 1].map(|ours| Config::parse(&text(ours)).expect("understood"))
}

/// A relay to `server` that loses one datagram in a hundred, each way, and counts those lost.
async fn lossy_relay(server: SocketAddr, seed: u64) -> (SocketAddr, Arc<AtomicU64>) {
    let front = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a port");
    let back = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a port");
    back.connect(server).await.expect("a good address");
    let address = front.local_addr().expect("bound");
    let lost = Arc::new(AtomicU64::new(0));
    let counter = lost.clone();
    tokio::spawn(async move {
        let (mut state, mut client) = (seed, None);
        let (mut there, mut back_again) = ([0; 2000], [0; 2000]);
        loop {
            // Knuth's generator; its upper bits decide.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let is_lost = (state >> 33) % 100 == 0;
            counter.fetch_add(u64::from(is_lost), Ordering::Relaxed);
            tokio::select! {
                Ok((len, from)) = front.recv_from(&mut there) => {
                    client = Some(from);
                    if !is_lost {
                        let _ = back.send(&there[..len]).await;
                    }
                }
                Ok(len) = back.recv(&mut back_again) => {
                    if let Some(client) = client && !is_lost {
                        let _ = front.send_to(&back_again[..len], client).await;
                    }
                }
            }
        }
    });
    (address, lost)
}

fn file() -> Vec<u8> {
    (0..BYTES)
        .map(|at| (at % 251) as u8 ^ (at >> 12) as u8)
        .collect()
}

#[tokio::test]
async fn a_file_arrives_through_the_tunnel_and_its_losses() {
    let [mut client, server] = configs();
    let far = WireGuard::open(&server).await.expect("a socket");
    let port = far.local_addr().expect("bound").port();
    let (relay, lost) = lossy_relay((Ipv4Addr::LOCALHOST, port).into(), 1985).await;
    client.endpoint = Some(relay);
    let near = WireGuard::open(&client).await.expect("a socket");
    let stack = |device, config: &Config| {
        Netstack::builder(device)
            .address(config.address)
            .build()
            .expect("ready")
    };
    let (near, far) = (stack(near, &client), stack(far, &server));

    let incoming = far.tcp_incoming().await.expect("the first");
    let served = tokio::spawn(async move {
        let mut stream = incoming
            .next()
            .await
            .expect("a SYN")
            .accept()
            .await
            .expect("accepted");
        let mut received = Vec::new();
        stream
            .read_to_end(&mut received)
            .await
            .expect("closed in order");
        stream
            .write_all(&Sha256::digest(&received))
            .await
            .expect("written");
        received.len()
    });
    let mut stream = within(near.connect(([10, 8, 0, 2], 80)))
        .await
        .expect("accepted");
    let file = file();
    within(stream.write_all(&file)).await.expect("written");
    stream.shutdown().await.expect("never fails");
    let mut digest = Vec::new();
    within(stream.read_to_end(&mut digest))
        .await
        .expect("closed in order");
    assert_eq!(within(served).await.expect("no panic"), BYTES);
    assert_eq!(digest, Sha256::digest(&file).to_vec());
    let lost = lost.load(Ordering::Relaxed);
    assert!(lost >= 20, "the relay lost {lost} datagrams only");
}

#[tokio::test]
async fn a_peer_with_another_key_is_not_answered() {
    let [mut client, server] = configs();
    let far = WireGuard::open(&server).await.expect("a socket");
    let port = far.local_addr().expect("bound").port();
    client.endpoint = Some((Ipv4Addr::LOCALHOST, port).into());
    client.private_key = StaticSecret::from([3; 32]);
    let near = WireGuard::open(&client).await.expect("a socket");
    let stack = |device, config: &Config| {
        Netstack::builder(device)
            .address(config.address)
            .build()
            .expect("ready")
    };
    let (near, far) = (stack(near, &client), stack(far, &server));
    let incoming = far.tcp_incoming().await.expect("the first");
    let connecting = near.connect(([10, 8, 0, 2], 80));
    let answered = async {
        tokio::select! { _ = connecting => (), _ = incoming.next() => () }
    };
    timeout(Duration::from_secs(2), answered)
        .await
        .expect_err("the handshake must fail");
}

#[test]
fn lines_that_are_not_understood_are_named() {
    for (text, why) in [
        ("PrivateKey = x", "line 1: a key is 32 bytes"),
        ("[Interface]\nDNS = 1.1.1.1", "line 2: DNS is not supported"),
        ("Address", "line 1: not NAME = VALUE"),
        ("", "PrivateKey is missing"),
    ] {
        let error = Config::parse(text).err().expect("refused").to_string();
        assert!(error.starts_with(why), "{error}");
    }
}
