//! UDP pings beside a TCP upload, before and after the host's qdisc is replaced: what a queue does
//! to all other traffic, and what another queue does about it. Two hosts of this process that a
//! cable joins; no privileges.
//!
//! `cargo run --release -p tautline-examples --example udp_latency`

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use tautline_base::{HeapFrame, Packet, Pool};
use tautline_bql::{Dql, Port, Ring};
use tautline_rt::handle::Config;
use tautline_rt::{
    ByWords, Cable, Clock, HostThread, Idle, StackHandle, TcpListener, TcpStream, UdpSocket, cable,
    system_seed,
};
use tautline_stack::{Cidr, Host, HostConfig, NoTrace, TsqLimit};
use tautline_tc::{DynQdisc, build};
use tokio::io::{AsyncWriteExt, copy, sink};
use tokio::time::{sleep, timeout};

const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 7, 0, 2), 7);
/// A link of 20 Mbit/s, with one queue for all, and with one for each flow.
const QUEUES: [&str; 2] = [
    "tbf rate 20mbit burst 16kb latency 10s; pfifo limit 200",
    "tbf rate 20mbit burst 16kb latency 10s; fq_codel",
];
const PINGS: usize = 100;

fn host(number: u8, device: Cable) -> io::Result<(HostThread, StackHandle)> {
    let mut config = Config::default();
    // TSQ alone would keep most of the upload out of the queue: this shows what a host without it
    // does.
    config.tcp.tsq = TsqLimit::Off;
    HostThread::spawn_with(config, Idle::Sleep, ByWords, move || {
        let config = HostConfig::new([2, 0, 0, 0, 0, number], system_seed()?);
        let config = config.address(Cidr::new(Ipv4Addr::new(10, 7, 0, number), 24));
        let qdisc: Box<dyn DynQdisc<Packet<HeapFrame>>> =
            build(QUEUES[0]).map_err(io::Error::other)?;
        let port = Port::new(qdisc, Ring::new(device, Dql::default()));
        Ok(Host::new(
            config,
            port,
            Pool::new((0..2048).map(|_| HeapFrame::new()).collect()),
            NoTrace,
        ))
    })
}

async fn ping(socket: &UdpSocket, clock: Clock) -> io::Result<[Duration; 3]> {
    let mut times = Vec::new();
    let mut out = [0; 8];
    for number in 0..PINGS {
        let sent = clock.now();
        socket.send(&number.to_be_bytes()).await?;
        // A ping that was dropped on the way is not waited for.
        while let Ok(received) = timeout(Duration::from_millis(500), socket.recv(&mut out)).await {
            received?;
            if out == number.to_be_bytes() {
                times.push(clock.now() - sent);
                break;
            }
        }
        sleep(Duration::from_millis(10)).await;
    }
    times.sort();
    Ok([50, 95, 100].map(|percent| {
        times
            .get((times.len() * percent / 100).saturating_sub(1))
            .copied()
            .unwrap_or_default()
    }))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let [left, right] = cable()?;
    let ((client_thread, client), (server_thread, server)) = (host(1, left)?, host(2, right)?);
    let listener = TcpListener::bind(&server, SERVER.port()).await?;
    let echo = UdpSocket::bind(&server, SERVER).await?;
    tokio::spawn(async move {
        let mut out = [0; 1500];
        while let Ok((count, from)) = echo.recv_from(&mut out).await {
            let _ = echo.send_to(&out[..count], from).await;
        }
    });
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = copy(&mut stream, &mut sink()).await;
        }
    });
    let (pings, clock) = (
        UdpSocket::bind(&client, SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)).await?,
        Clock::start(),
    );
    pings.connect(SERVER).await?;
    println!("{PINGS} pings                 50 %       95 %      100 %");
    println!("idle             {:?}", ping(&pings, clock).await?);
    let mut upload = TcpStream::connect(&client, SERVER).await?;
    tokio::spawn(async move { while upload.write_all(&[0; 65_536]).await.is_ok() {} });
    sleep(Duration::from_secs(2)).await;
    println!(
        "with an upload   {:?}   {}",
        ping(&pings, clock).await?,
        QUEUES[0]
    );
    let replaced = client.set_qdisc(QUEUES[1]).await?;
    println!(
        "(replaced: {} packets moved, {} dropped)",
        replaced.moved, replaced.dropped
    );
    println!(
        "with an upload   {:?}   {}",
        ping(&pings, clock).await?,
        QUEUES[1]
    );
    client_thread.stop()?;
    server_thread.stop()?;
    Ok(())
}
