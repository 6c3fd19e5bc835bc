//! The far end of a link that reaches the network: a gateway outside the link's namespaces. Its
//! connections are ordinary sockets of the user.
//!
//! The link's process creates a TAP interface in its namespace and hands it over
//! ([`Rendezvous`]).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use tautline_netstack::Cidr;
use tautline_netstack::device::FrameDescriptor;
use tautline_netstack::gateway::{Gateway, GatewayConfig, Subnet};

use super::{exit_code, namespace};
use crate::command::rendezvous::{self, Rendezvous};
use crate::command::tun2socks::signaled;
use crate::failure::Failure;

/// The addresses of the first link.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 0);
/// Bits of the network of all links.
const LINKS: u8 = 16;
/// The network of IPv6 of all links, and its bits.
const LINKS_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0), 48);

/// The addresses of the gateway and of COMMAND, its first sandbox.
pub(super) fn subnet() -> Subnet {
    Subnet::of(FIRST)
}

/// Runs this program again in namespaces of its own, and the gateway meanwhile.
///
/// # Errors
/// If the kernel allows no such namespaces, or the gateway cannot start.
pub(super) fn run() -> Result<ExitCode, Failure> {
    tokio::runtime::Runtime::new()?.block_on(serve())
}

async fn serve() -> Result<ExitCode, Failure> {
    // Before there is a child that a signal must end, too.
    let mut signals = pin!(signaled()?);
    let rendezvous = Rendezvous::new("link", subnet().resolver())?;
    let socket = rendezvous.socket();
    let options = ["--outside".as_ref(), socket.as_os_str()];
    let command = namespace::again(&["--mount"], &options)?;
    let mut command = tokio::process::Command::from(command);
    let child = command.kill_on_drop(true).spawn();
    let mut child = child.map_err(Failure::file("unshare"))?;
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    // Without an interface the child has said why.
    let tap = forwarding(signals.as_mut(), pid, rendezvous.tap(&mut child));
    if let Some(tap) = tap.await? {
        let config = GatewayConfig {
            subnet: subnet(),
            resolver: rendezvous::resolver(None),
            // COMMAND has the rights of the user outside.
            host_loopback: true,
            behind: Some(Cidr::new(FIRST, LINKS)),
            behind_v6: Some(Cidr::new(LINKS_V6.0, LINKS_V6.1)),
            ..GatewayConfig::default()
        };
        let gateway = Arc::new(Gateway::start(config, |builder| builder)?);
        gateway.attach(0, FrameDescriptor::new(tap, config.mtu)?)?;
        tokio::spawn(async move { gateway.run().await });
    }
    let status = forwarding(signals.as_mut(), pid, child.wait()).await?;
    Ok(exit_code(status))
}

/// The outcome of `work`. Meanwhile each of `signals` ends the child `pid`, whose end completes `work`.
async fn forwarding<T>(
    mut signals: Pin<&mut impl Future<Output = ()>>,
    pid: Option<Pid>,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            // A child that has ended is not signaled.
            biased;
            outcome = &mut work => return outcome,
            () = &mut signals => {
                let ended = pid.map(|pid| kill_process(pid, Signal::TERM));
                ended.transpose()?;
            }
        }
    }
}
