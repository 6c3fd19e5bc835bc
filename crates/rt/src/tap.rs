//! [`Tap`]: a TAP or TUN interface, whose far end is the kernel. Works where AF_XDP does not, at a system
//! call per packet.
//!
//! With [`Tap::open_offloading`] a packet may hold several TCP segments in both directions, and
//! locally generated packets have no checksums: a header of `virtio` precedes each and says so
//! (`IFF_VNET_HDR`, `TUNSETOFFLOAD`; virtio 1.2 §5.1.6.2).

use std::fmt;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::io::Errno;
use tautline_base::{Device, HeapFrame, Medium, Offload, Packet, Tso};
use tun_rs::{DeviceBuilder, Layer, SyncDevice, VIRTIO_NET_HDR_LEN, VirtioNetHdr};

use crate::frame_device::{Arrival, FrameDevice, FrameIo, ReadError, Unit};
use crate::virtio::{Slices, header_of, slices_of, unit_of};

/// A TAP or TUN interface as a device. Unless it offloads, the kernel finishes checksums and cuts
/// large packets before they get here.
pub type Tap = FrameDevice<TapIo>;

/// The descriptor of a TAP or TUN interface.
pub struct TapIo {
    device: SyncDevice,
    /// Its name when it was opened.
    interface: String,
    medium: Medium,
    /// A `virtio` header precedes each packet.
    offloading: bool,
}

