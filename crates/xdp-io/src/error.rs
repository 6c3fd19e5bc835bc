//! [`OpenError`]: why a device could not be opened and what to do about it. [`Failure`]: why an
//! open one stopped sending.

use std::io;
use std::time::Duration;

/// Why a device could not be opened. Every message ends in the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A field of the configuration holds a value that cannot work.
    #[error("configuration: `{parameter}` {problem}")]
    Config {
        /// The field.
        parameter: &'static str,
        /// What is wrong with its value.
        problem: String,
    },
    /// The interface does not exist in this network namespace.
    #[error(
        "no interface `{interface}` in this network namespace: `ip -br link` lists those there are"
    )]
    NoSuchInterface {
        /// The name asked for.
        interface: String,
    },
    /// The interface has no such queue.
    #[error(
        "`{interface}` has no queue {queue} that AF_XDP can use: `ethtool -l {interface}` lists them"
    )]
    NoSuchQueue {
        /// The interface.
        interface: String,
        /// The queue asked for.
        queue: u32,
    },
    /// The interface is down.
    #[error("`{interface}` is down: `ip link set {interface} up`")]
    InterfaceDown {
        /// The interface.
        interface: String,
    },
    /// A capability is missing.
    #[error(
        "no permission to {doing}: run as root, or grant {capability} \
         (`setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep PROGRAM` grants all that AF_XDP needs)"
    )]
    NoPermission {
        /// What was refused.
        doing: &'static str,
        /// The capability that allows it.
        capability: &'static str,
    },
    /// The packet memory exceeds what the process may pin.
    #[error(
        "packet memory of {needed} bytes exceeds the locked-memory limit of {limit} bytes: run `ulimit -l unlimited` first, \
         grant CAP_IPC_LOCK, or ask for fewer frames"
    )]
    MemoryLock {
        /// Bytes the frames take.
        needed: u64,
        /// The limit of the process, after trying to raise it.
        limit: u64,
    },
    /// Someone else holds the interface or its queue.
    #[error(
        "`{interface}` is held by another XDP program or AF_XDP socket (tried for {waited:?}): \
         `ip -d link show {interface}` names the program; end its owner, or `ip link set {interface} xdp off` if none is left"
    )]
    Busy {
        /// The interface.
        interface: String,
        /// How long it was tried again.
        waited: Duration,
    },
    /// The kernel was built without AF_XDP.
    #[error("this kernel has no AF_XDP: it needs Linux 5.9 or later with CONFIG_XDP_SOCKETS=y")]
    NoAfXdp,
    /// A packet of the interface's size would not fit a frame.
    #[error(
        "`{interface}` has an MTU of {mtu}, frames hold {limit}: `ip link set {interface} mtu {limit}`"
    )]
    FrameTooSmall {
        /// The interface.
        interface: String,
        /// Its MTU.
        mtu: usize,
        /// The largest MTU that fits.
        limit: usize,
    },
    /// The other end of a veth pair may send packets that native XDP cannot take.
    #[error(
        "the peer of `{interface}` has too large an MTU for native XDP: set 1500 at both ends, or ask for Driver::Skb"
    )]
    PeerMtu {
        /// The interface.
        interface: String,
    },
    /// The driver lacks what was insisted on.
    #[error("the driver of `{interface}` does not support {what}: ask for {instead}")]
    Unsupported {
        /// The interface.
        interface: String,
        /// What it lacks.
        what: &'static str,
        /// The choice that works everywhere.
        instead: &'static str,
    },
    /// Anything else the kernel said.
    #[error("cannot {doing}: {source}")]
    Os {
        /// What was tried.
        doing: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl OpenError {
    /// The plain case: the kernel's answer as it is.
    pub(crate) fn os(doing: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Os {
            doing,
            source: source.into(),
        }
    }
}

/// Why an open device does not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The link is down. Packets wait in the ring; they leave once it is up again.
    #[error("the link is down")]
    LinkDown,
    /// The interface was removed. Nothing will ever complete: reset the device and drop it.
    #[error("the interface is gone")]
    Removed,
    /// The kernel refused to send, with this error number.
    #[error("the kernel refused to send: {}", io::Error::from_raw_os_error(*.0))]
    Os(i32),
}
