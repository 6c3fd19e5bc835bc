//! [`Topology`]: a network as data: hosts, routers and cables by name. [`build`](Topology::build)
//! makes a [`Network`] of it.
//!
//! ```
//! use std::time::Duration;
//! use tautline_base::Rate;
//! use tautline_sim::topology::{Cable, HostNode, Topology};
//! use tautline_sim::{Applications, LinkConfig, LinkNicConfig};
//!
//! let wire = |mbit| LinkConfig { rate: Rate::mbit(mbit), delay: Duration::from_millis(5), ..LinkConfig::default() };
//! let egress = LinkConfig { queue: "fq_codel".parse()?, nic: Some(LinkNicConfig::default()), ..wire(10) };
//! let topology = Topology {
//!     hosts: vec![HostNode::new("client"), HostNode::new("server")],
//!     routers: vec!["router".into()],
//!     cables: vec![
//!         Cable::new(["client", "router"], [wire(100), wire(100)]),
//!         Cable::new(["router", "server"], [egress, wire(100)]),
//!     ],
//!     ..Topology::default()
//! };
//! let idle = |_: &HostNode, _: usize| Applications::new(Duration::from_secs(1));
//! let network = topology.build(1, (), idle)?;
//! let bottleneck = network.port("router>server").expect("an egress port of the router");
//! assert_eq!(network.sample(bottleneck).backlog.packets, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::rc::Rc;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;
use tautline_base::{Pool, Rate};
use tautline_bql::{Port, Ring};
use tautline_qdisc::{Ledger, Stats};
use tautline_stack::{Cidr, Host, HostConfig};
use tautline_tc::Kind;
use tautline_tc::Tree;

pub use super::cell::{Cell, Radio};
use super::engine::Parts;
use super::media::SharedMedium;
use super::sample::PortId;
use super::topology_error::MAX_HOSTS;
pub use super::topology_error::TopologyError;
use super::wiring::{Node, Wiring};
use super::{Endpoint, Network};
use crate::addresses::{Family, address, mac};
use crate::app::Applications;
use crate::bulk_dequeue::BulkDequeue;
use crate::config_error::ConfigError;
use crate::link::{Buffer, Link, LinkConfig};
use crate::nic::{NicConfig, SimNic};
use crate::record::{Record, Tap};
use crate::ring_limit::RingLimit;
use crate::schedule::Schedule;

/// A network as data: a tree in which hosts are leaves.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// Hosts, numbered in this order.
    pub hosts: Vec<HostNode>,
    /// Names of the routers. They forward frames and have no address.
    pub routers: Vec<String>,
    /// Cable `n` is the [links](Network::links) `2n` and `2n + 1`.
    pub cables: Vec<Cable>,
    /// Cables that are shared radio channels. Default none.
    pub cells: Vec<Cell>,
}

/// A host: its stack's port, from the top.
#[derive(Clone, Debug)]
pub struct HostNode {
    /// Its name.
    pub name: String,
    /// Its qdisc. Default `pfifo_fast`.
    pub qdisc: Tree,
    /// The limit on the bytes in its ring. Default dynamic queue limits.
    pub ring_limit: RingLimit,
    /// Its NIC. The line rate is the lower one of this and that of the link that leaves the host.
    pub nic: NicConfig,
    /// Transmit frames. Default 8192.
    pub frames: usize,
    /// The qdisc is emptied at once into a list, which the ring takes before anything that comes
    /// later: `try_bulk_dequeue_skb` above a device whose byte queue limits are disabled. Default
    /// false.
    pub bulk_dequeue: bool,
}

impl HostNode {
    /// A host with everything default.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            qdisc: Kind::PfifoFast(Default::default()).into(),
            ring_limit: RingLimit::default(),
            nic: NicConfig::default(),
            frames: 8192,
            bulk_dequeue: false,
        }
    }
}

/// A cable: a link each way.
#[derive(Clone, Debug)]
pub struct Cable {
    /// The names of the nodes that it joins.
    pub between: [String; 2],
    /// From the first to the second, and back.
    ///
    /// A link that leaves a host begins with the host's NIC, which sends at the rate and by the
    /// schedule of the link, with framing of its own; the link has neither queue nor NIC. A link
    /// that leaves a router has a queue, perhaps a NIC, and a wire.
    pub links: [LinkConfig; 2],
}

