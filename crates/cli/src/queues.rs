//! [`with_queues`]: a host for each hardware queue of an interface, each on a thread of its own.

use std::net::{IpAddr, SocketAddr};

use tautline_base::Pool;
use tautline_rt::steer::{own_port, steered};
use tautline_rt::system_seed;
use tautline_stack::{Cidr, ConnectError};
use tautline_xdp_io::{UmemFrame, XdpQueues, interface_mac};

use crate::args::StackArgs;
use crate::failure::Failure;
use crate::open::{Opened, mode_of, xdp_config};
use crate::threads::each_queue;

/// Opens all `count` queues of the interface of `args`, and runs `work` on each in a thread. Returns the
/// results in the order of the queues, once all have ended.
///
/// A host that fails, or panics, ends alone: its connections are lost, and another host of the group
/// serves its queue ([`Steered`](tautline_rt::steer::Steered)).
///
/// # Errors
/// If the options cannot work, or a queue cannot be opened.
pub fn with_queues<T: Send>(
    args: &StackArgs,
    count: u32,
    work: impl Fn(u32, Opened<UmemFrame>) -> Result<T, Failure> + Sync,
) -> Result<Vec<Result<T, Failure>>, Failure> {
    args.check()?;
    let devices = steered(XdpQueues::open_each(&xdp_config(args)?, count)?)?;
    let mac = interface_mac(&args.iface)?;
    let (work, devices) = (&work, devices.into_iter().zip(0..));
    each_queue(devices.map(|((device, frames), queue)| {
        let opened = Opened {
            mode: format!("{}, queue {queue} of {count}", mode_of(device.inner())),
            device: Box::new(device),
            pool: Pool::new(frames),
            mac,
            path: "af_xdp",
        };
        move || work(queue, opened)
    }))
}

/// An address for a connection of the host at `queue` to `remote`, whose answers reach it.
///
/// # Errors
/// If the system has no random numbers, or the host no address of that family.
pub fn own_address(
    args: &StackArgs,
    queue: u32,
    count: u32,
    remote: IpAddr,
) -> Result<SocketAddr, Failure> {
    let mut addresses = args.own().map(Cidr::address);
    let address = addresses
        .find(|own| own.is_ipv4() == remote.is_ipv4())
        .ok_or(ConnectError::NoRoute(remote))?;
    let port = own_port(queue as usize, count as usize, system_seed()?);
    Ok(SocketAddr::new(address, port))
}
