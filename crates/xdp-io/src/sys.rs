//! System calls without a safe wrapper elsewhere: interface ioctls (netdevice(7)), `bpf(2)`, and
//! two socket options.
//!
//! Every function here is safe to call: each builds its own argument block and keeps what it points
//! to alive for the call.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, c_long, c_ulong, ifreq};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::assembler::Instruction;

type Result<T> = std::result::Result<T, Errno>;

/// The error of the libc call that has just returned -1.
fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// An `ifreq` that names an interface and is zero otherwise.
fn request_about(name: &CStr) -> Result<ifreq> {
    // SAFETY: `ifreq` is a C struct of integers and byte arrays, for which all zeroes is a value.
    let mut request: ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    let letters = name.to_bytes();
    if letters.len() >= request.ifr_name.len() {
        return Err(Errno::NODEV);
    }
    for (to, from) in request.ifr_name.iter_mut().zip(letters) {
        *to = from.cast_signed() as libc::c_char;
    }
    Ok(request)
}

/// Sends an interface request to the kernel, which writes its answer into `request`.
///
/// # Safety
/// `request` must be the argument of the ioctl `number`, with addresses valid for its accesses.
unsafe fn interface_ioctl(number: c_ulong, request: &mut ifreq) -> Result<()> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: the caller vouches for the request.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), number as _, &raw mut *request) };
    if answer < 0 {
        Err(last_error())
    } else {
        Ok(())
    }
}

/// The answer to one of the SIOCGIF* requests, which take a name.
fn interface_request(name: &CStr, number: c_ulong) -> Result<ifreq> {
    let mut request = request_about(name)?;
    // SAFETY: these requests read the name and write one member of the union in the same struct.
    unsafe { interface_ioctl(number, &mut request) }?;
    Ok(request)
}

