//! `tautline gateway`: a network for sandboxes. Their connections go through ordinary sockets of the
//! user who starts it.

mod inside;
mod sandbox;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use clap::Parser;
use tautline_netstack::device::{FrameDescriptor, FrameSocket, FrameStream};
use tautline_netstack::gateway::{Gateway, GatewayConfig, Subnet};
use tautline_netstack::{Bytes, RelayLimits};
use tokio::net::{TcpListener, UdpSocket, UnixDatagram, UnixListener};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::rendezvous::{self, IPV6_MTU};
use super::tun2socks::signaled;
use crate::accept::ACCEPT_AGAIN;
use crate::args::Times;
use crate::check::Unusable;
use crate::descriptors;
use crate::failure::Failure;
use sandbox::{Runtime, Sandbox};

const EXAMPLES: &str = "\
Examples:
  tautline gateway 'run:curl -O http://example.org/'
  tautline gateway --qdisc 'cake bandwidth 50mbit dual-dsthost' stream:/tmp/vm1 stream:/tmp/vm2
  tautline gateway --forward 127.0.0.1:8080=1:80 --forward udp:[::1]:5353=1:53 dgram:/tmp/vm
  tautline gateway --forward [::]:8080=10.0.2.15:80 --forward [::1]:2222=[fd00:a00:200:f:5054:ff:fe12:3456]:22 stream:/tmp/vm
Sandboxes, numbered from 1 in the order given:
  run:COMMAND   a shell command in user, mount and network namespaces of its own, with a TAP interface and an address
  pid:PID       the namespaces of a process; adds the interface tap0 and an address
  stream:PATH   a Unix socket for QEMU: -netdev stream,id=n,addr.type=unix,addr.path=PATH
  dgram:PATH    the same: -netdev dgram,id=n,local.type=unix,local.path=OTHER,remote.type=unix,remote.path=PATH
The first is 10.0.2.15, the next 10.0.2.16, assigned by DHCP unless set here; the gateway is 10.0.2.2, the name server 10.0.2.3.
Over IPv6 the first is fd00:a00:200:f::f or any address of fd00:a00:200:f::/64, by router advertisement; the gateway is
fd00:a00:200::2, the name server fd00:a00:200::3.
All share the qdisc toward them; HTB with a class for each sandbox: `htb default 1; class add parent 1: classid 1:1 htb rate 40mbit; \
class add parent 1: classid 1:2 htb rate 10mbit; filter add parent 1: protocol ip u32 match ip dst 10.0.2.16 flowid 1:2`.";

/// Connects sandboxes to the network, without root
#[derive(Parser, Debug)]
#[command(version, after_help = EXAMPLES)]
pub struct GatewayArgs {
    /// Sandboxes: run:COMMAND, pid:PID, stream:PATH or dgram:PATH
    #[arg(required = true)]
    sandboxes: Vec<Sandbox>,
    /// Qdisc toward the sandboxes, in tc's words
    #[arg(long, default_value = "cake dual-dsthost")]
    qdisc: String,
    /// Forward connections, or with udp: datagrams, to an address and port of this host to a sandbox and
    /// its port, e.g. 127.0.0.1:8080=1:80 or udp:[::1]:53=1:53. By number a sandbox is reached at its
    /// address of the same family; one with an address of its own choice by that: [::1]:22=[fd00:a00:200:f::7]:22
    #[arg(long)]
    forward: Vec<Forward>,
    /// DNS server [default: the first in /etc/resolv.conf]
    #[arg(long)]
    dns: Option<IpAddr>,
    /// Map the gateway's addresses to the host's 127.0.0.1 and ::1
    #[arg(long)]
    host_loopback: bool,
    /// Network of the sandboxes, a /24
    #[arg(long, default_value_t = Ipv4Addr::new(10, 0, 2, 0))]
    subnet: Ipv4Addr,
    /// MTU in bytes
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u16).range(576..=9000))]
    mtu: u16,
    /// Most MiB of buffers, for all connections together
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    memory: u32,
    /// Timeout for a connection to the destination; after it the SYN stays unanswered
    #[arg(long, default_value = "30s")]
    connect_timeout: Times,
    /// Internal: the process runs in the sandbox; socket of the gateway
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
    /// Internal: number of this sandbox, from 0
    #[arg(long, hide = true, default_value_t = 0)]
    number: usize,
}

/// A forwarded port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Forward {
    is_udp: bool,
    at: SocketAddr,
    to: Target,
}

/// Where a forwarded port leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// A port of the sandbox with this number, from 1.
    Number(usize, u16),
    Address(SocketAddr),
}

impl FromStr for Forward {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let rest = text.strip_prefix("udp:");
            let (at, to) = rest.unwrap_or(text).split_once('=')?;
            let to = if let Ok(address) = to.parse() {
                Target::Address(address)
            } else {
                let (number, port) = to.split_once(':')?;
                Target::Number(number.parse().ok()?, port.parse().ok()?)
            };
            Some(Self {
                is_udp: rest.is_some(),
                at: at.parse().ok()?,
                to,
            })
        };
        parse().ok_or("write [udp:]ADDRESS:PORT=SANDBOX:PORT, e.g. 127.0.0.1:8080=1:80")
    }
}

