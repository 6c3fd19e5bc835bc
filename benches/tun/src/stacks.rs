//! The stacks, each set up as its documentation shows, with the largest buffers that it has by
//! default.

use std::error::Error;
use std::io;
use std::net::Ipv4Addr;

use clap::ValueEnum;
use futures::{SinkExt, StreamExt};
use ipstack::{IpStack, IpStackConfig, IpStackStream};
use socket2::SockRef;
use tautline_netstack::device::{Device, Packets, Tun};
use tautline_netstack::{Algorithm, Builder, Netstack, Pacing, TcpConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::device::{MTU, PacketDevice};
use crate::service::{ECHO, SINK, SOURCE, serve};

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Kind {
    /// tautline over a TUN with segmentation offload.
    Ours,
    /// The same with the kernel's CUBIC, which leaves slow start by its older HyStart.
    OursCubicLinux,
    /// tautline over a TUN, packets of the MTU.
    OursPlain,
    /// The same on a thread of its own.
    OursThread,
    /// tautline over the device of packets that the peers use.
    OursPackets,
    Ipstack,
    NetstackSmoltcp,
    /// The kernel's TCP on its own addresses: no interface.
    Kernel,
}

/// Serves connections to `interface` until the process is killed.
#[tokio::main(worker_threads = 2)]
pub(crate) async fn run(kind: Kind, interface: &str) -> Result<(), Box<dyn Error>> {
    match kind {
        Kind::Ours => ours(Tun::open(interface)?).await?,
        Kind::OursCubicLinux => {
            let tcp = TcpConfig {
                congestion: Algorithm::CubicLinux.factory(),
                pacing: Pacing::Off,
                ..TcpConfig::default()
            };
            serve_all(Netstack::builder(Tun::open(interface)?).tcp(tcp)).await?;
        }
        Kind::OursPlain => ours(Tun::open_without_offload(interface)?).await?,
        Kind::OursThread => ours(Tun::open_without_offload(interface)?.with_thread()).await?,
        Kind::OursPackets => {
            let device = PacketDevice::open(interface)?;
            ours(Packets::new(device, MTU.into())).await?;
        }
        Kind::Ipstack => ipstack(interface).await?,
        Kind::NetstackSmoltcp => smoltcp(interface).await?,
        Kind::Kernel => kernel().await?,
    }
    Ok(())
}

async fn ours(device: impl Device) -> io::Result<()> {
    serve_all(Netstack::builder(device)).await
}

async fn serve_all(builder: Builder<impl Device>) -> io::Result<()> {
    let stack = builder.build()?;
    let incoming = stack.tcp_incoming().await?;
    loop {
        let request = incoming.next().await?;
        tokio::spawn(async move {
            let port = request.local_addr().port();
            serve(port, request.accept().await?).await
        });
    }
}

/// With the controller that all stacks here have by default.
async fn kernel() -> io::Result<()> {
    async fn listen(port: u16) -> io::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?;
        SockRef::from(&listener).set_tcp_congestion(b"cubic")?;
        loop {
            tokio::spawn(serve(port, listener.accept().await?.0));
        }
    }
    tokio::try_join!(listen(SINK), listen(SOURCE), listen(ECHO)).map(|_| ())
}

async fn ipstack(interface: &str) -> Result<(), Box<dyn Error>> {
    let mut config = IpStackConfig::default();
    config.mtu(MTU)?;
    let mut stack = IpStack::new(config, PacketDevice::open(interface)?);
    loop {
        if let IpStackStream::Tcp(stream) = stack.accept().await? {
            let port = stream.peer_addr().port();
            tokio::spawn(serve(port, stream));
        }
    }
}

async fn smoltcp(interface: &str) -> Result<(), Box<dyn Error>> {
    let builder = netstack_smoltcp::StackBuilder::default();
    let (stack, runner, _, listener) = builder.enable_tcp(true).mtu(MTU.into()).build()?;
    let mut listener = listener.ok_or("no listener")?;
    tokio::spawn(runner.ok_or("no runner")?);
    let (mut to_stack, mut from_stack) = stack.split();
    let (mut from_tun, mut to_tun) = tokio::io::split(PacketDevice::open(interface)?);
    tokio::spawn(async move {
        while let Some(Ok(packet)) = from_stack.next().await {
            to_tun.write_all(&packet).await?;
        }
        io::Result::Ok(())
    });
    tokio::spawn(async move {
        let mut buffer = vec![0; MTU.into()];
        loop {
            let len = from_tun.read(&mut buffer).await?;
            to_stack.send(buffer[..len].to_vec()).await?;
        }
        #[expect(unreachable_code, reason = "names the type of the errors")]
        io::Result::Ok(())
    });
    while let Some((stream, _, to)) = listener.next().await {
        tokio::spawn(serve(to.port(), stream));
    }
    Ok(())
}
