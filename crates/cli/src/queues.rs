//! [`with_queues`]: a host for each hardware queue of an interface, each on a thread of its own.

use std::net::{IpAddr, SocketAddr};

use tautline_base::Pool;
use tautline_rt::steer::{Steered, own_port, steered};
use tautline_rt::system_seed;
use tautline_stack::{Cidr, ConnectError};
use tautline_xdp_io::{XdpQueues, interface_mac};

use crate::args::StackArgs;
use crate::failure::Failure;
use crate::open::{Opened, mode_of, queues_condition, queues_failure, xdp_config};

/// The device of one queue.
pub type QueueDevice = Steered<XdpQueues>;

/// Opens all `count` queues of the interface of `args`, and runs `work` on each in a thread. Returns the
/// results in the order of the queues, or the first failure once all have ended.
///
/// # Errors
/// If the options cannot work, a queue cannot be opened or work fails.
pub fn with_queues<T: Send>(
    args: &StackArgs,
    count: u32,
    work: impl Fn(u32, Opened<QueueDevice>) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    args.check()?;
    let devices = steered(XdpQueues::open_each(&xdp_config(args)?, count)?)?;
    let mac = interface_mac(&args.iface)?;
    let (work, devices) = (&work, devices.into_iter().zip(0..));
    std::thread::scope(|scope| {
        let threads = devices.map(|((device, frames), queue)| {
            let opened = Opened {
                mode: format!("{}, queue {queue} of {count}", mode_of(device.inner())),
                device,
                pool: Pool::new(frames),
                mac,
                path: "af_xdp",
                failure: |device: &mut QueueDevice| queues_failure(device.inner_mut()),
                condition: |device: &QueueDevice| queues_condition(device.inner()),
            };
            scope.spawn(move || work(queue, opened))
        });
        let threads: Vec<_> = threads.collect();
        let ended = threads.into_iter().map(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ended.collect::<Vec<_>>().into_iter().collect()
    })
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
