//! [`OpenError`]: why a device could not be opened, with the remedy; [`Failure`]: why an open device
//! does not send.

use std::time::Duration;
use std::{fmt, io};

/// Why a device could not be opened. Every message ends in the remedy, which `Debug` shows, too.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A field of the configuration has an invalid value.
    #[error("configuration: `{parameter}` {problem}")]
    Config {
        /// Name of the field.
        parameter: &'static str,
        /// The problem with its value, and the valid ones.
        problem: String,
    },
    /// The interface does not exist in this network namespace.
    #[error(
        "no interface `{interface}` in this network namespace: `ip -br link` lists those there are"
    )]
    NoSuchInterface {
        /// The requested name.
        interface: String,
    },
    /// The interface has no such queue.
    #[error(
        "`{interface}` has no queue {queue}: the last of its {queues} is {}, `ethtool -l {interface}` lists them",
        queues.saturating_sub(1)
    )]
    NoSuchQueue {
        /// Name of the interface.
        interface: String,
        /// The requested queue.
        queue: u32,
        /// Number of receive queues.
        queues: u32,
    },
    /// The interface has another number of queues than there are devices for.
    #[error(
        "`{interface}` has {queues} queues, not {count}: packets of a queue without a socket are lost; \
         `ethtool -L {interface} combined {count}` (or `rx`, `tx`), or ask for {queues}"
    )]
    Queues {
        /// Name of the interface.
        interface: String,
        /// The requested number of queues.
        count: u32,
        /// Number of receive queues.
        queues: u32,
    },
    /// The interface is down.
    #[error("`{interface}` is down: `ip link set {interface} up`")]
    InterfaceDown {
        /// Name of the interface.
        interface: String,
    },
    /// A capability is missing.
    #[error(
        "no permission to {doing}: run as root, or grant {capability} \
         (`setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep PROGRAM` grants all that AF_XDP needs)"
    )]
    NoPermission {
        /// The refused operation.
        doing: &'static str,
        /// The capability that permits it.
        capability: &'static str,
    },
    /// The UMEM exceeds the memory that the process may pin.
    #[error(
        "packet memory of {needed} bytes exceeds the locked-memory limit of {limit} bytes: run `ulimit -l unlimited` first, \
         grant CAP_IPC_LOCK, or ask for fewer frames"
    )]
    MemoryLock {
        /// Bytes of the UMEM.
        needed: u64,
        /// The limit of the process in bytes, after an attempt to raise it.
        limit: u64,
    },
    /// Another process holds the interface or its queue.
    #[error(
        "`{interface}` is held by another XDP program or AF_XDP socket (tried for {waited:?}): \
         `ip -d link show {interface}` names the program; end its owner, or `ip link set {interface} xdp off` if none is left"
    )]
    Busy {
        /// Name of the interface.
        interface: String,
        /// Duration of the retries.
        waited: Duration,
    },
    /// The kernel was built without AF_XDP.
    #[error("this kernel has no AF_XDP: it needs Linux 5.9 or later with CONFIG_XDP_SOCKETS=y")]
    NoAfXdp,
    /// The MTU of the interface does not fit a frame.
    #[error(
        "`{interface}` has an MTU of {mtu}, {mode} carries at most {limit}: `ip link set {interface} mtu {limit}`"
    )]
    FrameTooSmall {
        /// Name of the interface.
        interface: String,
        /// MTU of the interface in bytes.
        mtu: usize,
        /// The largest MTU that fits.
        limit: usize,
        /// The requested mode.
        mode: &'static str,
    },
    /// The other end of a veth pair may send packets that native XDP cannot take.
    #[error(
        "the peer of `{interface}` has too large an MTU for native XDP: set 1500 at both ends, or ask for Driver::Skb"
    )]
    PeerMtu {
        /// Name of the interface.
        interface: String,
    },
    /// The driver does not support the requested mode.
    #[error("the driver of `{interface}` does not support {what}: ask for {instead}")]
    Unsupported {
        /// Name of the interface.
        interface: String,
        /// The missing feature.
        what: &'static str,
        /// The mode that every driver supports.
        instead: &'static str,
    },
    /// The driver supports the mode, but not as the interface is set up.
    #[error(
        "the driver of `{interface}` refuses {what} ({source}; `dmesg` may name the cause): {remedy}"
    )]
    Refused {
        /// Name of the interface.
        interface: String,
        /// The refused mode.
        what: &'static str,
        /// The driver's error.
        source: io::Error,
        /// The usual remedy.
        remedy: &'static str,
    },
    /// Any other error of the kernel.
    #[error("cannot {doing}: {source}")]
    Os {
        /// The failed operation.
        doing: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl OpenError {
    /// Wraps an error of the kernel.
    pub(crate) fn os(doing: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Os {
            doing,
            source: source.into(),
        }
    }
}

/// As [`Display`](fmt::Display): a `main` that returns the error, and `expect`, print this.
impl fmt::Debug for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why an open device does not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The link is down. Packets stay in the ring until it is up again.
    #[error("the link is down")]
    LinkDown,
    /// The interface was removed. No packet will complete: reset the device and drop it.
    #[error("the interface is gone")]
    Removed,
    /// Packets are in the ring, the link is up, and the driver has completed none for two seconds,
    /// as after a reset of the NIC that the driver did not notice.
    #[error(
        "the driver completes no packets: `ip link set IFACE down` and `up` restart the NIC, or else to unbind and bind its driver (`/sys/bus/pci/drivers`)"
    )]
    Stalled,
    /// After a stall the sockets were closed, and could not be opened again in two attempts.
    #[error(
        "its sockets cannot be opened again: `ip link set IFACE down` and `up` restart the NIC, then start again"
    )]
    Closed,
    /// The kernel refused to send, with this error number.
    #[error("the kernel refused to send: {}", io::Error::from_raw_os_error(*.0))]
    Os(i32),
}
