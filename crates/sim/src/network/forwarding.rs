//! [`Wiring`]: which link leads where, and [`Router`]s' tables: which link leads towards which
//! host.
//!
//! A router looks at nothing but the hardware address a frame is for, as a switch does: hosts are
//! on one network whatever stands between them, no hop is counted and no address is resolved on the
//! way. That is enough because the network is a tree: there is one way, and what is flooded comes
//! to every host once.

use super::topology::TopologyError;

/// A hardware address.
pub(super) type Mac = [u8; 6];

/// Something that links join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// A host, by number.
    Host(usize),
    /// A router, by number.
    Router(usize),
}

/// What is joined to what. Cable `n` is link `2n`, from its first end to its second, and link `2n +
/// 1` back.
#[derive(Debug)]
pub(super) struct Wiring {
    /// Where each link leads.
    heads: Vec<Node>,
    /// The link that leaves each host.
    uplinks: Vec<usize>,
    routers: Vec<Router>,
    /// Hardware addresses and whose they are, sorted.
    directory: Vec<(Mac, usize)>,
}

/// A router's knowledge.
#[derive(Debug, Default)]
struct Router {
    /// The links that leave it.
    ways: Vec<usize>,
    /// The link that leads towards each host.
    towards: Vec<usize>,
}

impl Wiring {
    /// Joins `hosts` and `routers` by `cables`, which must make a tree in which hosts are leaves.
    ///
    /// # Errors
    /// If they do not; `name` says who is who.
    pub(super) fn new(
        hosts: usize,
        routers: usize,
        cables: &[[Node; 2]],
        name: impl Fn(Node) -> String,
    ) -> Result<Self, TopologyError> {
        let heads: Vec<_> = cables.iter().flat_map(|[a, b]| [*b, *a]).collect();
        let leaving = |node| {
            (0..heads.len())
                .filter(|link| heads[*link ^ 1] == node)
                .collect::<Vec<_>>()
        };
        let mut uplinks = Vec::with_capacity(hosts);
        for host in (0..hosts).map(Node::Host) {
            match leaving(host)[..] {
                [uplink] => uplinks.push(uplink),
                ref ways => {
                    return Err(TopologyError::HostCables {
                        host: name(host),
                        cables: ways.len(),
                    });
                }
            }
        }
        let knowing = (0..routers)
            .map(|router| Router {
                ways: leaving(Node::Router(router)),
                towards: Vec::new(),
            })
            .collect();
        let mut wiring = Self {
            heads,
            uplinks,
            routers: knowing,
            directory: Vec::new(),
        };
        let nodes = || {
            (0..hosts)
                .map(Node::Host)
                .chain((0..routers).map(Node::Router))
        };
        for host in 0..hosts {
            let reached = wiring
                .spread(host)
                .map_err(|node| TopologyError::Loop { node: name(node) })?;
            if let Some((_, apart)) = reached.iter().zip(nodes()).find(|(reached, _)| !**reached) {
                return Err(TopologyError::Apart {
                    from: name(Node::Host(host)),
                    to: name(apart),
                });
            }
        }
        Ok(wiring)
    }

    /// Two hosts and the cable between them.
    pub(super) fn pair() -> Self {
        Self {
            heads: vec![Node::Host(1), Node::Host(0)],
            uplinks: vec![0, 1],
            routers: Vec::new(),
            directory: Vec::new(),
        }
    }

    /// How many hosts there are.
    pub(super) fn hosts(&self) -> usize {
        self.uplinks.len()
    }

    /// Tells every router which of its links leads towards `host`. Says which nodes were reached,
    /// hosts first; one that was reached twice is an error.
    fn spread(&mut self, host: usize) -> Result<Vec<bool>, Node> {
        let mut reached = vec![false; self.uplinks.len() + self.routers.len()];
        reached[host] = true;
        let mut arriving = vec![self.uplinks[host]];
        while let Some(link) = arriving.pop() {
            let node = self.heads[link];
            let place = match node {
                Node::Host(number) => number,
                Node::Router(number) => self.uplinks.len() + number,
            };
            if std::mem::replace(&mut reached[place], true) {
                return Err(node);
            }
            if let Node::Router(number) = node {
                let Router { ways, towards } = &mut self.routers[number];
                towards.push(link ^ 1);
                arriving.extend(ways.iter().filter(|way| **way != link ^ 1));
            }
        }
        Ok(reached)
    }

    /// From now on frames for `mac` go to `host`.
    pub(super) fn register(&mut self, mac: Mac, host: usize) {
        let place = self.directory.partition_point(|known| known.0 < mac);
        self.directory.insert(place, (mac, host));
    }

    /// Where `link` leads.
    pub(super) fn head(&self, link: usize) -> Node {
        self.heads[link]
    }

    /// Where `link` begins.
    pub(super) fn tail(&self, link: usize) -> Node {
        self.heads[link ^ 1]
    }

    /// The link that leaves `host`.
    pub(super) fn uplink(&self, host: usize) -> usize {
        self.uplinks[host]
    }

    /// The links on which router `number` sends on what has come to it by `arrived`: the one
    /// towards the host that the frame is for, unless that is where it came from; all others if it
    /// is for everybody or for nobody known.
    pub(super) fn ways(&self, number: usize, arrived: usize, frame: &[u8]) -> Ways<'_> {
        let Router { ways, towards } = &self.routers[number];
        let from = arrived ^ 1;
        let known = frame.first_chunk().and_then(|mac| self.host_of(mac));
        match known.and_then(|host| towards.get(host)) {
            Some(way) => Ways {
                ways: std::slice::from_ref(way),
                from,
            },
            None => Ways { ways, from },
        }
    }

    fn host_of(&self, mac: &Mac) -> Option<usize> {
        let place = self
            .directory
            .binary_search_by(|known| known.0.cmp(mac))
            .ok()?;
        Some(self.directory[place].1)
    }
}

/// The links on which a frame leaves a router.
#[derive(Clone, Debug)]
pub(super) struct Ways<'a> {
    ways: &'a [usize],
    from: usize,
}

impl Iterator for Ways<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        loop {
            let (way, rest) = self.ways.split_first()?;
            self.ways = rest;
            if *way != self.from {
                return Some(*way);
            }
        }
    }
}
