//! [`Look`]: what stands where at one moment, and what has passed; of any [port](PortId) of a
//! network, at any time, by name.

use std::time::Duration;

use tautline_base::{Bytes, Device, HeapFrame, Packet};
use tautline_bql::{Limit, Ring};
use tautline_qdisc::{Backlog, DynQdisc, Ledger, Stats};

use super::forwarding::Node;
use super::{End, Network};
use crate::link::Link;
use crate::nic::SimNic;
use crate::record::Record;

/// The discipline of a simulated host: any, counted, its account checked after every call.
pub type HostQdisc = Stats<Ledger<Box<dyn DynQdisc<Packet<HeapFrame>>>>>;

/// A place where packets wait for their turn: a discipline, and perhaps a ring behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortId {
    /// That of a host, by number.
    Host(usize),
    /// The one before a link, by number: a router's way out.
    Link(usize),
}

/// What a port holds, and what has passed it since the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Waiting in the discipline.
    pub backlog: Backlog,
    /// In the device's ring, packets and bytes. Nothing where there is no ring: a link without a
    /// card.
    pub ring: Backlog,
    /// The limit on the bytes in the ring: [`Bytes::MAX`] where there is none.
    pub limit: Bytes,
    /// Packets that the discipline dropped.
    pub drops: u64,
    /// Packets that the discipline marked "congestion experienced", of those that have left it.
    pub marks: u64,
    /// How long the packet that the discipline handed out last had waited in it.
    pub sojourn: Duration,
    /// Frames that have left: on the wire.
    pub sent_packets: u64,
    /// Bytes that have left, framing not counted.
    pub sent: Bytes,
}

/// What hosts and routers are called.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) hosts: Vec<String>,
    pub(super) routers: Vec<String>,
}

impl Names {
    pub(super) fn of(&self, node: Node) -> &str {
        match node {
            Node::Host(number) => &self.hosts[number],
            Node::Router(number) => &self.routers[number],
        }
    }
}

impl<Q, R, A> Network<Q, R, A> {
    /// The number of the host called `name`.
    pub fn host_number(&self, name: &str) -> Option<usize> {
        self.names.hosts.iter().position(|host| host == name)
    }

    /// The number of the link from one neighbour to another.
    pub fn link_number(&self, from: &str, to: &str) -> Option<usize> {
        (0..self.links.len()).find(|link| {
            let (tail, head) = (self.wiring.tail(*link), self.wiring.head(*link));
            self.names.of(tail) == from && self.names.of(head) == to
        })
    }

    /// Every host's port, then every router's, in order of the cables.
    pub fn ports(&self) -> impl Iterator<Item = PortId> {
        let routers =
            (0..self.links.len()).filter(|link| matches!(self.wiring.tail(*link), Node::Router(_)));
        (0..self.ends.len())
            .map(PortId::Host)
            .chain(routers.map(PortId::Link))
    }

    /// What `port` is called: as the host is, or `router>neighbour`.
    pub fn port_name(&self, port: PortId) -> String {
        let link_name = |link| {
            let (tail, head) = (self.wiring.tail(link), self.wiring.head(link));
            format!("{}>{}", self.names.of(tail), self.names.of(head))
        };
        match port {
            PortId::Host(number) => self.names.hosts[number].clone(),
            PortId::Link(number) => link_name(number),
        }
    }

    /// The port that is called `name`.
    pub fn port(&self, name: &str) -> Option<PortId> {
        match name.split_once('>') {
            None => self.host_number(name).map(PortId::Host),
            Some((from, to)) => self.link_number(from, to).map(PortId::Link),
        }
    }
}

impl<R: Record, A> Network<HostQdisc, R, A> {
    /// What `port` holds now, and what has passed it.
    pub fn look(&self, port: PortId) -> Look {
        match port {
            PortId::Host(number) => look_at_host(&self.ends[number]),
            PortId::Link(number) => look_at_link(&self.links[number]),
        }
    }
}

fn look_at_host<R: Record, A>(end: &End<HostQdisc, R, A>) -> Look {
    let port = end.host.port();
    let (ring, counts) = (port.ring(), port.qdisc().stats());
    let nic = ring.device().stats();
    Look {
        backlog: port.backlog(),
        ring: held(ring),
        limit: ring.limit().limit(),
        drops: end.host.stats().dropped,
        marks: counts.dequeued.ce.saturating_sub(counts.enqueued.ce),
        sojourn: counts.sojourn.last,
        sent_packets: nic.tx_frames,
        sent: Bytes::new(nic.tx_bytes),
    }
}

fn look_at_link(link: &Link) -> Look {
    let stats = link.stats();
    let (ring, limit) = match link.ring() {
        Some(ring) => (held(ring), ring.limit().limit()),
        None => (Backlog::default(), Bytes::MAX),
    };
    Look {
        backlog: link.backlog(),
        ring,
        limit,
        drops: stats.drops(),
        marks: stats.marked,
        sojourn: stats.sojourn,
        sent_packets: stats.sent,
        sent: stats.sent_bytes,
    }
}

fn held<L: Limit>(ring: &Ring<SimNic, L>) -> Backlog {
    Backlog {
        packets: ring.device().in_flight(),
        bytes: ring.device().ring_bytes(),
    }
}
