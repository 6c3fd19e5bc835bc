//! The system calls of packet sockets that no safe wrapper covers.
#![expect(unsafe_code, reason = "system calls without a safe wrapper elsewhere")]

use std::ffi::{CStr, c_int, c_ulong};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use libc::{ifreq, packet_mreq, sock_filter, sock_fprog, sockaddr_ll};
use rustix::io::{Errno, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// `PACKET_IGNORE_OUTGOING` of Linux 4.20 (include/uapi/linux/if_packet.h).
const PACKET_IGNORE_OUTGOING: c_int = 23;

/// A raw packet socket that receives nothing until it is bound.
pub(crate) fn packet_socket() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
}

/// Sets an option to `value`.
///
/// # Safety
/// `T` must be the type that option `name` of `level` takes, with addresses valid for its reads.
unsafe fn set_option<T>(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> Result<()> {
    // SAFETY: pointer and length describe `value`, which lives until the call returns; the caller
    // vouches for its type.
    let answer = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    checked(answer)
}

fn set_number(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: u32) -> Result<()> {
    let value: c_int = c_int::try_from(value).unwrap_or(c_int::MAX);
    // SAFETY: every option that this module sets through here takes an `int`.
    unsafe { set_option(fd, level, name, &value) }
}

/// Attaches a classic BPF program.
pub(crate) fn attach_filter(fd: BorrowedFd<'_>, program: &[sock_filter]) -> Result<()> {
    let program = sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno::INVAL)?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the option takes a `sock_fprog`; the kernel reads `len` instructions at `filter`, a
    // borrowed slice of that length, and writes none.
    unsafe { set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program) }
}

/// Virtio-net headers, no packets that leave, no qdisc of the kernel's, and buffers of these sizes in
/// bytes.
pub(crate) fn configure(fd: BorrowedFd<'_>, receive: u32, send: u32) -> Result<()> {
    for name in [
        libc::PACKET_VNET_HDR,
        PACKET_IGNORE_OUTGOING,
        libc::PACKET_QDISC_BYPASS,
    ] {
        set_number(fd, libc::SOL_PACKET, name, 1)?;
    }
    for (forced, asked, bytes) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, receive),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, send),
    ] {
        // The kernel doubles the number.
        set_number(fd, libc::SOL_SOCKET, forced, bytes / 2)
            .or_else(|_| set_number(fd, libc::SOL_SOCKET, asked, bytes / 2))?;
    }
    Ok(())
}

/// Makes the interface of this index receive frames to every MAC address, until the socket closes.
pub(crate) fn make_promiscuous(fd: BorrowedFd<'_>, index: c_int) -> Result<()> {
    let membership = packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    // SAFETY: the option takes a `packet_mreq`, which holds no addresses.
    unsafe {
        set_option(
            fd,
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            &membership,
        )
    }
}

/// Binds the socket to the interface of this index, for every protocol.
pub(crate) fn bind(fd: BorrowedFd<'_>, index: c_int) -> Result<()> {
    let address = sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes at `address`, which lives on our stack.
    checked(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })
}

/// SIOCGIFINDEX.
pub(crate) fn interface_index(fd: BorrowedFd<'_>, name: &CStr) -> Result<c_int> {
    let answer = interface_request(fd, name, libc::SIOCGIFINDEX as c_ulong)?;
    // SAFETY: the kernel wrote this member of the union; it is an integer in any case.
    Ok(unsafe { answer.ifr_ifru.ifru_ifindex })
}

/// SIOCGIFMTU.
pub(crate) fn interface_mtu(fd: BorrowedFd<'_>, name: &CStr) -> Result<usize> {
    let answer = interface_request(fd, name, libc::SIOCGIFMTU as c_ulong)?;
    // SAFETY: the kernel wrote this member of the union; it is an integer in any case.
    let mtu = unsafe { answer.ifr_ifru.ifru_mtu };
    Ok(usize::try_from(mtu).unwrap_or(0))
}

/// SIOCGIFHWADDR.
pub(crate) fn interface_mac(fd: BorrowedFd<'_>, name: &CStr) -> Result<[u8; 6]> {
    let answer = interface_request(fd, name, libc::SIOCGIFHWADDR as c_ulong)?;
    // SAFETY: the kernel wrote this member of the union; it is plain bytes in any case.
    let data = unsafe { answer.ifr_ifru.ifru_hwaddr.sa_data };
    Ok(core::array::from_fn(|at| data[at].cast_unsigned()))
}

/// The answer to one of the SIOCGIF* requests, which take a name.
fn interface_request(fd: BorrowedFd<'_>, name: &CStr, number: c_ulong) -> Result<ifreq> {
    // SAFETY: all of `ifreq` is plain data or null pointers when zero.
    let mut request: ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    let letters = name.to_bytes();
    if letters.len() >= request.ifr_name.len() {
        return Err(Errno::NODEV);
    }
    for (to, from) in request.ifr_name.iter_mut().zip(letters) {
        *to = from.cast_signed() as libc::c_char;
    }
    // SAFETY: these requests read the name and write one member of the union in the same struct.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), number as _, &raw mut request) })?;
    Ok(request)
}

fn checked(answer: c_int) -> Result<()> {
    if answer < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok(())
}
