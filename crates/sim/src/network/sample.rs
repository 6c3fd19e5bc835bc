//! [`PortSample`]: state and counters of any [port](PortId) of a network, at any time; ports by
//! name.

use std::time::Duration;

use tautline_base::{Backlog, Bytes, Device};
use tautline_bql::{Limit, Ring, TxStats};

use super::wiring::Node;
use super::{Endpoint, Network};
use crate::link::Link;
use crate::nic::SimNic;
use crate::record::Record;

/// A qdisc, and the ring behind it if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortId {
    /// The port of a host, by number.
    Host(usize),
    /// A router's egress port, by the number of its link.
    Link(usize),
}

/// State and counters of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSample {
    /// Backlog of the qdisc.
    pub backlog: Backlog,
    /// Occupancy of the device's rings. Zero for a link without a NIC.
    pub ring: Backlog,
    /// Limit on the bytes in the rings: [`Bytes::MAX`] without a limit.
    pub limit: Bytes,
    /// Packets that the qdisc dropped.
    pub drops: u64,
    /// Packets that the qdisc marked "congestion experienced", counted when they leave it.
    pub marks: u64,
    /// Sojourn time in the qdisc of the packet that left it last.
    pub sojourn: Duration,
    /// Frames sent onto the wire.
    pub sent_packets: u64,
    /// Bytes sent onto the wire, without framing.
    pub sent: Bytes,
    /// Counters of the rings. Zero for a link without a NIC.
    pub tx: TxStats,
}

impl<R> Network<'_, R> {
    /// The number of the host called `name`.
    pub fn host_number(&self, name: &str) -> Option<usize> {
        self.wiring.host(name)
    }

    /// The number of the link from one neighbor to another.
    pub fn link_number(&self, from: &str, to: &str) -> Option<usize> {
        (0..self.links.len()).find(|link| {
            let (tail, head) = (self.wiring.tail(*link), self.wiring.head(*link));
            self.wiring.name(tail) == from && self.wiring.name(head) == to
        })
    }

    /// Every host's port, then every router's, in order of the cables.
    pub fn ports(&self) -> impl Iterator<Item = PortId> {
        let routers =
            (0..self.links.len()).filter(|link| matches!(self.wiring.tail(*link), Node::Router(_)));
        (0..self.endpoints.len())
            .map(PortId::Host)
            .chain(routers.map(PortId::Link))
    }

    /// The name of `port`: that of the host, or `router>neighbor`.
    pub fn port_name(&self, port: PortId) -> String {
        match port {
            PortId::Host(number) => self.wiring.name(Node::Host(number)).to_owned(),
            PortId::Link(link) => {
                let (tail, head) = (self.wiring.tail(link), self.wiring.head(link));
                format!("{}>{}", self.wiring.name(tail), self.wiring.name(head))
            }
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

impl<R: Record> Network<'_, R> {
    /// State and counters of `port`, now.
    pub fn sample(&self, port: PortId) -> PortSample {
        match port {
            PortId::Host(number) => sample_host(&self.endpoints[number]),
            PortId::Link(number) => sample_link(&self.links[number]),
        }
    }
}

fn sample_host<R: Record>(endpoint: &Endpoint<'_, R>) -> PortSample {
    let port = endpoint.host.port();
    let (ring, counts) = (port.ring(), port.qdisc().stats());
    let nic = ring.device().stats();
    PortSample {
        backlog: port.backlog(),
        ring: occupancy(ring),
        limit: ring.limit().limit(),
        drops: endpoint.host.stats().dropped,
        marks: counts.dequeued.ce.saturating_sub(counts.enqueued.ce),
        sojourn: counts.sojourn.last,
        sent_packets: nic.tx_frames,
        sent: Bytes::new(nic.tx_bytes),
        tx: *port.stats(),
    }
}

fn sample_link(link: &Link) -> PortSample {
    let stats = link.stats();
    let (mut ring, mut limit, mut tx) = (Backlog::default(), None, TxStats::default());
    for (queue, counts) in link.rings() {
        let Backlog { packets, bytes } = occupancy(queue);
        ring.packets += packets;
        ring.bytes += bytes;
        limit = Some(limit.unwrap_or(Bytes::ZERO) + queue.limit().limit());
        tx += *counts;
    }
    PortSample {
        backlog: link.backlog(),
        ring,
        limit: limit.unwrap_or(Bytes::MAX),
        drops: stats.drops(),
        marks: stats.marked,
        sojourn: stats.sojourn,
        sent_packets: stats.sent,
        sent: stats.sent_bytes,
        tx,
    }
}

fn occupancy<L: Limit>(ring: &Ring<SimNic, L>) -> Backlog {
    Backlog {
        packets: ring.device().in_flight(),
        bytes: ring.device().ring_bytes(),
    }
}
