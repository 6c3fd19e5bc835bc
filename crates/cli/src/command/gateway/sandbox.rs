//! [`Sandbox`]: a client of the gateway, as named on the command line; [`Runtime`] starts those in
//! namespaces.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tautline_netstack::gateway::Subnet;
use tokio::process::{Child, Command};

use crate::command::rendezvous::Rendezvous;
use crate::failure::Failure;

/// A client of the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sandbox {
    /// A shell command in namespaces of its own.
    Run(String),
    /// The namespaces of a process.
    Process(u32),
    /// Frames over a stream socket at a path.
    Stream(PathBuf),
    /// Frames over a datagram socket at a path.
    Datagrams(PathBuf),
}

impl FromStr for Sandbox {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || match text.split_once(':')? {
            (_, "") => None,
            ("run", words) => Some(Self::Run(words.into())),
            ("pid", pid) => pid.parse().ok().filter(|pid| *pid > 0).map(Self::Process),
            ("stream", path) => Some(Self::Stream(path.into())),
            ("dgram", path) => Some(Self::Datagrams(path.into())),
            _ => None,
        };
        parse().ok_or("write run:COMMAND, pid:PID, stream:PATH or dgram:PATH")
    }
}

impl fmt::Display for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(words) => write!(f, "run:{words}"),
            Self::Process(pid) => write!(f, "pid:{pid}"),
            Self::Stream(path) => write!(f, "stream:{}", path.display()),
            Self::Datagrams(path) => write!(f, "dgram:{}", path.display()),
        }
    }
}

/// Starts sandboxes in namespaces. Removes the sockets of the others on drop.
pub(super) struct Runtime {
    subnet: Subnet,
    mtu: u16,
    rendezvous: Rendezvous,
    sockets: Vec<PathBuf>,
}

impl Runtime {
    pub(super) fn new(subnet: Subnet, mtu: u16) -> Result<Self, Failure> {
        Ok(Self {
            rendezvous: Rendezvous::new("gateway", subnet.resolver())?,
            subnet,
            mtu,
            sockets: Vec::new(),
        })
    }

    /// Removes the socket at `path` on drop.
    pub(super) fn remove_at_end(&mut self, path: &Path) {
        self.sockets.push(path.into());
    }

    /// Starts this program in the namespaces of `sandbox`. The child creates the TAP interface
    /// there, sends its descriptor, and executes the command.
    pub(super) async fn start(
        &self,
        number: usize,
        sandbox: &Sandbox,
    ) -> Result<(OwnedFd, Child), Failure> {
        let mut command = match sandbox {
            Sandbox::Process(pid) => {
                let mut command = Command::new("nsenter");
                command.args(["--preserve-credentials", "--user", "--net", "--target"]);
                command.arg(pid.to_string());
                command
            }
            _ => {
                let mut command = Command::new("unshare");
                command.args(["--user", "--map-root-user", "--mount", "--net"]);
                command
            }
        };
        command.arg(std::env::current_exe()?).arg("gateway");
        command.arg("--inside").arg(self.rendezvous.socket());
        command.args(["--number", &number.to_string()]);
        command.args(["--subnet", &self.subnet.gateway().to_string()]);
        command.args(["--mtu", &self.mtu.to_string()]);
        command.arg(sandbox.to_string()).kill_on_drop(true);
        let program = command.as_std().get_program().to_owned();
        let mut child = command.spawn().map_err(Failure::file(program))?;
        let tap = self.rendezvous.tap(&mut child).await?;
        let why = || format!("{sandbox}: no interface was created; see the message above");
        let tap = tap.ok_or_else(|| io::Error::other(why()))?;
        Ok((tap, child))
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        for socket in &self.sockets {
            // It may have been removed already.
            let _ = std::fs::remove_file(socket);
        }
    }
}
