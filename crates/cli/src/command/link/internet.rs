//! The far end of a link that reaches the network: a gateway outside the link's namespaces. Its
//! connections are ordinary sockets of the user.
//!
//! The link's process creates a TAP interface in its namespace and hands it over
//! ([`Rendezvous`]).

use std::io;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use tautline_netstack::Cidr;
use tautline_netstack::device::FrameDescriptor;
use tautline_netstack::gateway::{Gateway, GatewayConfig, Subnet};
use tokio::process::Child;

use super::{exit_code, namespace};
use crate::command::rendezvous::{self, Rendezvous};
use crate::command::tun2socks::signaled;
use crate::failure::Failure;

/// The addresses of the first link.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 0);
/// Bits of the network of all links.
const LINKS: u8 = 16;

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
    let rendezvous = Rendezvous::new("link", subnet().resolver())?;
    let socket = rendezvous.socket();
    let options = ["--outside".as_ref(), socket.as_os_str()];
    let command = namespace::again(&["--mount"], &options)?;
    let mut command = tokio::process::Command::from(command);
    let child = command.kill_on_drop(true).spawn();
    let mut child = child.map_err(Failure::file("unshare"))?;
    // Without an interface the child has said why.
    if let Some(tap) = rendezvous.tap(&mut child).await? {
        let config = GatewayConfig {
            subnet: subnet(),
            resolver: rendezvous::resolver(None),
            // COMMAND has the rights of the user outside.
            host_loopback: true,
            behind: Some(Cidr::new(FIRST, LINKS)),
            ..GatewayConfig::default()
        };
        let gateway = Arc::new(Gateway::start(config, |builder| builder)?);
        gateway.attach(0, FrameDescriptor::new(tap, config.mtu)?)?;
        tokio::spawn(async move { gateway.run().await });
    }
    wait(&mut child).await
}

/// Waits for `child`, which receives the signals that end this process.
async fn wait(child: &mut Child) -> Result<ExitCode, Failure> {
    let mut signal = pin!(signaled()?);
    loop {
        tokio::select! {
            status = child.wait() => return Ok(exit_code(status?)),
            () = &mut signal => {
                let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
                let ended = pid.map(|pid| kill_process(pid, Signal::TERM));
                ended.transpose().map_err(io::Error::from)?;
            }
        }
    }
}
