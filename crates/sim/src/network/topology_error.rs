//! [`TopologyError`]: why a topology cannot be built.

use crate::config_error::ConfigError;

/// Most hosts of a network: each has an address of its own in 10.7.0.0/16.
pub(super) const MAX_HOSTS: usize = 65_533;

/// Why a topology cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// Two nodes have the same name.
    #[error("two nodes are called `{name}`: give each a name of its own")]
    Twice {
        /// The name.
        name: String,
    },
    /// A name would be ambiguous in the names of ports.
    #[error("a node cannot be called `{name}`: a name is not empty and has no `>`")]
    Name {
        /// The name.
        name: String,
    },
    /// A cable or cell refers to a node that does not exist.
    #[error("a cable leads to `{name}`, which is not a node: there are {known}")]
    Unknown {
        /// The unknown name.
        name: String,
        /// The names of all nodes.
        known: String,
    },
    /// A host has no cable or several.
    #[error("host `{host}` has {cables} cables, but a host has one: join hosts by routers")]
    HostCables {
        /// The host's name.
        host: String,
        /// Number of its cables.
        cables: usize,
    },
    /// There are two paths to a node.
    #[error("there are two paths to `{node}`, but a network is a tree: remove a cable of the loop")]
    Loop {
        /// The node's name.
        node: String,
    },
    /// There is no path between two nodes.
    #[error("there is no path from `{from}` to `{to}`: a cable is missing")]
    Apart {
        /// One of the nodes.
        from: String,
        /// The other.
        to: String,
    },
    /// The link that leaves a host has its own queue or NIC.
    #[error(
        "the link from host `{host}` has a queue or NIC: configure the qdisc and NIC of the host"
    )]
    HostLink {
        /// The host's name.
        host: String,
    },
    /// There are more hosts than addresses.
    #[error("{hosts} hosts are too many: there are addresses for {MAX_HOSTS}")]
    TooMany {
        /// Number of hosts.
        hosts: usize,
    },
    /// A cell has no cable between its base and a station.
    #[error(
        "there is no cable from `{from}` to `{to}`: a cell has one between its base and each station"
    )]
    NoCable {
        /// The tail of the missing link.
        from: String,
        /// Its head.
        to: String,
    },
    /// A router's link in a cell has no NIC from which the medium could take frames.
    #[error("`{from}>{to}` is on a shared medium, which takes frames from a NIC: give it one")]
    NoNic {
        /// The tail of the link.
        from: String,
        /// Its head.
        to: String,
    },
    /// A link is in two cells, or twice in one.
    #[error("`{from}>{to}` is on a shared medium twice: a NIC is in one cell, once")]
    SharedTwice {
        /// The tail of the link.
        from: String,
        /// Its head.
        to: String,
    },
    /// A parameter of a node or link was refused.
    #[error("`{name}`: {error}")]
    Config {
        /// The node, or the link as `from>to`.
        name: String,
        /// The refusal.
        error: ConfigError,
    },
}
