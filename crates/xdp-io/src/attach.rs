//! [`Attachment`]: the XDP program on an interface, held by a BPF link.
//!
//! A link lives as long as its file descriptor, so the program leaves the interface with the process,
//! also after `kill -9`. Nothing is pinned in a file system, and no bpffs is needed.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use crate::config::{Bind, Config, Driver, Take};
use crate::error::OpenError;
use crate::interface::{Carriage, fitting_mtu, interface_index, queues_or_one};
use crate::program::{redirect_all, redirect_ours};
use crate::{retry, sys};

/// Entries of the map from queue to socket; queues above it have no entry.
const MAX_QUEUES: u32 = 1024;

/// The XDP program on one interface. Dropping the last owner detaches it.
#[derive(Debug)]
pub struct Attachment {
    interface: String,
    index: u32,
    native: bool,
    /// The program accepts packets of several buffers.
    several_chunks: bool,
    sockets: OwnedFd,
    /// Closing it detaches the program.
    link: OwnedFd,
    /// While it is open, the interface is promiscuous. Otherwise a NIC drops frames to MAC addresses that are
    /// not its own, and the program never sees them.
    _promiscuous: Option<OwnedFd>,
}

impl Attachment {
    /// Attaches the program to `interface`: the packets of `take` go to the sockets of their queues,
    /// or to the kernel while a queue has no socket.
    ///
    /// # Errors
    /// [`OpenError`]; a busy interface is retried for a second.
    pub fn new(interface: &str, take: &Take, driver: Driver) -> Result<Self, OpenError> {
        let config = Config {
            interface: interface.to_owned(),
            take: take.clone(),
            driver,
            ..Config::default()
        };
        Self::carrying(&config, 0)
    }

    /// Like [`new`](Self::new), for sockets of `config` that carry an MTU of `least` bytes at least.
    pub(crate) fn carrying(config: &Config, least: usize) -> Result<Self, OpenError> {
        let Config {
            interface,
            take,
            driver,
            bind,
            ..
        } = config;
        take.check()?;
        let index = interface_index(interface).map_err(|_| OpenError::NoSuchInterface {
            interface: interface.to_owned(),
        })?;
        let sockets = sys::create_socket_map(MAX_QUEUES)
            .map_err(|error| refused("create a BPF map", error))?;
        let code = match take {
            Take::Addresses(addresses) => redirect_ours(addresses, sockets.as_raw_fd()),
            Take::Everything => redirect_all(sockets.as_raw_fd()),
        };
        // A driver refuses a large MTU without a reason.
        let carriage = fitting_mtu(interface, *bind, least)?;
        let several_chunks = carriage.spans_chunks;
        let program = sys::load_xdp_program(&code, several_chunks).map_err(|(error, _log)| {
            // Kernels before 5.18 do not know the flag.
            if several_chunks && error == Errno::INVAL {
                carriage.refused(interface)
            } else {
                refused("load the XDP program", error)
            }
        })?;
        let hooks = Hooks {
            driver: *driver,
            // Drivers have various errors for packets of several buffers.
            despite_mtu: several_chunks && *bind != Bind::ZeroCopy,
        };
        let (link, native) =
            attach(&program, index, hooks).map_err(|error| explain(interface, *driver, error))?;
        let promiscuous = matches!(take, Take::Everything)
            .then(|| sys::make_promiscuous(index))
            .transpose()
            .map_err(|error| refused("make the interface promiscuous", error))?;
        Ok(Self {
            interface: interface.to_owned(),
            index,
            native,
            several_chunks,
            sockets,
            link,
            _promiscuous: promiscuous,
        })
    }

    /// The interface, by the name that it had.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// The name of the interface now, as seen from the network namespace of the calling thread.
    pub(crate) fn current_name(&self) -> String {
        sys::interface_name(self.index).unwrap_or_else(|_| self.interface.clone())
    }

    /// The program runs in the driver, not in the generic hook.
    pub fn native(&self) -> bool {
        self.native
    }

