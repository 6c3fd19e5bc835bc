//! [`Topology`]: a network as data: hosts, routers and cables by name. [`build`](Topology::build)
//! makes a [`Network`] of it.
//!
//! ```
//! use std::time::Duration;
//! use tautline_base::Rate;
//! use tautline_sim::topology::{Cable, HostNode, Topology};
//! use tautline_sim::{CardConfig, LinkConfig};
//!
//! let wire = |mbit| LinkConfig { rate: Rate::mbit(mbit), delay: Duration::from_millis(5), ..LinkConfig::default() };
//! let way_out = LinkConfig { queue: "fq_codel".parse()?, card: Some(CardConfig::default()), ..wire(10) };
//! let topology = Topology {
//!     hosts: vec![HostNode::new("client"), HostNode::new("server")],
//!     routers: vec!["router".into()],
//!     cables: vec![
//!         Cable::new(["client", "router"], [wire(100), wire(100)]),
//!         Cable::new(["router", "server"], [way_out, wire(100)]),
//!     ],
//!     ..Topology::default()
//! };
//! let programs = |_: &HostNode, _: usize| tautline_sim::Programs::new(Duration::from_secs(1));
//! let network = topology.build(1, (), programs)?;
//! let bottleneck = network.port("router>server").expect("a router's way out is a port");
//! assert_eq!(network.look(bottleneck).backlog.packets, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;
use tautline_base::{Pool, Rate};
use tautline_bql::{Port, Ring};
use tautline_qdisc::words::Tree;
use tautline_qdisc::{Kind, Ledger, Stats};
use tautline_stack::{Cidr, Host, HostConfig};

use super::cell::OnAir;
pub use super::cell::{Air, Cell};
use super::forwarding::{Node, Wiring};
use super::look::{HostQdisc, Names, PortId};
use super::{Network, SimHost};
use crate::addresses::{Family, address, mac};
use crate::app::App;
use crate::config_error::ConfigError;
use crate::link::{Buffer, Link, LinkConfig};
use crate::nic::{NicConfig, SimNic};
use crate::record::{Record, Tap};
use crate::ring_limit::RingLimit;
use crate::schedule::Schedule;

/// Most hosts of a network: each has an address of its own in 10.7.0.0/16.
const MOST_HOSTS: usize = 65_533;

/// A network as data: a tree in which hosts are leaves.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// The hosts. They are numbered in this order.
    pub hosts: Vec<HostNode>,
    /// The names of the routers. They forward and have no address.
    pub routers: Vec<String>,
    /// What joins them. Cable `n` is the [links](Network::links) `2n` and `2n + 1`.
    pub cables: Vec<Cable>,
    /// What air some of the cables stand for. Default none.
    pub cells: Vec<Cell>,
}

/// A host: its stack's port, from the top.
#[derive(Clone, Debug)]
pub struct HostNode {
    /// What it is called.
    pub name: String,
    /// Its discipline. Default `pfifo_fast`.
    pub qdisc: Tree,
    /// The limit on the bytes in its ring. Default dynamic queue limits.
    pub ring_limit: RingLimit,
    /// Its card. The line rate is this or that of the link that leaves the host, whichever is less.
    pub nic: NicConfig,
    /// Transmit frames. Default 8192.
    pub frames: usize,
}

impl HostNode {
    /// A host with everything default.
    pub fn new(name: impl Into<String>) -> Self {
        let (name, qdisc) = (name.into(), Kind::PfifoFast(Default::default()).into());
        Self {
            name,
            qdisc,
            ring_limit: RingLimit::default(),
            nic: NicConfig::default(),
            frames: 8192,
        }
    }
}