impl Cable {
    /// A cable between two nodes, with its links there and back.
    pub fn new(between: [&str; 2], links: [LinkConfig; 2]) -> Self {
        Self {
            between: between.map(String::from),
            links,
        }
    }
}

/// Line rate and schedule of a host's NIC.
type Line = (Rate, Schedule);

impl Topology {
    /// The IPv4 address of the host called `name`.
    pub fn address(&self, name: &str) -> Option<Ipv4Addr> {
        let host = self.hosts.iter().position(|host| host.name == name);
        host.map(address)
    }

    /// Builds the network. `applications` returns those of each host, given with its number.
    /// Everything random is seeded by `seed`.
    ///
    /// # Errors
    /// Unless the network is a tree, names are unique and known, and all parameters are valid.
    pub fn build<'a, R: Record>(
        &self,
        seed: u64,
        recorder: R,
        mut applications: impl FnMut(&HostNode, usize) -> Applications<'a>,
    ) -> Result<Network<'a, R>, TopologyError> {
        let nodes = self.nodes()?;
        let find = |name: &String| find(&nodes, name);
        let cables: Vec<[Node; 2]> = self
            .cables
            .iter()
            .map(|Cable { between, .. }| Ok([find(&between[0])?, find(&between[1])?]))
            .collect::<Result<_, _>>()?;
        let hosts = self.hosts.iter().map(|host| host.name.clone()).collect();
        let wiring = Wiring::new(hosts, self.routers.clone(), &cables)?;
        // Each component has an RNG of its own, so a change of one does not affect another.
        let mut seeds = Pcg32::seed_from_u64(seed);
        let (links, lines) = self.links(&cables, &mut seeds)?;
        let media = self.media(&nodes, &cables, &links, &mut seeds)?;
        let recorder = Rc::new(RefCell::new(recorder));
        let mut endpoints = Vec::with_capacity(self.hosts.len());
        for ((number, node), line) in self.hosts.iter().enumerate().zip(lines) {
            let tap = Tap::new(number, &recorder);
            let apps = applications(node, number);
            let endpoint = node.build(line, seeds.next_u64(), tap, apps);
            endpoints.push(endpoint.map_err(|error| TopologyError::Config {
                name: node.name.clone(),
                error,
            })?);
        }
        let parts = Parts {
            wiring,
            endpoints,
            links,
            media,
        };
        Ok(Network::start(seed, parts, recorder))
    }

    /// The links, and the line of each host's NIC.
    fn links(
        &self,
        cables: &[[Node; 2]],
        seeds: &mut Pcg32,
    ) -> Result<(Vec<Link>, Vec<Line>), TopologyError> {
        let mut links = Vec::with_capacity(2 * self.cables.len());
        let mut lines = vec![(Rate::MAX, Schedule::Constant); self.hosts.len()];
        for (cable, ends) in self.cables.iter().zip(cables) {
            for (from, config) in cable.links.iter().enumerate() {
                let mut config = config.clone();
                if let Node::Host(host) = ends[from] {
                    if config.queue != Buffer::default() || config.nic.is_some() {
                        return Err(TopologyError::HostLink {
                            host: self.hosts[host].name.clone(),
                        });
                    }
                    let rate = std::mem::replace(&mut config.rate, Rate::MAX);
                    lines[host] = (rate, std::mem::take(&mut config.schedule));
                }
                let link = Link::new(config, Pcg32::from_rng(seeds));
                links.push(link.map_err(|error| TopologyError::Config {
                    name: format!("{}>{}", cable.between[from], cable.between[1 - from]),
                    error,
                })?);
            }
        }
        Ok((links, lines))
    }

    /// The media of all cells, over `cables`.
    fn media(
        &self,
        nodes: &BTreeMap<&str, Node>,
        cables: &[[Node; 2]],
        links: &[Link],
        seeds: &mut Pcg32,
    ) -> Result<Vec<SharedMedium>, TopologyError> {
        let mut taken = BTreeSet::new();
        let mut nic = |from: &str, to: &str| {
            let ends = (find(nodes, from)?, find(nodes, to)?);
            let (from, to) = (from.to_owned(), to.to_owned());
            let mut ways = cables.iter().flat_map(|[a, b]| [(*a, *b), (*b, *a)]);
            let Some(link) = ways.position(|way| way == ends) else {
                return Err(TopologyError::NoCable { from, to });
            };
            let port = match ends.0 {
                Node::Host(host) => PortId::Host(host),
                Node::Router(_) if links[link].ring().is_some() => PortId::Link(link),
                Node::Router(_) => return Err(TopologyError::NoNic { from, to }),
            };
            if taken.insert(port) {
                Ok(port)
            } else {
                Err(TopologyError::SharedTwice { from, to })
            }
        };
        self.cells
            .iter()
            .map(|cell| cell.build(Pcg32::from_rng(seeds), &mut nic))
            .collect()
    }

    /// Every node by its name.
    fn nodes(&self) -> Result<BTreeMap<&str, Node>, TopologyError> {
        let hosts = self.hosts.len();
        if hosts > MAX_HOSTS {
            return Err(TopologyError::TooMany { hosts });
        }
        let hosts = self.hosts.iter().map(|host| &host.name[..]);
        let routers = self.routers.iter().map(|router| &router[..]);
        let hosts = hosts.zip((0..).map(Node::Host));
        let mut nodes = BTreeMap::new();
        for (name, node) in hosts.chain(routers.zip((0..).map(Node::Router))) {
            if name.is_empty() || name.contains('>') {
                return Err(TopologyError::Name { name: name.into() });
            }
            if nodes.insert(name, node).is_some() {
                return Err(TopologyError::Twice { name: name.into() });
            }
        }
        Ok(nodes)
    }
}

