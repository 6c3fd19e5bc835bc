//! [`Host`]: one network stack on one device queue.

mod autoconf;
mod calls;
mod datagrams;
mod demux;
mod icmp;
mod input;
mod interface;
mod listening;
mod neighbors;
mod refusals;
mod replace;
mod requests;
mod resets;
mod tcp_socket;
mod transport;
mod udp;
mod walk;

use std::fmt;

use tautline_base::{Device, Instant, Packet, Pool, Qdisc};
use tautline_bql::{Dql, Limit, Port};

use self::interface::Interface;
pub use self::neighbors::announce;
pub use self::replace::{Replaced, Stuck};
pub use self::resets::reset_connections;
pub use self::tcp_socket::TcpSocket;
use self::transport::Transport;
use self::udp::Paths;
pub use self::udp::Udp;
use crate::config::HostConfig;
use crate::stats::HostStats;
use crate::trace::{NoTrace, Tracer};

/// One network stack: sockets above, a [`Port`] (qdisc, limit, ring) below. `Q` is the qdisc, `D`
/// the device, `T` records packet events, `L` limits the bytes in the ring: [`Dql`], another, or
/// `Box<dyn Limit>`. Single-threaded; one per core and device queue.
pub struct Host<Q, D: Device, T = NoTrace, L = Dql> {
    interface: Interface<Q, D, T, L>,
    transport: Transport,
    /// The latest time seen: time never runs backwards inside.
    now: Instant,
}

impl<Q, D, T, L> Host<Q, D, T, L>
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    /// A host on `port` that writes its packets into the frames of `pool`. Packets are no longer
    /// than the device's MTU, nor than a frame of the pool. Packets of several segments are written
    /// into the pool's large frames, if the device takes such packets.
    pub fn new(config: HostConfig, port: Port<Q, D, L>, pool: Pool<D::Frame>, tracer: T) -> Self {
        let interface = Interface::new(config, port, pool, tracer);
        Self {
            transport: Transport::new(interface.key, interface.mtu),
            interface,
            now: Instant::ZERO,
        }
    }

    /// The configuration it was made with.
    pub fn config(&self) -> &HostConfig {
        &self.interface.config
    }

    /// Qdisc, limit and ring.
    pub fn port(&self) -> &Port<Q, D, L> {
        &self.interface.port
    }

    /// Qdisc, limit and ring.
    pub fn port_mut(&mut self) -> &mut Port<Q, D, L> {
        &mut self.interface.port
    }

    /// The device below the ring.
    pub fn device_mut(&mut self) -> &mut D {
        self.interface.port.ring_mut().device_mut()
    }

    /// The recorder of packet events.
    pub fn tracer_mut(&mut self) -> &mut T {
        &mut self.interface.tracer
    }

    /// Its datagram sockets.
    pub fn udp(&mut self) -> Udp<'_> {
        let (addressing, mtu) = (&self.interface.addressing, self.interface.mtu);
        Udp {
            transport: &mut self.transport,
            paths: Paths { addressing, mtu },
        }
    }

    /// Counters since the host was made.
    pub fn stats(&self) -> HostStats {
        self.transport.add_to(self.interface.stats)
    }

    /// Frames in packets: in the qdisc or in the device. Zero once nothing is in flight.
    pub fn outstanding(&self) -> usize {
        self.interface.pool.outstanding()
    }

    /// Time that never runs backwards.
    fn advance_clock(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }
}

impl<Q, D: Device, T, L> fmt::Debug for Host<Q, D, T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Transport {
            sockets,
            time_waits,
            ..
        } = &self.transport;
        f.debug_struct("Host")
            .field("addresses", &self.interface.config.addresses)
            .field("sockets", &(sockets.len() + time_waits.len()))
            .field("outstanding", &self.interface.pool.outstanding())
            .finish_non_exhaustive()
    }
}