/// A cable: a link each way.
#[derive(Clone, Debug)]
pub struct Cable {
    /// What it joins, by name.
    pub between: [String; 2],
    /// From the first to the second, and back.
    ///
    /// A link that leaves a host begins with the host's card, which sends at the rate and by the
    /// schedule of the link, with framing of its own; it has no queue nor card. One that leaves a
    /// router is the router's way out: queue, card if it has one, wire.
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

/// Why no network can be made of a topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// Two nodes of one name.
    #[error("two nodes are called `{name}`: give each a name of its own")]
    Twice {
        /// The name.
        name: String,
    },
    /// A name that would be misread where ports are named.
    #[error("a node cannot be called `{name}`: a name is not empty and has no `>`")]
    Name {
        /// The name.
        name: String,
    },
    /// A cable ends nowhere.
    #[error("a cable leads to `{name}`, which is no node: there are {known}")]
    Unknown {
        /// The name at the cable's end.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A host with no cable or with several.
    #[error("host `{host}` has {cables} cables, but a host has one: join hosts by routers")]
    HostCables {
        /// Its name.
        host: String,
        /// How many it has.
        cables: usize,
    },
    /// Two ways to one place.
    #[error(
        "there are two ways to `{node}`, but the network must be a tree: take a cable of the loop away"
    )]
    Loop {
        /// Who can be reached twice.
        node: String,
    },
    /// No way to a place.
    #[error("there is no way from `{from}` to `{to}`: a cable is missing")]
    Apart {
        /// From here,
        from: String,
        /// not to there.
        to: String,
    },
    /// A queue where the host's own is.
    #[error(
        "the link from host `{host}` has a queue or a card of its own: give its discipline and ring to the host"
    )]
    HostLink {
        /// The host's name.
        host: String,
    },
    /// More hosts than addresses.
    #[error("{hosts} hosts are too many: there are addresses for {MOST_HOSTS}")]
    TooMany {
        /// How many there are.
        hosts: usize,
    },
    /// A cell whose base and station are not joined.
    #[error(
        "there is no cable from `{from}` to `{to}`: a cell has one between its base and each station"
    )]
    NoCable {
        /// One of them.
        from: String,
        /// The other.
        to: String,
    },
    /// A link in a cell with nothing that could wait for the air.
    #[error(
        "`{from}>{to}` is on shared air, which takes frames out of a card: give the link a card"
    )]
    NoCard {
        /// Where it begins.
        from: String,
        /// Where it leads.
        to: String,
    },
    /// A cable in two cells, or twice in one.
    #[error("`{from}>{to}` is on shared air twice: a card is in one cell, once")]
    AirTwice {
        /// Where it begins.
        from: String,
        /// Where it leads.
        to: String,
    },
    /// A parameter of a node or of the link from it was refused.
    #[error("`{name}`: {error}")]
    Config {
        /// The node, or the link as `from>to`.
        name: String,
        /// What is wrong.
        error: ConfigError,
    },
}

impl Topology {
    /// The IPv4 address of the host called `name`.
    pub fn address(&self, name: &str) -> Option<Ipv4Addr> {
        self.hosts
            .iter()
            .position(|host| host.name == name)
            .map(address)
    }

    /// Makes the network; `program` makes what runs on each host, which it is told with its number.
    /// Everything random is seeded by `seed`.
    ///
    /// # Errors
    /// If it is no tree, a name is used twice or not known, or a parameter is refused.
    pub fn build<R: Record, A: App<SimHost<HostQdisc, R>>>(
        &self,
        seed: u64,
        recorder: R,
        mut program: impl FnMut(&HostNode, usize) -> A,
    ) -> Result<Network<HostQdisc, R, A>, TopologyError> {
        let (nodes, names) = (self.nodes()?, self.names());
        let cables: Vec<_> = self
            .cables
            .iter()
            .map(|cable| self.ends(cable, &nodes))
            .collect::<Result<_, _>>()?;
        let wiring = Wiring::new(self.hosts.len(), self.routers.len(), &cables, |node| {
            names.of(node).to_string()
        })?;
        // Each part draws from a generator of its own, so a change in one does not shift the luck
        // of another.
        let mut seeds = Pcg32::seed_from_u64(seed);
        let (mut links, mut lines) = (
            Vec::new(),
            vec![(Rate::MAX, Schedule::Constant); self.hosts.len()],
        );
        for (
            Cable {
                between: [a, b],
                links: [there, back],
            },
            [from, to],
        ) in self.cables.iter().zip(&cables)
        {
            for (config, from, name) in [(there, from, (a, b)), (back, to, (b, a))] {
                let mut config = config.clone();
                if let Node::Host(host) = *from {
                    if config.queue != Buffer::default() || config.card.is_some() {
                        return Err(TopologyError::HostLink {
                            host: self.hosts[host].name.clone(),
                        });
                    }
                    let rate = std::mem::replace(&mut config.rate, Rate::MAX);
                    lines[host] = (rate, std::mem::take(&mut config.schedule));
                }
                let refused = |error| TopologyError::Config {
                    name: format!("{}>{}", name.0, name.1),
                    error,
                };
                links.push(Link::new(config, Pcg32::from_rng(&mut seeds)).map_err(refused)?);
            }
        }
        let media = self.media(&nodes, &cables, &links, &mut seeds)?;
        Network::join(
            seed,
            wiring,
            names,
            links,
            media,
            recorder,
            |number, tap| {
                let node = &self.hosts[number];
                let host = node.build(number, lines[number].clone(), seeds.next_u64(), tap);
                let host = host.map_err(|error| TopologyError::Config {
                    name: node.name.clone(),
                    error,
                })?;
                Ok((host, program(node, number)))
            },
        )
    }

