//! A tokio echo server and its client, on two hosts of this process that a cable joins. Needs no
//! privileges.
//!
//! `cargo run -p tautline-examples --example echo`

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use tautline_base::{HeapFrame, Pool};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::FqCodel;
use tautline_qdisc::fq_codel::Config as FqCodelConfig;
use tautline_rt::handle::Config;
use tautline_rt::{
    Cable, HostThread, Idle, StackHandle, TcpListener, TcpStream, cable, system_seed,
};
use tautline_stack::{Cidr, Host, HostConfig, NoTrace};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, split};

const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 7, 0, 2), 7);

/// A host with address 10.7.0.`number` on a thread of its own.
fn host(number: u8, device: Cable) -> io::Result<(HostThread, StackHandle)> {
    HostThread::spawn(Config::default(), Idle::Sleep, move || {
        let (mac, address) = ([2, 0, 0, 0, 0, number], Ipv4Addr::new(10, 7, 0, number));
        let config = HostConfig::new(mac, system_seed()?).address(Cidr::new(address, 24));
        let qdisc = FqCodel::new(FqCodelConfig::default()).map_err(io::Error::other)?;
        let port = Port::new(qdisc, Ring::new(device, Dql::default()));
        Ok(Host::new(
            config,
            port,
            Pool::new((0..1024).map(|_| HeapFrame::new()).collect()),
            NoTrace,
        ))
    })
}

async fn serve(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, peer) = listener.accept().await?;
        println!("server: {peer} connected");
        let (mut read, mut write) = split(stream);
        tokio::spawn(async move {
            let copied = copy(&mut read, &mut write).await;
            write.shutdown().await.and(copied)
        });
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let [left, right] = cable()?;
    let (client_thread, client) = host(1, left)?;
    let (server_thread, server) = host(2, right)?;
    tokio::spawn(serve(TcpListener::bind(&server, SERVER.port()).await?));

    let mut stream = TcpStream::connect(&client, SERVER).await?;
    stream.write_all(b"Keep the line taut.").await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    println!("client: {answer}");

    client_thread.stop()?;
    server_thread.stop()?;
    Ok(())
}