impl Forward {
    /// The address of one of `count` sandboxes that it leads to.
    fn target(self, subnet: Subnet, count: usize, mtu: u16) -> Result<SocketAddr, Unusable> {
        let refuse = |value: &dyn fmt::Display, why| Err(Unusable::new("forward", value, why));
        let to = match self.to {
            Target::Address(address) => address,
            Target::Number(number, port) => {
                if !(1..=count).contains(&number) {
                    return refuse(
                        &number,
                        format!("the sandboxes have the numbers 1 to {count}"),
                    );
                }
                let ip: IpAddr = match self.at {
                    SocketAddr::V4(_) => subnet.sandbox(number - 1).into(),
                    SocketAddr::V6(_) => subnet.sandbox_v6(number - 1).into(),
                };
                SocketAddr::new(ip, port)
            }
        };
        if subnet.number_of(to.ip()).is_none_or(|at| at >= count) {
            let why =
                "it is in the network of no sandbox; the addresses are those that --help names";
            return refuse(&to, why.into());
        }
        if to.is_ipv6() && mtu < IPV6_MTU {
            let why = format!("IPv6 needs an --mtu of at least {IPV6_MTU}");
            return refuse(&to, why);
        }
        Ok(to)
    }

    /// Forwards to `to` until the process ends.
    async fn start(self, to: SocketAddr, gateway: Arc<Gateway>) -> io::Result<()> {
        if self.is_udp {
            let socket = UdpSocket::bind(self.at).await?;
            tokio::spawn(async move { gateway.forward_datagrams(socket, to).await });
        } else {
            let listener = TcpListener::bind(self.at).await?;
            tokio::spawn(async move { gateway.forward(listener, to).await });
        }
        Ok(())
    }
}

impl GatewayArgs {
    /// Runs until a signal, or until the last command of a sandbox has ended.
    ///
    /// # Errors
    /// If an option cannot work, a sandbox cannot be connected, or a command fails.
    pub fn run(self) -> Result<(), Failure> {
        if let Some(socket) = &self.inside {
            let subnet = Subnet::of(self.subnet);
            let sandbox = self.sandboxes.first();
            return inside::attach(socket, subnet, self.number, self.mtu, sandbox);
        }
        let targets = self.targets()?;
        tokio::runtime::Runtime::new()?.block_on(self.serve(targets))
    }

    /// Where each of the forwarded ports leads.
    fn targets(&self) -> Result<Vec<SocketAddr>, Unusable> {
        let (subnet, count) = (Subnet::of(self.subnet), self.sandboxes.len());
        let forwards = self.forward.iter();
        forwards
            .map(|forward| forward.target(subnet, count, self.mtu))
            .collect()
    }

    fn config(&self) -> GatewayConfig {
        GatewayConfig {
            subnet: Subnet::of(self.subnet),
            mtu: self.mtu.into(),
            resolver: rendezvous::resolver(self.dns),
            host_loopback: self.host_loopback,
            limits: RelayLimits {
                connect_timeout: self.connect_timeout.0,
                ..RelayLimits::default()
            },
            ..GatewayConfig::default()
        }
    }

    async fn serve(self, targets: Vec<SocketAddr>) -> Result<(), Failure> {
        let signal = signaled()?;
        let memory = Bytes::mib(self.memory.into());
        let qdisc = self.qdisc.clone();
        let gateway = Gateway::start(self.config(), |builder| {
            builder.qdisc(qdisc).memory_limit(memory)
        });
        let gateway = Arc::new(gateway?);
        for (forward, to) in self.forward.iter().zip(targets) {
            forward.start(to, Arc::clone(&gateway)).await?;
        }
        let running = Arc::clone(&gateway);
        let mut running = tokio::spawn(async move { running.run().await });
        let mut runtime = Runtime::new(Subnet::of(self.subnet), self.mtu)?;
        let mut commands = JoinSet::new();
        for (number, sandbox) in self.sandboxes.iter().enumerate() {
            self.connect(&gateway, &mut runtime, &mut commands, number, sandbox)
                .await?;
        }
        descriptors::raise_limit();
        let failed = tokio::select! {
            failed = self.end_of(commands) => failed,
            () = signal => None,
            ended = &mut running => {
                let ended = ended.unwrap_or_else(|panic| Err(io::Error::other(panic)));
                return ended.map_err(|why| Failure::Device(why.to_string()));
            }
        };
        eprint!("{}", gateway.stack().report().await?);
        failed.map_or(Ok(()), |why| Err(io::Error::other(why).into()))
    }

    /// Waits for the last of `commands`, and returns how one has failed. Sandboxes that are no commands of
    /// ours have no end.
    async fn end_of(&self, mut commands: JoinSet<Option<String>>) -> Option<String> {
        let mut failed = None;
        while let Some(status) = commands.join_next().await {
            let why = status.unwrap_or_else(|error| Some(error.to_string()));
            failed = failed.or(why);
        }
        let is_endless = |sandbox: &Sandbox| !matches!(sandbox, Sandbox::Run(_));
        if self.sandboxes.iter().any(is_endless) {
            std::future::pending::<()>().await;
        }
        failed
    }

