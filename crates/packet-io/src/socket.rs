//! [`PacketSocket`]: packets of one interface, each behind its virtio-net header.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::CString;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, readv, writev};
use rustix::net::sockopt::socket_error;
use rustix::pipe::PipeFlags;

use crate::error::{Failure, OpenError};
use crate::{filter, sys};

/// Bytes of the virtio-net header before each packet (`struct virtio_net_hdr`: flags, GSO type,
/// header length, GSO size, start and offset of the checksum, in native byte order).
pub const HEADER_LEN: usize = 10;

/// Parameters of a packet socket.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the network interface, in the network namespace of the calling thread.
    pub interface: String,
    /// The packets that the socket receives. Default [`Take::Everything`].
    pub take: Take,
    /// Bytes of kernel memory for packets not yet received (`SO_RCVBUF`). Default 16 MiB: two
    /// hundred packets of 64 KiB. Without CAP_NET_ADMIN `net.core.rmem_max` limits it.
    pub receive_buffer: u32,
    /// Bytes of kernel memory for packets not yet sent by the driver (`SO_SNDBUF`): the queue below
    /// our qdisc. Default 512 KiB. Without CAP_NET_ADMIN `net.core.wmem_max` limits it.
    pub send_buffer: u32,
}

impl Config {
    /// The defaults, for `interface`.
    pub fn new(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            take: Take::Everything,
            receive_buffer: 16 << 20,
            send_buffer: 512 << 10,
        }
    }
}

/// The packets that a socket receives, never frames with a VLAN tag: [`PacketSocket::tagged`] counts those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Take {
    /// For an end host: packets to these addresses (at most 64), ARP requests and neighbor
    /// solicitations for them, and announcements of neighbors that have moved.
    Addresses(Vec<IpAddr>),
    /// For a bump in the wire: every packet that arrives; the interface becomes promiscuous.
    Everything,
}

/// Most frames with a VLAN tag that are counted: each wakes its reader for nothing.
const MOST_TAGGED: u64 = 1024;

/// A non-blocking packet socket on one interface.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    interface: CString,
    mac: [u8; 6],
    mtu: usize,
    take: RefCell<Take>,
    tagged: Cell<u64>,
    /// Set once the interface went down or was removed: the read end of a pipe without a writer,
    /// which reports a hang-up to every `poll`. The socket itself reports its error once.
    failed: OnceCell<OwnedFd>,
}

