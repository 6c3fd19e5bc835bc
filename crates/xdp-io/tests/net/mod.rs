//! Two network namespaces joined by a veth pair, removed when dropped. Nothing outside them is
//! touched. `TAUTLINE_NICS="A a0 B b0"` names two NICs wired back to back that are used instead, each
//! after its namespace.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tautline_xdp_io::Config;

/// One end of the pair.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// Name of its network namespace.
    pub(crate) namespace: String,
    /// Its interface.
    pub(crate) interface: String,
    /// The address that is ours; the kernel does not have it.
    pub(crate) address: Ipv4Addr,
    /// The address that the kernel has.
    pub(crate) kernel_address: Ipv4Addr,
}

/// The pair.
#[derive(Debug)]
pub(crate) struct Pair {
    /// One end.
    pub(crate) left: End,
    /// The other end.
    pub(crate) right: End,
    /// Both are NICs that remain.
    nics: bool,
}

/// The NICs to use in place of a veth pair.
pub(crate) fn nics() -> Option<[String; 4]> {
    let words = std::env::var("TAUTLINE_NICS").ok()?;
    let words: Vec<_> = words.split_whitespace().map(str::to_owned).collect();
    Some(words.try_into().expect("A a0 B b0"))
}

/// Why what needs namespaces and AF_XDP cannot run here, if so.
pub(crate) fn blocked_by() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".into());
    }
    match rustix::net::socket(AddressFamily::XDP, SocketType::RAW, None) {
        Err(Errno::AFNOSUPPORT) => Some("needs a kernel with AF_XDP".into()),
        Err(error) => Some(format!("no AF_XDP socket: {error}")),
        Ok(_) => None,
    }
}

/// Runs a command and answers its standard output.
///
/// # Panics
/// If it fails.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(program)
        .args(arguments)
        .output()
        .expect("the command exists");
    let text = String::from_utf8_lossy(&stdout).into_owned();
    assert!(
        status.success(),
        "{program} {arguments:?}: {text}{}",
        String::from_utf8_lossy(&stderr)
    );
    text
}

impl Pair {
    /// Makes both namespaces and the pair: `queues` queues, up, MTU 1500, with kernel addresses.
    /// With more than one queue the kernel spreads what it sends over them.
    ///
    /// # Panics
    /// With NICs, if they have another number of queues.
    pub(crate) fn new(queues: u32) -> Self {
        if let Some(nics) = nics() {
            return Self::of_nics(nics, queues);
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "tl-xdp-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let end = |side: &str, host| End {
            namespace: format!("{name}-{side}"),
            interface: format!("v{side}"),
            address: Ipv4Addr::new(10, 77, 0, host),
            kernel_address: Ipv4Addr::new(10, 77, 0, host + 100),
        };
        let pair = Self {
            left: end("left", 1),
            right: end("right", 2),
            nics: false,
        };
        let Self { left, right, .. } = &pair;
        let (from, to) = (&left.interface, &right.interface);
        for end in [left, right] {
            run("ip", &["netns", "add", &end.namespace]);
        }
        let queues = format!("numtxqueues {queues} numrxqueues {queues}");
        let pair_of = format!(
            "link add {from} {queues} type veth peer name {to} {queues} netns {}",
            right.namespace
        );
        left.ip(&pair_of.split(' ').collect::<Vec<_>>());
        for end in [left, right] {
            end.set_up();
        }
        pair
    }

    fn of_nics(nics: [String; 4], queues: u32) -> Self {
        let [from, left, to, right] = nics;
        let end = |namespace, interface, host| End {
            namespace,
            interface,
            address: Ipv4Addr::new(10, 77, 0, host),
            kernel_address: Ipv4Addr::new(10, 77, 0, host + 100),
        };
        let pair = Self {
            left: end(from, left, 1),
            right: end(to, right, 2),
            nics: true,
        };
        for end in [&pair.left, &pair.right] {
            end.ip(&["address", "flush", "dev", &end.interface]);
            end.ip(&["neighbour", "flush", "dev", &end.interface]);
            end.ip(&["link", "set", &end.interface, "mtu", "1500"]);
            end.set_up();
            let count = end.inside(|| tautline_xdp_io::interface_queues(&end.interface));
            assert_eq!(
                count.ok(),
                Some(queues),
                "{} has other queues",
                end.interface
            );
            end.wait_for_link();
        }
        pair
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if self.nics {
            return;
        }
        for end in [&self.left, &self.right] {
            // The interfaces go with their namespaces; a failure leaves an empty namespace and must
            // not hide the test's own.
            let _ = Command::new("ip")
                .args(["netns", "delete", &end.namespace])
                .status();
        }
    }
}

impl End {
    /// Gives the interface its kernel address and sets it up.
    pub(crate) fn set_up(&self) {
        // No IPv6: its router solicitations would come between the frames that are counted.
        self.exec(&[
            "sh",
            "-c",
            &format!(
                "echo 1 > /proc/sys/net/ipv6/conf/{}/disable_ipv6",
                self.interface
            ),
        ]);
        let address = format!("{}/24", self.kernel_address);
        self.ip(&["address", "add", &address, "dev", &self.interface]);
        self.ip(&["link", "set", &self.interface, "up"]);
    }

    /// Waits until the interface has a carrier: some NICs lose theirs when a program attaches.
    #[expect(clippy::disallowed_methods, reason = "waits for a kernel")]
    pub(crate) fn wait_for_link(&self) {
        for _ in 0..1000 {
            if !self
                .ip(&["link", "show", &self.interface])
                .contains("NO-CARRIER")
            {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("{} has no carrier", self.interface);
    }

    /// `ip` in the namespace.
    pub(crate) fn ip(&self, arguments: &[&str]) -> String {
        run("ip", &[&["-n", &self.namespace], arguments].concat())
    }

    /// Any command in the namespace.
    pub(crate) fn exec(&self, command: &[&str]) -> String {
        run(
            "ip",
            &[&["netns", "exec", &self.namespace], command].concat(),
        )
    }

    /// Runs `work` on a thread inside the namespace.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let namespace =
            File::open(format!("/run/netns/{}", self.namespace)).expect("the namespace exists");
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("root may enter");
                work()
            });
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// A configuration for this end.
    pub(crate) fn config(&self) -> Config {
        Config {
            interface: self.interface.clone(),
            take: tautline_xdp_io::Take::Addresses(vec![self.address.into()]),
            ..Config::default()
        }
    }
}

/// A broadcast Ethernet frame of `len` bytes that carries an IPv4 packet for `to`; `mark` is in its
/// last eight bytes.
pub(crate) fn write_frame(bytes: &mut [u8], len: usize, to: Ipv4Addr, mark: u64) {
    bytes[..6].fill(0xff);
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14..34].copy_from_slice(&[
        0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 253, 0, 0, 10, 77, 0, 9, 0, 0, 0, 0,
    ]);
    bytes[30..34].copy_from_slice(&to.octets());
    bytes[len - 8..len].copy_from_slice(&mark.to_be_bytes());
}
