//! [`Rendezvous`]: where a process in a network namespace hands its TAP interface to the gateway outside.
//!
//! A directory with a socket, over which the descriptor goes (`SCM_RIGHTS`, unix(7)), and the resolver
//! configuration that the process mounts.

use std::fs::DirBuilder;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tautline_netstack::gateway::Subnet;
use tokio::net::UnixListener;
use tokio::process::Child;

use crate::failure::Failure;

/// The resolver configuration.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Its name in the directory.
const RESOLVER_FILE: &str = "resolv.conf";
/// The socket's name in the directory.
const SOCKET: &str = "tap";
/// Directories of the same name that killed processes may have left.
const OTHERS: u32 = 1000;
/// Port of DNS servers.
const DOMAIN: u16 = 53;
/// Least MTU of IPv6 (RFC 8200 §5).
pub(super) const IPV6_MTU: u16 = 1280;

/// The end of the gateway. The directory disappears on drop.
pub(super) struct Rendezvous {
    /// Accessible to this user only.
    directory: PathBuf,
    listener: UnixListener,
}

impl Rendezvous {
    /// A directory for one run of `command`, whose sandboxes ask `resolver` for names.
    ///
    /// # Errors
    /// If the directory cannot be created, or there is no tokio runtime.
    pub(super) fn new(command: &str, resolver: Ipv4Addr) -> Result<Self, Failure> {
        let name = format!("tautline-{command}-{}", std::process::id());
        let name = std::env::temp_dir().join(name);
        let mut directory = name.clone();
        // A process of the same number may have been killed before it removed its directory: in a container
        // every run has the same.
        for number in 1.. {
            match DirBuilder::new().mode(0o700).create(&directory) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < OTHERS => {
                    directory = name.with_extension(number.to_string());
                }
                Err(error) => return Err(Failure::file(&directory)(error)),
            }
        }
        let names = directory.join(RESOLVER_FILE);
        std::fs::write(&names, format!("nameserver {resolver}\n"))?;
        Ok(Self {
            listener: UnixListener::bind(directory.join(SOCKET))?,
            directory,
        })
    }

    /// The path for [`hand_over`] and [`mount_resolver`].
    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join(SOCKET)
    }

    /// The TAP interface that `child` hands over; none if it ends before.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) async fn tap(&self, child: &mut Child) -> io::Result<Option<OwnedFd>> {
        tokio::select! {
            accepted = self.listener.accept() => {
                let stream = accepted?.0.into_std()?;
                stream.set_nonblocking(false)?;
                receive(&stream)
            }
            _ = child.wait() => Ok(None),
        }
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Sends the descriptor of a TAP interface to the gateway at `socket`.
///
/// # Errors
/// If the gateway is gone.
pub(super) fn hand_over(socket: &Path, tap: BorrowedFd<'_>) -> io::Result<()> {
    let gateway = UnixStream::connect(socket)?;
    let descriptors = [tap];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let byte = [IoSlice::new(&[0])];
    sendmsg(&gateway, &byte, &mut control, SendFlags::empty())?;
    Ok(())
}

/// The commands of `ip` that give `interface` the addresses of sandbox `number` and its routes. Those of
/// IPv6 are here at once: the address of a router advertisement comes after a probe for a duplicate.
pub(super) fn addresses(
    interface: &str,
    subnet: Subnet,
    number: usize,
    has_ipv6: bool,
) -> Vec<String> {
    let (four, six) = (subnet.sandbox(number), subnet.sandbox_v6(number));
    let mut commands = vec![
        format!("address add {four}/{} dev {interface}", Subnet::PREFIX),
        format!("route add default via {}", subnet.gateway()),
    ];
    if has_ipv6 {
        commands.extend([
            format!(
                "address add {six}/{} dev {interface} nodad",
                Subnet::PREFIX_V6
            ),
            format!("route add default via {} dev {interface}", Subnet::ROUTER),
        ]);
    }
    commands
}

/// Puts the resolver configuration beside `socket` in the place of the system's, in this mount
/// namespace only.
pub(super) fn mount_resolver(socket: &Path) {
    let names = socket.with_file_name(RESOLVER_FILE);
    let mounted = Command::new("mount")
        .arg("--bind")
        .args([names.as_path(), Path::new(RESOLV_CONF)])
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("tautline: {RESOLV_CONF} remains the host's; names are asked of it");
    }
}

/// The name server at `chosen`; else the system's first.
pub(super) fn resolver(chosen: Option<IpAddr>) -> Option<SocketAddr> {
    let text = std::fs::read_to_string(RESOLV_CONF).unwrap_or_default();
    let chosen = chosen.map(|ip| SocketAddr::new(ip, DOMAIN));
    chosen.or_else(|| first_server(&text))
}

/// The first name server in the text of `resolv.conf`.
fn first_server(text: &str) -> Option<SocketAddr> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver"))
        .find_map(|rest| server(rest.trim()))
}

/// A name server. A link-local address of IPv6, as home routers advertise, has a zone: `fe80::1%eth0`
/// (RFC 4007 §11).
fn server(text: &str) -> Option<SocketAddr> {
    let Some((address, zone)) = text.split_once('%') else {
        return Some(SocketAddr::new(text.parse().ok()?, DOMAIN));
    };
    let index = std::fs::read_to_string(format!("/sys/class/net/{zone}/ifindex"));
    let index = index.as_deref().map_or(zone, str::trim).parse().ok()?;
    Some(SocketAddrV6::new(address.parse().ok()?, DOMAIN, 0, index).into())
}

/// Receives the descriptor in the next message, if it has one.
fn receive(stream: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    recvmsg(stream, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(descriptor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_directory_that_exists_is_not_taken() {
        let resolver = Ipv4Addr::new(10, 0, 2, 3);
        let first = Rendezvous::new("test", resolver).expect("a directory");
        let second = Rendezvous::new("test", resolver).expect("another");
        assert_ne!(first.directory, second.directory);
    }

    #[test]
    fn the_first_server_for_names_is_taken() {
        let text = "# nameserver 192.0.2.9\nsearch nameserver\nnameserver fe80::1%none\n nameserver 192.0.2.1\n";
        assert_eq!(first_server(text), Some(([192, 0, 2, 1], 53).into()));
        assert_eq!(first_server("options edns0"), None);
    }

    /// Behind many home routers it is the only one.
    #[test]
    fn a_link_local_server_for_names_keeps_its_zone() {
        let index = std::fs::read_to_string("/sys/class/net/lo/ifindex");
        let index: u32 = index.expect("Linux").trim().parse().expect("a number");
        for (zone, index) in [("lo", index), ("7", 7)] {
            let server = first_server(&format!("nameserver fe80::1%{zone}\n"));
            let expected = SocketAddrV6::new("fe80::1".parse().expect("an address"), 53, 0, index);
            assert_eq!(server, Some(expected.into()), "{zone}");
        }
    }
}
