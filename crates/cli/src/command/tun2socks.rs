//! `tautline tun2socks`: forwards traffic from a TUN interface through a SOCKS 5 or HTTP proxy.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;

use clap::Parser;
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};
use tautline_netstack::device::Tun;
use tautline_netstack::tun2socks::{Proxy, Tun2Socks};
use tautline_netstack::{Bytes, Netstack};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use crate::args::Times;
use crate::descriptors;
use crate::failure::Failure;

/// Time for a stack to say why it has ended.
const LAST_REASON: Duration = Duration::from_secs(1);
const EXAMPLES: &str = "\
Examples:
  tautline tun2socks --tun tun0 --proxy 127.0.0.1:1080
  tautline tun2socks --tun tun0 --proxy socks5://name:password@[::1]:1080 --qdisc 'cake bandwidth 50mbit'
The interface is created if it does not exist; give it an address and routes: `ip address add 10.9.0.1/24 dev tun0; ip link set tun0 up; \
ip route add 192.0.2.0/24 dev tun0`. The proxy's own address must not be routed to it.
A SYN is answered once the proxy has connected: a refused destination is a refused connection.
With RUST_LOG=debug in the environment there is a line for each connection and failure.";

/// Forwards connections and datagrams from a TUN interface through a SOCKS 5 proxy, or connections
/// only through an HTTP proxy.
#[derive(Parser, Debug)]
#[command(version, after_help = EXAMPLES)]
pub struct Tun2SocksArgs {
    /// TUN interface
    #[arg(long)]
    tun: String,
    /// The proxy: [socks5://|http://][name:password@]address:port, name and password percent-encoded where
    /// they need it
    #[arg(long)]
    proxy: Proxy,
    /// Qdisc toward the interface, in tc's words
    #[arg(long, default_value = "fq_codel")]
    qdisc: String,
    /// Most MiB of buffers, for all connections together
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    memory: u32,
    /// Timeout for the proxy to connect, or to open a UDP association; after it the SYN stays unanswered
    #[arg(long, default_value = "30s")]
    connect_timeout: Times,
    /// One packet per segment, without offload
    #[arg(long)]
    no_offload: bool,
}

impl Tun2SocksArgs {
    /// Forwards until a signal or the loss of the interface.
    ///
    /// # Errors
    /// If an option cannot work or the interface fails.
    pub fn run(self) -> Result<(), Failure> {
        let tun = if self.no_offload {
            Tun::open_without_offload(&self.tun)?
        } else {
            Tun::open(&self.tun)?
        };
        descriptors::raise_limit();
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(async {
            let stack = Netstack::builder(tun)
                .qdisc(self.qdisc)
                .memory_limit(Bytes::mib(self.memory.into()))
                .build()?;
            let signal = signaled()?;
            let mut tun2socks = Tun2Socks::new(self.proxy);
            tun2socks.limits.connect_timeout = self.connect_timeout.0;
            tokio::select! {
                failed = tun2socks.run(&stack) => {
                    // A stack that has ended says why, if that is not the removal of its interface.
                    let ended = timeout(LAST_REASON, stack.ended()).await;
                    let why = ended.unwrap_or(Ok(())).and(failed);
                    why.map_err(|error| lost(&self.tun, &error))
                }
                () = signal => {
                    eprint!("{}", stack.report().await?);
                    Ok(())
                }
            }
        })
    }
}

/// The failure of a stack on `interface` that has ended with `error`, which does not know of a removal.
fn lost(interface: &str, error: &io::Error) -> Failure {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None);
    let found = socket.and_then(|socket| name_to_index(socket, interface));
    Failure::Device(if found == Err(Errno::NODEV) {
        format!("interface `{interface}` was removed")
    } else {
        format!("interface `{interface}`: {error}")
    })
}

/// Ready after SIGINT, SIGTERM or SIGHUP.
///
/// # Errors
/// If the system gives no notice of signals.
pub(super) fn signaled() -> io::Result<impl Future<Output = ()>> {
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    let mut signals = kinds
        .map(signal)
        .into_iter()
        .collect::<io::Result<Vec<Signal>>>()?;
    Ok(poll_fn(move |context| {
        let is_here = |signal: &mut Signal| signal.poll_recv(context).is_ready();
        if signals.iter_mut().any(is_here) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }))
}