/// Why a TAP interface could not be opened. Every message ends in the remedy, which `Debug` shows, too.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TapError {
    /// The kernel has no TUN/TAP driver, or the container does not show it.
    #[error(
        "/dev/net/tun does not exist: `modprobe tun`, or start the container with `--device /dev/net/tun`"
    )]
    NoDriver,
    /// The process may not open the driver.
    #[error(
        "no permission to open /dev/net/tun, which most systems allow to every user: run as root, or let root allow it: \
         `chmod 666 /dev/net/tun`"
    )]
    DriverClosed,
    /// The process may not open the interface.
    #[error(
        "no permission to open interface `{interface}`: run as root, grant CAP_NET_ADMIN, or let root make it for you once: \
         `ip tuntap add dev {interface} mode tap user $USER` (`mode tun` for TUN)"
    )]
    NoPermission {
        /// The requested name.
        interface: String,
    },
    /// Another process has it.
    #[error(
        "interface `{interface}` is in use by another process: end that one, or choose another name"
    )]
    Busy {
        /// The requested name.
        interface: String,
    },
    /// The name belongs to an interface of another kind, or is not valid.
    #[error(
        "`{interface}` is not a TAP or TUN interface of that kind: `ip -d link show {interface}` says what it is; choose another name"
    )]
    NotTap {
        /// The requested name.
        interface: String,
    },
    /// Its MTU exceeds our frames.
    #[error(
        "`{interface}` has an MTU of {mtu}, frames hold {limit}: `ip link set {interface} mtu {limit}`"
    )]
    MtuTooLarge {
        /// The interface.
        interface: String,
        /// Its MTU.
        mtu: usize,
        /// The largest MTU that fits.
        limit: usize,
    },
    /// It was removed while it was open.
    #[error("interface `{interface}` was removed")]
    Removed {
        /// The interface.
        interface: String,
    },
    /// Nothing more can be read from it.
    #[error("interface `{interface}`: {source}")]
    Read {
        /// The interface.
        interface: String,
        /// The result of its reads.
        source: ReadError,
    },
    /// Any other error of the kernel.
    #[error("cannot open interface `{interface}`: {source}")]
    Os {
        /// The requested name.
        interface: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// As [`Display`](fmt::Display): a `main` that returns the error, and `expect`, print this.
impl fmt::Debug for TapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Tap {
    /// Attaches to the TAP interface `interface`, or creates one that is removed with the device.
    /// The caller brings it up and gives the kernel's end an address (`ip link set`, `ip address
    /// add`).
    ///
    /// # Errors
    /// [`TapError`], each with its remedy.
    pub fn open(interface: &str) -> Result<Self, TapError> {
        Self::attach(interface, Medium::Ethernet, false)
    }

    /// Like [`open`](Self::open), with segmentation offload in both directions: neither the kernel
    /// nor a host with large frames in its pool ([`Pool::heap`](tautline_base::Pool::heap)) cuts
    /// its packets into segments or sums their bytes.
    ///
    /// # Errors
    /// [`TapError`], each with its remedy.
    pub fn open_offloading(interface: &str) -> Result<Self, TapError> {
        Self::attach(interface, Medium::Ethernet, true)
    }

    /// Like [`open`](Self::open) or [`open_offloading`](Self::open_offloading), but opens a TUN
    /// interface: its frames are IP packets ([`Medium::Ip`]).
    ///
    /// # Errors
    /// [`TapError`], each with its remedy.
    pub fn open_tun(interface: &str, offloading: bool) -> Result<Self, TapError> {
        Self::attach(interface, Medium::Ip, offloading)
    }

    /// Why the device will never work again.
    pub fn failure(&mut self) -> Option<TapError> {
        if !self.is_gone() {
            return None;
        }
        let interface = self.io().interface.clone();
        Some(match self.read_error().get() {
            Some(&source) => TapError::Read { interface, source },
            None => TapError::Removed { interface },
        })
    }

    fn attach(interface: &str, medium: Medium, offloading: bool) -> Result<Self, TapError> {
        let layer = match medium {
            Medium::Ethernet => Layer::L2,
            Medium::Ip => Layer::L3,
        };
        let limit = HeapFrame::LEN - medium.link_header();
        let because = |error| explain(interface, error);
        if !Path::new("/dev/net/tun").exists() {
            return Err(TapError::NoDriver);
        }
        let builder = DeviceBuilder::new()
            .name(interface)
            .layer(layer)
            .inherit_enable_state()
            .offload(offloading);
        let device = builder.build_sync().map_err(because)?;
        device.set_nonblocking(true).map_err(because)?;
        lengthen_queue(&device);
        match usize::from(device.mtu().map_err(because)?) {
            mtu if mtu <= limit => {
                let io = TapIo {
                    device,
                    interface: interface.to_owned(),
                    medium,
                    offloading,
                };
                Ok(Self::new(io, mtu))
            }
            mtu => Err(TapError::MtuTooLarge {
                interface: interface.to_owned(),
                mtu,
                limit,
            }),
        }
    }
}

/// Default length, in packets, of the kernel's queue in front of a TUN or TAP interface
/// (`drivers/net/tun.c`, `TUN_READQ_SIZE`).
const DEFAULT_QUEUE: u32 = 500;
/// Default length of the queue of an Ethernet interface (`DEFAULT_TX_QUEUE_LEN`).
const QUEUE: u32 = 1000;

/// Lengthens a queue of the default length: a program is scheduled later than a NIC reads. Any other
/// length was chosen by somebody. It remains if the process may not change it, as on an interface that
/// root has made for a user.
fn lengthen_queue(device: &SyncDevice) {
    if device.tx_queue_len().is_ok_and(|len| len == DEFAULT_QUEUE) {
        let _ = device.set_tx_queue_len(QUEUE);
    }
}

fn explain(interface: &str, error: io::Error) -> TapError {
    let interface = interface.to_owned();
    match error.kind() {
        _ if error.raw_os_error() == Some(Errno::ACCESS.raw_os_error()) => TapError::DriverClosed,
        ErrorKind::PermissionDenied => TapError::NoPermission { interface },
        ErrorKind::ResourceBusy => TapError::Busy { interface },
        ErrorKind::InvalidInput => TapError::NotTap { interface },
        ErrorKind::NotFound => TapError::NoDriver,
        _ => TapError::Os {
            interface,
            source: error,
        },
    }
}

impl FrameIo for TapIo {
    fn write_frame(&self, frame: &[u8]) -> io::Result<usize> {
        if self.offloading {
            let header = IoSlice::new(&[0; VIRTIO_NET_HDR_LEN]);
            return self.device.send_vectored(&[header, IoSlice::new(frame)]);
        }
        self.device.send(frame)
    }

    fn read_frame(&self, frame: &mut [u8]) -> io::Result<usize> {
        self.device.recv(frame)
    }

    fn medium(&self) -> Medium {
        self.medium
    }

    fn tso(&self) -> Option<Tso> {
        self.offloading.then_some(Tso::MOST)
    }

    fn gathers(&self) -> bool {
        self.offloading
    }

    fn write_packet(&self, packet: &Packet<HeapFrame>) -> io::Result<usize> {
        if !self.offloading {
            return self.write_frame(packet.bytes());
        }
        let mut header = [0; VIRTIO_NET_HDR_LEN];
        header_of(packet).encode(&mut header)?;
        let mut slices: Slices<'_> = [IoSlice::new(&[]); _];
        self.device
            .send_vectored(slices_of(&mut slices, &header, packet))
    }

    fn read_packet(&self, frame: &mut [u8]) -> io::Result<Arrival> {
        if !self.offloading {
            return self.read_frame(frame).map(|len| Arrival {
                len,
                unit: Unit::Frame(Offload::default()),
            });
        }
        let mut header = [0; VIRTIO_NET_HDR_LEN];
        let len = self
            .device
            .recv_vectored(&mut [IoSliceMut::new(&mut header), IoSliceMut::new(frame)])?;
        let len = len.saturating_sub(header.len()).min(frame.len());
        let header = VirtioNetHdr::decode(&header)?;
        Ok(Arrival {
            len,
            unit: unit_of(&header, self.medium, &mut frame[..len]),
        })
    }
}

impl AsFd for TapIo {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_answers_become_remedies() {
        let message = |code| explain("tl0", io::Error::from_raw_os_error(code)).to_string();
        let permission = rustix::io::Errno::PERM.raw_os_error();
        assert!(
            message(permission).contains("CAP_NET_ADMIN")
                && message(permission).contains("ip tuntap add dev tl0")
        );
        assert!(
            message(rustix::io::Errno::BUSY.raw_os_error()).contains("in use by another process")
        );
        assert!(
            message(rustix::io::Errno::INVAL.raw_os_error()).contains("not a TAP or TUN interface")
        );
        let error = explain("tl0", io::Error::from_raw_os_error(permission));
        assert_eq!(format!("{error:?}"), message(permission), "of `main`");
    }
}
