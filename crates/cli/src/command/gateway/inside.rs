//! The part of the gateway that runs in a sandbox's namespaces: it makes the interface there.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use tautline_netstack::gateway::Subnet;
use tautline_rt::Tap;

use super::sandbox::Sandbox;
use crate::command::link::ip;
use crate::command::rendezvous::{self, IPV6_MTU};
use crate::failure::Failure;

const INTERFACE: &str = "tap0";

/// Whether the interface speaks IPv6: the kernel has it, it is not disabled there, and packets are long
/// enough.
fn has_ipv6(mtu: u16) -> bool {
    let disabled = format!("/proc/sys/net/ipv6/conf/{INTERFACE}/disable_ipv6");
    mtu >= IPV6_MTU && fs::read_to_string(disabled).is_ok_and(|value| value.trim() == "0")
}

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
    let mut commands = vec![
        "link set lo up".into(),
        format!("link set {INTERFACE} mtu {mtu} up"),
    ];
    commands.extend(rendezvous::addresses(
        INTERFACE,
        subnet,
        number,
        has_ipv6(mtu),
    ));
    ip(&commands)?;
    rendezvous::hand_over(socket, tap.as_fd())?;
    let Some(Sandbox::Run(words)) = sandbox else {
        return Ok(());
    };
    rendezvous::mount_resolver(socket);
    let failed = Command::new("sh").args(["-c", words]).exec();
    Err(Failure::file("sh")(failed))
}
