//! [`Topology`]: the namespaces on both sides of a link, their addresses and routes, and the processes
//! in them.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tautline_rt::Tap;

use super::internet;
use super::namespace::{Namespace, ip};
use crate::command::rendezvous;
use crate::failure::Failure;

/// Environment variable with the number of links that a process is behind.
const LEVEL: &str = "TAUTLINE_LINK";
/// Environment variable with the address of the outermost link's far end.
const SERVER: &str = "TAUTLINE_SERVER";
/// Mahimahi's name for the same.
const BASE: &str = "MAHIMAHI_BASE";
/// The address of the first link's far end.
const FAR: &str = "10.77.0.2";
/// Links that may be nested.
const LEVELS: u8 = 16;
/// Wait for a server's socket: 2 s at most.
const POLLS: u32 = 200;
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Number of links that this process is behind.
pub(super) fn level() -> u8 {
    let level = std::env::var(LEVEL).ok();
    level.and_then(|level| level.parse().ok()).unwrap_or(0)
}

/// The two ends of a link.
pub(super) struct Topology {
    near: Namespace,
    /// None if a gateway is the far end.
    far: Option<Namespace>,
    /// Links between the outside and this one.
    level: u8,
    /// The ends send packets of many segments.
    offload: bool,
}

impl Topology {
    /// Makes both ends. The far one is the gateway at the socket `outside`, if given; within another
    /// link the namespace behind the descriptor `outer`; else a new namespace.
    pub(super) fn make(outer: i32, outside: Option<&Path>, offload: bool) -> Result<Self, Failure> {
        let level = level();
        if level >= LEVELS {
            return Err(io::Error::other(format!("{LEVELS} links are nested already")).into());
        }
        let far = match (outside, level) {
            (Some(_), _) => None,
            (None, 0) => Some(Namespace::new()?),
            (None, _) => Some(Namespace::inherited(outer)?),
        };
        let made = Self {
            near: Namespace::new()?,
            far,
            level,
            offload,
        };
        if let Some(gateway) = outside {
            let tap = Tap::open("m1")?;
            made.connect()?;
            rendezvous::hand_over(gateway, tap.as_fd())?;
            rendezvous::mount_resolver(gateway);
        } else {
            made.connect()?;
        }
        Ok(made)
    }

    fn connect(&self) -> io::Result<()> {
        let near = self.near.path();
        let mut commands = vec![format!(
            "link add m0 type veth peer name link0 netns {near}"
        )];
        if let Some(far) = &self.far {
            let (far, level) = (far.path(), self.level);
            commands.push(format!(
                "link add m1 type veth peer name far{level} netns {far}"
            ));
        }
        commands.extend(["m0", "m1"].map(|end| format!("link set {end} addrgenmode none up")));
        ip(&commands)?;
        let six = Path::new("/proc/sys/net/ipv6").exists();
        let Some(far) = &self.far else {
            let mut commands = self.up("link0");
            commands.extend(rendezvous::addresses("link0", internet::subnet(), 0, six));
            return self.near.within(|| ip(&commands));
        };
        let (near_commands, far_commands) = (self.near_commands(six), self.far_commands(six));
        self.near.within(|| ip(&near_commands))?;
        far.within(|| {
            ip(&far_commands)?;
            if self.level > 0 {
                std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
                if six {
                    std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")?;
                }
            }
            Ok(())
        })
    }

    fn near_commands(&self, six: bool) -> Vec<String> {
        let level = self.level;
        let mut commands = self.up("link0");
        commands.extend([
            format!("address add 10.77.{level}.1/24 dev link0"),
            format!("route add default via 10.77.{level}.2"),
        ]);
        if six {
            commands.extend([
                format!("address add fd77:0:0:{level:x}::1/64 dev link0 nodad"),
                format!("route add default via fd77:0:0:{level:x}::2"),
            ]);
        }
        commands
    }

    /// The far end of the first link reaches everything through it; those of others are routers, with
    /// a route to each link that may follow.
    fn far_commands(&self, six: bool) -> Vec<String> {
        let level = self.level;
        let mut commands = self.up(&format!("far{level}"));
        commands.push(format!("address add 10.77.{level}.2/24 dev far{level}"));
        if six {
            commands.push(format!(
                "address add fd77:0:0:{level:x}::2/64 dev far{level} nodad"
            ));
        }
        let (four, over_six): (Vec<_>, Vec<_>) = match level {
            0 => (vec!["default".to_owned()], vec!["default".to_owned()]),
            _ => (level + 1..LEVELS)
                .map(|inner| {
                    (
                        format!("10.77.{inner}.0/24"),
                        format!("fd77:0:0:{inner:x}::/64"),
                    )
                })
                .unzip(),
        };
        let via = four
            .iter()
            .map(|to| format!("route replace {to} via 10.77.{level}.1"));
        commands.extend(via);
        if six {
            let via = over_six
                .iter()
                .map(|to| format!("route replace {to} via fd77:0:0:{level:x}::1"));
            commands.extend(via);
        }
        commands
    }

    /// Without offload an interface sends single packets, as a link carries them, instead of 64 KiB at
    /// once.
    fn up(&self, interface: &str) -> Vec<String> {
        let segments = if self.offload { "" } else { " gso_max_segs 1" };
        vec![
            "link set lo up".into(),
            format!("link set {interface}{segments} up"),
        ]
    }

    /// Starts COMMAND at the near end.
    pub(super) fn start_command(
        &self,
        program: &OsString,
        arguments: &[OsString],
    ) -> io::Result<Child> {
        self.near.within(|| {
            Command::new(program)
                .args(arguments)
                .env(LEVEL, (self.level + 1).to_string())
                .env(SERVER, FAR)
                .env(BASE, FAR)
                .spawn()
        })
    }

    /// Starts a shell with `words` at the far end, in a process group of its own. Its output goes
    /// to standard error.
    pub(super) fn start_server(&self, words: &str) -> io::Result<Child> {
        let far = self.far.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        far.within(|| {
            Command::new("sh")
                .args(["-c", words])
                .stdin(Stdio::null())
                .stdout(io::stderr())
                .process_group(0)
                .spawn()
        })
    }

    /// Waits until a TCP socket listens or a UDP socket is bound at the far end, a moment at most.
    #[expect(
        clippy::disallowed_methods,
        reason = "another program's socket has no event"
    )]
    pub(super) fn await_listener(&self) -> io::Result<()> {
        let Some(far) = &self.far else {
            return Ok(());
        };
        far.within(|| {
            for _ in 0..POLLS {
                if listening() {
                    break;
                }
                std::thread::sleep(POLL_INTERVAL);
            }
            Ok(())
        })
    }
}

/// Whether the calling thread's namespace has a server (state 0A of `/proc/net/tcp` is LISTEN).
fn listening() -> bool {
    let lines = |table: &str| {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}"));
        let text = text.unwrap_or_default();
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let listens = |line: &String| line.split_whitespace().nth(3) == Some("0A");
    ["tcp", "tcp6"]
        .iter()
        .any(|table| lines(table).iter().any(listens))
        || ["udp", "udp6"].iter().any(|table| !lines(table).is_empty())
}
