//! [`Namespace`]: a network namespace that lives as long as the value and the processes in it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::failure::Failure;

/// The namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// This program again, in a network namespace of its own, in a user namespace unless it is root, and in
/// those that `more` asks of `unshare`. The present network namespace stays open, as the descriptor that
/// `--inside` names.
///
/// # Errors
/// If the present namespace or the program's path cannot be read.
pub(super) fn again(more: &[&str], options: &[&OsStr]) -> io::Result<Command> {
    let outer = File::open(OWN)?;
    // It must survive two calls of `execve`.
    fcntl_setfd(&outer, FdFlags::empty())?;
    let mut arguments = std::env::args_os().skip(1);
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
        .args(more)
        .arg("--net")
        .arg(std::env::current_exe()?);
    // The word `link`, then its options.
    command.args(arguments.next());
    command.args(["--inside", &outer.into_raw_fd().to_string()]);
    command.args(options).args(arguments);
    Ok(command)
}

/// Replaces this process by itself in namespaces of its own.
///
/// # Errors
/// If the kernel allows no such namespaces; does not return otherwise.
pub(super) fn reenter() -> Result<ExitCode, Failure> {
    Err(Failure::file("unshare")(again(&[], &[])?.exec()))
}

/// A network namespace.
pub(super) struct Namespace(File);

impl Namespace {
    /// A new namespace with nothing but a loopback interface, which is down.
    pub(super) fn new() -> io::Result<Self> {
        let mut holder = Command::new("unshare")
            .args(["--net", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        // The echo comes from within the new namespace.
        let echoed = echo(&mut holder);
        let opened = echoed.and_then(|()| File::open(format!("/proc/{}/ns/net", holder.id())));
        drop(holder.stdin.take());
        holder.wait()?;
        opened.map(Self)
    }

    /// The namespace behind an open descriptor of this process.
    pub(super) fn inherited(descriptor: i32) -> io::Result<Self> {
        File::open(format!("/proc/self/fd/{descriptor}")).map(Self)
    }

    /// A path to it for other programs, valid while this value lives.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// The result of `work` on a thread in this namespace. Processes that it starts are in it too.
    pub(super) fn within<T: Send>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                let network = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(self.0.as_fd(), network)?;
                work()
            });
            inside
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread in a namespace failed")))
        })
    }
}

fn echo(holder: &mut std::process::Child) -> io::Result<()> {
    let (Some(input), Some(output)) = (&mut holder.stdin, &mut holder.stdout) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    input.write_all(b"\n")?;
    output.read_exact(&mut [0])
}

/// Runs `ip` with a command per line.
///
/// # Errors
/// If `ip` is not installed, or a command fails; with its message.
pub(in crate::command) fn ip(commands: &[String]) -> io::Result<()> {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            io::Error::other(format!("`ip` cannot be run ({error}): install iproute2"))
        })?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(commands.join("\n").as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!(
        "ip: {}",
        text.trim().replace('\n', "; ")
    )))
}