/// Closes the AF_XDP socket behind `fd` and puts an unbound one in its place, for an owner that closes
/// it later. libxdp asks that descriptor for the layout of the rings when it unmaps those of another
/// socket on the same UMEM (`xsk_put_ctx`); rings that stay mapped would keep that socket bound.
pub(crate) fn close_behind(fd: BorrowedFd<'_>) -> Result<()> {
    let other = socket_with(
        AddressFamily::XDP,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: both descriptors are open; no memory is involved.
    let answer = unsafe { libc::dup3(other.as_raw_fd(), fd.as_raw_fd(), libc::O_CLOEXEC) };
    if answer < 0 {
        Err(last_error())
    } else {
        Ok(())
    }
}

/// A packet socket that receives nothing; while it is open, the interface of this index receives frames to
/// every MAC address (packet(7), PACKET_MR_PROMISC).
pub(crate) fn make_promiscuous(index: u32) -> Result<OwnedFd> {
    let socket = socket_with(
        AddressFamily::PACKET,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let membership = libc::packet_mreq {
        mr_ifindex: index.cast_signed(),
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    // SAFETY: the kernel reads a `packet_mreq` at `membership`, which lives on our stack.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const membership).cast(),
            size_of_val(&membership) as libc::socklen_t,
        )
    };
    if answer < 0 {
        Err(last_error())
    } else {
        Ok(socket)
    }
}

/// SIOCGIFHWADDR.
pub(crate) fn interface_mac(name: &CStr) -> Result<[u8; 6]> {
    let answer = interface_request(name, libc::SIOCGIFHWADDR as c_ulong)?;
    // SAFETY: the request succeeded, so the kernel wrote this member of the union; it is plain
    // bytes in any case.
    let data = unsafe { answer.ifr_ifru.ifru_hwaddr.sa_data };
    Ok(core::array::from_fn(|i| data[i].cast_unsigned()))
}

/// SIOCGIFMTU.
pub(crate) fn interface_mtu(name: &CStr) -> Result<usize> {
    let answer = interface_request(name, libc::SIOCGIFMTU as c_ulong)?;
    // SAFETY: the request succeeded, so the kernel wrote this member of the union; it is an integer
    // in any case.
    let mtu = unsafe { answer.ifr_ifru.ifru_mtu };
    Ok(usize::try_from(mtu).unwrap_or(0))
}

/// SIOCGIFINDEX.
pub(crate) fn interface_index(name: &CStr) -> Result<u32> {
    let answer = interface_request(name, libc::SIOCGIFINDEX as c_ulong)?;
    // SAFETY: the request succeeded, so the kernel wrote this member of the union; it is an integer
    // in any case.
    let index = unsafe { answer.ifr_ifru.ifru_ifindex };
    u32::try_from(index).map_err(|_| Errno::NODEV)
}

/// SIOCGIFNAME.
pub(crate) fn interface_name(index: u32) -> Result<String> {
    let mut request = request_about(c"")?;
    request.ifr_ifru.ifru_ifindex = index.cast_signed();
    // SAFETY: the request reads the index and writes the name in the same struct.
    unsafe { interface_ioctl(libc::SIOCGIFNAME as c_ulong, &mut request) }?;
    let letters = request.ifr_name.map(|letter| letter as u8);
    let name = CStr::from_bytes_until_nul(&letters).map_err(|_| Errno::NODEV)?;
    Ok(name.to_string_lossy().into_owned())
}

/// SIOCGIFFLAGS: the interface is up and has a carrier.
pub(crate) fn interface_is_running(name: &CStr) -> Result<bool> {
    let answer = interface_request(name, libc::SIOCGIFFLAGS as c_ulong)?;
    // SAFETY: the request succeeded, so the kernel wrote this member of the union; it is an integer
    // in any case.
    let flags = unsafe { answer.ifr_ifru.ifru_flags };
    let running = libc::IFF_UP | libc::IFF_RUNNING;
    Ok(i32::from(flags) & running == running)
}

const SIOCETHTOOL: c_ulong = 0x8946;
const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// The answer to an ethtool request of nine words (include/uapi/linux/ethtool.h): the command, four
/// maxima, four settings. EOPNOTSUPP if the driver does not implement it.
fn ethtool_settings(name: &CStr, command: u32) -> Result<[u32; 4]> {
    let mut words = [command, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut request = request_about(name)?;
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: SIOCETHTOOL with either command reads and writes nine words at `ifru_data`; they live
    // on our stack.
    unsafe { interface_ioctl(SIOCETHTOOL, &mut request) }?;
    Ok([words[5], words[6], words[7], words[8]])
}

/// The number of receive queues of an interface; EOPNOTSUPP if the driver does not report it.
pub(crate) fn interface_queues(name: &CStr) -> Result<u32> {
    let [receive, _transmit, _other, combined] = ethtool_settings(name, ETHTOOL_GCHANNELS)?;
    Ok(receive.saturating_add(combined))
}

/// The sizes of the rings of an interface: receive, mini, jumbo, transmit, in descriptors.
/// EOPNOTSUPP if the driver does not report them.
pub(crate) fn ring_sizes(name: &CStr) -> Result<[u32; 4]> {
    ethtool_settings(name, ETHTOOL_GRINGPARAM)
}

/// `XDP_MAX_TX_SKB_BUDGET` of Linux 6.17, younger than the headers libc was made from.
const XDP_MAX_TX_SKB_BUDGET: c_int = 9;

/// Sets the most packets that one wake of a copying socket sends, instead of 32. Kernels before 6.17
/// refuse.
pub(crate) fn set_wake_budget(socket: BorrowedFd<'_>, packets: u32) -> Result<()> {
    // SAFETY: the option takes an `int`, and length and pointer describe one that lives on our
    // stack.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            XDP_MAX_TX_SKB_BUDGET,
            (&raw const packets).cast(),
            size_of_val(&packets) as libc::socklen_t,
        )
    };
    if answer < 0 {
        Err(last_error())
    } else {
        Ok(())
    }
}

/// Borrows the file descriptor `fd`, which its owner keeps open.
pub(crate) fn borrow_fd<T>(_owner: &T, fd: RawFd) -> BorrowedFd<'_> {
    // SAFETY: `fd` comes from `_owner`, an xsk-rs queue, which keeps its socket open for as long as
    // it lives; the result cannot outlive the borrow of it.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

// bpf(2): commands, types and flags of include/uapi/linux/bpf.h.
const MAP_CREATE: c_long = 0;
const MAP_UPDATE_ELEM: c_long = 2;
const PROG_LOAD: c_long = 5;
const LINK_CREATE: c_long = 28;
const LINK_DETACH: c_long = 34;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;
/// `BPF_F_XDP_HAS_FRAGS`, Linux 5.18.
const XDP_HAS_FRAGS: u32 = 1 << 5;
const XDP_FLAGS_SKB_MODE: u32 = 2;
const XDP_FLAGS_DRV_MODE: u32 = 4;

/// Room for the verifier's explanation when it refuses a program.
const LOG_LEN: usize = 16 * 1024;

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    name: [u8; 16],
}

#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface_index: u32,
    expected_attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    interface_index: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
struct LinkDetach {
    link_fd: u32,
}

/// Calls `bpf(2)`.
///
/// # Safety
/// `Attr` must be the argument block of `command`, with addresses valid for its accesses.
unsafe fn bpf<Attr>(command: c_long, attr: &mut Attr) -> Result<c_int> {
    // SAFETY: pointer and size describe `attr`; the caller vouches for what it holds.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attr, size_of::<Attr>()) };
    if answer < 0 {
        Err(last_error())
    } else {
        Ok(answer as c_int)
    }
}

