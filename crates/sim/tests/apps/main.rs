//! Applications of [`Programs`](tautline_sim::Programs) between two hosts in virtual time, one kind a file.

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

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;
use tautline_base::{HeapFrame, Instant, Packet, Pool, Rate};
use tautline_bql::{LimitKind, Port, Ring};
use tautline_qdisc::{DynQdisc, Ledger};
use tautline_sim::app::Measured;
use tautline_sim::{AppError, Flow, Link, LinkConfig, Network, NicConfig, Programs, SimHost, SimNic, TraceHash};
use tautline_stack::{Cidr, Host, HostConfig};

/// Programs on hosts 0 and 1, called client and server.
pub(crate) type Pair = Network<Ledger<Box<dyn DynQdisc<Packet<HeapFrame>>>>, TraceHash, Programs>;

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
    address(1).into()
}

/// A port of the server.
pub(crate) fn port(port: u16) -> SocketAddr {
    SocketAddr::new(server(), port)
}

fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 7, 0, number as u8 + 1)
}

/// Samples every 100 ms.
pub(crate) fn programs() -> Programs {
    Programs::new(ms(100))
}

/// Both ways as fast as the cards (1 Gbit/s), with `delay` each way.
pub(crate) fn wires(delay: Duration) -> [LinkConfig; 2] {
    let wire = LinkConfig { delay, ..LinkConfig::default() };
    [wire.clone(), wire]
}

/// `rate` to the server and plenty back, with `delay` each way and tail drop at one round trip.
pub(crate) fn bottleneck(rate: Rate, delay: Duration) -> [LinkConfig; 2] {
    [LinkConfig::bottleneck(rate, delay, delay * 2), LinkConfig { delay, ..LinkConfig::default() }]
}

/// The network before its first step.
pub(crate) fn network(seed: u64, links: [LinkConfig; 2], qdisc: &str, programs: [Programs; 2]) -> Pair {
    let mut seeds = Pcg32::seed_from_u64(seed);
    let links = links.map(|link| Link::new(link, Pcg32::from_rng(&mut seeds)).expect("a link"));
    let mut programs = programs.into_iter();
    let network = Network::new(seed, links, TraceHash::new(), |number, tap| {
        let nic = SimNic::new(NicConfig::default()).expect("a card");
        let qdisc = Ledger::new(tautline_qdisc::build(qdisc).expect("a discipline"));
        let ring = Ring::new(nic, LimitKind::default().build().expect("a limit"));
        let pool = Pool::new((0..4096).map(|_| HeapFrame::new()).collect());
        let mac = [2, 0, 0, 0, 0, number as u8 + 1];
        let config = HostConfig::new(mac, seeds.next_u64()).address(Cidr::new(address(number), 24));
        let host: SimHost<_, _> = Host::new(config, Port::new(qdisc, ring), pool, tap);
        Ok::<_, AppError>((host, programs.next().expect("two programs")))
    });
    network.unwrap_or_else(|error| panic!("{error}"))
}

/// Lets everything happen that is due before `end`.
pub(crate) fn pass(network: &mut Pair, end: Instant) {
    while network.next_event().is_some_and(|at| at < end) {
        network.step().unwrap_or_else(|error| panic!("{error}"));
    }
    network.check().unwrap_or_else(|error| panic!("{error}"));
}

/// Runs `programs` over `links` for `time` behind `fq_codel`.
pub(crate) fn run(links: [LinkConfig; 2], programs: [Programs; 2], time: Duration) -> Pair {
    let mut network = network(1, links, "fq_codel", programs);
    pass(&mut network, at(time));
    network
}

/// What host `number` measured of `flow`.
pub(crate) fn measured(network: &Pair, number: usize, flow: impl Into<Flow>) -> &Measured {
    let flow = flow.into();
    network.end(number).app.meter().flow(&flow).unwrap_or_else(|| panic!("no flow {flow}"))
}
