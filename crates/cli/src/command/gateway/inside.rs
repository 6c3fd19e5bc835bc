//! The part of the gateway that runs in a sandbox's namespaces: it makes the interface there.

use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use tautline_netstack::gateway::Subnet;
use tautline_rt::Tap;

use super::sandbox::Sandbox;
use crate::command::link::ip;
use crate::command::rendezvous;
use crate::failure::Failure;

const INTERFACE: &str = "tap0";

/// Makes the interface, hands it to the gateway at `socket`, and becomes the command of `sandbox` if
/// it has one.
pub(super) fn attach(
    socket: &Path,
    subnet: Subnet,
    number: usize,
    mtu: u16,
    sandbox: Option<&Sandbox>,
) -> Result<(), Failure> {
    let tap = Tap::open(INTERFACE)?;
    ip(&[
        "link set lo up".into(),
        format!("link set {INTERFACE} mtu {mtu} up"),
        format!(
            "address add {}/{} dev {INTERFACE}",
            subnet.sandbox(number),
            Subnet::PREFIX
        ),
        format!("route add default via {}", subnet.gateway()),
    ])?;
    rendezvous::hand_over(socket, tap.as_fd())?;
    let Some(Sandbox::Run(words)) = sandbox else {
        return Ok(());
    };
    rendezvous::mount_resolver(socket);
    let failed = Command::new("sh").args(["-c", words]).exec();
    Err(Failure::file("sh")(failed))
}