fn find(nodes: &BTreeMap<&str, Node>, name: &str) -> Result<Node, TopologyError> {
    nodes.get(name).copied().ok_or_else(|| {
        let known: Vec<_> = nodes.keys().map(|name| format!("`{name}`")).collect();
        TopologyError::Unknown {
            name: name.to_owned(),
            known: known.join(", "),
        }
    })
}

impl HostNode {
    /// The host that `tap` records, with a NIC that sends at no more than the rate of `line`, by its
    /// schedule if it has one.
    fn build<'a, R: Record>(
        &self,
        (rate, schedule): Line,
        seed: u64,
        tap: Tap<R>,
        apps: Applications<'a>,
    ) -> Result<Endpoint<'a, R>, ConfigError> {
        let number = tap.host();
        let mut nic = self.nic.clone();
        nic.rate = nic.rate.min(rate);
        if schedule != Schedule::Constant {
            nic.schedule = schedule;
        }
        let mut qdisc = self.qdisc.clone().with_hash_key(0).build()?;
        if self.bulk_dequeue {
            qdisc = Box::new(BulkDequeue::new(qdisc));
        }
        let port = Port::new(
            Stats::new(Ledger::new(qdisc)),
            Ring::new(SimNic::new(nic)?, self.ring_limit.build()?),
        );
        let pool = Pool::heap(self.frames, self.nic.tso);
        let mut config = HostConfig::new(mac(number), seed)
            .address(Cidr::new(address(number), 16))
            .address(Cidr::new(Family::Ipv6.address(number), 64));
        config.echo_requests = config.echo_requests.max(apps.echo_requests());
        Ok(Endpoint {
            host: Host::new(config, port, pool, tap),
            apps,
            wake: None,
        })
    }
}

impl<'a, R: Record> Network<'a, R> {
    /// Joins two hosts by one cable: `links[0]` leads from host 0 to host 1, `links[1]` back. Unlike
    /// in a [`Topology`], they may have queues and NICs, as if there were a router in the cable.
    /// Everything random is seeded by `seed`.
    ///
    /// # Errors
    /// If a parameter is refused.
    pub fn pair(
        seed: u64,
        nodes: [HostNode; 2],
        links: [LinkConfig; 2],
        recorder: R,
        applications: [Applications<'a>; 2],
    ) -> Result<Self, ConfigError> {
        let mut seeds = Pcg32::seed_from_u64(seed);
        let [there, back] = links.map(|link| Link::new(link, Pcg32::from_rng(&mut seeds)));
        let recorder = Rc::new(RefCell::new(recorder));
        let mut endpoints = Vec::with_capacity(2);
        for ((number, node), apps) in nodes.iter().enumerate().zip(applications) {
            let (line, tap) = ((Rate::MAX, Schedule::Constant), Tap::new(number, &recorder));
            endpoints.push(node.build(line, seeds.next_u64(), tap, apps)?);
        }
        let parts = Parts {
            wiring: Wiring::pair(nodes.map(|node| node.name)),
            endpoints,
            links: vec![there?, back?],
            media: Vec::new(),
        };
        Ok(Self::start(seed, parts, recorder))
    }
}

#[cfg(test)]
mod tests;