    /// Connects a sandbox to its port.
    async fn connect(
        &self,
        gateway: &Arc<Gateway>,
        runtime: &mut Runtime,
        commands: &mut JoinSet<Option<String>>,
        number: usize,
        sandbox: &Sandbox,
    ) -> Result<(), Failure> {
        let mtu = usize::from(self.mtu);
        match sandbox {
            Sandbox::Run(_) | Sandbox::Process(_) => {
                let (tap, mut child) = runtime.start(number, sandbox).await?;
                gateway.attach(number, FrameDescriptor::new(tap, mtu)?)?;
                let name = sandbox.to_string();
                commands.spawn(async move {
                    let status = child.wait().await;
                    let status = status.map_or_else(|error| error.to_string(), |it| it.to_string());
                    (status != "exit status: 0").then(|| format!("`{name}`: {status}"))
                });
            }
            Sandbox::Stream(path) => {
                let listener = UnixListener::bind(path).map_err(Failure::file(path))?;
                runtime.remove_at_end(path);
                tokio::spawn(accept_frames(listener, Arc::clone(gateway), number, mtu));
            }
            Sandbox::Datagrams(path) => {
                let socket = UnixDatagram::bind(path).map_err(Failure::file(path))?;
                runtime.remove_at_end(path);
                gateway.attach(number, FrameSocket::new(socket, mtu))?;
            }
        }
        let address = Subnet::of(self.subnet).sandbox(number);
        eprintln!("gateway: {address} is {sandbox}");
        Ok(())
    }
}

/// Attaches each client of `listener` to the port `number`, as the sandbox in the place of the one before,
/// until the gateway ends.
async fn accept_frames(listener: UnixListener, gateway: Arc<Gateway>, number: usize, mtu: usize) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let attached = gateway.attach(number, FrameStream::new(stream, mtu));
                if attached.is_err() {
                    return;
                }
            }
            Err(_) => sleep(ACCEPT_AGAIN).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_for_ports_and_sandboxes_are_understood() {
        let forward = "127.0.0.1:8080=2:80".parse::<Forward>().expect("a port");
        assert_eq!(forward.to, Target::Number(2, 80));
        let datagrams = "udp:[::1]:53=1:5353".parse::<Forward>();
        let datagrams = datagrams.expect("a port of IPv6");
        assert_eq!((datagrams.is_udp, forward.is_udp), (true, false));
        assert!(datagrams.at.is_ipv6());
        assert_eq!(datagrams.to, Target::Number(1, 5353));
        for bad in [
            "",
            "8080=1:80",
            "127.0.0.1:80",
            "127.0.0.1:80=1",
            "127.0.0.1:80=-1:1",
            "[::1]:80=fd00:a00:200:f::f:80",
        ] {
            assert!(bad.parse::<Forward>().is_err(), "{bad}");
        }
        for word in [
            "run:sleep 1; true",
            "pid:7",
            "stream:/tmp/a:b",
            "dgram:/tmp/c",
        ] {
            let sandbox = word.parse::<Sandbox>().expect(word);
            assert_eq!(sandbox.to_string(), word);
        }
        for bad in ["", "run:", "pid:x", "pid:0", "tap:0", "/tmp/a"] {
            assert!(bad.parse::<Sandbox>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_forwarded_port_leads_to_an_address_of_a_sandbox() {
        let target = |words: &str, mtu| {
            let forward = words.parse::<Forward>().expect(words);
            forward.target(Subnet::default(), 2, mtu)
        };
        for (words, to) in [
            ("127.0.0.1:80=2:81", "10.0.2.16:81"),
            ("[::1]:80=2:81", "[fd00:a00:200:10::10]:81"),
            ("udp:[::]:80=1:81", "[fd00:a00:200:f::f]:81"),
            ("[::1]:80=10.0.2.16:81", "10.0.2.16:81"),
            (
                "0.0.0.0:80=[fd00:a00:200:f:1:2:3:4]:81",
                "[fd00:a00:200:f:1:2:3:4]:81",
            ),
        ] {
            let led = target(words, 1500).map_err(|error| error.to_string());
            assert_eq!(led, Ok(to.parse().expect("an address")), "{words}");
        }
        for (words, mtu, why) in [
            ("127.0.0.1:80=0:80", 1500, "1 to 2"),
            ("127.0.0.1:80=3:80", 1500, "1 to 2"),
            ("127.0.0.1:80=10.0.2.17:80", 1500, "no sandbox"),
            ("127.0.0.1:80=10.0.2.2:80", 1500, "no sandbox"),
            ("[::1]:80=[fd00:a00:200:11::11]:80", 1500, "no sandbox"),
            ("[::1]:80=1:80", 1279, "1280"),
        ] {
            let error = target(words, mtu).expect_err(words).to_string();
            assert!(error.contains(why), "{words}: {error}");
        }
    }
}
