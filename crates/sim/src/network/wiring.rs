//! [`Wiring`]: names of nodes, the ends of links, and the forwarding tables of routers.
//!
//! A router forwards by destination MAC address alone, as a switch does: all hosts are on one
//! subnet, the hop limit is not decremented and no address is resolved on the way. The network is a
//! tree, so there is one path to each host and a flooded frame reaches every host once.

use super::topology_error::TopologyError;

type Mac = [u8; 6];

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// A host, by number.
    Host(usize),
    /// A router, by number.
    Router(usize),
}

/// Nodes and links. Cable `n` is link `2n`, from its first end to its second, and link `2n + 1`
/// back: `link ^ 1` is the reverse of `link`.
#[derive(Debug)]
pub(super) struct Wiring {
    hosts: Vec<String>,
    routers: Vec<(String, Router)>,
    /// The node at the far end of each link.
    heads: Vec<Node>,
    /// The link that leaves each host.
    uplinks: Vec<usize>,
    /// The host of each MAC address, sorted.
    directory: Vec<(Mac, usize)>,
}

#[derive(Debug, Default)]
struct Router {
    /// The links that leave it.
    egress: Vec<usize>,
    /// The link towards each host.
    routes: Vec<usize>,
}

impl Wiring {
    /// Joins nodes, given by name, by `cables`.
    ///
    /// # Errors
    /// Unless the cables make a tree in which hosts are leaves.
    pub(super) fn new(
        hosts: Vec<String>,
        routers: Vec<String>,
        cables: &[[Node; 2]],
    ) -> Result<Self, TopologyError> {
        let heads: Vec<_> = cables.iter().flat_map(|[a, b]| [*b, *a]).collect();
        let leaving = |node| -> Vec<usize> {
            (0..heads.len())
                .filter(|link| heads[*link ^ 1] == node)
                .collect()
        };
        let mut uplinks = Vec::with_capacity(hosts.len());
        for (number, name) in hosts.iter().enumerate() {
            let links = leaving(Node::Host(number));
            let [uplink] = links[..] else {
                return Err(TopologyError::HostCables {
                    host: name.clone(),
                    cables: links.len(),
                });
            };
            uplinks.push(uplink);
        }
        let router = |(number, name)| {
            let egress = leaving(Node::Router(number));
            let routes = Vec::new();
            (name, Router { egress, routes })
        };
        let mut wiring = Self {
            hosts,
            routers: routers.into_iter().enumerate().map(router).collect(),
            heads,
            uplinks,
            directory: Vec::new(),
        };
        for host in 0..wiring.hosts.len() {
            wiring.add_routes(host)?;
        }
        Ok(wiring)
    }

    /// Two hosts and the cable between them.
    pub(super) fn pair(hosts: [String; 2]) -> Self {
        Self {
            hosts: hosts.into(),
            routers: Vec::new(),
            heads: vec![Node::Host(1), Node::Host(0)],
            uplinks: vec![0, 1],
            directory: Vec::new(),
        }
    }

    /// Adds the route to `host` to every router.
    fn add_routes(&mut self, host: usize) -> Result<(), TopologyError> {
        let mut reached = vec![false; self.hosts.len() + self.routers.len()];
        reached[host] = true;
        let mut links = vec![self.uplinks[host]];
        while let Some(link) = links.pop() {
            let node = self.heads[link];
            let index = match node {
                Node::Host(number) => number,
                Node::Router(number) => self.hosts.len() + number,
            };
            if std::mem::replace(&mut reached[index], true) {
                let node = self.name(node).to_owned();
                return Err(TopologyError::Loop { node });
            }
            if let Node::Router(number) = node {
                let Router { egress, routes } = &mut self.routers[number].1;
                routes.push(link ^ 1);
                links.extend(egress.iter().filter(|next| **next != link ^ 1));
            }
        }
        let Some(apart) = reached.iter().position(|reached| !reached) else {
            return Ok(());
        };
        let node = apart
            .checked_sub(self.hosts.len())
            .map_or(Node::Host(apart), Node::Router);
        Err(TopologyError::Apart {
            from: self.hosts[host].clone(),
            to: self.name(node).to_owned(),
        })
    }

    /// Forwards frames for `mac` to `host` from now on.
    pub(super) fn register(&mut self, mac: Mac, host: usize) {
        let place = self.directory.partition_point(|known| known.0 < mac);
        self.directory.insert(place, (mac, host));
    }

    pub(super) fn name(&self, node: Node) -> &str {
        match node {
            Node::Host(number) => &self.hosts[number],
            Node::Router(number) => &self.routers[number].0,
        }
    }

    /// The number of the host called `name`.
    pub(super) fn host(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|host| host == name)
    }

    /// The node at the far end of `link`.
    pub(super) fn head(&self, link: usize) -> Node {
        self.heads[link]
    }

    /// The node that `link` leaves.
    pub(super) fn tail(&self, link: usize) -> Node {
        self.heads[link ^ 1]
    }

    /// The link that leaves `host`.
    pub(super) fn uplink(&self, host: usize) -> usize {
        self.uplinks[host]
    }

    /// The links onto which router `number` forwards `frame`, which came by link `ingress`: the one
    /// towards its destination, or all of them for a broadcast or an unknown address. A frame never
    /// returns to where it came from.
    pub(super) fn egress(&self, number: usize, ingress: usize, frame: &[u8]) -> Egress<'_> {
        let Router { egress, routes } = &self.routers[number].1;
        let host = frame.first_chunk().and_then(|mac| self.host_of(mac));
        Egress {
            links: host
                .and_then(|host| routes.get(host))
                .map_or(&egress[..], std::slice::from_ref),
            reverse: ingress ^ 1,
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
pub(super) struct Egress<'a> {
    links: &'a [usize],
    reverse: usize,
}

impl Iterator for Egress<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        loop {
            let (link, rest) = self.links.split_first()?;
            self.links = rest;
            if *link != self.reverse {
                return Some(*link);
            }
        }
    }
}
