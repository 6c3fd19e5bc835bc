//! Threads that wait, with `std::io`'s traits: no async runtime. Two hosts of this process that a
//! cable joins; no privileges.
//!
//! `cargo run -p tautline-examples --example blocking`

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4};
use std::thread;
use std::time::Duration;

use tautline_base::{HeapFrame, Pool};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::{FqCodel, fq_codel};
use tautline_rt::blocking::{TcpListener, TcpStream};
use tautline_rt::handle::Config;
use tautline_rt::{Cable, HostThread, Idle, StackHandle, cable, system_seed};
use tautline_stack::{Cidr, Host, HostConfig, NoTrace};

const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 7, 0, 2), 7);

fn host(number: u8, device: Cable) -> io::Result<(HostThread, StackHandle)> {
    HostThread::spawn(Config::default(), Idle::Sleep, move || {
        let config = HostConfig::new([2, 0, 0, 0, 0, number], system_seed()?);
        let config = config.address(Cidr::new(Ipv4Addr::new(10, 7, 0, number), 24));
        let qdisc = FqCodel::new(fq_codel::Config::default()).map_err(io::Error::other)?;
        let port = Port::new(qdisc, Ring::new(device, Dql::default()));
        Ok(Host::new(
            config,
            port,
            Pool::new((0..1024).map(|_| HeapFrame::new()).collect()),
            NoTrace,
        ))
    })
}

fn main() -> io::Result<()> {
    let [left, right] = cable()?;
    let ((client_thread, client), (server_thread, server)) = (host(1, left)?, host(2, right)?);
    let listener = TcpListener::bind(&server, SERVER.port())?;
    let echo = thread::spawn(move || -> io::Result<u64> {
        let (stream, peer) = listener.accept()?;
        println!("server: {peer} connected");
        io::copy(&mut &stream, &mut &stream)
    });

    let mut stream = TcpStream::connect_timeout(&client, SERVER, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.handle().set_nodelay(true)?;
    stream.write_all(b"Keep the line taut.")?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    println!("client: {answer}");
    echo.join().expect("no panic")?;

    client_thread.stop()?;
    server_thread.stop()?;
    Ok(())
}
