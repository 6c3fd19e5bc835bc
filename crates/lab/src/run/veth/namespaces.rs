//! [`Namespaces`]: a network namespace for each node and a veth pair for each cable, as `ip` makes
//! them. They are removed on drop.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::links_of;
use crate::scenario::Document;

/// The namespaces of one run.
pub(super) struct Namespaces {
    /// The namespace of each node, by the node's name.
    names: BTreeMap<String, String>,
    /// The kernel's own address in each host's namespace.
    kernels: BTreeMap<String, Ipv4Addr>,
}

impl Namespaces {
    /// Makes those of `document`.
    pub(super) fn new(document: &Document) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("network namespaces and raw devices need root: run as root, or leave out --path veth".to_owned());
        }
        let mut made = Self {
            names: BTreeMap::new(),
            kernels: BTreeMap::new(),
        };
        let hosts = document.host.iter().map(|host| &host.name);
        for (number, node) in hosts
            .chain(document.router.iter().map(|router| &router.name))
            .enumerate()
        {
            let name = format!("tl-lab-{}-{number}", std::process::id());
            ip(&format!("netns add {name}"))?;
            made.names.insert(node.clone(), name);
        }
        for (number, link) in document.link.iter().enumerate() {
            let [a, b] = [&link.between.0, &link.between.1].map(|node| made.names[node].as_str());
            ip(&format!(
                "link add {0} netns {a} type veth peer name {0} netns {b}",
                interface(number)
            ))?;
            for namespace in [a, b] {
                ip(&format!("-n {namespace} link set {} up", interface(number)))?;
            }
        }
        for (number, host) in document.host.iter().enumerate() {
            let Some((link, _)) = links_of(document, &host.name).next() else {
                continue;
            };
            let namespace = &made.names[&host.name];
            let last = u8::try_from(number + 1)
                .map_err(|_| format!("{} hosts are too many for the wire", document.host.len()))?;
            let address = Ipv4Addr::new(10, 7, 1, last);
            ip(&format!(
                "-n {namespace} address add {address}/24 dev {}",
                interface(link)
            ))?;
            made.kernels.insert(host.name.clone(), address);
        }
        Ok(made)
    }

    /// Moves the calling thread into the namespace of `node`.
    pub(super) fn enter(&self, node: &str) -> Result<(), String> {
        let path = format!("/run/netns/{}", self.names[node]);
        let cannot = |error: &dyn std::fmt::Display| format!("{path} cannot be entered: {error}");
        let namespace = File::open(&path).map_err(|error| cannot(&error))?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| cannot(&error))
    }

    /// `program` in the namespace of `node`.
    pub(super) fn command(&self, node: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[node], program]);
        command
    }

    /// Address of the kernel in the namespace of `host`; our stack there has another one.
    pub(super) fn kernel(&self, host: &str) -> Option<Ipv4Addr> {
        self.kernels.get(host).copied()
    }

    /// The end of cable number `link` in the namespace of `node` as the port of a bridge, with a
    /// TAP interface as the other; its name.
    pub(super) fn tap(&self, node: &str, link: usize) -> Result<String, String> {
        let (namespace, interface) = (&self.names[node], interface(link));
        let (bridge, tap) = (format!("br{link}"), format!("tap{link}"));
        for words in [
            format!("link add {bridge} type bridge"),
            format!("tuntap add {tap} mode tap"),
            format!("link set {tap} master {bridge} up"),
            format!("link set {interface} master {bridge}"),
            format!("link set {bridge} up"),
        ] {
            ip(&format!("-n {namespace} {words}"))?;
        }
        // The port of a bridge has no address of its own.
        if let Some(kernel) = self.kernels.get(node) {
            ip(&format!(
                "-n {namespace} address del {kernel}/24 dev {interface}"
            ))?;
            ip(&format!(
                "-n {namespace} address add {kernel}/24 dev {bridge}"
            ))?;
        }
        Ok(tap)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in self.names.values() {
            // Nothing is left to do about one that will not go.
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

/// The name of both ends of cable number `link`.
pub(super) fn interface(link: usize) -> String {
    format!("veth{link}")
}

/// `ip` with `words`.
fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip")
        .args(words.split(' '))
        .stdin(Stdio::null())
        .output();
    let output =
        output.map_err(|error| format!("`ip` cannot be run ({error}): install iproute2"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "`ip {words}` failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}
