//! [`PacketDevice`]: a packet socket on an interface of the machine as a device. Large packets and
//! unfinished checksums pass both ways on an untouched interface.
//!
//! A system call per packet: a packet is 64 KiB when there is much to send, so batches of calls
//! would save little. The call's return is the packet's completion; it then waits in the driver, in
//! at most [`send_buffer`](Config::send_buffer) bytes.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use tautline_base::{HeapFrame, Packet, Tso};
pub use tautline_packet_io::{Config, Failure, OpenError, Take};
use tautline_packet_io::{HEADER_LEN, PacketSocket};
use tun_rs::VirtioNetHdr;

use crate::frame_device::{Arrival, FrameDevice, FrameIo};
use crate::virtio::{Slices, header_of, slices_of, unit_of};

/// A packet socket as a device.
///
/// The kernel processes each received packet too; `tautline_packet_io` documents how to keep it
/// from answering.
pub type PacketDevice = FrameDevice<PacketIo>;

/// The socket of a [`PacketDevice`].
#[derive(Debug)]
pub struct PacketIo {
    socket: PacketSocket,
}

impl PacketDevice {
    /// Opens a packet socket.
    ///
    /// # Errors
    /// [`OpenError`], each with its remedy.
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        let socket = PacketSocket::open(config)?;
        let mtu = socket.mtu();
        Ok(Self::new(PacketIo { socket }, mtu))
    }

    /// Replaces the packets that the device receives from now on.
    ///
    /// # Errors
    /// [`OpenError`]: too many addresses, or the interface is gone.
    pub fn take(&self, take: &Take) -> Result<(), OpenError> {
        self.io().socket.take(take)
    }

    /// MAC address of the interface.
    pub fn mac(&self) -> [u8; 6] {
        self.io().socket.mac()
    }

    /// Frames with a VLAN tag that were dropped: [`PacketSocket::tagged`].
    pub fn tagged(&self) -> u64 {
        self.io().socket.tagged()
    }

    /// The reason why the device no longer works; `None` if it does.
    pub fn failure(&self) -> Option<Failure> {
        self.io().socket.failure()
    }
}

impl FrameIo for PacketIo {
    fn write_frame(&self, frame: &[u8]) -> io::Result<usize> {
        self.socket.send(&[0; HEADER_LEN], frame)
    }

    fn read_frame(&self, frame: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(&mut [0; HEADER_LEN], frame)
    }

    fn tso(&self) -> Option<Tso> {
        Some(Tso::MOST)
    }

    /// Past the kernel's qdisc, the kernel does not segment for an interface without TSO: `writev`
    /// fails with ENOBUFS (`__dev_direct_xmit` in net/core/dev.c).
    fn refuses_segments(&self) -> bool {
        true
    }

    fn gathers(&self) -> bool {
        true
    }

    /// The socket reports once that its interface went down or was removed, and is silent then.
    fn is_gone(&self) -> bool {
        self.socket.failure().is_some()
    }

    fn write_packet(&self, packet: &Packet<HeapFrame>) -> io::Result<usize> {
        let mut header = [0; HEADER_LEN];
        header_of(packet).encode(&mut header)?;
        let mut slices: Slices<'_> = [IoSlice::new(&[]); _];
        self.socket
            .send_vectored(slices_of(&mut slices, &header, packet))
    }

    fn read_packet(&self, frame: &mut [u8]) -> io::Result<Arrival> {
        let mut header = [0; HEADER_LEN];
        let len = self.socket.receive(&mut header, frame)?.min(frame.len());
        let header = VirtioNetHdr::decode(&header)?;
        Ok(Arrival {
            len,
            unit: unit_of(&header, self.medium(), &mut frame[..len]),
        })
    }
}

impl AsFd for PacketIo {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
