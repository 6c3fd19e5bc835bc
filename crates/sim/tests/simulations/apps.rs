//! Applications of [`Applications`](tautline_sim::Applications) between two hosts in virtual time, one kind
//! a file.

mod datagrams;
mod messages;
mod pages;
mod pings;
mod priority;
mod requests;
mod together;
mod uploads;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use tautline_base::{Instant, Rate};
use tautline_sim::app::Measured;
use tautline_sim::topology::HostNode;
use tautline_sim::{Applications, Flow, LinkConfig, Network, TraceHash};

/// Applications on hosts 0 and 1, called client and server.
pub(crate) type Pair = Network<'static, TraceHash>;

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn at(time: Duration) -> Instant {
    Instant::ZERO + time
}

/// The server's address.
pub(crate) fn server() -> IpAddr {
    Ipv4Addr::new(10, 7, 0, 2).into()
}

/// A port of the server.
pub(crate) fn port(port: u16) -> SocketAddr {
    SocketAddr::new(server(), port)
}

/// Samples every 100 ms.
pub(crate) fn programs() -> Applications<'static> {
    Applications::new(ms(100))
}

/// Both ways as fast as the NICs (1 Gbit/s), with `delay` each way.
pub(crate) fn wires(delay: Duration) -> [LinkConfig; 2] {
    let wire = LinkConfig {
        delay,
        ..LinkConfig::default()
    };
    [wire.clone(), wire]
}

/// `rate` to the server and plenty back, with `delay` each way and tail drop at one round trip.
pub(crate) fn bottleneck(rate: Rate, delay: Duration) -> [LinkConfig; 2] {
    [
        LinkConfig::bottleneck(rate, delay, delay * 2),
        LinkConfig {
            delay,
            ..LinkConfig::default()
        },
    ]
}

/// The network before its first step.
pub(crate) fn network(
    seed: u64,
    links: [LinkConfig; 2],
    qdisc: &str,
    programs: [Applications<'static>; 2],
) -> Pair {
    let node = |name| HostNode {
        qdisc: qdisc.parse().expect("a discipline"),
        ..HostNode::new(name)
    };
    Network::pair(
        seed,
        ["client", "server"].map(node),
        links,
        TraceHash::new(),
        programs,
    )
    .expect("a network")
}

/// Lets everything happen that is due before `end`.
pub(crate) fn run_before(network: &mut Pair, end: Instant) {
    network
        .run_before(end)
        .unwrap_or_else(|error| panic!("{error}"));
}

/// Runs `programs` over `links` for `time` behind `fq_codel`.
pub(crate) fn run(
    links: [LinkConfig; 2],
    programs: [Applications<'static>; 2],
    time: Duration,
) -> Pair {
    let mut network = network(1, links, "fq_codel", programs);
    run_before(&mut network, at(time));
    network
}

/// Measurements of host `number` measured of `flow`.
pub(crate) fn measured(network: &Pair, number: usize, flow: impl Into<Flow>) -> &Measured {
    let flow = flow.into();
    network
        .endpoint(number)
        .apps
        .meter()
        .flow(&flow)
        .unwrap_or_else(|| panic!("no flow {flow}"))
}
