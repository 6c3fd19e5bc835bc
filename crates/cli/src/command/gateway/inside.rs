//! The part of the gateway that runs in a sandbox's namespaces: it makes the interface there.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tautline_netstack::gateway::Subnet;
use tautline_rt::Tap;

use super::RESOLV_CONF;
use super::sandbox::Sandbox;
use crate::command::link::ip;
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
    let gateway = UnixStream::connect(socket)?;
    let descriptors = [tap.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let byte = [io::IoSlice::new(&[0])];
    sendmsg(&gateway, &byte, &mut control, SendFlags::empty()).map_err(io::Error::from)?;
    let Some(Sandbox::Run(words)) = sandbox else {
        return Ok(());
    };
    // The names of the gateway's server, in this mount namespace only.
    let names = socket.with_file_name("resolv.conf");
    let mounted = Command::new("mount")
        .arg("--bind")
        .args([names.as_path(), Path::new(RESOLV_CONF)])
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("gateway: {RESOLV_CONF} remains the host's; names are asked of it");
    }
    let failed = Command::new("sh").args(["-c", words]).exec();
    Err(Failure::file("sh")(failed))
}