impl PacketSocket {
    /// Opens a socket on an interface that is up.
    ///
    /// # Errors
    /// See [`OpenError`]; each message names the remedy.
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        let no_such = || OpenError::NoSuchInterface {
            interface: config.interface.clone(),
        };
        let name = CString::new(config.interface.as_str()).map_err(|_| no_such())?;
        let program = filter::program(&config.take, true)?;
        let socket = sys::packet_socket().map_err(|error| match error {
            Errno::PERM | Errno::ACCESS => OpenError::NoPermission,
            error => os("open a packet socket", error),
        })?;
        let fd = socket.as_fd();
        let index = sys::interface_index(fd, &name).map_err(|_| no_such())?;
        let mac = sys::interface_mac(fd, &name).map_err(|_| no_such())?;
        let mtu = sys::interface_mtu(fd, &name).map_err(|_| no_such())?;
        // Attach the filter before the socket is bound to a protocol and receives packets.
        sys::attach_filter(fd, &program).map_err(|error| os("attach the filter", error))?;
        sys::configure(fd, config.receive_buffer, config.send_buffer)
            .map_err(|error| os("enable virtio-net headers on a packet socket", error))?;
        if config.take == Take::Everything {
            sys::make_promiscuous(fd, index)
                .map_err(|error| os("make the interface promiscuous", error))?;
        }
        sys::bind(fd, index).map_err(|error| match error {
            Errno::NODEV => no_such(),
            error => os("bind a packet socket", error),
        })?;
        match socket_error(fd) {
            Ok(Err(Errno::NETDOWN)) => Err(OpenError::Down {
                interface: config.interface.clone(),
            }),
            Ok(Err(error)) | Err(error) => Err(os("bind a packet socket", error)),
            Ok(Ok(())) => Ok(Self {
                socket,
                interface: name,
                mac,
                mtu,
                take: config.take.clone().into(),
                tagged: Cell::new(0),
                failed: OnceCell::new(),
            }),
        }
    }

    /// Replaces the packets that the socket receives from now on. An interface that has become
    /// promiscuous stays so until the socket is closed.
    ///
    /// # Errors
    /// [`OpenError`]: too many addresses, or the interface is gone.
    pub fn take(&self, take: &Take) -> Result<(), OpenError> {
        let program = filter::program(take, self.tagged.get() < MOST_TAGGED)?;
        let fd = self.socket.as_fd();
        if *take == Take::Everything {
            let index = sys::interface_index(fd, &self.interface).map_err(|_| {
                let interface = self.interface.to_string_lossy().into_owned();
                OpenError::NoSuchInterface { interface }
            })?;
            sys::make_promiscuous(fd, index)
                .map_err(|error| os("make the interface promiscuous", error))?;
        }
        sys::attach_filter(fd, &program).map_err(|error| os("attach the filter", error))?;
        self.take.replace(take.clone());
        Ok(())
    }

    /// Sends the packet `frame` behind its virtio-net header.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if the kernel has no buffer space now: send the packet again
    /// later. After any other error the packet is lost.
    pub fn send(&self, header: &[u8; HEADER_LEN], frame: &[u8]) -> io::Result<usize> {
        self.send_vectored(&[IoSlice::new(header), IoSlice::new(frame)])
    }

    /// Sends the packet that `parts` are, the first its virtio-net header of [`HEADER_LEN`] bytes.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match writev(&self.socket, parts) {
            // The device queue is full; with qdisc bypass the kernel queues nothing.
            Err(Errno::NOBUFS | Errno::NOMEM) => Err(ErrorKind::WouldBlock.into()),
            Err(error) => Err(self.examine(error)),
            Ok(sent) => Ok(sent.saturating_sub(HEADER_LEN)),
        }
    }

    /// Receives one packet of one or several segments and its virtio-net header. Returns the length
    /// of the packet, truncated to `frame`.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if there is no packet.
    pub fn receive(&self, header: &mut [u8; HEADER_LEN], frame: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut parts = [IoSliceMut::new(header), IoSliceMut::new(frame)];
            let received = readv(&self.socket, &mut parts).map_err(|error| self.examine(error))?;
            match received.saturating_sub(HEADER_LEN) {
                filter::TAGGED => self.count_tagged(),
                len => return Ok(len),
            }
        }
    }

    /// Frames with a VLAN tag that arrived, 1024 at most. They are dropped, because the kernel has moved the tag
    /// out of them. A socket on the VLAN's own interface receives them without it: `ip link add link eth0 name
    /// eth0.5 type vlan id 5`.
    pub fn tagged(&self) -> u64 {
        self.tagged.get()
    }

    /// Counts a frame with a VLAN tag. After the last one that counts, the kernel drops them.
    fn count_tagged(&self) {
        let before = self.tagged.get();
        self.tagged.set(MOST_TAGGED.min(before + 1));
        if before + 1 == MOST_TAGGED
            && let Ok(program) = filter::program(&self.take.borrow(), false)
        {
            // The kernel takes it as it took the last one; else each further frame wakes the reader, too.
            let _ = sys::attach_filter(self.socket.as_fd(), &program);
        }
    }

    /// MAC address of the interface.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// MTU of the interface when the socket was opened.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// The reason why the socket no longer works; `None` if it does. A few system calls.
    pub fn failure(&self) -> Option<Failure> {
        let pending = socket_error(&self.socket).ok().and_then(Result::err);
        if let Some(error) = pending {
            self.examine(error);
        }
        self.failed.get()?;
        let name = self.interface.to_string_lossy().into_owned();
        Some(
            match sys::interface_index(self.socket.as_fd(), &self.interface) {
                Ok(_) => Failure::Down(name),
                Err(_) => Failure::Removed(name),
            },
        )
    }

    /// Keeps an error that the kernel reports only once.
    fn examine(&self, error: Errno) -> io::Error {
        if matches!(error, Errno::NETDOWN | Errno::NXIO | Errno::NODEV)
            && self.failed.get().is_none()
            && let Ok((hung_up, _)) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        {
            let _ = self.failed.set(hung_up);
        }
        error.into()
    }
}

fn os(doing: &'static str, error: Errno) -> OpenError {
    OpenError::Os {
        doing,
        source: error.into(),
    }
}

impl AsFd for PacketSocket {
    /// For `poll(2)`: readable when a packet has arrived, hung up once the interface went down or was
    /// removed ([`failure`](Self::failure)).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.failed.get().unwrap_or(&self.socket).as_fd()
    }
}
