//! Several streams of one host over one bottleneck, each with its own congestion control and its own beginning.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;
use tautline_base::{Bytes, HeapFrame, Instant, Packet, Pool, Rate, SocketId};
use tautline_bql::{Limit, Port, Ring};
use tautline_cc::Factory;
use tautline_qdisc::{DynQdisc, Kind};
use tautline_sim::{App, AppError, Link, LinkConfig, Network, NicConfig, Program, SimHost, SimNic};
use tautline_stack::{Event, Host, HostConfig, Recv, TcpConfig};

const PORT: u16 = 5001;

/// What one stream achieved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Acknowledged payload per time in the part of the run that counts.
    pub(crate) goodput: Rate,
    /// Of the segments sent in it, the share that was sent again.
    pub(crate) retransmitted: f64,
}

/// A stream's congestion control and beginning.
pub(crate) struct Stream {
    pub(crate) congestion: Factory,
    pub(crate) begins: Duration,
}

/// Runs `streams` over `links` until `end`; what each achieved from `from` on.
#[track_caller]
pub(crate) fn compete(links: [LinkConfig; 2], streams: Vec<Stream>, from: Duration, end: Duration) -> Vec<Share> {
    let count = streams.len();
    let mut network = network(links, streams);
    let totals = |network: &Network<_, (), Competitor>| -> Vec<(u64, u64, u64)> {
        let end = network.end(0);
        let Competitor::Source { opened, .. } = &end.app else { unreachable!("host 0 is the source") };
        opened
            .iter()
            .map(|socket| end.host.info(*socket).map_or((0, 0, 0), |i| (i.bytes_acked, i.segments_out, i.retransmits)))
            .collect()
    };
    let mut at = |time: Duration| {
        while network.next_event().is_none_or(|event| event < Instant::ZERO + time) {
            network.step().expect("the simulation goes on");
        }
        network.check().expect("no stream ends");
        totals(&network)
    };
    let (before, after) = (at(from), at(end));
    assert_eq!((before.len(), after.len()), (count, count), "every stream has begun");
    let share = |(before, after): (&(u64, u64, u64), &(u64, u64, u64))| Share {
        goodput: Rate::from_amount(Bytes::new(after.0 - before.0), end - from),
        retransmitted: (after.2 - before.2) as f64 / ((after.1 - before.1) as f64).max(1.0),
    };
    before.iter().zip(&after).map(share).collect()
}

type Queue = Box<dyn DynQdisc<Packet<HeapFrame>>>;

fn network(links: [LinkConfig; 2], streams: Vec<Stream>) -> Network<Queue, (), Competitor> {
    let mut seeds = Pcg32::seed_from_u64(1);
    let links = links.map(|link| Link::new(link, Pcg32::from_rng(&mut seeds)).expect("valid"));
    let mut apps = [Competitor::Source { streams, opened: Vec::new() }, Competitor::Sink].into_iter();
    let network = Network::new(1, links, (), |number, tap| -> Result<_, AppError> {
        let nic = SimNic::new(NicConfig::default()).expect("valid");
        let queue: Queue = Kind::FqCodel(Default::default()).build().expect("valid");
        let limit: Box<dyn Limit> = Box::new(tautline_bql::Dql::default());
        let pool = Pool::new((0..16_384).map(|_| HeapFrame::new()).collect());
        let (mac, address) = ([2, 0, 0, 0, 0, number as u8 + 1], address(number));
        let config = HostConfig { mac, address, prefix: 24, gateway: None, seed: seeds.next_u64() };
        let host = Host::new(config, Port::new(queue, Ring::new(nic, limit)), pool, tap);
        Ok((host, apps.next().expect("two hosts")))
    });
    network.expect("it can be built")
}

fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 7, 0, number as u8 + 1)
}

/// The program at either end.
enum Competitor {
    Source { streams: Vec<Stream>, opened: Vec<SocketId> },
    Sink,
}

type CompetitorHost = SimHost<Queue, ()>;

impl Competitor {
    fn begin_due(&mut self, host: &mut CompetitorHost, now: Instant) {
        let Self::Source { streams, opened } = self else { return };
        while let Some(stream) = streams.get(opened.len()).filter(|stream| Instant::ZERO + stream.begins <= now) {
            let config = TcpConfig { congestion: stream.congestion.clone(), ..TcpConfig::default() };
            opened.push(host.connect(SocketAddrV4::new(address(1), PORT), config, now).expect("a port is free"));
        }
    }
}

impl App<CompetitorHost> for Competitor {
    fn start(&mut self, host: &mut CompetitorHost, now: Instant) {
        match self {
            Self::Source { .. } => self.begin_due(host, now),
            Self::Sink => host.listen(PORT, TcpConfig::default()).map(drop).expect("the port is free"),
        }
    }

    fn on_event(&mut self, host: &mut CompetitorHost, event: Event, _now: Instant) {
        match event {
            Event::Connected(socket) | Event::Writable(socket) => {
                while host.send(socket, &[7; 1 << 14]).expect("it is open") > 0 {}
            }
            Event::Accepted { socket, .. } | Event::Readable(socket) => {
                while let Recv::Data(_) = host.recv(socket, &mut [0; 1 << 14]).expect("it is open") {}
            }
            Event::Closed { why, .. } => panic!("a stream ended: {why}"),
        }
    }

    fn on_call(&mut self, host: &mut CompetitorHost, now: Instant) {
        self.begin_due(host, now);
    }
}

impl Program for Competitor {
    fn call_at(&self) -> Option<Instant> {
        let Self::Source { streams, opened } = self else { return None };
        streams.get(opened.len()).map(|stream| Instant::ZERO + stream.begins)
    }

    fn is_done(&self) -> bool {
        false
    }

    fn failure(&self) -> Option<&AppError> {
        None
    }
}
