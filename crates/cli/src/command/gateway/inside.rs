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
use crate::command::rendezvous;
use crate::failure::Failure;

const INTERFACE: &str = "tap0";
/// Least MTU of IPv6 (RFC 8200 §5).
const IPV6_MTU: u16 = 1280;

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
        format!(
            "address add {}/{} dev {INTERFACE}",
            subnet.sandbox(number),
            Subnet::PREFIX
        ),
        format!("route add default via {}", subnet.gateway()),
    ];
    if has_ipv6(mtu) {
        // The address of the router advertisement comes later, after a probe for a duplicate.
        commands.extend([
            format!(
                "address add {}/{} dev {INTERFACE} nodad",
                subnet.sandbox_v6(number),
                Subnet::PREFIX_V6
            ),
            format!("route add default via {} dev {INTERFACE}", Subnet::ROUTER),
        ]);
    }
    ip(&commands)?;
    rendezvous::hand_over(socket, tap.as_fd())?;
    let Some(Sandbox::Run(words)) = sandbox else {
        return Ok(());
    };
    rendezvous::mount_resolver(socket);
    let failed = Command::new("sh").args(["-c", words]).exec();
    Err(Failure::file("sh")(failed))
}