    /// How a socket of `config` on this interface carries packets, of `least` bytes at least.
    pub(crate) fn carriage(&self, config: &Config, least: usize) -> Result<Carriage, OpenError> {
        let attached = self.current_name();
        if config.interface != attached {
            let problem = format!(
                "is `{}`, the attachment is on `{attached}`",
                config.interface
            );
            return Err(OpenError::Config {
                parameter: "interface",
                problem,
            });
        }
        let carriage = fitting_mtu(&config.interface, config.bind, least)?;
        if carriage.spans_chunks && !self.several_chunks {
            return Err(carriage.refused(&config.interface));
        }
        Ok(carriage)
    }

    /// Sends `queue`'s packets to `socket`.
    pub(crate) fn serve(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), OpenError> {
        sys::set_socket(&self.sockets, queue, socket).map_err(|error| match error {
            Errno::TOOBIG => OpenError::NoSuchQueue {
                interface: self.interface.clone(),
                queue,
                queues: queues_or_one(&self.interface),
            },
            error => refused("enter the socket into the BPF map", error),
        })
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // Closing the link detaches too, but later if a forked process holds a copy. This fails if
        // the interface is already removed, and the program with it.
        let _ = sys::detach(&self.link);
    }
}

/// The hooks to try.
#[derive(Clone, Copy, Debug)]
struct Hooks {
    driver: Driver,
    /// [`Driver::Auto`] falls back to the generic hook also if the driver refuses the MTU.
    despite_mtu: bool,
}

/// Attaches in the driver if requested and supported, else in the generic hook; returns which.
fn attach(program: &OwnedFd, index: u32, hooks: Hooks) -> Result<(OwnedFd, bool), Errno> {
    let attach = |native| retry::while_busy(|| sys::attach_xdp(program, index, native));
    if hooks.driver != Driver::Skb {
        match attach(true) {
            Err(Errno::OPNOTSUPP) if hooks.driver == Driver::Auto => {}
            Err(Errno::INVAL | Errno::RANGE)
                if hooks.driver == Driver::Auto && hooks.despite_mtu => {}
            answer => return answer.map(|link| (link, true)),
        }
    }
    attach(false).map(|link| (link, false))
}

fn refused(doing: &'static str, error: Errno) -> OpenError {
    match error {
        Errno::PERM | Errno::ACCESS => OpenError::NoPermission {
            doing,
            capability: "CAP_BPF and CAP_NET_ADMIN",
        },
        Errno::INVAL | Errno::NOSYS => OpenError::NoAfXdp,
        error => OpenError::os(doing, error),
    }
}

fn explain(interface: &str, driver: Driver, error: Errno) -> OpenError {
    let interface = interface.to_owned();
    match error {
        Errno::BUSY | Errno::EXIST => OpenError::Busy {
            interface,
            waited: retry::PATIENCE,
        },
        Errno::RANGE => OpenError::PeerMtu { interface },
        Errno::OPNOTSUPP if driver == Driver::Native => OpenError::Unsupported {
            interface,
            what: "native XDP",
            instead: "Driver::Auto or Driver::Skb",
        },
        Errno::PERM => OpenError::NoPermission {
            doing: "attach the XDP program",
            capability: "CAP_NET_ADMIN",
        },
        // virtio_net, igb and others refuse receive offloads that merge packets, and an MTU above
        // what one of their buffers holds.
        Errno::INVAL if driver != Driver::Skb => OpenError::Refused {
            remedy: "set an MTU of 1500, switch merging off (`ethtool -K IFACE lro off rx-gro-hw off`), \
                     or ask for Driver::Skb",
            interface,
            what: "native XDP",
            source: error.into(),
        },
        // Most drivers send from XDP on queues of their own, one per processor.
        Errno::NOMEM | Errno::NOSPC if driver != Driver::Skb => OpenError::Refused {
            remedy: "leave it queues for XDP (`ethtool -L IFACE combined N` with a smaller N), \
                     or ask for Driver::Skb",
            interface,
            what: "native XDP",
            source: error.into(),
        },
        error => OpenError::os("attach the XDP program", error),
    }
}
