//! [`with_device`]: opens AF_XDP, TAP or a packet socket, as the options say, and runs a job on it.

use std::net::{IpAddr, UdpSocket};

use tautline_base::{Device, Frame, Pool};
use tautline_rt::Tap;
use tautline_rt::packet_device::{Config, PacketDevice, Take};
use tautline_stack::Cidr;

#[cfg(feature = "af-xdp")]
use crate::args::{BindKind, Mode};
use crate::args::{DeviceKind, StackArgs};
use crate::check::Unusable;
use crate::device::BoxedDevice;
use crate::failure::Failure;

/// An open device.
pub struct Opened<F: Frame> {
    /// The device.
    pub device: BoxedDevice<F>,
    /// Frames for sending.
    pub pool: Pool<F>,
    /// Our hardware address.
    pub mac: [u8; 6],
    /// Name of the path: `af_xdp`, `tap`, `packet`.
    pub path: &'static str,
    /// The mode in which it was opened.
    pub mode: String,
}

/// Work that can be done on any device.
pub trait Job {
    /// Does it.
    ///
    /// # Errors
    /// Whatever ends the job early.
    fn run<F: Frame + Send + 'static>(self, opened: Opened<F>) -> Result<(), Failure>;
}

/// Opens the device that `args` describe and does `job` on it.
///
/// # Errors
/// If the options cannot work, the device cannot be opened, or the job fails.
pub fn with_device(args: &StackArgs, job: impl Job) -> Result<(), Failure> {
    args.check()?;
    if args.lacks_lease() {
        let problem = "this command takes no address from a DHCP server; name one";
        return Err(Unusable::new("ip", "dhcp", problem).into());
    }
    if let Some(queues) = args.queues {
        let problem = "this command serves all queues in one thread; leave it out";
        return Err(Unusable::new("queues", queues, problem).into());
    }
    for own in args.own().filter(|own| kernel_has(own.address())) {
        let address = own.address();
        eprintln!("note: the kernel has {address}, too: choose an address that no other host has");
    }
    match args.device {
        DeviceKind::AfXdp => with_af_xdp(args, job),
        DeviceKind::Tap => with_tap(args, job),
        DeviceKind::Packet => with_packet(args, job),
    }
}

/// Whether `address` is the kernel's, which would answer its packets too: with resets.
fn kernel_has(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// The AF_XDP sockets that `args` describe.
#[cfg(feature = "af-xdp")]
pub(crate) fn xdp_config(args: &StackArgs) -> Result<tautline_xdp_io::Config, Failure> {
    use tautline_xdp_io::{Bind, Config, Driver, Take, interface_mtu};

    let driver = match args.mode {
        Mode::Auto => Driver::Auto,
        Mode::Native => Driver::Native,
        Mode::Skb => Driver::Skb,
    };
    let bind = match args.bind {
        BindKind::Auto => Bind::Auto,
        BindKind::ZeroCopy => Bind::ZeroCopy,
        BindKind::Copy => Bind::Copy,
    };
    let qdisc = args.qdisc.build::<tautline_base::Packet<()>>()?;
    let config = Config {
        interface: args.iface.clone(),
        take: Take::Addresses(args.own().map(Cidr::address).collect()),
        receive_frames: args.receive_ring,
        receive_ring: args.receive_ring,
        transmit_ring: args.transmit_ring,
        driver,
        bind,
        ..Config::default()
    }
    .holding(qdisc.report().packet_limit())?;
    // An interface that does not exist is explained by `open`.
    interface_mtu(&args.iface).map_or(Ok(()), |mtu| args.check_mtu(mtu))?;
    Ok(config)
}

/// The mode in which `device` was opened.
#[cfg(feature = "af-xdp")]
pub(crate) fn mode_of(device: &tautline_xdp_io::XdpQueues) -> String {
    let mode = device.mode().to_string();
    match device.copy_reason() {
        Some(reason) => format!("{mode} ({reason})"),
        None => mode,
    }
}

#[cfg(feature = "af-xdp")]
fn with_af_xdp(args: &StackArgs, job: impl Job) -> Result<(), Failure> {
    use tautline_offload::SoftwareOffload;
    use tautline_xdp_io::{XdpQueues, interface_mac};

    let (device, frames) = XdpQueues::open(xdp_config(args)?, args.queue)?;
    let mut mode = mode_of(&device);
    if device.queues().len() > 1 {
        mode = format!("{mode}, {} queues", device.queues().len());
    }
    let (mac, pool) = (interface_mac(&args.iface)?, Pool::new(frames));
    if !args.offload {
        return job.run(Opened {
            mac,
            mode,
            device: Box::new(device),
            pool,
            path: "af_xdp",
        });
    }
    let device = SoftwareOffload::new(device, pool, Default::default());
    job.run(Opened {
        pool: Pool::heap(FRAMES, device.tso()),
        mac,
        device: Box::new(device),
        path: "af_xdp",
        mode: format!("{mode}, packets of several segments cut and merged in software"),
    })
}

#[cfg(not(feature = "af-xdp"))]
fn with_af_xdp(_args: &StackArgs, _job: impl Job) -> Result<(), Failure> {
    Err(Failure::NoAfXdp)
}

/// Frames for sending on devices without frames of their own.
const FRAMES: usize = 2048;

fn with_packet(args: &StackArgs, job: impl Job) -> Result<(), Failure> {
    let take = Take::Addresses(args.own().map(Cidr::address).collect());
    let device = PacketDevice::open(&Config {
        take,
        ..Config::new(&args.iface)
    })?;
    args.check_mtu(device.mtu())?;
    job.run(Opened {
        pool: Pool::heap(FRAMES, device.tso()),
        mac: device.mac(),
        device: Box::new(device),
        path: "packet",
        mode: "a packet socket, packets of several segments".to_owned(),
    })
}

/// The kernel has the interface's own address; we are a neighbor behind it and need another one,
/// locally administered.
fn with_tap(args: &StackArgs, job: impl Job) -> Result<(), Failure> {
    let [a, b, c, d] = args
        .own()
        .next()
        .map_or([0; 4], |own| last_bytes(own.address()));
    let (device, mode) = if args.offload {
        (
            Tap::open_offloading(&args.iface)?,
            "a system call per packet of several segments",
        )
    } else {
        (Tap::open(&args.iface)?, "a system call per packet")
    };
    args.check_mtu(device.mtu())?;
    job.run(Opened {
        pool: Pool::heap(FRAMES, device.tso()),
        device: Box::new(device),
        mac: [0x02, 0x00, a, b, c, d],
        path: "tap",
        mode: mode.to_owned(),
    })
}

/// The bytes that differ between two addresses of one network.
fn last_bytes(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(v4) => v4.octets(),
        IpAddr::V6(v6) => (v6.to_bits() as u32).to_be_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_kernel_are_known() {
        assert!(kernel_has([127, 0, 0, 1].into()));
        assert!(!kernel_has([192, 0, 2, 1].into()), "RFC 5737");
    }
}