/// Calls `bpf(2)` for a command that returns a new file descriptor.
///
/// # Safety
/// As [`bpf`], and the command must return a file descriptor.
unsafe fn bpf_fd<Attr>(command: c_long, attr: &mut Attr) -> Result<OwnedFd> {
    // SAFETY: the caller vouches for it.
    let fd = unsafe { bpf(command, attr) }?;
    // SAFETY: the kernel has just opened `fd` for this call (close-on-exec, as every one of bpf),
    // and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn fd_number(fd: impl AsFd) -> u32 {
    fd.as_fd().as_raw_fd().cast_unsigned()
}

fn padded<const N: usize>(name: &[u8]) -> [u8; N] {
    core::array::from_fn(|i| name.get(i).copied().unwrap_or(0))
}

/// A map from queue number to AF_XDP socket, for queues below `queues`.
pub(crate) fn create_socket_map(queues: u32) -> Result<OwnedFd> {
    let mut attr = MapCreate {
        map_type: MAP_TYPE_XSKMAP,
        key_size: 4,
        value_size: 4,
        max_entries: queues,
        flags: 0,
        inner_map_fd: 0,
        numa_node: 0,
        name: padded(b"tautline_socks"),
    };
    // SAFETY: MAP_CREATE reads this block, which holds no addresses, and answers with a file
    // descriptor.
    unsafe { bpf_fd(MAP_CREATE, &mut attr) }
}

/// Sends the redirected packets of `queue` to `socket`. The kernel removes the entry with the socket.
pub(crate) fn set_socket(map: &OwnedFd, queue: u32, socket: BorrowedFd<'_>) -> Result<()> {
    let value = fd_number(socket);
    let mut attr = MapUpdate {
        map_fd: fd_number(map),
        padding: 0,
        key: (&raw const queue).expose_provenance() as u64,
        value: (&raw const value).expose_provenance() as u64,
        flags: 0,
    };
    // SAFETY: MAP_UPDATE_ELEM reads a key and a value of four bytes each; both live on our stack
    // until it returns.
    unsafe { bpf(MAP_UPDATE_ELEM, &mut attr) }.map(|_| ())
}

/// Loads an XDP program, for packets of several buffers or of one only. If the program is refused, the second part of the error is the verifier's
/// log, possibly empty.
pub(crate) fn load_xdp_program(
    code: &[Instruction],
    several_buffers: bool,
) -> std::result::Result<OwnedFd, (Errno, String)> {
    const LICENSE: &CStr = c"MIT OR Apache-2.0";
    let mut log = vec![0u8; LOG_LEN];
    let mut attr = ProgLoad {
        prog_type: PROG_TYPE_XDP,
        instruction_count: code.len() as u32,
        instructions: code.as_ptr().expose_provenance() as u64,
        license: LICENSE.as_ptr().expose_provenance() as u64,
        log_level: 1,
        log_size: LOG_LEN as u32,
        log: log.as_mut_ptr().expose_provenance() as u64,
        kernel_version: 0,
        flags: if several_buffers { XDP_HAS_FRAGS } else { 0 },
        name: padded(b"tautline"),
        interface_index: 0,
        expected_attach_type: ATTACH_TYPE_XDP,
    };
    // SAFETY: PROG_LOAD reads `code` (`Instruction` has the layout of the kernel's `bpf_insn`) and
    // the license, writes at most `log_size` bytes to the log, and answers with a file descriptor.
    // All three outlive the call.
    unsafe { bpf_fd(PROG_LOAD, &mut attr) }.map_err(|error| {
        let text = CStr::from_bytes_until_nul(&log).map(|text| text.to_string_lossy().into_owned());
        (error, text.unwrap_or_default())
    })
}

/// Attaches an XDP program to an interface, until the returned link is closed.
pub(crate) fn attach_xdp(program: &OwnedFd, interface_index: u32, native: bool) -> Result<OwnedFd> {
    let mut attr = LinkCreate {
        prog_fd: fd_number(program),
        interface_index,
        attach_type: ATTACH_TYPE_XDP,
        flags: if native {
            XDP_FLAGS_DRV_MODE
        } else {
            XDP_FLAGS_SKB_MODE
        },
    };
    // SAFETY: LINK_CREATE reads this block, which holds no addresses, and answers with a file
    // descriptor.
    unsafe { bpf_fd(LINK_CREATE, &mut attr) }
}

/// Detaches at once, even if another process holds a copy of the descriptor.
pub(crate) fn detach(link: &OwnedFd) -> Result<()> {
    let mut attr = LinkDetach {
        link_fd: fd_number(link),
    };
    // SAFETY: LINK_DETACH reads this block, which holds no addresses.
    unsafe { bpf(LINK_DETACH, &mut attr) }.map(|_| ())
}