    /// The cells over `cables`.
    fn media(
        &self,
        nodes: &BTreeMap<&str, Node>,
        cables: &[[Node; 2]],
        links: &[Link],
        seeds: &mut Pcg32,
    ) -> Result<Vec<OnAir>, TopologyError> {
        let mut taken = BTreeSet::new();
        let mut card = |from: &str, to: &str| {
            let ends = |[from, to]: [&str; 2]| (from.to_owned(), to.to_owned());
            let (Some(begin), Some(end)) = (nodes.get(from), nodes.get(to)) else {
                let name = if nodes.contains_key(from) { to } else { from };
                return Err(TopologyError::Unknown {
                    name: name.to_owned(),
                    known: known(nodes),
                });
            };
            let mut ways = cables.iter().flat_map(|[a, b]| [(a, b), (b, a)]);
            let Some(link) = ways.position(|way| way == (begin, end)) else {
                let (from, to) = ends([from, to]);
                return Err(TopologyError::NoCable { from, to });
            };
            let card = match *begin {
                Node::Host(host) => PortId::Host(host),
                Node::Router(_) if links[link].ring().is_some() => PortId::Link(link),
                Node::Router(_) => {
                    let (from, to) = ends([from, to]);
                    return Err(TopologyError::NoCard { from, to });
                }
            };
            if !taken.insert(card) {
                let (from, to) = ends([from, to]);
                return Err(TopologyError::AirTwice { from, to });
            }
            Ok(card)
        };
        self.cells
            .iter()
            .map(|cell| cell.build(Pcg32::from_rng(seeds), &mut card))
            .collect()
    }

    /// Every node by its name.
    fn nodes(&self) -> Result<BTreeMap<&str, Node>, TopologyError> {
        if self.hosts.len() > MOST_HOSTS {
            return Err(TopologyError::TooMany {
                hosts: self.hosts.len(),
            });
        }
        let hosts = self
            .hosts
            .iter()
            .enumerate()
            .map(|(number, host)| (host.name.as_str(), Node::Host(number)));
        let routers = self
            .routers
            .iter()
            .enumerate()
            .map(|(number, router)| (router.as_str(), Node::Router(number)));
        let mut nodes = BTreeMap::new();
        for (name, node) in hosts.chain(routers) {
            if name.is_empty() || name.contains('>') {
                return Err(TopologyError::Name { name: name.into() });
            }
            if nodes.insert(name, node).is_some() {
                return Err(TopologyError::Twice { name: name.into() });
            }
        }
        Ok(nodes)
    }

    fn names(&self) -> Names {
        Names {
            hosts: self.hosts.iter().map(|host| host.name.clone()).collect(),
            routers: self.routers.clone(),
        }
    }

    /// The nodes at the ends of `cable`.
    fn ends(
        &self,
        cable: &Cable,
        nodes: &BTreeMap<&str, Node>,
    ) -> Result<[Node; 2], TopologyError> {
        let find = |name: &String| {
            let unknown = || TopologyError::Unknown {
                name: name.clone(),
                known: known(nodes),
            };
            nodes.get(name.as_str()).copied().ok_or_else(unknown)
        };
        let [a, b] = &cable.between;
        Ok([find(a)?, find(b)?])
    }
}

/// The names of `nodes`, for errors.
fn known(nodes: &BTreeMap<&str, Node>) -> String {
    nodes
        .keys()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

impl HostNode {
    /// The stack of host `number`, on a card that sends at no more than the rate `most`, as
    /// `schedule` changes it if it does.
    pub(super) fn build<R: Record>(
        &self,
        number: usize,
        (most, schedule): (Rate, Schedule),
        seed: u64,
        tap: Tap<R>,
    ) -> Result<SimHost<HostQdisc, R>, ConfigError> {
        let own = self.nic.clone();
        let schedule = if schedule == Schedule::Constant {
            own.schedule
        } else {
            schedule
        };
        let nic = SimNic::new(NicConfig {
            rate: own.rate.min(most),
            schedule,
            ..own
        })?;
        let qdisc = Stats::new(Ledger::new(self.qdisc.build()?));
        let port = Port::new(qdisc, Ring::new(nic, self.ring_limit.build()?));
        let pool = Pool::heap(self.frames, self.nic.tso);
        let config = HostConfig::new(mac(number), seed)
            .address(Cidr::new(address(number), 16))
            .address(Cidr::new(Family::Ipv6.address(number), 64));
        Ok(Host::new(config, port, pool, tap))
    }
}

#[cfg(test)]
mod tests;
