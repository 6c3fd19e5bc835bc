//! The ceiling of a stack's memory: connections whose application never reads hold no more than it
//! allows, and one whose application reads gets its data beside them.

use std::time::Duration;

use tautline_netstack::device::FrameSocket;
use tautline_netstack::{Builder, Bytes, Cidr, Netstack};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixDatagram;
use tokio::time::timeout;

const CONNECTIONS: usize = 10_000;
const CEILING: Bytes = Bytes::mib(16);
/// Bytes that each client wants to send: 6 times the ceiling together.
const EACH: usize = 10_000;
/// The rings beyond the ceiling: 512 bytes each; and a page, with its place, for each of the 64 packets
/// that a turn may take in before the windows close.
const SLACK: u64 = 512 * CONNECTIONS as u64 + 64 * (4096 + 128);
const LIMIT: Duration = Duration::from_secs(120);

fn builder(socket: UnixDatagram, number: u8) -> Builder<FrameSocket> {
    Netstack::builder(FrameSocket::new(socket, 1500))
        .mac([2, 0, 0, 0, 0, number])
        .address(Cidr::new([10, 0, 0, number], 24))
}

#[tokio::test]
async fn ten_thousand_connections_that_never_read_leave_the_ceiling_in_place() {
    let (near, far) = UnixDatagram::pair().expect("sockets");
    let client = builder(near, 1).memory_limit(Bytes::mib(1024)).build();
    let server = builder(far, 2).memory_limit(CEILING).build();
    let (client, server) = (client.expect("a runtime"), server.expect("a runtime"));
    let incoming = server.tcp_incoming().await.expect("the first");
    let mut ends = Vec::with_capacity(CONNECTIONS);
    for number in 0..CONNECTIONS {
        let accepting = async { incoming.next().await?.accept().await };
        let port = 1 + number as u16 / 1000;
        let connecting = client.connect(([10, 0, 0, 2], port));
        let opened = timeout(LIMIT, async { tokio::try_join!(connecting, accepting) }).await;
        let (near, far) = opened.expect("in time").expect("both live");
        match near.try_write(&[7; EACH]) {
            Ok(1..) => {}
            refused => panic!("connection {number}: {refused:?}"),
        }
        ends.push((near, far));
        if number % 1000 == 999 {
            let memory = server.report().await.expect("it runs").memory;
            assert!(memory <= CEILING.get() + SLACK, "{memory} bytes");
        }
    }
    let accepting = async { incoming.next().await?.accept().await };
    let opened = tokio::try_join!(client.connect(([10, 0, 0, 2], 99)), accepting);
    let (mut near, mut far) = opened.expect("there is room for one that reads");
    let data = vec![9; 300_000];
    let mut all = Vec::new();
    let sending = async {
        near.write_all(&data).await?;
        near.shutdown().await
    };
    let exchange = async { tokio::try_join!(sending, far.read_to_end(&mut all)) };
    let exchanged = timeout(LIMIT, exchange)
        .await
        .expect("the reader is served");
    exchanged.expect("it is not shed");
    assert!(all == data, "{} bytes", all.len());
    let report = server.report().await.expect("it runs");
    assert!(report.memory <= CEILING.get() + SLACK, "{report}");
    assert!(report.counters.out_of_memory > 0, "{report}");
}
