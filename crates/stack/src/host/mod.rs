//! [`Host`]: one network stack on one device queue.
//!
//! | module | holds |
//! |---|---|
//! | `walk` | [`Host::poll`]: the walk of a packet from birth to settling |
//! | `input` | arriving frames; TCP |
//! | `neighbours` | ARP and neighbour discovery |
//! | `icmp` | echo and errors of both families |
//! | `listening` | SYNs, SYN cookies, the accept queue |
//! | `holding` | what connections hold together |
//! | `datagrams` | UDP: calls, arrivals, births |
//! | `replace` | another discipline while packets wait |
//! | `demux` | whose a segment is |
//! | `calls` | what applications call |

mod calls;
mod datagrams;
mod demux;
mod holding;
mod icmp;
mod input;
mod listening;
mod neighbours;
mod replace;
mod walk;

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use tautline_base::{Device, Frame, Instant, Owner, Packet, Pool, SocketId};
use tautline_bql::{Dql, Limit, Port};
use tautline_qdisc::{Drops, Qdisc};

use self::demux::Demux;
use self::holding::Holdings;
pub use self::replace::{Replaced, Stuck};
use crate::addressing::Addressing;
use crate::config::HostConfig;
use crate::icmp_limit::IcmpLimit;
use crate::keyed::Key;
use crate::neighbour::Neighbours;
use crate::pings::Pings;
use crate::queues::{RunQueue, TimeQueue};
use crate::socket::{Event, ListenAt};
use crate::sockets::Sockets;
use crate::stats::HostStats;
use crate::tcp::Tuple;
use crate::time_wait::TimeWaits;
use crate::trace::{NoTrace, PacketEvent, Tracer, What, sequence_number};
use crate::wire::{Addresses, ETHERNET_HEADER, HOP_LIMIT, Mac, VLAN_TAG};

/// Every IPv4 link carries packets of this size (RFC 791).
const MIN_MTU: usize = 68;

/// One network stack: sockets above, a [`Port`] (discipline, limit, ring) below. `Q` is the
/// discipline, `D` the device, `T` hears packet events, `L` limits the bytes in the ring: [`Dql`],
/// another, or `Box<dyn Limit>`. Single-threaded; one per core and device queue.
pub struct Host<Q, D: Device, T = NoTrace, L = Dql> {
    config: HostConfig,
    addressing: Addressing,
    mac: Mac,
    mtu: usize,
    key: Key,
    port: Port<Q, D, L>,
    pool: Pool<D::Frame>,
    tracer: T,
    sockets: Sockets,
    demux: Demux,
    listeners: HashMap<ListenAt, SocketId, Key>,
    /// Datagram sockets by address and port; the unspecified IPv6 address stands for all of ours.
    udp_ports: HashMap<(IpAddr, u16), SocketId, Key>,
    time_waits: TimeWaits,
    holdings: Holdings,
    neighbours: Neighbours,
    pings: Pings,
    icmp_limit: IcmpLimit,
    runnable: RunQueue,
    deadlines: TimeQueue,
    paced: TimeQueue,
    /// Connections that hold memory for data to come.
    idling: TimeQueue,
    /// Connections that found the pool empty.
    starved: VecDeque<SocketId>,
    events: VecDeque<Event>,
    next_port: u32,
    drops: Drops<Packet<D::Frame>>,
    done: Vec<Packet<D::Frame>>,
    stats: HostStats,
    /// Some connection keeps account of what its bytes wait for.
    attributing: bool,
    /// The latest time seen; time never runs backwards inside.
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
    /// if the device takes such, into the pool's large frames.
    pub fn new(
        config: HostConfig,
        port: Port<Q, D, L>,
        mut pool: Pool<D::Frame>,
        tracer: T,
    ) -> Self {
        let key = Key::from_seed(config.seed);
        let mut mtu = port.ring().device().mtu();
        if let Some(frame) = pool.take() {
            let link = ETHERNET_HEADER + if config.vlan.is_some() { VLAN_TAG } else { 0 };
            mtu = mtu.min(frame.bytes().len().saturating_sub(link));
            pool.put_back(frame);
        }
        let mtu = mtu.max(MIN_MTU);
        Self {
            addressing: Addressing::new(&config, mtu, &key),
            mac: smoltcp::wire::EthernetAddress(config.mac),
            mtu,
            key,
            port,
            pool,
            tracer,
            sockets: Sockets::default(),
            demux: Demux::new(key),
            listeners: HashMap::with_hasher(key),
            udp_ports: HashMap::with_hasher(key),
            time_waits: TimeWaits::new(key),
            holdings: Holdings::default(),
            neighbours: Neighbours::new(key),
            pings: Pings::default(),
            icmp_limit: IcmpLimit::new(config.icmp_errors_per_second, key),
            runnable: RunQueue::default(),
            deadlines: TimeQueue::default(),
            paced: TimeQueue::default(),
            idling: TimeQueue::default(),
            starved: VecDeque::new(),
            events: VecDeque::new(),
            next_port: 0,
            drops: Drops::new(),
            done: Vec::new(),
            stats: HostStats::default(),
            attributing: false,
            now: Instant::ZERO,
            config,
        }
    }

    /// The host's identity.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }

    /// Discipline, limit and ring.
    pub fn port(&self) -> &Port<Q, D, L> {
        &self.port
    }

    /// Discipline, limit and ring.
    pub fn port_mut(&mut self) -> &mut Port<Q, D, L> {
        &mut self.port
    }

    /// The device.
    pub fn device_mut(&mut self) -> &mut D {
        self.port.ring_mut().device_mut()
    }

    /// Who hears packet events.
    pub fn tracer(&self) -> &T {
        &self.tracer
    }

    /// Who hears packet events.
    pub fn tracer_mut(&mut self) -> &mut T {
        &mut self.tracer
    }

    /// Counters.
    pub fn stats(&self) -> &HostStats {
        &self.stats
    }

    /// Frames that are in packets: in the discipline or in the device. Zero when nothing is on its
    /// way.
    pub fn outstanding(&self) -> usize {
        self.pool.outstanding()
    }

    /// Time that never runs backwards.
    fn advance_clock(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    /// Addresses of a packet from our `source` to `destination` at `destination_mac`.
    fn addresses_to(&self, source: IpAddr, destination: IpAddr, destination_mac: Mac) -> Addresses {
        let vlan = self.config.vlan;
        Addresses {
            source_mac: self.mac,
            destination_mac,
            source,
            destination,
            hop_limit: HOP_LIMIT,
            flow_label: 0,
            tos: 0,
            vlan,
        }
    }

    /// Addresses of a segment between the ends of `tuple`.
    fn addresses_of(&self, tuple: &Tuple, destination_mac: Mac) -> Addresses {
        let addresses = self.addresses_to(tuple.local, tuple.remote, destination_mac);
        Addresses {
            flow_label: if tuple.local.is_ipv6() {
                self.key.flow_label(tuple)
            } else {
                0
            },
            ..addresses
        }
    }

    /// Tells the tracer, if one listens.
    fn trace(tracer: &mut T, at: Instant, what: What, owner: Option<Owner>, frame: &[u8]) {
        if T::ENABLED {
            let event = PacketEvent {
                at,
                what,
                socket: owner.map(|owner| owner.socket),
                seq: sequence_number(frame),
                len: frame.len() as u32,
            };
            tracer.record(&event, frame);
        }
    }
}
